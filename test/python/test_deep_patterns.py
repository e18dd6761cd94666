"""Patterns match groups as deep as the network, with no recursion, and look at a value once."""

import pytest
from xdsl.dialects.builtin import TensorType, f32
from xdsl.ir import Block, Operation

from vtac.dialects.graph import AddOp, NegOp, ReluOp
from vtac.passes.graph.patterns import Recursive, match_root, op, wildcard

TYPE = TensorType(f32, [2, 3])


def sums() -> Recursive:
    total = Recursive("total")
    total.define(op(AddOp, total, total, commutative=True) | op(ReluOp, wildcard()))
    return total


def chain(length: int, end: type[Operation] = ReluOp) -> Operation:
    """Relus of the argument, added one after another, and a negation of the sum."""
    block = Block(arg_types=[TYPE])
    last = end(block.args[0], TYPE)
    block.add_op(last)
    for _ in range(length):
        relu = ReluOp(block.args[0], TYPE)
        last = AddOp(relu.result, last.results[0], TYPE)
        block.add_ops([relu, last])
    root = NegOp(last.results[0], TYPE)
    block.add_op(root)
    return root


@pytest.mark.parametrize("length", [1, 5_000])
def test_a_chain_of_any_length_is_one_match(length: int) -> None:
    match, _ = match_root(op(NegOp, sums()), chain(length))
    assert match is not None
    assert len(match.ops) == 2 * length + 2
    places = {operation: place for place, operation in enumerate(match.ops)}
    for operation in match.ops:
        for operand in operation.operands:
            assert places.get(operand.owner, -1) < places[operation]
    assert len(match.inputs) == 1


def test_orders_of_operands_are_not_tried_again_at_every_level() -> None:
    """What ends the chain does not match: both orders of 2,000 additions would be 2^2000 tries."""
    asked: list[Operation] = []

    def predicate(operation: Operation) -> None:
        asked.append(operation)

    total = Recursive("total")
    total.define(
        op(AddOp, total, total, commutative=True) | op(ReluOp, wildcard()).where(predicate)
    )
    match, _ = match_root(op(NegOp, total), chain(2_000, NegOp))
    assert match is None
    assert len(asked) == len(set(asked)) <= 2_000
