"""Fuzzing: any number of mutants of valid programs through the checker and both simulators.

    python test/benchmarks/bench_fuzz.py --count 1000000
    python test/benchmarks/bench_fuzz.py --again "pipeline chisel" 123

Accepted are results and diagnostics (see ``test/support/mutants.py``). Whatever else happens is
printed with the program and the seed that make it happen again; the exit status is then 1.
"""

import argparse
import multiprocessing
import os
import random
import resource
import sys
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
from launches import Program
from mutants import TARGETS, Mutator, compiled, confined, in_time, judge, pipeline

BLOCK = 200
MOST_FAULTS = 20

_programs: dict[str, tuple[Program, Mutator]] = {}


def try_one(program: Program, mutator: Mutator, seed: int) -> str:
    """What became of one mutant."""
    rng = random.Random(seed)
    words, dram = mutator.mutant(rng)
    with in_time():
        return judge(program.target, words, dram, rng)


def try_block(first: int) -> tuple[Counter[str], list[tuple[str, int, str]], int]:
    """A block of seeds: verdicts, faults (program, seed, traceback), and most megabytes used."""
    verdicts: Counter[str] = Counter()
    faults = []
    names = list(_programs)
    with confined():
        for seed in range(first, first + BLOCK):
            name = names[seed % len(names)]
            try:
                verdicts[try_one(*_programs[name], seed)] += 1
            except Exception:
                faults.append((name, seed, traceback.format_exc()))
    return verdicts, faults, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


def main(args: Sequence[str] | None = None) -> int:
    """Try mutants on all processors; 1 if anything but a result or a diagnostic came of one."""
    parser = argparse.ArgumentParser(description="Fuzz the simulators and the hazard checker.")
    parser.add_argument("--count", type=int, default=4000, help="mutants (default: 4000)")
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    parser.add_argument("--again", nargs=2, metavar=("PROGRAM", "SEED"), help="one mutant alone")
    options = parser.parse_args(args)
    for program in [*map(pipeline, TARGETS), *compiled()]:
        _programs[program.name] = program, Mutator(program)
    if options.again:
        print(try_one(*_programs[options.again[0]], int(options.again[1])))
        return 0
    console, start = Console(), time.perf_counter()
    verdicts: Counter[str] = Counter()
    faults, megabytes = 0, 0
    firsts = range(options.seed, options.seed + options.count, BLOCK)
    columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with (
        multiprocessing.get_context("fork").Pool(options.jobs) as pool,
        Progress(*columns, console=console, disable=not console.is_terminal) as progress,
    ):
        task = progress.add_task("mutants", total=len(firsts) * BLOCK)
        for found, broken, used in pool.imap_unordered(try_block, firsts):
            verdicts += found
            megabytes = max(megabytes, used)
            for name, seed, text in broken[: max(0, MOST_FAULTS - faults)]:
                console.print(f"--again {name!r} {seed}\n{text}", markup=False, highlight=False)
            faults += len(broken)
            progress.advance(task, BLOCK)
    seconds, total = time.perf_counter() - start, sum(verdicts.values()) + faults
    print(f"{total:,} mutants in {seconds:.0f} s, {total / seconds:.0f} a second;"
          f" at most {megabytes} MB a process")  # fmt: skip
    for verdict, count in verdicts.most_common():
        print(f"{verdict:28} {count:>10,} {count / total:6.1%}")
    print(f"{'neither of both':28} {faults:>10,}")
    return int(faults > 0)


if __name__ == "__main__":
    sys.exit(main())
