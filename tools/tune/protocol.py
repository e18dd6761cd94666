"""What the parts of a search have in common: kernels, trials, explorers, and where trials are kept.

An explorer proposes points of the schedule space of one kernel and is told what they cost. What it
asks next follows from its options and from the trials that it was told, in their order, and from
nothing else: a search is therefore the same for any number of processes, and goes on where it
stopped once the recorded trials are told again.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, Protocol, TypeAlias

from vtac.dialects.target import Target
from vtac.dialects.te import Knobs, Point

SIMULATED = "simulated"
"""``Trial.why`` of a point that was not clocked: its simulated cost said that it is too slow."""

Oracle: TypeAlias = Literal["clock", "simulation"]
"""Who tells an explorer the cost of a point: the simulator's clock, or the simulated cost."""


@dataclass(frozen=True)
class Trial:
    """A point and what it costs.

    cycles: None if it was refused or failed. why: empty for a point that was clocked; `SIMULATED`
    if the cycles are the simulated cost; else what refused it, or how it failed. millis: processor
    time of the measurement, which plays no part in the search.
    """

    point: Point
    cycles: int | None
    why: str = ""
    millis: int = field(default=0, compare=False)

    @property
    def clocked(self) -> bool:
        """Whether the cycles are those of the clock."""
        return self.cycles is not None and not self.why


@dataclass(frozen=True)
class Task:
    """One kernel to tune.

    name: of the kernel. layers: what calls it. digest: of its canonical text. summary: one line
    that describes it to people. module: the text of a module that holds the kernel and one call of
    it, whose constants have no numbers. multiplicity: how often it is called. template, version:
    whose knobs the points have. default: the point of the default rule. default_cycles: by the
    clock. bound: a lower bound of the cycles of the default program; other programs may lie below.
    """

    name: str
    layers: tuple[str, ...]
    digest: str
    summary: str
    module: str
    target: Target
    multiplicity: int
    default: Point = field(hash=False)
    default_cycles: int
    bound: int
    template: str = "tiles"
    version: int = 1


@dataclass(frozen=True)
class Options:
    """What determines, together with method and kernel, which points are asked.

    seed: of all random choices. batch: points that are asked together. oracle: with `simulation`
    the explorer is told ``simulations`` simulated costs, and its ``finalists`` best are clocked.
    screen: a point whose simulated cost exceeds so many times the best clocked cycles is not
    clocked; 0 clocks all. knobs: patterns of the names of knobs that may differ from the default
    point; all if empty. cold: do not begin with the default point. limit: the most points that
    `exhaustive` enumerates. gamma: how much annealing prefers good starting points. networks:
    whether Q-learning has one network, or one for each knob.
    """

    seed: int = 0
    batch: int = 8
    oracle: Oracle = "clock"
    simulations: int = 2_000
    finalists: int = 16
    screen: float = 1.2
    knobs: tuple[str, ...] = ()
    cold: bool = False
    limit: int = 100_000
    gamma: float = 200.0
    networks: Literal["one", "per-knob"] = "one"


class Screen(Protocol):
    """Cheap judgements of points of one kernel. They are counted, but not as trials."""

    default: Point = field(hash=False)
    """The point of the default rule."""

    judged: int
    """Calls of `fits` so far."""

    simulated: int
    """Calls of `cost` so far."""

    def key(self, point: Point) -> Hashable:
        """A key that is equal for points with the same program."""
        ...

    def fits(self, point: Point) -> bool:
        """Whether the machine has room for it."""
        ...

    def cost(self, point: Point, limit: int | None = None) -> int:
        """The simulated cycles of a point; any number from the limit on if they reach the limit."""
        ...


class Explorer(Protocol):
    """A method of search over the points of one kernel."""

    name: ClassVar[str]

    def __init__(self, knobs: Knobs, options: Options, screen: Screen) -> None: ...

    def ask(self, count: int) -> Sequence[Point]:
        """Points to judge next, at most so many; none if there is nothing left to ask."""
        ...

    def tell(self, trials: Sequence[Trial]) -> None:
        """What the points of the last `ask` cost, in the order in which they were asked."""
        ...


@dataclass(frozen=True)
class Run:
    """What one search over one kernel is known by: two runs with equal fields ask the same."""

    task: Task
    method: str
    options: Options


@dataclass(frozen=True)
class Best:
    """The best clocked trial of a run.

    bound: the lower bound of its program. proved: it was executed on the functional simulator,
    agreed with the integer reference, and is free of hazards. problem: why it is not proved.
    """

    trial: Trial
    bound: int
    proved: bool
    problem: str = ""


class Journal(Protocol):
    """Where the trials of runs are kept. Nothing else about storage is known to a search."""

    def recorded(self, run: Run) -> Sequence[Trial]:
        """The trials of a run that were recorded by earlier processes, in their order."""
        ...

    def append(self, run: Run, first: int, trials: Sequence[Trial]) -> None:
        """Record a batch; ``first`` is the number of its first trial, counted from 0."""
        ...

    def finish(self, run: Run, best: Best) -> None:
        """Record the best trial of a run that came to its end."""
        ...


class NoJournal:
    """A journal that forgets."""

    def recorded(self, run: Run) -> Sequence[Trial]:
        """Nothing."""
        return ()

    def append(self, run: Run, first: int, trials: Sequence[Trial]) -> None:
        """Nothing is kept."""

    def finish(self, run: Run, best: Best) -> None:
        """Nothing is kept."""


@dataclass(frozen=True)
class Stops:
    """When a search ends. None: never for this reason.

    trials: clocked or failed points of all kernels together; batches are never cut, so that it
    may be some more. seconds: of wall time. patience: a kernel is left after so many trials without
    a better one. near: a kernel is left once its best
    is within this factor of its lower bound.
    """

    trials: int | None = 200
    seconds: float | None = None
    patience: int | None = None
    near: float = 1.003


@dataclass(frozen=True)
class Standing:
    """How far the search over one kernel has come.

    trials: clocked or failed points. screened: points that were told their simulated cost.
    replayed: trials that came from the journal. best: the best clocked trial. stopped: why it is
    left, empty while it goes on.
    """

    task: Task
    trials: int
    screened: int
    replayed: int
    best: Trial | None
    stopped: str = ""

    @property
    def cycles(self) -> int:
        """The fewest cycles known: the default's unless a trial is better."""
        known = self.task.default_cycles
        found = None if self.best is None else self.best.cycles
        return known if found is None else min(known, found)


class Progress(Protocol):
    """Who is told how the search goes."""

    def told(self, standing: Standing, trials: Sequence[Trial]) -> None:
        """After a batch of one kernel was told and recorded."""
        ...

    def finished(self, standing: Standing, best: Best) -> None:
        """After the best trial of a kernel was executed."""
        ...


class Quiet:
    """Nobody is told."""

    def told(self, standing: Standing, trials: Sequence[Trial]) -> None:
        """Nothing is shown."""

    def finished(self, standing: Standing, best: Best) -> None:
        """Nothing is shown."""


@dataclass(frozen=True)
class Result:
    """What a search found for one kernel: how it stands, its best trial, and all trials in order.

    best: None if no point could be clocked.
    """

    standing: Standing
    best: Best | None
    trials: Sequence[Trial]
