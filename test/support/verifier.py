"""Verifies a module after each of many passes: what none has changed is not looked at again.

Most passes leave most of a module alone, and verifying takes longer than many of them. Whether an
operation at the top of a module verifies depends on itself, on what lies in it, on the attributes
of the module, and on the symbols that it names: no verifier of ours looks further.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.dialects.builtin import ArrayAttr, ModuleOp, SymbolRefAttr
from xdsl.ir import Attribute, Operation
from xdsl.traits import SymbolOpInterface

State = tuple[object, ...]


@dataclass(frozen=True)
class _Verified:
    """An operation as it stood when it verified, and what others called it by."""

    state: State
    symbol: str | None


class Verifier:
    """Verifies one module again and again. Raises `VerifyException` as ``verify`` does."""

    def __init__(self) -> None:
        self._verified: dict[Operation, _Verified] = {}
        self._attributes: State | None = None

    def verify(self, module: ModuleOp) -> None:
        attributes = _attributes(module)
        old = self._verified if attributes == self._attributes else {}
        named: dict[Operation, set[str]] = {op: set() for op in module.ops}
        new = {op: _Verified(_state(op, names), _symbol(op)) for op, names in named.items()}
        touched = {op for op, found in new.items() if old.get(op) != found}
        before = {known.symbol for op, known in old.items() if op in touched or op not in new}
        symbols = before | {new[op].symbol for op in touched}
        for op, names in named.items():
            if op in touched or names & symbols:
                op.verify()
        module.verify(verify_nested_ops=False)
        self._verified, self._attributes = new, attributes


def _symbol(op: Operation) -> str | None:
    """What others call it by."""
    interface = op.get_trait(SymbolOpInterface)
    symbol = None if interface is None else interface.get_sym_attr_name(op)
    return None if symbol is None else symbol.data


def _state(op: Operation, names: set[str]) -> State:
    """All that a verifier may look at in an operation; ``names`` takes the symbols it refers to."""
    attributes = _attributes(op)
    for _, attribute in attributes:
        names.update(_names(attribute))
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


def _attributes(op: Operation) -> tuple[tuple[str, Attribute], ...]:
    return (*op.properties.items(), *op.attributes.items())


def _names(attribute: Attribute) -> Iterator[str]:
    if isinstance(attribute, SymbolRefAttr):
        yield attribute.root_reference.data
    elif isinstance(attribute, ArrayAttr):
        for inner in attribute:
            yield from _names(inner)
