"""A small pattern language over graph ops: what a codegen can take, written as Python.

A pattern is matched from its root upwards, along operands, as in BYOC (Chen et al., "Bring Your Own
Codegen", section 3.1) and Relay's dataflow patterns::

    acc = Recursive("accumulators")
    acc.define(op(ConvOp, wildcard(), constant()) | op(AddOp, acc, acc, commutative=True))
    root = op(RequantizeOp, acc, constant(), constant()).where(has_static_shape)

A predicate (``where``) answers None or the reason why not, in words for the user. The value of an
op inside a match may have no user outside it, or the match would compute it twice.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import permutations

from xdsl.ir import Operation, SSAValue

from vtac.dialects.graph import ConstantOp
from vtac.passes.graph.reasons import Reason, ReasonKind, is_settled

Predicate = Callable[[Operation], str | None]
"""None if the op is accepted, else the reason why it is not (a `Reason`, where its kind is
known)."""


@dataclass
class Match:
    """What a pattern matched: ops (operands before users, the root last) and its outer values."""

    ops: list[Operation] = field(default_factory=list)
    constants: list[Operation] = field(default_factory=list)
    inputs: list[SSAValue] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class Derivation:
    """How a pattern matched a value: the op, and how the operands of the op matched.

    Without an op, the value is an input of the match, or a constant that moves into it.
    """

    value: SSAValue
    op: Operation | None = None
    operands: Sequence["Derivation"] = ()
    is_constant: bool = False


Matching = Generator[tuple["Pattern", SSAValue], Derivation | None, Derivation | None]
"""The match of one pattern at one value. It yields the parts to match and is sent their matches.

No function calls itself, so that a group may be as deep as the network (`Attempt.match`).
"""


class Attempt:
    """One try to match at a root.

    It remembers what each pattern found at each value, so that a value is looked at once however
    many orders of operands are tried; and the reasons that predicates gave on the way.
    """

    def __init__(self) -> None:
        self.reasons: list[str] = []
        self._found: dict[tuple[int, SSAValue], Derivation | None] = {}

    def match(self, pattern: "Pattern", value: SSAValue) -> Derivation | None:
        """How the pattern matches the value, or None; it uses no recursion but a stack of its
        own."""
        stack: list[tuple[tuple[int, SSAValue], Matching]] = []
        wanted: tuple[Pattern, SSAValue] | None = (pattern, value)
        answer: Derivation | None = None
        while True:
            if wanted is not None:
                key = (id(wanted[0]), wanted[1])
                if key in self._found:
                    answer = self._found[key]
                else:
                    stack.append((key, wanted[0].match(wanted[1], self)))
                    answer = None
            if not stack:
                return answer
            try:
                wanted = stack[-1][1].send(answer)
            except StopIteration as finished:
                key, _ = stack.pop()
                answer = self._found[key] = finished.value
                wanted = None


class Pattern:
    """Something that a value may be matched with."""

    def match(self, value: SSAValue, attempt: Attempt) -> Matching:
        """The match that ends in ``value``, or None."""
        raise AssertionError("a concrete pattern says how it matches")

    def __or__(self, other: "Pattern") -> "Pattern":
        """A pattern that matches where either of two does; the left one is tried first."""
        return Alternative(self, other)


class Wildcard(Pattern):
    """Any value; it becomes an input of the composite."""

    def match(self, value: SSAValue, attempt: Attempt) -> Matching:
        """A match, whatever the value is."""
        yield from ()
        return Derivation(value)


class Constant(Pattern):
    """A constant, which moves into the composite."""

    def match(self, value: SSAValue, attempt: Attempt) -> Matching:
        """A value made by graph.constant."""
        yield from ()
        is_constant = isinstance(value.owner, ConstantOp)
        return Derivation(value, is_constant=True) if is_constant else None


@dataclass
class Alternative(Pattern):
    """The first of two patterns that matches."""

    first: Pattern
    second: Pattern

    def match(self, value: SSAValue, attempt: Attempt) -> Matching:
        """Left, then right."""
        return (yield self.first, value) or (yield self.second, value)


@dataclass
class Recursive(Pattern):
    """A pattern that may stand inside its own definition."""

    name: str
    body: Pattern | None = None

    def define(self, body: Pattern) -> None:
        """Define the pattern that the name stands for."""
        self.body = body

    def match(self, value: SSAValue, attempt: Attempt) -> Matching:
        """As the definition."""
        if self.body is None:
            raise ValueError(f"pattern '{self.name}' is used before it is defined")
        return (yield self.body, value)


_ANY_OPERAND = Alternative(Constant(), Wildcard())


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

    def match(self, value: SSAValue, attempt: Attempt) -> Matching:
        """The op that makes the value, if it is of the class and its operands match."""
        owner = value.owner
        if not isinstance(owner, self.op_class):
            return None
        patterns = self.operands
        if patterns is None:
            patterns = (_ANY_OPERAND,) * len(owner.operands)
        if len(owner.operands) != len(patterns):
            return None
        found: list[Derivation] | None = None
        for order in permutations(owner.operands) if self.commutative else [owner.operands]:
            found = []
            for operand, pattern in zip(order, patterns, strict=True):
                part = yield pattern, operand
                if part is None:
                    found = None
                    break
                found.append(part)
            if found is not None:
                break
        if found is None:
            return None
        for predicate in self.predicates:
            reason = predicate(owner)
            if reason is not None:
                attempt.reasons.append(reason)
                return None
        return Derivation(value, owner, found)


def _collected(root: Derivation) -> Match:
    """The ops and inputs of a derivation, each once, in the order of operands."""
    ops: dict[Operation, None] = {}
    constants: dict[Operation, None] = {}
    inputs: dict[SSAValue, None] = {}
    seen = {root}
    stack: list[tuple[Derivation, Iterator[Derivation]]] = [(root, iter(root.operands))]
    while stack:
        derivation, parts = stack[-1]
        part = next(parts, None)
        if part is not None:
            if part not in seen:
                seen.add(part)
                stack.append((part, iter(part.operands)))
            continue
        stack.pop()
        owner = derivation.value.owner
        if derivation.op is not None:
            ops[derivation.op] = None
        elif derivation.is_constant and isinstance(owner, Operation):
            constants[owner] = None
        else:
            inputs[derivation.value] = None
    return Match([*ops], [*constants], [*inputs])


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

    A match in which an inner value is used outside is refused with that reason. An op that the user
    keeps on the host is in no match.
    """
    attempt = Attempt()
    if not isinstance(root, pattern.op_class):
        return None, []
    derivation = attempt.match(pattern, root.results[0])
    if derivation is None:
        return None, attempt.reasons
    match = _collected(derivation)
    if any(is_settled(inner) for inner in match.ops):
        return None, []
    inside = set(match.ops)
    for inner in match.ops[:-1]:
        if any(use.operation not in inside for result in inner.results for use in result.uses):
            what = inner.name.removeprefix("graph.")
            text = f"the result of the {what} before it has other users, and would be made twice"
            return None, [Reason(text, ReasonKind.USED_TWICE)]
    # A wildcard may stand for what another part of the pattern makes: then it is no input.
    inputs = [value for value in match.inputs if value.owner not in inside]
    return Match(_in_order(root, inside), match.constants, inputs), []


def _in_order(root: Operation, inside: set[Operation]) -> list[Operation]:
    """The ops of a match, each after those whose results it uses."""

    def makers(op: Operation) -> Iterator[Operation]:
        owners = (operand.owner for operand in op.operands)
        return (owner for owner in owners if isinstance(owner, Operation) and owner in inside)

    ordered: dict[Operation, None] = {}
    stack = [(root, makers(root))]
    while stack:
        op, before = stack[-1]
        maker = next((maker for maker in before if maker not in ordered), None)
        if maker is None:
            stack.pop()
            ordered[op] = None
        else:
            stack.append((maker, makers(maker)))
    return list(ordered)
