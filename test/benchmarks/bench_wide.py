"""Processor seconds to compile wide and deep networks, and how they grow with the size.

Every kind of `wide_networks` is compiled at several sizes, each in a fresh process. Printed are the
seconds, the exponent of growth between the last two sizes (1 is linear), and with --steps the
slowest steps of the largest size.

Usage: bench_wide.py [--sizes 250 500 1000 2000 5000] [--kinds sum concat] [--target chisel-pynq]
       [--float] [--steps 5] [--frames 0] [--limit 60]
"""

import argparse
import inspect
import math
import multiprocessing
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from wide_networks import KINDS, samples_of, wide_network

import vtac


def measure(
    kind: str, size: int, target: str, calibrated: bool, frames: int
) -> tuple[float, dict[str, float], int, str]:
    """Seconds of a compilation, of each of its steps, nodes on the accelerator, and the error."""
    steps: dict[str, float] = {}
    last = ["start", time.process_time()]

    def progress(step: str) -> None:
        now = time.process_time()
        steps[str(last[0])] = steps.get(str(last[0]), 0.0) + now - float(last[1])
        last[:] = [step, now]

    small = wide_network("layers", 2)
    vtac.compile(small, target, samples_of(small))
    model = wide_network(kind, size)
    samples = samples_of(model) if calibrated else None
    if frames:
        sys.setrecursionlimit(len(inspect.stack()) + frames)
    started = last[1] = time.process_time()
    problem, offloaded = "", 0
    try:
        module = vtac.compile(model, target, samples, progress=progress)
        offloaded = sum(node.where != "host" for node in module.explain)
    except Exception as error:
        problem = f"{type(error).__name__}: {str(error)[:200]}"
    seconds = time.process_time() - started
    progress("end")
    return seconds, steps, offloaded, problem


def main() -> None:
    """Measure the kinds asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[250, 500, 1000, 2000, 5000])
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=list(KINDS))
    parser.add_argument("--target", default="chisel-pynq")
    parser.add_argument("--float", action="store_true", help="without calibration samples")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--frames", type=int, default=0, help="recursion limit above the base")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds after which it stops")
    given = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    for kind in given.kinds:
        before: tuple[int, float] | None = None
        for size in given.sizes:
            with ProcessPoolExecutor(1, context) as pool:
                job = (kind, size, given.target, not given.float, given.frames)
                seconds, steps, offloaded, problem = pool.submit(measure, *job).result()
            growth = ""
            if before is not None:
                power = math.log(seconds / before[1]) / math.log(size / before[0])
                growth = f"grows as N^{power:.2f}"
            print(f"{kind:20} {size:6,} {seconds:8.2f} s  {offloaded:5} nodes {growth} {problem}")
            sys.stdout.flush()
            before = size, seconds
            if problem or seconds > given.limit:
                break
        slowest = sorted(steps.items(), key=lambda item: -item[1])[: given.steps]
        print("   ", ", ".join(f"{name} {value:.2f}" for name, value in slowest), flush=True)


if __name__ == "__main__":
    main()
