"""Scalar bodies as expressions in a normal form, and how to find one in another.

Two bodies that differ in the order of commutative operands, in nesting of associative ones, in
constants that fold, or in how they write a left shift have the same normal form.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Region, SSAValue

from vtac.dialects import te
from vtac.passes.te.intervals import INT32


@dataclass(frozen=True, slots=True)
class Expression:
    """A node of an expression. ``head``: its operation or kind of leaf. ``value``: only of leaves.

    Leaves: ``destination`` (the element's old value), ``operand`` and ``source`` (a statement's and
    an intrinsic's, numbered), ``immediate`` (numbered), ``constant``.
    """

    head: str
    operands: "tuple[Expression, ...]" = ()
    value: int = 0

    def __str__(self) -> str:
        if self.head == "constant":
            return str(self.value)
        if self.head in ("operand", "source", "immediate"):
            return f"{self.head} {self.value}"
        if self.head == "destination":
            return self.head
        return f"{self.head}({', '.join(map(str, self.operands))})"

    def contains(self, leaf: "Expression") -> bool:
        """Whether a leaf occurs."""
        return self == leaf or any(operand.contains(leaf) for operand in self.operands)

    def replaced(self, leaves: "Mapping[Expression, Expression]") -> "Expression":
        """The expression in normal form, with other expressions in place of some leaves."""
        if not self.operands:
            return leaves.get(self, self)
        return make(self.head, [operand.replaced(leaves) for operand in self.operands])


DESTINATION = Expression("destination")

_FOLDS: Mapping[str, tuple[Callable[[int, int], int], int]] = {
    "add": (lambda a, b: a + b, 0),
    "mul": (lambda a, b: a * b, 1),
    "max": (max, INT32[0]),
    "min": (min, INT32[1]),
}
"""Associative and commutative operations: how constants fold, and the neutral element."""

_HEADS: Mapping[type, str] = {
    arith.AddiOp: "add",
    arith.MuliOp: "mul",
    arith.MaxSIOp: "max",
    arith.MinSIOp: "min",
    arith.SubiOp: "sub",
    arith.ShRSIOp: "shr",
    arith.ShLIOp: "shl",
    arith.ExtSIOp: "ext",
    arith.TruncIOp: "trunc",
}


def constant(value: int) -> Expression:
    """A 32-bit constant; wraps as the hardware does."""
    return Expression("constant", (), (value + (1 << 31)) % (1 << 32) - (1 << 31))


def make(head: str, operands: Sequence[Expression]) -> Expression:
    """An operation in normal form."""
    if head in _FOLDS:
        return _commutative(head, operands)
    known = operands[-1].value if operands[-1].head == "constant" else None
    if head == "ext" and known is not None:
        return operands[0]
    if head == "sub" and known is not None:
        return make("add", [operands[0], constant(-known)])
    if head == "shl" and known is not None:
        head, operands, known = "shr", [operands[0], constant(-known)], -known
    if head == "shr" and known == 0:
        return operands[0]
    return Expression(head, tuple(operands))


def _commutative(head: str, operands: Sequence[Expression]) -> Expression:
    fold, neutral = _FOLDS[head]
    flat: list[Expression] = []
    known: int | None = None
    for operand in operands:
        for part in operand.operands if operand.head == head else (operand,):
            if part.head == "constant":
                known = part.value if known is None else constant(fold(known, part.value)).value
            else:
                flat.append(part)
    if known is not None and (known != neutral or not flat):
        flat.append(constant(known))
    flat.sort(key=str)
    return flat[0] if len(flat) == 1 else Expression(head, tuple(flat))


def expression_of(body: Region, arguments: Sequence[Expression]) -> Expression:
    """The value a body yields, with these expressions for its arguments."""
    values: dict[SSAValue, Expression] = dict(zip(body.block.args, arguments, strict=True))
    for op in body.block.ops:
        if isinstance(op, arith.ConstantOp):
            assert isinstance(op.value, IntegerAttr)
            values[op.result] = constant(op.value.value.data)
        elif type(op) in _HEADS:
            values[op.results[0]] = make(_HEADS[type(op)], [values[v] for v in op.operands])
    return values[te.yielded(body)]


Binding = Mapping[Expression, Expression]
"""The expressions that an intrinsic's sources and immediates stand for."""


def unify(pattern: Expression, target: Expression, binding: Binding) -> Iterator[Binding]:
    """All ways to make the pattern equal to the target by choosing its sources and immediates."""
    if pattern.head in ("source", "immediate"):
        # An immediate may also be an operand: an element of a table of constants.
        wanted = ("operand",) if pattern.head == "source" else ("constant", "operand")
        if target.head in wanted and binding.get(pattern, target) == target:
            yield {**binding, pattern: target}
        return
    if pattern.head != target.head or len(pattern.operands) != len(target.operands):
        return
    if not pattern.operands:
        if pattern == target:
            yield binding
        return
    yield from _unify_all(
        pattern.operands, target.operands, binding, commutes=pattern.head in _FOLDS
    )


def difference(pattern: Expression, target: Expression) -> tuple[Expression, Expression]:
    """The smallest parts of two expressions in which they differ, the pattern's first."""
    if pattern.head != target.head or len(pattern.operands) != len(target.operands):
        return pattern, target
    wanted, found = list[Expression](), list(target.operands)
    for place, part in enumerate(pattern.operands):
        others = found if pattern.head in _FOLDS else [target.operands[place]]
        fitting = next(
            (other for other in others if any(True for _ in unify(part, other, {}))), None
        )
        if fitting is None:
            wanted.append(part)
        else:
            found.remove(fitting)
    if len(wanted) == len(found) == 1:
        return difference(wanted[0], found[0])
    return pattern, target


def _unify_all(
    patterns: Sequence[Expression],
    targets: Sequence[Expression],
    binding: Binding,
    *,
    commutes: bool,
) -> Iterator[Binding]:
    if not patterns:
        yield binding
        return
    for index in range(len(targets) if commutes else 1):
        rest = [*targets[:index], *targets[index + 1 :]]
        for found in unify(patterns[0], targets[index], binding):
            yield from _unify_all(patterns[1:], rest, found, commutes=commutes)
