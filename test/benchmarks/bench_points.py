"""Schedules judged a second by `KernelClock`, on one core: what a search over schedules can try.

For some layers, the default schedule and variations of it (one of its splits a little larger or
smaller) are applied, lowered, encoded and timed by the clock; variations that are refused do not
count. Each point is judged once before it is timed, as in a search that has been near it. Prints
points for each second of processor time, and the cycles of the default schedule.
Run: ``python FILE [--profile]``.
"""

import argparse
import contextlib
import cProfile
import pstats
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from resnet_layers import Layer, compile_layer, layer_named
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64

from vtac.dialects import te
from vtac.dialects.errors import CompileError
from vtac.tools.tensor_expressions.kernel_clock import KernelClock

TARGET = "chisel-pynq"

LAYERS = (
    (layer_named("C2"), 12, 40),
    (layer_named("C10"), 19, 60),
    (Layer("YOLO-15", 7, 1024, 1024, 3, 1, 1), 7, 25),
)
"""A layer, points a second before schedules were judged in one place, and those wanted: both on
the machine of the specification."""

FEWEST_SECONDS = 3.0
"""Processor time spent on a layer."""


def variations(schedule: te.ScheduleOp) -> Iterator[te.ScheduleOp]:
    """The schedule itself, and with the factor of one of its splits one larger or smaller."""
    yield schedule
    splits = [op for op in schedule.body.block.ops if isinstance(op, te.SplitOp)]
    for step in (1, -1):
        for number, split in enumerate(splits):
            factor = split.factor
            if factor is None or factor.value.data + step < 1:
                continue
            new = schedule.clone()
            ops = [op for op in new.body.block.ops if isinstance(op, te.SplitOp)]
            ops[number].factor = IntegerAttr(factor.value.data + step, i64)
            yield new


def measure(layer: Layer, profile: bool) -> tuple[float, int, int]:
    """Points a second, how many different ones, and the cycles of the default schedule."""
    compiled = compile_layer(layer, TARGET, keep=("te",))
    module = compiled.levels["te"]
    assert isinstance(module, ModuleOp)
    (schedule,) = (op for op in module.ops if isinstance(op, te.ScheduleOp))
    clock = KernelClock(module, schedule.kernel.root_reference.data, compiled.context)
    accepted = _accepted(clock, variations(schedule))
    profiler = cProfile.Profile()
    spent, done = 0.0, 0
    while spent < FEWEST_SECONDS:
        for point in accepted:
            if profile:
                profiler.enable()
            started = time.process_time()
            clock.cycles(point)
            spent += time.process_time() - started
            profiler.disable()
            done += 1
    if profile:
        stats = pstats.Stats(profiler)
        stats.sort_stats("tottime").print_stats(45)
        stats.sort_stats("cumulative").print_stats(60)
    expected = compiled.report().cycles
    if accepted[schedule] != expected:
        raise SystemExit(f"{accepted[schedule]} cycles, but in its network {expected}")
    return done / spent, len(accepted), expected


def _accepted(clock: KernelClock, points: Iterable[te.ScheduleOp]) -> dict[te.ScheduleOp, int]:
    """The points that are not refused, and their cycles."""
    accepted: dict[te.ScheduleOp, int] = {}
    for point in points:
        with contextlib.suppress(CompileError):
            accepted[point] = clock.cycles(point)
    return accepted


def main() -> None:
    """All layers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--profile", action="store_true", help="where the time goes")
    profile = parser.parse_args().profile
    print(f"{'layer':8} {'points/s':>9} {'before':>7} {'wanted':>7} {'points':>7} {'cycles':>10}")
    for layer, before, wanted in LAYERS:
        rate, points, cycles = measure(layer, profile)
        print(f"{layer.name:8} {rate:9.1f} {before:7} {wanted:7} {points:7} {cycles:10,}")


if __name__ == "__main__":
    main()
