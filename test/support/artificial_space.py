"""A schedule space of 10,000 points whose best one is known, and judges of it.

The cycles are smooth in the ordered knobs, with a ridge where two tiles must change together, and
differ at random between the values of the choice. The simulated cost is wrong by up to a tenth, in
a way that follows from the knobs.
"""

import contextlib
import math
import os
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from vtac.dialects.target import Target
from vtac.dialects.te import Knob, KnobKind, Knobs, Point, point_text
from vtac.tools.tune.measure import InProcess
from vtac.tools.tune.proof import Proof
from vtac.tools.tune.protocol import Task, Trial

SIZES = (64, 48, 32, 24, 16, 12, 8, 4, 2, 1)

KNOBS = Knobs(
    [
        Knob("tile.a", KnobKind.ORDERED, SIZES, 64),
        Knob("tile.b", KnobKind.ORDERED, SIZES, 64),
        Knob("slots", KnobKind.ORDERED, tuple(range(1, 11)), 2),
        Knob("form", KnobKind.CHOICE, tuple(f"f{i}" for i in range(10)), "f0"),
    ]
)

WITH_ORDER = Knobs(
    [
        *KNOBS.knobs.values(),
        Knob("order", KnobKind.PERMUTATION, (), ("i", "j", "k")),
    ]
)
"""The same space six times."""

BEST: Point = {"tile.a": 12, "tile.b": 16, "slots": 7, "form": "f6"}

FORMS = (1.3, 1.1, 1.25, 1.04, 1.5, 1.2, 1.0, 1.15, 1.4, 1.02)

TOO_LARGE = 2_000
"""Points whose tiles are larger together do not fit."""


def cycles(point: Point, knobs: Knobs = KNOBS) -> int:
    """What the clock says; 10,000 at `BEST`, more everywhere else."""
    a, b, slots = (knobs.value(point, name) for name in ("tile.a", "tile.b", "slots"))
    form, order = str(knobs.value(point, "form")), point.get("order", ("i", "j", "k"))
    assert isinstance(a, int) and isinstance(b, int) and isinstance(slots, int)
    one, other = math.log(a / 12), math.log(b / 16)
    ridge = 0.10 * abs(one + other) + 0.03 * abs(one - other)
    more = 0.0 if order == ("i", "j", "k") else 0.05
    return round(10_000 * FORMS[int(form[1:])] * math.exp(ridge + 0.02 * abs(slots - 7) + more))


def fits(point: Point, knobs: Knobs = KNOBS) -> bool:
    a, b = knobs.value(point, "tile.a"), knobs.value(point, "tile.b")
    assert isinstance(a, int) and isinstance(b, int)
    return a * b <= TOO_LARGE


def best_cycles(knobs: Knobs = KNOBS) -> int:
    return min(cycles(point, knobs) for point in knobs.points() if fits(point, knobs))


class ArtificialScreen:
    """Judgements of the artificial space. error: how wrong the simulated cost is at most."""

    def __init__(self, knobs: Knobs = KNOBS, default: Point | None = None, error: float = 0.1):
        self.knobs, self.error = knobs, error
        self.default: Point = {"tile.b": 24} if default is None else default
        self.judged = self.simulated = 0

    def key(self, point: Point) -> Hashable:
        return point_text(point)

    def fits(self, point: Point) -> bool:
        self.judged += 1
        return fits(point, self.knobs)

    def cost(self, point: Point, limit: int | None = None) -> int:
        self.simulated += 1
        slots = self.knobs.value(point, "slots")
        assert isinstance(slots, int)
        return round(cycles(point, self.knobs) * (1 + self.error * (slots - 5) / 5))


def judge(module: str, template: str, point: Point) -> Trial:
    """The clock of the artificial space; the module says what else happens.

    ``hang``, ``die`` and ``raise`` are what the point with so many slots as its number does;
    ``once=FILE`` ends the first process that asks, which makes the file.
    """
    what, _, detail = module.partition("=")
    if what == "once":
        with contextlib.suppress(FileExistsError):
            os.close(os.open(detail, os.O_CREAT | os.O_EXCL))
            os._exit(1)
    elif detail and KNOBS.value(point, "slots") == int(detail):
        if what == "hang":
            time.sleep(1_000)
        elif what == "die":
            os._exit(1)
        raise ValueError("a mistake of the compiler")
    return Trial(point, cycles(point))


def proved(module: str, template: str, point: Point) -> Proof:
    return Proof("", 9_000)


def task(name: str = "a", module: str = "", multiplicity: int = 1, **changes: Any) -> Task:
    """A kernel with the artificial space."""
    default = ArtificialScreen().default
    fields: Mapping[str, Any] = {
        "name": name,
        "layers": (name,),
        "digest": name,
        "summary": "artificial",
        "module": module,
        "target": Target.named("pynq"),
        "multiplicity": multiplicity,
        "default": default,
        "default_cycles": cycles(default),
        "bound": 9_000,
    }
    return Task(**{**fields, **changes})


def problem_of(task: Task) -> tuple[Knobs, ArtificialScreen]:
    return KNOBS, ArtificialScreen()


class Counting(InProcess):
    """Measures the artificial space in this process. asked: the points that were measured."""

    def __init__(self, of: Callable[[str, str, Point], Trial] = judge) -> None:
        super().__init__(of, proved)
        self.asked: list[Point] = []

    def submit(self, task: Task, points: Sequence[Point]) -> Callable[[], list[Trial]]:
        self.asked += points
        return super().submit(task, points)
