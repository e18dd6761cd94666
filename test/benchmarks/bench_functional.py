"""Speed of the functional simulator on the golden programs, against its floor.

The floor is the matrix products alone: as many multiplications, in float32 calls of the size that
the simulator uses, on data that is already in place, in the same run. Warm: the same program again,
strict, in program order; `loose` is not strict, `orders` strict in a random order of the modules:
what both cost on top is the difference. `first` is the first call of `vtac.sim.execute` in a
process of its own, plans and all; `execute` is that function again, which copies the image besides.

The open C++ simulator takes about 13 times the floor on an idle machine of two cores, where its
times below come from. So the last columns have how much faster ours is, first and warm: `C++` by
its times there, which means something on such a machine only, `scaled` by 13 floors of this one.
Run: ``python FILE``.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import json
import multiprocessing
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from vtac.dialects.target import Target
from vtac.sim import Simulator, execute

GOLDEN = Path(__file__).parents[2] / ".." / "shared" / "golden"
REPEATS = 15
FRESH = 5
CPP_FLOORS = 13.0
CPP_SECONDS = {
    "speed_conv3x3": 0.175,
    "C8_burst16": 0.030,
    "C8_burst256": 0.030,
    "C11_burst16": 0.021,
}


def best(*works: Callable[[], object]) -> list[float]:
    """Processor seconds of the fastest run of each; they take turns, and so meet equal noise."""
    times: list[list[float]] = [[] for _ in works]
    for _ in range(REPEATS):
        for work, mine in zip(works, times, strict=True):
            start = time.process_time()
            work()
            mine.append(time.process_time() - start)
    return [min(mine) for mine in times]


def bare_products(micro_ops: int, block: int = 16) -> Callable[[], None]:
    """The floor: batched calls of 56 rows, 9 elements deep, 2 wide, for that many micro-ops."""
    rows, depth, width = 56, 9 * block, 2 * block
    calls = -(-micro_ops * block * block // (rows * depth * width))
    group = 14
    a = np.ones((group, rows, depth), np.float32)
    b = np.ones((depth, width), np.float32)
    out = np.empty((group, rows, width), np.float32)

    def work() -> None:
        for _ in range(-(-calls // group)):
            np.matmul(a, b, out=out)

    return work


def load(path: Path) -> tuple[Target, np.ndarray, np.ndarray, np.ndarray]:
    """The target of a golden program, its words, and its image before and after."""
    with np.load(path) as golden:
        target = Target.from_vta_config(json.loads(str(golden["config"])), alu_bypass=True)
        return target, golden["insns"], golden["dram_in"], golden["dram_out"]


def first_call(path: Path) -> float:
    """Processor seconds of the first call in a process."""
    target, insns, dram_in, _ = load(path)
    start = time.process_time()
    execute(target, insns, dram_in)
    return time.process_time() - start


def fresh(path: Path) -> float:
    """Processor seconds of a first call in a process of its own: the least of some."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(1, maxtasksperchild=1) as pool:
        return min(pool.map(first_call, [path] * FRESH, chunksize=1))


def main() -> None:
    """Print one line per program."""
    paths = [GOLDEN / "speed_conv3x3.npz", *sorted((GOLDEN / "layers").glob("*.npz"))]
    if not paths[0].exists():
        print("skipped: ../shared/golden is absent")
        return
    titles = (
        "first",
        "execute",
        "warm",
        "loose",
        "orders",
        "floor",
        "first/fl",
        "exec/fl",
        "M uops/s",
    )
    print(f"{'program':14}" + "".join(f"{title:>9}" for title in titles) + "   C++, scaled")
    for path in paths:
        target, insns, dram_in, dram_out = load(path)
        simulator, image = Simulator(target), dram_in.copy()
        counters = simulator.run(insns, image)
        np.testing.assert_array_equal(image, dram_out)
        np.testing.assert_array_equal(execute(target, insns, dram_in), dram_out)
        first = fresh(path)
        run = partial(simulator.run, insns, image)
        again, warm, loose, orders, bare = best(
            partial(execute, target, insns, dram_in),
            run,
            partial(run, strict=False),
            partial(run, order_seed=1),
            bare_products(counters.gemm_micro_ops),
        )
        total = counters.gemm_micro_ops + counters.reset_micro_ops + counters.alu_micro_ops
        times = "".join(f"{s * 1e3:7.1f}ms" for s in (first, again, warm, loose, orders, bare))
        floors = f"{first / bare:9.2f}{again / bare:9.2f}{total / warm / 1e6:9.1f}"
        cpp = CPP_SECONDS.get(path.stem)
        known = f"{cpp / first:5.2f}{cpp / again:5.2f}, " if cpp is not None else " " * 12
        scaled = f"{CPP_FLOORS * bare / first:5.2f}{CPP_FLOORS * bare / again:5.2f}"
        print(f"{path.stem:14}{times}{floors}{known}{scaled}")


if __name__ == "__main__":
    main()
