"""The clock of a cluster against the plain one, on many random programs; and its speed.

    python test/benchmarks/bench_cluster_clock.py [PROGRAMS]

Prints how many programs agree in every start and end (2,000 unless said otherwise), and for a long
program the processor seconds per instruction and per request of DDR.
"""

import random
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from cluster_clock_programs import assert_same_clock, random_cluster, random_streams
from cluster_programs import words_of

from vtac.dialects.target import ClusterTarget
from vtac.sim.cluster import estimate_cluster


def compare(programs: int) -> int:
    """How many random programs of one to four cores agree."""
    same = 0
    for seed in range(programs):
        rng = random.Random(seed)
        cluster = random_cluster(rng, 1 + seed % 4)
        try:
            assert_same_clock(cluster, random_streams(cluster, rng, rng.choice((4, 8, 12, 16))))
            same += 1
        except AssertionError as error:
            print(f"seed {seed}: {error}")
    return same


def speed(cores: int, length: int) -> dict[str, Any]:
    """Processor seconds of a long random program."""
    cluster = ClusterTarget.named("cluster-8").replace(cores=cores)
    words = words_of(cluster, random_streams(cluster, random.Random(1), length))
    before = time.process_time()
    report = estimate_cluster(cluster, words)
    seconds = time.process_time() - before
    steps = sum(map(len, words))
    requests = sum(
        len(found.beats)
        for unit in range(cluster.units)
        for found in report.work(unit).requests.values()
    )
    return {
        "cores": cores,
        "cycles": report.cycles,
        "steps": steps,
        "us a step": round(1e6 * seconds / steps, 1),
        "us a request": round(1e6 * seconds / requests, 1),
    }


def main() -> None:
    """Print the figures."""
    programs = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    for cores in (1, 2, 4, 8):
        print(speed(cores, 4000))
    print(f"{compare(programs)} of {programs} programs have the same starts and ends")


if __name__ == "__main__":
    main()
