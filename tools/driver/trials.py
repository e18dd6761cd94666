"""The clock chooses between ways to lower a cluster's program of which no estimate can say which
is faster.

Whether copies of weights pay depends on what else reads DDR in the same cycles, and so does how
early a core should load. So the last passes run once for each way, on a copy of the program, and
the program with the fewest cycles is kept (Zhao et al., "GraphTurbo", OSDI 2023, chooses orders of
instances so; docs/cluster_compiler.md). Ways are tried in the order of `WAYS`, the usual one first,
until their programs have `MOST_OPS` ops together: so a small network is tried in every way, and a
large one takes no longer than users wait. What the pipeline says itself is not tried otherwise.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp

from vtac.dialects.target import ClusterTarget, Machine
from vtac.dialects.vta import ClusterOp
from vtac.passes.pipeline import Pipeline
from vtac.runtime.executor import Module

FIRST = "vta-stage-weights"
"""The first pass whose options differ between ways."""

Options = Mapping[str, Mapping[str, int]]
"""Options of passes by the names of both."""

WAYS: Mapping[str, Options] = {
    "as estimated": {},
    "without staged weights": {FIRST: {"most": 0}},
    "with loads that run ahead without limit": {"vta-order-instructions": {"ahead": 0}},
}
"""Ways to lower a program, the usual one first, each with the options that it sets."""

MOST_OPS = 60_000
"""Ops of the programs that are tried besides the usual one, together."""


@dataclass(frozen=True)
class Alternative:
    """A way to lower a program. name: of the way. rest: the passes from `FIRST` on."""

    name: str
    rest: Pipeline


class ClockTrials:
    """The ways that are tried for one module, and what the clock says of each.

    shared: the passes that all ways begin with. are_more: whether there is more than one way.
    """

    def __init__(self, lowering: Pipeline, machine: Machine) -> None:
        """lowering: the passes from the partitioned network to programs."""
        is_cluster = isinstance(machine, ClusterTarget) and machine.cores > 1
        names = {spec.name for spec in lowering.passes}
        self._is_tried = is_cluster and FIRST in names
        self.shared, self._rest = (
            lowering.split(FIRST) if self._is_tried else (lowering, Pipeline())
        )
        self.are_more = False
        self._cycles: dict[str, int] = {}

    def alternatives(self, module: ModuleOp) -> Iterator[Alternative]:
        """The ways to go on with a module that the shared passes have made."""
        size = sum(
            len(core.body.block.ops)
            for program in module.body.block.ops
            if isinstance(program, ClusterOp)
            for core in program.cores().values()
        )
        count = 1 + (MOST_OPS // size if self._is_tried and size else 0)
        chosen = dict(list(_ways(self._rest).items())[:count])
        self.are_more = len(chosen) > 1
        for name, rest in chosen.items():
            yield Alternative(name, rest)

    def is_best(self, alternative: Alternative, module: Module) -> bool:
        """Whether a way, which has led to a module, is faster than all before it."""
        before = min(self._cycles.values(), default=None)
        self._cycles[alternative.name] = module.profile().cycles
        return before is None or self._cycles[alternative.name] < before

    def notes(self) -> list[str]:
        """A sentence on what was tried and chosen; none if there was one way only."""
        if not self.are_more:
            return []
        best = min(self._cycles, key=self._cycles.__getitem__)
        others = "; ".join(f"{n}: {c:,}" for n, c in self._cycles.items() if n != best)
        return [f"the clock chose the programs {best}: {self._cycles[best]:,} cycles ({others})"]


def _ways(rest: Pipeline) -> dict[str, Pipeline]:
    """The ways that keep every option that the pipeline sets itself, without repetitions."""
    given = {(spec.name, option) for spec in rest.passes for option in spec.parameters}
    names = {spec.name for spec in rest.passes}
    found: dict[str, Pipeline] = {}
    for name, options in WAYS.items():
        wanted = {(pass_, option) for pass_, values in options.items() for option in values}
        if wanted & given or not names.issuperset(options):
            continue
        way = rest
        for pass_, values in options.items():
            way = way.with_options(pass_, **values)
        found[name] = way
    return found
