"""The simulated cost of schedules against the clock, and how fast both judge.

For each kernel of `search_kernels`, points are drawn from its schedule space: some at random, some
near the point of the default rule (one to three steps away from it, and at most 10 % slower by the
clock). Each point that fits is compiled and clocked. Printed are, of both groups, Spearman's rank
correlation and the 5th and 95th percentile of the error of the cost; how many of the points that
fit were refused by the compiler after all; and costs simulated for each second of processor time.
Run: ``python FILE [--points N] [--kernels NAME ...] [--target TARGET]``.
"""

import argparse
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import numpy as np
from search_kernels import KERNELS, SearchKernel
from xdsl.traits import SymbolTable

from vtac.dialects import te
from vtac.dialects.errors import CompileError
from vtac.passes.te.schedule.emit import schedule_of
from vtac.passes.te.schedule.search import search
from vtac.passes.te.schedule.simulated_cost import CostSimulator
from vtac.passes.te.schedule.space import Space
from vtac.passes.te.schedule.structure import structure_of
from vtac.tools.tensor_expressions.kernel_clock import KernelClock

NEAR = 1.10
"""Points near the default take at most so many times its cycles."""

MOST_DRAWS = 200
"""Points drawn for each that is wanted, at most."""


class Judged(NamedTuple):
    """A point, its simulated cost and its cycles by the clock; None where it was refused."""

    point: te.Point
    cost: int
    cycles: int | None


class Comparison:
    """The costs of one kernel's points and their cycles."""

    def __init__(self, kernel: SearchKernel, target: str):
        module, name, ctx = kernel.compiled(target)
        found = SymbolTable.lookup_symbol(module, name)
        assert isinstance(found, te.KernelOp)
        self.kernel = found
        self.clock = KernelClock(module, name, ctx)
        self.structure = structure_of(found, kernel.name)
        self.space = Space(self.structure)
        self.copying = te.copying_intrinsics(self.clock.target)
        self.simulator = CostSimulator(self.structure, self.clock.target)
        self.default = search(self.structure, self.clock.target, kernel.name)

    def judge(self, point: te.Point) -> Judged:
        """A point that fits, by both."""
        tiling = self.space.tiling(point)
        cost = self.simulator.cycles(tiling)
        schedule = schedule_of(self.kernel, self.structure, tiling, cost, self.copying)
        try:
            return Judged(point, cost, self.clock.cycles(schedule))
        except CompileError as error:
            print("refused:", point, error, file=sys.stderr)
            return Judged(point, cost, None)

    def at_random(self, count: int, seed: int) -> Iterator[te.Point]:
        """Points of the whole space that fit."""
        rng = random.Random(seed)
        yield from self._fitting((self.space.draw(rng) for _ in range(count * MOST_DRAWS)), count)

    def near_default(self, count: int, seed: int) -> Iterator[te.Point]:
        """Points one to three steps away from the default that fit and cost little more."""
        rng = random.Random(seed)

        def walks() -> Iterator[te.Point]:
            for _ in range(count * MOST_DRAWS):
                point = self.default.point
                for _ in range(rng.randint(1, 3)):
                    point = rng.choice(list(self.space.neighbours(point)))
                if self.simulator.needs.fits(self.space.tiling(point)) and (
                    self.simulator.cycles(self.space.tiling(point)) < 1.25 * self.default.cycles
                ):
                    yield point

        yield from self._fitting(walks(), count)

    def _fitting(self, points: Iterator[te.Point], count: int) -> Iterator[te.Point]:
        seen = set[object]()
        for point in points:
            tiling = self.space.tiling(point)
            if tiling.key in seen or not self.simulator.needs.fits(tiling):
                continue
            seen.add(tiling.key)
            yield point
            if len(seen) == count:
                return

    def rate(self, points: list[te.Point]) -> float:
        """Costs a second of points whose costs are not known yet."""
        simulator = CostSimulator(self.structure, self.clock.target)
        tilings = [self.space.tiling(point) for point in points]
        started = time.process_time()
        for tiling in tilings:
            simulator.cycles(tiling)
        return len(tilings) / max(time.process_time() - started, 1e-9)


def spearman(one: np.ndarray, other: np.ndarray) -> float:
    """Rank correlation; equal values share their mean rank."""
    return float(np.corrcoef(_ranks(one), _ranks(other))[0, 1])


def _ranks(values: np.ndarray) -> np.ndarray:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts + 1) / 2)[inverse]


def summary(judged: list[Judged], best: float = np.inf) -> str:
    """Spearman and percentiles of the errors, in per cent, of points of at most so many cycles."""
    pairs = [(j.cost, j.cycles) for j in judged if j.cycles is not None and j.cycles <= best]
    if len(pairs) < 3:
        return f"{len(pairs):3} points                "
    cost, cycles = (np.array(column, float) for column in zip(*pairs, strict=True))
    low, high = np.percentile(100 * (cost / cycles - 1), [5, 95])
    return f"{len(pairs):3} {spearman(cost, cycles):6.3f} {low:+6.1f}..{high:+5.1f}"


def main() -> None:
    """All kernels."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=40, help="of each group (40)")
    parser.add_argument("--kernels", nargs="*", help="names; all if left out")
    parser.add_argument("--target", default="chisel-pynq", help="a preset (chisel-pynq)")
    options = parser.parse_args()
    print(f"{'':14} {'default':>10} {'clock':>10}  near: points, Spearman, p5..p95 %", end="")
    print("  random: the same          costs/s  refused")
    for kernel in KERNELS:
        if options.kernels and kernel.name not in options.kernels:
            continue
        one = Comparison(kernel, options.target)
        default = one.judge(one.default.point)
        assert default.cycles is not None
        points = list(one.near_default(options.points, 0))
        near = [one.judge(point) for point in points]
        points = list(one.at_random(options.points, 1))
        rate = one.rate(points)
        drawn = [one.judge(point) for point in points]
        refused = sum(judged.cycles is None for judged in (*near, *drawn))
        print(
            f"{kernel.name:14} {default.cost:10,} {default.cycles:10,}  "
            f"{summary(near, NEAR * default.cycles):28}  {summary(drawn):24} "
            f"{rate:8.0f} {refused:3}",
            flush=True,
        )


if __name__ == "__main__":
    main()
