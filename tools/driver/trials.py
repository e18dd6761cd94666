"""The clock chooses between plans of a cluster's program, and between ways to lower one, of which
no estimate can say which is faster.

Whether copies of weights pay depends on what else reads DDR in the same cycles, and so does how
early a core should load; how many cores a small layer is worth depends on what waits for what. So
the last passes run once for each way, on a copy of the program, and for a small network all passes
from partitioning on once for each plan; what takes the fewest cycles is kept. Ways and plans are
tried in the order of `WAYS` and `PLANS`, the usual one first, until the programs that were tried
have `MOST_OPS` ops together: so a small network is tried in every way, and a large one takes no
longer than users wait. Options that the pipeline itself gives are not tried otherwise.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp

from vtac.dialects.errors import CompileError
from vtac.dialects.target import ClusterTarget, Machine
from vtac.dialects.vta import ClusterOp
from vtac.passes.pipeline import Pipeline
from vtac.runtime.executor import Module

FIRST = "vta-stage-weights"
"""The first pass whose options differ between ways."""

Options = Mapping[str, Mapping[str, int | str]]
"""Options of passes by the names of both."""

WAYS: Mapping[str, Options] = {
    "as estimated": {},
    "with loads that start late": {"vta-order-instructions": {"ahead": 2}},
    "without staged weights": {FIRST: {"most": 0}},
    "with loads that run ahead without limit": {"vta-order-instructions": {"ahead": 0}},
}
"""Ways to lower a program, the usual one first, each with the options that it sets."""

PLANS: Mapping[str, Options] = {
    "on one core": {"graph-bind-cores": {"cores": 1}},
    "on two cores": {"graph-bind-cores": {"cores": 2}},
    "on four cores": {"graph-bind-cores": {"cores": 4}},
    "bound as in the paper": {"graph-bind-cores": {"mode": "paper"}},
}
"""Plans besides the usual one, each with the options that it sets."""

MOST_OPS = 60_000
"""Ops of the programs that are tried besides the usual one, together. One way is always tried."""

WHOLE = 4
"""How often the passes of a way fit into those of a plan, in time."""


@dataclass(frozen=True)
class Alternative:
    """A way to lower a program. name: of the way. rest: the passes from `FIRST` on."""

    name: str
    rest: Pipeline


class ClockTrials:
    """The ways that are tried for one module, and what the clock says of each.

    shared: the passes that all ways begin with. are_more: whether there is more than one way.
    ops: of the programs that the shared passes have made.
    """

    def __init__(self, lowering: Pipeline, machine: Machine, wanted: bool) -> None:
        """lowering: the passes from the partitioned network to programs. wanted: whether anything
        is tried."""
        is_cluster = wanted and isinstance(machine, ClusterTarget) and machine.cores > 1
        names = {spec.name for spec in lowering.passes}
        self._is_tried = is_cluster and FIRST in names
        self.shared, self._rest = (
            lowering.split(FIRST) if self._is_tried else (lowering, Pipeline())
        )
        self.are_more, self.ops = False, 0
        self._cycles: dict[str, int] = {}

    def alternatives(self, module: ModuleOp) -> Iterator[Alternative]:
        """The ways to go on with a module that the shared passes have made."""
        self.ops = sum(
            len(core.body.block.ops)
            for program in module.body.block.ops
            if isinstance(program, ClusterOp)
            for core in program.cores().values()
        )
        count = 1 + (max(MOST_OPS // self.ops, 1) if self._is_tried and self.ops else 0)
        chosen = dict(list(_ways(self._rest).items())[:count])
        self.are_more = len(chosen) > 1
        for name, rest in chosen.items():
            yield Alternative(name, rest)

    def is_best(self, alternative: Alternative, module: Module) -> bool:
        """Whether a way, which has led to a module, is faster than all before it."""
        before = min(self._cycles.values(), default=None)
        self._cycles[alternative.name] = module.profile().cycles
        return before is None or self._cycles[alternative.name] < before

    @property
    def cycles(self) -> int:
        """Those of the best way; 0 if there was one way only, which is not timed."""
        return min(self._cycles.values(), default=0)

    def note(self) -> str:
        """What was tried and chosen; empty if there was one way only."""
        if not self._cycles:
            return ""
        return _note("way to lower", min(self._cycles, key=self._cycles.__getitem__), self._cycles)


def _ways(rest: Pipeline) -> dict[str, Pipeline]:
    """The ways that keep every option that the pipeline sets itself."""
    found = ((name, changed(rest, options)) for name, options in WAYS.items())
    return {name: way for name, way in found if way is not None}


def changed(pipeline: Pipeline, options: Options) -> Pipeline | None:
    """A pipeline with these options; None if it has no such pass, or says otherwise itself."""
    for name, values in options.items():
        specs = [spec for spec in pipeline.passes if spec.name == name]
        if not specs or any(spec.parameters.keys() & values.keys() for spec in specs):
            return None
        pipeline = pipeline.with_options(name, **values)
    return pipeline


def best_plan(
    pipeline: Pipeline,
    machine: Machine,
    usual: ClockTrials,
    attempt: Callable[[Pipeline], ClockTrials],
) -> tuple[Pipeline, str]:
    """The pipeline of the fastest plan, and a note on what was tried; empty if nothing was.

    pipeline: from partitioning on; usual: what came of it. attempt: runs another one, on a copy of
    the network; a plan for which it raises `CompileError` is none.
    """
    best, cycles = pipeline, {"as estimated": usual.cycles}
    for name, plan in _plans(pipeline, machine, usual):
        try:
            found = attempt(plan).cycles
        except CompileError:
            continue
        if found < min(cycles.values()):
            best = plan
        cycles[name] = found
    chosen = min(cycles, key=cycles.__getitem__)
    return best, _note("plan", chosen, cycles) if len(cycles) > 1 else ""


def _plans(
    pipeline: Pipeline, machine: Machine, usual: ClockTrials
) -> Iterator[tuple[str, Pipeline]]:
    """The plans that are tried besides the usual one."""
    if not isinstance(machine, ClusterTarget) or not usual.are_more:
        return
    left = MOST_OPS // (WHOLE * usual.ops)
    for name, options in PLANS.items():
        cores = options["graph-bind-cores"].get("cores", 0)
        plan = changed(pipeline, options)
        if plan is not None and left > 0 and int(cores) < machine.cores:
            left -= 1
            yield name, plan


def _note(what: str, chosen: str, cycles: Mapping[str, int]) -> str:
    others = "; ".join(f"{name}: {count:,}" for name, count in cycles.items() if name != chosen)
    return f"{what}, chosen by the clock: {chosen}, {cycles[chosen]:,} cycles ({others})"
