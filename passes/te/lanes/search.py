"""Chooses the lanes of all computes of a function together.

A stage must find the tensors that another stage made in the lanes that it needs, also across
kernels. Parameters are packed as it likes, unless the caller has packed them already. The cheapest
combination is found by going through the stages in order, the cheapest choice first, and turning
back where the costs exceed the best found (branch and bound). Stages that share no tensor are
apart.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.target import Target
from vtac.dialects.te import ComputeOp
from vtac.passes.te.lanes.choices import Chooser, LaneChoice, TensorLanes

MAX_STEPS = 20_000
"""The most combinations to examine; then the best one so far is taken."""


@dataclass(frozen=True, eq=False)
class KernelStage:
    """A compute of some kernel, and where its operands come from.

    operands, init: the stage that makes each, None for a parameter. given: the lanes of parameters
    that the caller passes in lanes, by the number of the operand. wanted: the lanes that the result
    must have; None where they are free.
    """

    compute: ComputeOp
    where: str
    operands: "tuple[KernelStage | None, ...]"
    init: "KernelStage | None"
    given: Mapping[int, TensorLanes] = field(default_factory=dict)
    wanted: TensorLanes | None = None

    @property
    def before(self) -> "Iterator[KernelStage]":
        """The stages that it reads."""
        for stage in (*self.operands, self.init):
            if stage is not None:
                yield stage


def choose_lanes(
    stages: Sequence[KernelStage], target: Target, ranks: Mapping[str, int] | None = None
) -> dict[ComputeOp, LaneChoice]:
    """The lanes of each compute; stages are in an order in which each follows what it reads.

    ranks: by label of a stage, which of its choices it gets, counted from 0, the cheapest; other
    stages get what is cheapest for all together. Raises `CompileError` for stages that read a
    tensor in lanes in which it cannot lie.
    """
    chosen: dict[ComputeOp, LaneChoice] = {}
    problems: list[Problem] = []
    for part in _parts(stages):
        search = _Search(part, target, ranks or {})
        search.run()
        if search.best is None:
            problems.append(
                Problem(
                    part[search.deepest].where,
                    "no axes can lie in the lanes both of what it reads and of what it computes",
                    "An axis in a lane must be a subscript of its own: write x[n, c, h + kh], not "
                    "x[n, c + 1, h]; or end a kernel before it, by making what it reads an output.",
                )
            )
        else:
            chosen |= {s.compute: c for s, c in zip(part, search.best, strict=True)}
    if problems:
        raise CompileError(problems)
    return chosen


def _parts(stages: Sequence[KernelStage]) -> list[list[KernelStage]]:
    """Stages that exchange tensors, in order."""
    leader: dict[KernelStage, KernelStage] = {}

    def find(stage: KernelStage) -> KernelStage:
        while leader[stage] is not stage:
            leader[stage] = leader[leader[stage]]
            stage = leader[stage]
        return stage

    for stage in stages:
        leader[stage] = stage
        for other in stage.before:
            leader[find(other)] = stage
    parts: dict[KernelStage, list[KernelStage]] = {}
    for stage in stages:
        parts.setdefault(find(stage), []).append(stage)
    return list(parts.values())


@dataclass
class _Search:
    part: Sequence[KernelStage]
    target: Target
    ranks: Mapping[str, int]
    best: list[LaneChoice] | None = None
    deepest: int = 0
    _least: float = float("inf")
    _steps: int = 0
    _known: dict[tuple[int, tuple[TensorLanes | None, ...]], list[LaneChoice]] = field(
        default_factory=dict
    )

    def run(self) -> None:
        """Find the best, going forth and back with a stack: a part may have thousands of stages."""
        lanes: dict[KernelStage, TensorLanes] = {}
        chosen: list[LaneChoice] = []
        costs = [0]
        open_choices = [self._enter(0, lanes, 0)]
        while open_choices:
            choice = next(open_choices[-1], None)
            if choice is None:
                open_choices.pop()
                costs.pop()
                if chosen:
                    chosen.pop()
                continue
            lanes[self.part[len(chosen)]] = choice.result
            chosen.append(choice)
            costs.append(costs[-1] + choice.cost)
            if len(chosen) == len(self.part) and self._may_go_on(costs[-1]):
                self.best, self._least = list(chosen), costs[-1]
            open_choices.append(self._enter(len(chosen), lanes, costs[-1]))

    def _enter(
        self, number: int, lanes: Mapping[KernelStage, TensorLanes], cost: int
    ) -> Iterator[LaneChoice]:
        """The choices of the stage of that number, the cheapest first; none above the bound."""
        if number == len(self.part) or not self._may_go_on(cost):
            return iter(())
        self.deepest = max(self.deepest, number)
        return iter(self._choices(number, lanes))

    def _may_go_on(self, cost: int) -> bool:
        self._steps += 1
        return cost < self._least and (self.best is None or self._steps <= MAX_STEPS)

    def _choices(self, number: int, lanes: Mapping[KernelStage, TensorLanes]) -> list[LaneChoice]:
        stage = self.part[number]
        known = tuple(
            stage.given.get(operand) if maker is None else lanes[maker]
            for operand, maker in enumerate(stage.operands)
        )
        result = stage.wanted if stage.init is None else lanes[stage.init]
        key = number, (*known, result)
        if key not in self._known:
            chooser = Chooser(stage.compute, self.target, known, widens=stage.wanted is None)
            found = chooser.choices(result)
            rank = self.ranks.get(stage.compute.label.data)
            self._known[key] = found if rank is None else found[rank : rank + 1]
        return self._known[key]
