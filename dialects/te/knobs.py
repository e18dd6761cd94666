"""Knobs, their values, and points: what a search over schedules chooses from.

A template of schedules declares the knobs of a kernel (`te.space`); a point gives a value to each.
Neighbours and directions are those of FlexTensor (Zheng et al., ASPLOS 2020, section 4.2).
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from itertools import permutations, product
from math import factorial, prod
from random import Random
from typing import NamedTuple, TypeAlias

Value: TypeAlias = int | bool | str | tuple[int, ...] | tuple[str, ...] | None
"""A value of a knob: a number, a truth value, a word, a list of numbers or of words, or nothing."""

Point: TypeAlias = Mapping[str, Value]
"""Values by the names of knobs; a missing knob has its default."""

PAIRED = "tile."
"""Ordered knobs whose names begin so also have directions that move two of them."""

CONSTANTS: Mapping[str, bool | None] = {"true": True, "false": False, "none": None}
"""The words that are no strings."""

_WORD = re.compile(r"[A-Za-z_][\w./-]*", re.ASCII)
_NUMBER = re.compile(r"-?[0-9]{1,18}")
_TOKEN = re.compile(r'"[^"]*"|[,="]|[^\s,="]+')


class KnobKind(Enum):
    """What the neighbours of a knob's value are."""

    ORDERED = "ordered"
    """The values before and after it."""
    PERMUTATION = "permutation"
    """The same with two neighbouring entries exchanged."""
    CHOICE = "choice"
    """All other values."""


@dataclass(frozen=True)
class Knob:
    """One decision. The values of a permutation are the permutations of ``default``."""

    name: str
    kind: KnobKind
    values: tuple[Value, ...]
    default: Value

    @property
    def count(self) -> int:
        """How many values it has."""
        if self.kind is KnobKind.PERMUTATION:
            return factorial(len(self._entries))
        return len(self.values)

    @property
    def moves(self) -> int:
        """How many moves it has: up and down, exchanges of neighbours, or one to each value."""
        if self.kind is KnobKind.PERMUTATION:
            return max(len(self._entries) - 1, 0)
        return 2 if self.kind is KnobKind.ORDERED else len(self.values)

    @property
    def _entries(self) -> tuple[str, ...]:
        assert isinstance(self.default, tuple)
        return tuple(map(str, self.default))

    def moved(self, value: Value, move: int) -> Value:
        """The value after a move; the value itself where that is not possible.

        move: of an ordered knob 0 for the next value and 1 for the one before; of a permutation the
        place whose entry is exchanged with the next; of a choice the place of the new value.
        """
        if self.kind is KnobKind.PERMUTATION:
            assert isinstance(value, tuple)
            names = list(map(str, value))
            names[move], names[move + 1] = names[move + 1], names[move]
            return tuple(names)
        if self.kind is KnobKind.CHOICE:
            return self.values[move]
        place = self.values.index(value) + (-1 if move else 1)
        return self.values[place] if 0 <= place < len(self.values) else value

    def neighbours(self, value: Value) -> Iterator[Value]:
        """The values next to one."""
        for move in range(self.moves):
            other = self.moved(value, move)
            if other != value:
                yield other

    def every(self) -> Iterator[Value]:
        """All its values."""
        if self.kind is KnobKind.PERMUTATION:
            return iter(permutations(self._entries))
        return iter(self.values)

    def has(self, value: Value) -> bool:
        """Whether this is one of its values."""
        if self.kind is KnobKind.PERMUTATION:
            if not isinstance(value, tuple) or any(type(entry) is not str for entry in value):
                return False
            return sorted(map(str, value)) == sorted(self._entries)
        return any(value == known and type(value) is type(known) for known in self.values)

    def draw(self, random: Random) -> Value:
        """Any value, each as likely as the others."""
        if self.kind is KnobKind.PERMUTATION:
            return tuple(random.sample(self._entries, len(self._entries)))
        return random.choice(self.values)


class Direction(NamedTuple):
    """A step from a point to a neighbour: a move (see `Knob.moved`) of one knob or of two."""

    moves: tuple[tuple[str, int], ...]


class Knobs:
    """The knobs of one kernel.

    knobs: by name, in the order of their declaration.
    """

    def __init__(self, knobs: Iterable[Knob]):
        self.knobs: Mapping[str, Knob] = {knob.name: knob for knob in knobs}

    @cached_property
    def size(self) -> int:
        """The number of points, those counted that differ only where it does not matter."""
        return prod(knob.count for knob in self.knobs.values())

    def value(self, point: Point, name: str) -> Value:
        """The value of a knob at a point."""
        return point[name] if name in point else self.knobs[name].default

    def with_values(self, point: Point, values: Mapping[str, Value]) -> Point:
        """The point with other values of some knobs, defaults left out."""
        changed = {**point, **values}
        return {name: v for name, v in changed.items() if v != self.knobs[name].default}

    def check(self, point: Point) -> str | None:
        """What is wrong with a point that comes from elsewhere; None if it is in the space."""
        for name, value in point.items():
            knob = self.knobs.get(name)
            if knob is None:
                return f"there is no knob {name!r}"
            if not knob.has(value):
                return f"knob {name!r} has no value {value_text(value)}"
        return None

    def draw(self, random: Random) -> Point:
        """A random point, uniform over the values of each knob."""
        return self.with_values({}, {n: knob.draw(random) for n, knob in self.knobs.items()})

    def points(self) -> Iterator[Point]:
        """Every point."""
        for values in product(*(tuple(knob.every()) for knob in self.knobs.values())):
            yield self.with_values({}, dict(zip(self.knobs, values, strict=True)))

    def varied(self, point: Point, prefix: str) -> Iterator[Point]:
        """The points with another value of one of the knobs whose names begin so."""
        for name, knob in self.knobs.items():
            if name.startswith(prefix):
                for value in knob.values:
                    if value != self.value(point, name):
                        yield self.with_values(point, {name: value})

    def grid(self, point: Point, values: Mapping[str, Sequence[Value]]) -> Iterator[Point]:
        """The points with every combination of the given values of some knobs."""
        for chosen in product(*values.values()):
            yield self.with_values(point, dict(zip(values, chosen, strict=True)))

    @cached_property
    def directions(self) -> tuple[Direction, ...]:
        """Every direction of the space: the same ones, in the same order, for all points.

        Those of one knob come first. Of two ordered knobs whose names begin with `PAIRED`, one goes
        up while the other goes down.
        """
        single = [
            Direction(((name, move),))
            for name, knob in self.knobs.items()
            for move in range(knob.moves)
        ]
        paired = [
            name
            for name, knob in self.knobs.items()
            if knob.kind is KnobKind.ORDERED and name.startswith(PAIRED)
        ]
        pairs = [
            Direction(((one, 0), (other, 1))) for one in paired for other in paired if one != other
        ]
        return (*single, *pairs)

    def step(self, point: Point, direction: Direction) -> Point | None:
        """The neighbour in a direction; None where there is none."""
        values: dict[str, Value] = {}
        for name, move in direction.moves:
            value = self.value(point, name)
            values[name] = self.knobs[name].moved(value, move)
            if values[name] == value:
                return None
        return self.with_values(point, values)

    def neighbours(self, point: Point) -> Iterator[Point]:
        """The points one step away, in the order of `directions`."""
        for direction in self.directions:
            found = self.step(point, direction)
            if found is not None:
                yield found


def value_text(value: Value) -> str:
    """A value as it stands in the text of a point: ``4``, ``true``, ``none``, ``i,j``, ``1,``."""
    if isinstance(value, tuple):
        return ",".join(map(value_text, value)) + "," * (len(value) < 2)
    if value is None or isinstance(value, bool):
        return str(value).lower()
    return _word_text(value) if isinstance(value, str) else str(value)


def point_text(point: Point) -> str:
    """A point as text, ``order=j,i tile.j=2``: by the names of its knobs, parts by blanks.

    Words that could be taken for something else stand in quotation marks.
    """
    return " ".join(f"{_word_text(n)}={value_text(v)}" for n, v in sorted(point.items()))


def parse_point(text: str) -> Point:
    """The point of such a text. Raises `ValueError` with what is wrong with it."""
    point: dict[str, Value] = {}
    for part in re.findall(r'(?:"[^"]*"|\S)+', text):
        tokens = _TOKEN.findall(part)
        if len(tokens) < 3 or tokens[1] != "=" or "".join(tokens) != part:
            raise ValueError(f"{part!r} is not of the form KNOB=VALUE")
        name = _word(tokens[0])
        if name is None:
            raise ValueError(f"{tokens[0]!r} is not the name of a knob")
        if name in point:
            raise ValueError(f"knob {name!r} has two values")
        point[name] = _value(tokens[2:], part)
    return point


def _value(tokens: Sequence[str], part: str) -> Value:
    """The value that tokens stand for. A list has commas: between its entries, or one at the end
    where there are fewer than two.
    """
    if len(tokens) == 1 and tokens[0] != ",":
        return _single(tokens[0], part)
    entries, commas = tokens[::2], tokens[1::2]
    if tokens[0] == ",":
        entries, commas = [], tokens
    well_formed = all(comma == "," for comma in commas) and (
        len(commas) == 1 if len(entries) < 2 else len(commas) == len(entries) - 1
    )
    if not well_formed:
        raise ValueError(f"{part!r} is not of the form KNOB=VALUE,VALUE")
    values = [_single(entry, part) for entry in entries]
    words = tuple(value for value in values if isinstance(value, str))
    numbers = tuple(value for value in values if type(value) is int)
    if len(words) == len(values):
        return words
    if len(numbers) == len(values):
        return numbers
    raise ValueError(f"{part!r} mixes numbers and words")


def _single(token: str, part: str) -> int | bool | str | None:
    if token in CONSTANTS:
        return CONSTANTS[token]
    if _NUMBER.fullmatch(token):
        return int(token)
    word = _word(token)
    if word is None:
        raise ValueError(f"{part!r} has no value that a knob could have")
    return word


def _word(token: str) -> str | None:
    """The word of a token, without its quotation marks; None if it is none."""
    if len(token) > 1 and token[0] == token[-1] == '"':
        return token[1:-1]
    return token if _WORD.fullmatch(token) and token not in CONSTANTS else None


def _word_text(word: str) -> str:
    if _WORD.fullmatch(word) and word not in CONSTANTS:
        return word
    if '"' in word or not word.isprintable():
        raise ValueError(f"{word!r} cannot stand in the text of a point")
    return f'"{word}"'
