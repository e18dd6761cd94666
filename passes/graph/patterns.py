"""A small pattern language over graph ops: what a codegen can take, written as Python.

A pattern is matched from its root upwards, along operands, as in BYOC (Chen et al., "Bring Your Own
Codegen", section 3.1) and Relay's dataflow patterns::

    acc = Recursive("accumulators")
    acc.define(op(ConvOp, wildcard(), constant()) | op(AddOp, acc, acc, commutative=True))
    root = op(RequantizeOp, acc, constant(), constant()).where(has_static_shape)

A predicate (``where``) answers None or the reason why not, in words for the user. The value of an
op inside a match may have no user outside it, or the match would compute it twice.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import permutations

from xdsl.ir import Operation, SSAValue

from vtac.dialects.graph import ConstantOp
from vtac.passes.graph.reasons import Kind, Reason, is_settled

Predicate = Callable[[Operation], str | None]
"""None if the op will do, else the reason why not (a `Reason`, where its kind is known)."""


@dataclass
class Match:
    """What a pattern took: ops (operands before users, the root last) and its outer values."""

    ops: list[Operation] = field(default_factory=list)
    constants: list[Operation] = field(default_factory=list)
    inputs: list[SSAValue] = field(default_factory=list)

    def extended(self, other: "Match") -> "Match":
        """This match and another's together, nothing twice."""
        return Match(
            list(dict.fromkeys([*self.ops, *other.ops])),
            list(dict.fromkeys([*self.constants, *other.constants])),
            list(dict.fromkeys([*self.inputs, *other.inputs])),
        )


@dataclass
class Attempt:
    """One try to match at a root: remembers the reasons predicates gave on the way."""

    reasons: list[str] = field(default_factory=list)


class Pattern:
    """Something that a value may be matched with."""

    def match(self, value: SSAValue, attempt: Attempt) -> Match | None:
        """The match that ends in ``value``, or None."""
        raise AssertionError("a concrete pattern says how it matches")

    def __or__(self, other: "Pattern") -> "Pattern":
        """Either; the left one is tried first."""
        return Alternative(self, other)


class Wildcard(Pattern):
    """Any value; it becomes an input of the composite."""

    def match(self, value: SSAValue, attempt: Attempt) -> Match | None:
        """Always."""
        return Match(inputs=[value])


class Constant(Pattern):
    """A constant, which moves into the composite."""

    def match(self, value: SSAValue, attempt: Attempt) -> Match | None:
        """A value made by graph.constant."""
        owner = value.owner
        return Match(constants=[owner]) if isinstance(owner, ConstantOp) else None


@dataclass
class Alternative(Pattern):
    """The first of two patterns that matches."""

    first: Pattern
    second: Pattern

    def match(self, value: SSAValue, attempt: Attempt) -> Match | None:
        """Left, then right."""
        return self.first.match(value, attempt) or self.second.match(value, attempt)


@dataclass
class Recursive(Pattern):
    """A pattern that may stand inside its own definition."""

    name: str
    body: Pattern | None = None

    def define(self, body: Pattern) -> None:
        """Say what the name stands for."""
        self.body = body

    def match(self, value: SSAValue, attempt: Attempt) -> Match | None:
        """As the definition."""
        if self.body is None:
            raise ValueError(f"pattern '{self.name}' is used before it is defined")
        return self.body.match(value, attempt)


@dataclass(frozen=True)
class OpPattern(Pattern):
    """An op of one class whose operands match, in order or in any order if commutative.

    operands: None for any number of any values; constants among them move into the composite.
    """

    op_class: type[Operation]
    operands: tuple[Pattern, ...] | None
    commutative: bool = False
    predicates: tuple[Predicate, ...] = ()

    def where(self, *predicates: Predicate) -> "OpPattern":
        """This pattern, only where the predicates hold."""
        return OpPattern(
            self.op_class, self.operands, self.commutative, self.predicates + predicates
        )

    def match(self, value: SSAValue, attempt: Attempt) -> Match | None:
        """The op that makes the value, if it is of the class and its operands match."""
        owner = value.owner
        if not isinstance(owner, self.op_class):
            return None
        return self.match_op(owner, attempt)

    def match_op(self, owner: Operation, attempt: Attempt) -> Match | None:
        """As ``match``, for the op itself."""
        patterns = self.operands
        if patterns is None:
            patterns = (constant() | wildcard(),) * len(owner.operands)
        if len(owner.operands) != len(patterns):
            return None
        orders = permutations(owner.operands) if self.commutative else [tuple(owner.operands)]
        for order in orders:
            found = _match_each(order, patterns, attempt)
            if found is not None:
                break
        else:
            return None
        for predicate in self.predicates:
            reason = predicate(owner)
            if reason is not None:
                attempt.reasons.append(reason)
                return None
        return found.extended(Match(ops=[owner]))


def _match_each(
    values: Sequence[SSAValue], patterns: Sequence[Pattern], attempt: Attempt
) -> Match | None:
    total = Match()
    for value, pattern in zip(values, patterns, strict=True):
        part = pattern.match(value, attempt)
        if part is None:
            return None
        total = total.extended(part)
    return total


def wildcard() -> Pattern:
    """Any value."""
    return Wildcard()


def constant() -> Pattern:
    """A constant."""
    return Constant()


def op(op_class: type[Operation], *operands: Pattern, commutative: bool = False) -> OpPattern:
    """An op of ``op_class`` whose operands match ``operands``."""
    return OpPattern(op_class, operands, commutative)


def any_operands(op_class: type[Operation]) -> OpPattern:
    """An op of ``op_class``, whatever its operands."""
    return OpPattern(op_class, None)


def match_root(pattern: OpPattern, root: Operation) -> tuple[Match | None, list[str]]:
    """Match a pattern with its root at ``root``: the match, or None and the reasons given.

    A match in which an inner value is used outside is refused with that reason. What the user has
    settled on the host is in no match.
    """
    attempt = Attempt()
    if not isinstance(root, pattern.op_class):
        return None, []
    match = pattern.match_op(root, attempt)
    if match is None:
        return None, attempt.reasons
    if any(is_settled(inner) for inner in match.ops):
        return None, []
    inside = set(match.ops)
    for inner in match.ops[:-1]:
        if any(use.operation not in inside for result in inner.results for use in result.uses):
            what = inner.name.removeprefix("graph.")
            text = f"the result of the {what} before it has other users, and would be made twice"
            return None, [Reason(text, Kind.USED_TWICE)]
    # A wildcard may stand for what another part of the pattern makes: then it is no input.
    inputs = [value for value in match.inputs if value.owner not in inside]
    return Match(_in_order(root, inside), match.constants, inputs), []


def _in_order(root: Operation, inside: set[Operation]) -> list[Operation]:
    """The ops of a match, each after those whose results it uses."""
    ordered: dict[Operation, None] = {}

    def visit(op: Operation) -> None:
        for operand in op.operands:
            owner = operand.owner
            if isinstance(owner, Operation) and owner in inside and owner not in ordered:
                visit(owner)
        ordered[op] = None

    visit(root)
    return list(ordered)
