"""What each knob of the schedule space gains over the default rule, by the clock.

For each of some kernels of `search_kernels` and each group of knobs, points are drawn that differ
from the default point in knobs of that group alone. Those with the lowest simulated cost are
compiled and clocked. Three more columns are schedules that the template ``tiles`` does not write:
``threads``, the best of the points of TVM's template that were drawn (virtual threads instead of
slots), ``pads``, the default schedule with pads written by the DMA instead of counted out, and
``forms``, default schedules where one stage of the epilogue has another form than the cheapest by
formula (te-prefer-forms).
Printed is a table in Markdown: cycles of the default, and by how many per cent the best clocked
point of each group is below (or, with a minus, above) it; ``-`` where there is none.
Run: ``python FILE [--kernels NAME ...] [--columns NAME ...] [--target TARGET] [--draws N]``.
"""

import argparse
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from search_kernels import KERNELS, SearchKernel, largest_kernel
from xdsl.traits import SymbolTable

from vtac.dialects import te
from vtac.dialects.errors import CompileError
from vtac.lowering.codegens.vta import LOWERING
from vtac.passes.te.epilogue_costs import recorded_forms
from vtac.passes.te.schedule.structure import StageRole, structure_of
from vtac.passes.te.templates.conv2d_threads import Conv2dThreadsTemplate
from vtac.passes.te.templates.tiles import TilesTemplate
from vtac.tools.driver.discovery import OurPasses
from vtac.tools.driver.pipelines import built_passes
from vtac.tools.tensor_expressions.kernel_clock import KernelClock

TABLE = ("C2", "C4", "C9", "C10", "C11+", "depthwise 14", "dilated", "YOLO last", "dense 1")
PLANES = ("dense 64",)
"""The kernels of the table, unless others are named."""

GROUPS: Mapping[str, tuple[str, ...]] = {
    "tiles": ("tile.", "order", "end."),
    "reductions": ("cut.", "start.", "whole.", "windows."),
    "their order": ("cut.", "start.", "whole.", "windows.", "order."),
    "slots": ("slots.",),
    "pieces": ("piece",),
    "biases kept": ("keep.",),
    "all": ("",),
}
"""The beginnings of the names of a group's knobs; ``order`` alone is that of the tile loops."""

STEPS = 4
"""Moves from the default point to a drawn one, at most."""


class Measured:
    """One kernel, its space, and the cycles of its default point."""

    def __init__(self, kernel: SearchKernel, target: str):
        self.source, self.target = kernel, target
        self.module, name, ctx = kernel.compiled(target)
        found = SymbolTable.lookup_symbol(self.module, name)
        assert isinstance(found, te.KernelOp)
        self.kernel, self.clock = found, KernelClock(self.module, name, ctx)
        self.structure = structure_of(found, kernel.name)
        self.space = TilesTemplate().declare(self.structure, self.clock.target)
        self.default = self.space.rule(kernel.name).point
        self.cycles = self._clocked(self.space.schedule(found, self.default))
        assert self.cycles is not None

    def _clocked(self, schedule: te.ScheduleOp) -> int | None:
        try:
            return self.clock.cycles(schedule)
        except CompileError:
            return None

    def best_in(self, column: str, draws: int, count: int) -> int | None:
        """The fewest cycles of a column of the table."""
        if column in GROUPS:
            return self.best_of(GROUPS[column], draws, count)
        if column == "threads":
            return self.threads(draws, count)
        return self.pads() if column == "pads" else self.forms()

    def best_of(self, prefixes: tuple[str, ...], draws: int, count: int) -> int | None:
        """The fewest cycles of points that differ from the default in these knobs alone."""
        names = {
            name
            for name in self.space.knobs
            if any(name == p or (name.startswith(p) and p != "order") for p in prefixes)
        }
        allowed = [d for d in self.space.directions if all(name in names for name, _ in d.moves)]
        found: dict[str, tuple[int, te.Point]] = {}
        for point in self._drawn(allowed, draws) if allowed else ():
            same = self.space.canonical(point)
            text = te.point_text(same)
            if text not in found and self.space.problem(same) is None:
                found[text] = self.space.cost(same), same
        best = sorted(found.values(), key=lambda pair: pair[0])[:count]
        cycles = [self._clocked(self.space.schedule(self.kernel, p, cost)) for cost, p in best]
        return min((c for c in cycles if c is not None), default=None)

    def _drawn(self, allowed: list[te.Direction], draws: int) -> Iterator[te.Point]:
        rng = Random(0)
        for _ in range(draws):
            point = self.default
            for _ in range(rng.randint(1, STEPS)):
                point = self.space.step(point, rng.choice(allowed)) or point
            if point != self.default:
                yield point

    def threads(self, draws: int, count: int) -> int | None:
        """The fewest cycles of TVM's template: the point of its rule, and some at random."""
        template = Conv2dThreadsTemplate()
        if template.refuses(self.structure) is not None:
            return None
        space = template.declare(self.structure, self.clock.target)
        rng, points = Random(0), list[te.Point]()
        try:
            points.append(space.rule().point)
        except CompileError:
            return None
        drawn = (space.draw(rng) for _ in range(draws))
        fitting = [point for point in drawn if space.problem(point) is None]
        points += sorted(fitting, key=space.loaded)[: 2 * count]
        cycles = [self._clocked(space.schedule(self.kernel, point)) for point in points]
        return min((c for c in cycles if c is not None), default=None)

    def forms(self) -> int | None:
        """The fewest cycles where one stage has another form than the cheapest by formula."""
        found = []
        for stage, form in self._other_forms():
            forms = te.point_text({stage: form}).replace('"', '\\"')
            pipeline = LOWERING.before("te-drop-clips", f'te-prefer-forms{{forms="{forms}"}}')
            module, ctx = self.source.at("graph", self.target)
            for step in built_passes(pipeline.until("te").passes, OurPasses()):
                step.apply(ctx, module)
            name = largest_kernel(module)
            schedules = [op for op in module.ops if isinstance(op, te.ScheduleOp)]
            (schedule,) = [op for op in schedules if op.kernel.root_reference.data == name]
            found.append(KernelClock(module, name, ctx).cycles(schedule))
        return min(found, default=None)

    def _other_forms(self) -> Iterator[tuple[str, str]]:
        """Stages and the forms that were possible and not taken."""
        for stage, (_, *others) in recorded_forms(self.kernel).items():
            yield from ((stage, other) for other in others)

    def pads(self) -> int | None:
        """The default schedule with the pads of activations written by the DMA."""
        schedule = self.space.schedule(self.kernel, self.default)
        block, padded = schedule.body.block, 0
        for op in list(block.ops):
            if not isinstance(op, te.CacheReadOp):
                continue
            stage = self.structure.stages[list(block.args).index(op.stage)]  # type: ignore[arg-type]
            read = stage.reads[op.operand_number.value.data]
            if stage.role is StageRole.PRODUCT and read.outside is not None:
                block.insert_op_after(te.PadOp(op.cache), op)
                padded += 1
        return self._clocked(schedule) if padded else None


def main() -> None:
    """All kernels."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kernels", nargs="*", default=[*TABLE, *PLANES], help="names")
    parser.add_argument("--target", default="chisel-pynq", help="a preset (chisel-pynq)")
    parser.add_argument("--draws", type=int, default=150, help="points of each group (150)")
    parser.add_argument("--clocked", type=int, default=8, help="of them, by the clock (8)")
    every = [*GROUPS, "threads", "pads", "forms"]
    parser.add_argument(
        "--columns", nargs="*", default=every, choices=every, help="all if left out"
    )
    options = parser.parse_args()
    columns = options.columns
    print(f"| kernel | default | {' | '.join(columns)} |")
    print(f"| --- |{' ---: |' * (1 + len(columns))}")
    for kernel in KERNELS:
        if kernel.name not in options.kernels:
            continue
        one = Measured(kernel, options.target)
        found = [one.best_in(column, options.draws, options.clocked) for column in columns]
        cells = [_gain(one.cycles, cycles) for cycles in found]
        print(f"| {kernel.name} | {one.cycles:,} | {' | '.join(cells)} |", flush=True)


def _gain(default: int | None, cycles: int | None) -> str:
    if default is None or cycles is None:
        return "-"
    return f"{100 * (default / cycles - 1):.2f}"


if __name__ == "__main__":
    main()
