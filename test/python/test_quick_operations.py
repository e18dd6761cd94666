"""Operations that are made quickly are as xDSL makes them."""

from pathlib import Path

import pytest
from small_models import context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, Region
from xdsl.parser import Parser
from xdsl.utils.exceptions import VerifyException

from vtac.dialects import te, vta
from vtac.dialects.quick import QuickOperation

EXAMPLES = "te.mlir", "te-loops.mlir", "vta.mlir"


@pytest.fixture(scope="module")
def modules(root: Path) -> list[ModuleOp]:
    """The operations of te and vta, as the lit tests have them."""
    folder = root / "test" / "dialects"
    return [Parser(context(), (folder / name).read_text()).parse_module() for name in EXAMPLES]


def quick_operations(modules: list[ModuleOp]) -> list[QuickOperation]:
    return [op for module in modules for op in module.walk() if isinstance(op, QuickOperation)]


def made(op: QuickOperation, quickly: bool) -> Operation:
    """Another with the same fields."""
    create = QuickOperation.create if quickly else Operation.create
    return create.__func__(
        type(op),
        operands=op.operands,
        result_types=op.result_types,
        properties=op.properties,
        attributes=op.attributes,
        location=op.location,
        regions=[Region() for _ in op.regions],
    )


def described(op: Operation) -> list[object]:
    """Everything that is set in an operation."""
    return [
        list(op.operands),
        [(use.operation is op, use.index) for use in op._operand_uses],
        [(result.type, result.op is op, result.index) for result in op.results],
        [op.properties, op.attributes, op.location],
        [len(op.successors), len(op.successor_uses)],
        [region.parent is op for region in op.regions],
        [op.parent, op.next_op, op.prev_op],
    ]


def test_they_are_as_create_leaves_them(modules: list[ModuleOp]) -> None:
    operations = quick_operations(modules)
    for op in operations:
        assert described(made(op, quickly=True)) == described(made(op, quickly=False))
    assert {te.ForOp, te.UpdateOp, vta.AllocOp, vta.LoadOp} <= set(map(type, operations))


def test_their_uses_come_and_go(modules: list[ModuleOp]) -> None:
    for op in quick_operations(modules):
        before = [set(value.uses) for value in op.operands]
        other = made(op, quickly=True)
        for value, use in zip(op.operands, other._operand_uses, strict=True):
            assert use in set(value.uses)
        other.erase()
        assert [set(value.uses) for value in op.operands] == before


def test_clones_are_equal(modules: list[ModuleOp]) -> None:
    for module in modules:
        copy = module.clone()
        copy.verify()
        assert copy.is_structurally_equivalent(module)


def test_successors_are_kept_and_refused() -> None:
    after = Block([vta.FinishOp.create()])
    op = vta.FinishOp.create(successors=[after])
    Region([Block([op]), after])
    assert list(op.successors) == [after]
    with pytest.raises(VerifyException):
        op.verify()


def test_they_are_ancestors_of_what_xdsl_says(modules: list[ModuleOp]) -> None:
    operations = [op for module in modules for op in module.walk()]
    blocks = [block for op in operations for region in op.regions for block in region.blocks]
    for op in quick_operations(modules):
        for node in [*blocks, op, op.parent_op()]:
            assert op.is_ancestor(node) == Operation.is_ancestor(op, node)
