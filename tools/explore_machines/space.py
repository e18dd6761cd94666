"""The machines that come into question: a base machine, fields that vary, and conditions.

A point names a value for each field that varies, by its place in the field's list. Whether a point
is a machine is decided by the target's own verification, then by the user's conditions and by the
limit on cost.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import product
from math import prod

from vtac.dialects.target import Target, TargetError
from vtac.tools.explore_machines.figures import figures_of
from vtac.tools.explore_machines.formulas import Formula

Point = tuple[int, ...]
"""For each field that varies, the place of its value in the field's list."""

FieldValue = int | float | bool | str | None

MOST_LISTED = 1_000_000
"""The most points that are gone through one by one."""


@dataclass(frozen=True)
class Refused:
    """Why a point is no machine, or none that is asked for."""

    why: str


@dataclass(frozen=True)
class Candidate:
    """A machine that comes into question, with its cost."""

    point: Point
    machine: Target
    cost: float


@dataclass(frozen=True)
class MachineSpace:
    """Machines that differ from `base` in some fields.

    base: gives all fields that do not vary. fields: the values of those that do, each list without
    repetitions. cost: what a machine costs. conditions: formulas that must not be 0. limit: the
    largest cost.
    """

    base: Target
    fields: Mapping[str, Sequence[FieldValue]]
    cost: Formula
    conditions: Sequence[Formula] = ()
    limit: float | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The fields that vary, in the order of points."""
        return tuple(self.fields)

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many values each field has."""
        return tuple(map(len, self.fields.values()))

    @property
    def size(self) -> int:
        """The number of points, of which some are no machines."""
        return prod(self.sizes)

    def values(self, point: Point) -> dict[str, FieldValue]:
        """The value of each field that varies."""
        return {n: v[i] for (n, v), i in zip(self.fields.items(), point, strict=True)}

    def candidate(self, point: Point) -> Candidate | Refused:
        """The machine of a point, or why there is none that is asked for."""
        try:
            machine = self.base.replace(**self.values(point))
        except TargetError as error:
            return Refused(_kind(str(error.problems[0])))
        return self._asked_for(point, machine)

    def _asked_for(self, point: Point, machine: Target) -> Candidate | Refused:
        figures = figures_of(machine)
        try:
            cost = self.cost.value(figures)
            unmet = [f.text for f in self.conditions if not f.value(figures)]
        except (ArithmeticError, ValueError) as error:
            return Refused(f"a formula has no value: {error}")
        if unmet:
            return Refused(f"does not meet {unmet[0]!r}")
        if self.limit is not None and cost > self.limit:
            return Refused(f"costs more than {self.limit:,g}")
        return Candidate(point, machine, cost)

    def cost_of(self, machine: Target) -> float | None:
        """The cost of a machine, in the space or not; None if the formula has no value."""
        try:
            return self.cost.value(figures_of(machine))
        except (ArithmeticError, ValueError):
            return None

    def points(self) -> Iterator[Point]:
        """All points in order."""
        return product(*map(range, self.sizes))

    def neighbours(self, point: Point) -> list[Point]:
        """The points that differ in one field by one place, then those that differ in two.

        Of two fields one goes up and one goes down, which trades one for the other.
        """
        places = range(len(point))
        ups, downs = ([_moved(point, {i: step}) for i in places] for step in (1, -1))
        trades = [_moved(point, {i: 1, j: -1}) for i in places for j in places if i != j]
        return [found for found in (*downs, *ups, *trades) if self._is_point(found)]

    def _is_point(self, point: Point) -> bool:
        return all(0 <= i < size for i, size in zip(point, self.sizes, strict=True))

    @cached_property
    def digest(self) -> str:
        """Tells spaces apart: what points mean, and which of them are machines."""
        parts = {
            "base": self.base.fields(),
            "fields": {name: list(values) for name, values in self.fields.items()},
            "cost": self.cost.text,
            "conditions": [formula.text for formula in self.conditions],
            "limit": self.limit,
        }
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _kind(reason: str) -> str:
    """A reason without its numbers and its explanation, so that reasons of one kind are equal."""
    return re.sub(r"-?\d+", "…", reason.partition(" (")[0])


def _moved(point: Point, steps: Mapping[int, int]) -> Point:
    return tuple(place + steps.get(number, 0) for number, place in enumerate(point))


@cache
def machine_digest(machine: Target) -> str:
    """Tells machines apart: all fields, spelt out, and nothing of names."""
    fields = {k: v for k, v in machine.fields().items() if k not in ("preset", "timing")}
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()
