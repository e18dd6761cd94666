"""Verifies a module after each of many passes: what none has changed is not looked at again.

Most passes leave most of a module alone, and verifying takes longer than many of them. Whether an
operation at the top of a module verifies depends on itself, on what lies in it, and on the symbols
that it names: no verifier of ours looks further.
"""

from xdsl.dialects.builtin import ModuleOp, SymbolRefAttr
from xdsl.ir import Operation
from xdsl.traits import SymbolOpInterface

State = tuple[object, ...]


class Verifier:
    """Verifies one module again and again. Raises `VerifyException` as ``verify`` does."""

    def __init__(self) -> None:
        self._verified: dict[Operation, State] = {}

    def verify(self, module: ModuleOp) -> None:
        named: dict[Operation, set[str]] = {op: set() for op in module.ops}
        states = {op: _state(op, names) for op, names in named.items()}
        old = self._verified
        touched = [op for op, state in states.items() if old.get(op) != state]
        symbols = {_symbol(op) for op in (*touched, *(op for op in old if op not in states))}
        for op, names in named.items():
            if op in touched or names & symbols:
                op.verify()
        module.verify(verify_nested_ops=False)
        self._verified = states


def _symbol(op: Operation) -> str | None:
    """What others call it by; as it stood before if it has been erased."""
    interface = op.get_trait(SymbolOpInterface)
    symbol = None if interface is None else interface.get_sym_attr_name(op)
    return None if symbol is None else symbol.data


def _state(op: Operation, names: set[str]) -> State:
    """All that a verifier may look at in an operation; ``names`` takes the symbols it refers to."""
    attributes = (*op.properties.items(), *op.attributes.items())
    for _, attribute in attributes:
        if isinstance(attribute, SymbolRefAttr):
            names.add(attribute.root_reference.data)
    return (
        op,
        tuple(op.operands),
        attributes,
        tuple(op.result_types),
        tuple(op.successors),
        tuple(
            (block, tuple(block.arg_types), tuple(_state(inner, names) for inner in block.ops))
            for region in op.regions
            for block in region.blocks
        ),
    )
