"""Speed of the clock: cycles, instructions and requests a second; and of the hazard checker.

The golden programs, and two programs of 100,000 instructions. The aims: ``speed_conv3x3`` (4.8
million cycles) under 0.1 s, 100,000 instructions under 2 s, the report included. Run:
``python FILE``.
"""

import random
import sys
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vtac.dialects.target import Memory, Target
from vtac.dialects.vta.encoding import Finish, Instruction, decode, encode
from vtac.sim import TimingReport, check, estimate

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
from clock_programs import alu, gemm, load, random_program, store

GOLDEN = Path(__file__).parents[2] / ".." / "shared" / "golden"
INSTRUCTIONS = 100_000
REPEATS = 5


def tiled_program(target: Target) -> NDArray[np.uint64]:
    """Tile after tile as a compiler writes them: two loads, GEMM, two ALUs, a store, two slots."""
    program: list[Instruction] = []
    for tile in range(INSTRUCTIONS // 7):
        free = tile >= 2
        program += [
            load(Memory.INP, 65536 + 4096 * (tile % 8), 8, 10, 58, pop_next=free),
            load(Memory.WGT, 1 << 20, 1, 18, push_next=True),
            load(Memory.UOP, 8192, 1, 18),
            gemm(8, 8, 18, pop_prev=True, push_prev=True),
            alu(64, pop_next=free),
            alu(64, push_next=True),
            store(1 << 22, 8, 8, 56, pop_prev=True, push_prev=True),
        ]
    return encode(target, [*program, Finish(pop_next=True)])


def long_program(target: Target) -> NDArray[np.uint64]:
    """A random program of 500 instructions over and over; tokens are left, so queues fill up."""
    program = random_program(target, random.Random(1), 499)[:-1]
    rounds = [*program, Finish()]
    words = encode(target, rounds)
    return np.concatenate([np.tile(words[:-1], (INSTRUCTIONS // len(program), 1)), words[-1:]])


def measure(name: str, target: Target, insns: NDArray[np.uint64], preset: str, aim: float) -> None:
    """One line: the best of a few runs, and the report's share."""
    best = report_seconds = float("inf")
    for _ in range(REPEATS):
        start = time.process_time()
        report: TimingReport = estimate(target, insns, preset)
        middle = time.process_time()
        assert report.total.cycles == report.cycles
        best = min(best, middle - start)
        report_seconds = min(report_seconds, time.process_time() - middle)
    requests = sum(len(r.beats) for r in report.work.requests.values())
    print(
        f"{name:20}{preset:>12}{len(insns):>9,}{requests:>10,}{report.cycles:>13,}"
        f"{best * 1e3:9.1f}{report_seconds * 1e3:9.1f}"
        f"{report.cycles / best / 1e6:9.1f}{len(insns) / best / 1e3:9.1f}"
        f"  {'ok' if best + report_seconds < aim else 'slow'} ({aim:g} s)"
    )


def measure_checker(name: str, target: Target, insns: NDArray[np.uint64]) -> None:
    """One line: decoding, and all of a check, with an image in which micro-ops are zeros."""
    image = np.zeros(1 << 23, np.uint8)
    best = [float("inf")] * 2
    works = (lambda: decode(target, insns), lambda: check(target, insns, image))
    for _ in range(REPEATS):
        for place, work in enumerate(works):
            start = time.process_time()
            work()
            best[place] = min(best[place], time.process_time() - start)
    print(f"{name:20}{'check':>12}{len(insns):>9,}  decode {best[0]:.2f} s, all {best[1]:.2f} s")


def main() -> None:
    """Print a line a program and preset."""
    print(
        f"{'program':20}{'preset':>12}{'insns':>9}{'requests':>10}{'cycles':>13}{'clock ms':>9}"
        f"{'report':>9}{'Mcyc/s':>9}{'kinsn/s':>9}  aim"
    )
    target = Target.named("chisel-pynq")
    paths = [GOLDEN / "speed_conv3x3.npz", *sorted((GOLDEN / "layers").glob("*.npz"))]
    if not paths[0].exists():
        print("../shared/golden is absent: only the long program")
        paths = []
    for path in paths:
        with np.load(path) as golden:
            insns = golden["insns"]
        for preset in ("chisel-de10", "chisel-pynq"):
            measure(path.stem, target, insns, preset, 0.1)
    for name, make in (("tiles", tiled_program), ("random, repeated", long_program)):
        insns = make(target)
        for preset in ("chisel-de10", "chisel-pynq"):
            measure(name, target, insns, preset, 2.0)
        measure_checker(name, target, insns)


if __name__ == "__main__":
    main()
