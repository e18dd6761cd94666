"""The clock chooses between ways to lower a cluster's program, where no estimate knows the fastest.

Whether copies of weights pay depends on what else reads DDR in the same cycles, and so does how
early a core should load. So the last passes run once for each way, on a copy of the program, and
what takes the fewest cycles is kept. Ways are tried in the order of `WAYS`, the usual one first,
until the programs that were tried have `MOST_OPS` ops together: so a small network is tried in
every way, and a large one takes no longer than users wait. Passes that several ways have in common
run once. Options that the pipeline itself gives are not tried otherwise. At the end the fastest way
is tried once more with each of `REFINEMENTS`, of which the passes cannot say whether they gain.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp

from vtac.dialects.target import ClusterTarget, Machine
from vtac.dialects.vta import ClusterOp
from vtac.passes.pipeline import Pipeline
from vtac.passes.vta.stage_weights import MOST_COPIES
from vtac.runtime.executor import Module
from vtac.tools.reports.clock_choice import ClockChoice

FIRST = "vta-stage-weights"
"""The first pass whose options differ between ways."""

LAST = "vta-order-instructions"
"""The last of these passes."""

Options = Mapping[str, Mapping[str, int | str]]
"""Options of passes by the names of both."""

WAYS: Mapping[str, Options] = {
    "as estimated": {},
    "with loads and copies that start late": {LAST: {"ahead": 2}, FIRST: {"late": True}},
    "with weights in DDR that can be read ahead": {FIRST: {"early": True, "most": MOST_COPIES}},
    "without staged weights": {FIRST: {"most": 0}},
    "with loads that run ahead without limit": {LAST: {"ahead": 0}},
}
"""Ways to lower a program, the usual one first, each with the options that it sets."""

REFINEMENTS: Mapping[str, Options] = {
    "with joined compute instructions": {"vta-join-compute": {"several": True}},
}
"""What may make the fastest way faster, each with the options that it sets besides."""

MOST_OPS = 64_000
"""Ops of the programs that are tried besides the usual one, together. One way is always tried."""


@dataclass(frozen=True)
class Way:
    """A way to lower a program.

    name: of the way. front: the passes from `FIRST` on, up to those that only order instructions,
    which several ways may share. rest: the others.
    """

    name: str
    front: Pipeline
    rest: Pipeline


class ClockTrials:
    """The ways that are tried for one module, and what the clock says of each.

    shared: the passes that all ways begin with. are_timed: whether the clock times them. are_more:
    whether there is more than one. ops: of the programs that the shared passes have made.
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
        self.are_timed, self.are_more, self.ops = False, False, 0
        self._cycles: dict[str, int] = {}

    def alternatives(self, module: ModuleOp) -> Iterator[Way]:
        """The ways to go on with a module that the shared passes have made."""
        self.ops = sum(
            len(core.body.block.ops)
            for program in module.body.block.ops
            if isinstance(program, ClusterOp)
            for core in program.cores().values()
        )
        count = 1 + (max(MOST_OPS // self.ops, 1) if self._is_tried and self.ops else 0)
        chosen = dict(list(_ways(self._rest).items())[:count])
        self.are_timed, self.are_more = self._is_tried and self.ops > 0, len(chosen) > 1
        for name, rest in chosen.items():
            yield _way(name, rest)
        for name, options in REFINEMENTS.items() if self.are_more else ():
            best = min(self._cycles, key=self._cycles.__getitem__, default=None)
            refined = None if best is None else changed(chosen[best], options)
            if best is not None and refined is not None:
                chosen[f"{best}, {name}"] = refined
                yield _way(f"{best}, {name}", refined)

    def is_best(self, alternative: Way, module: Module) -> bool:
        """Whether the module that a way led to is faster than the modules of all ways before."""
        before = min(self._cycles.values(), default=None)
        self._cycles[alternative.name] = module.profile().cycles
        return before is None or self._cycles[alternative.name] < before

    @property
    def cycles(self) -> int:
        """The cycles of the best way; 0 if none was timed."""
        return min(self._cycles.values(), default=0)

    def choice(self) -> ClockChoice | None:
        """What was tried and chosen; None if there was one way only."""
        return ClockChoice("way to lower", dict(self._cycles)) if len(self._cycles) > 1 else None


def _way(name: str, rest: Pipeline) -> Way:
    """The way with these passes from `FIRST` on."""
    is_ordered = any(spec.name == LAST for spec in rest.passes)
    return Way(name, *(rest.split(LAST) if is_ordered else (rest, Pipeline())))


def _ways(rest: Pipeline) -> dict[str, Pipeline]:
    """The ways that keep every option that the pipeline sets itself."""
    found = ((name, changed(rest, options)) for name, options in WAYS.items())
    return {name: way for name, way in found if way is not None}


def changed(pipeline: Pipeline, options: Options) -> Pipeline | None:
    """The pipeline with these options; None if it lacks a pass that they name, or sets one of them
    itself."""
    for name, values in options.items():
        specs = [spec for spec in pipeline.passes if spec.name == name]
        if not specs or any(spec.parameters.keys() & values.keys() for spec in specs):
            return None
        pipeline = pipeline.with_options(name, **values)
    return pipeline
