"""Fuzzing: any number of mutants of valid programs through the checker and both simulators.

    python test/benchmarks/bench_fuzz.py --count 1000000
    python test/benchmarks/bench_fuzz.py --again "pipeline chisel" 123
    python test/benchmarks/bench_fuzz.py --plain --count 3000

With ``--plain`` random programs run on the fast machine and by the plain definition instead, and
everything they leave must be equal (see ``test/support/random_programs.py``).

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
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
from launches import Program
from mutants import TARGETS, Mutator, compiled, confined, in_time, judge, pipeline
from random_programs import SHAPES, fast_is_plain

BLOCK = 200
PLAIN = "fast against plain, "
MOST_FAULTS = 20

Trial = Callable[[int], str]

_trials: dict[str, Trial] = {}
"""What to do with a seed, by name."""


def mutants_of(program: Program) -> Trial:
    """What became of one mutant."""
    mutator = Mutator(program)

    def trial(seed: int) -> str:
        rng = random.Random(seed)
        words, dram = mutator.mutant(rng)
        with in_time():
            return judge(program.target, words, dram, rng)

    return trial


def comparison(shape: str) -> Trial:
    """Whether one random program runs to its end; both machines agree about all of it."""
    return lambda seed: "equal" if fast_is_plain(shape, seed) else "equally refused"


def try_block(first: int) -> tuple[Counter[str], list[tuple[str, int, str]], int]:
    """A block of seeds: verdicts, faults (program, seed, traceback), and most megabytes used."""
    verdicts: Counter[str] = Counter()
    faults = []
    names = list(_trials)
    with confined():
        for seed in range(first, first + BLOCK):
            name = names[seed % len(names)]
            try:
                verdicts[_trials[name](seed)] += 1
            except Exception:
                faults.append((name, seed, traceback.format_exc()))
    return verdicts, faults, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


def main(args: Sequence[str] | None = None) -> int:
    """Try programs on all processors; 1 if what came of one is not accepted."""
    parser = argparse.ArgumentParser(description="Fuzz the simulators and the hazard checker.")
    parser.add_argument("--count", type=int, default=4000, help="programs (default: 4000)")
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    parser.add_argument("--plain", action="store_true", help="compare the two machines instead")
    parser.add_argument("--again", nargs=2, metavar=("PROGRAM", "SEED"), help="one mutant alone")
    options = parser.parse_args(args)
    if options.plain:
        _trials.update({PLAIN + shape: comparison(shape) for shape in SHAPES})
    else:
        programs = [*map(pipeline, TARGETS), *compiled("pynq", "chisel-pynq")]
        _trials.update({program.name: mutants_of(program) for program in programs})
    if options.again:
        print(_trials[options.again[0]](int(options.again[1])))
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
        task = progress.add_task("programs", total=len(firsts) * BLOCK)
        for found, broken, used in pool.imap_unordered(try_block, firsts):
            verdicts += found
            megabytes = max(megabytes, used)
            for name, seed, text in broken[: max(0, MOST_FAULTS - faults)]:
                console.print(f"--again {name!r} {seed}\n{text}", markup=False, highlight=False)
            faults += len(broken)
            progress.advance(task, BLOCK)
    seconds, total = time.perf_counter() - start, sum(verdicts.values()) + faults
    print(f"{total:,} programs in {seconds:.0f} s, {total / seconds:.0f} a second;"
          f" at most {megabytes} MB a process")  # fmt: skip
    for verdict, count in verdicts.most_common():
        print(f"{verdict:28} {count:>10,} {count / total:6.1%}")
    print(f"{'anything else':28} {faults:>10,}")
    return int(faults > 0)


if __name__ == "__main__":
    sys.exit(main())
