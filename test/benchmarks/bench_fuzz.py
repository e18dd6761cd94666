"""Fuzzing: any number of mutants of valid programs through the checker and both simulators.

    python test/benchmarks/bench_fuzz.py --count 1000000 --state million.json
    python test/benchmarks/bench_fuzz.py --again "pipeline chisel" 123
    python test/benchmarks/bench_fuzz.py --plain --count 3000

With ``--plain`` random programs run on the fast machine and by the plain definition instead, and
everything they leave must be equal (see ``test/support/random_programs.py``).

Accepted are results and diagnostics (see ``test/support/mutants.py``). Whatever else happens is
printed with the program and the seed that make it happen again; the exit status is then 1.

A seed is a program, so ranges of seeds can be shared out: ``--seed 500000 --count 500000``. With
``--state FILE`` what is done is written down now and then, and the same command goes on from there.
"""

import argparse
import json
import multiprocessing
import os
import random
import resource
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
from launches import Program
from mutants import TARGETS, Mutator, compiled, confined, in_time, judge, pipeline
from random_programs import SHAPES, fast_is_plain

BLOCK = 200
PLAIN = "fast against plain, "
MOST_FAULTS = 20
REPORT_SECONDS = 30.0

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


@dataclass
class Block:
    """What became of the seeds of one block: faults are program, seed and traceback."""

    verdicts: Counter[str] = field(default_factory=Counter)
    faults: list[tuple[str, int, str]] = field(default_factory=list)
    seconds: float = 0.0
    megabytes: int = 0


def try_block(seeds: range) -> Block:
    """Try each of them; processor seconds, and the most megabytes that this process has used."""
    block, names, start = Block(), list(_trials), time.process_time()
    with confined():
        for seed in seeds:
            name = names[seed % len(names)]
            try:
                block.verdicts[_trials[name](seed)] += 1
            except Exception:
                block.faults.append((name, seed, traceback.format_exc()))
    block.seconds = time.process_time() - start
    block.megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    return block


@dataclass
class State:
    """How far the range of seeds [first, end) has come, and what was found in [first, next)."""

    plain: bool
    first: int
    end: int
    next: int
    verdicts: dict[str, int] = field(default_factory=dict)
    faults: list[tuple[str, int]] = field(default_factory=list)
    seconds: float = 0.0
    megabytes: int = 0

    @classmethod
    def of(cls, options: argparse.Namespace) -> "State":
        """The state that the file has, or that of a new run. Exits where they do not fit."""
        begin, end = options.seed, options.seed + options.count
        path: Path | None = options.state
        if path is None or not path.exists():
            return cls(options.plain, begin, end, begin)
        old = cls(**json.loads(path.read_text()))
        if (old.plain, old.first) != (options.plain, begin):
            sys.exit(f"{path} is of other programs: --seed {old.first}, plain {old.plain}")
        old.end = end
        return old

    def blocks(self) -> list[range]:
        """What is left to do."""
        return [range(i, min(i + BLOCK, self.end)) for i in range(self.next, self.end, BLOCK)]

    def add(self, seeds: range, block: Block) -> None:
        """Count a block, the next in order, and print its faults."""
        self.next = seeds.stop
        self.verdicts = dict(Counter(self.verdicts) + block.verdicts)
        for name, seed, text in block.faults[: max(0, MOST_FAULTS - len(self.faults))]:
            print(f"--again {name!r} {seed}\n{text}", flush=True)
        self.faults += [(name, seed) for name, seed, _ in block.faults]
        self.seconds += block.seconds
        self.megabytes = max(self.megabytes, block.megabytes)

    def write(self, path: Path | None) -> None:
        """Replace the file at once, so that it is never half written."""
        if path is not None:
            whole = path.with_name(path.name + ".new")
            whole.write_text(json.dumps(asdict(self), indent=1))
            whole.replace(path)

    def line(self) -> str:
        """Progress."""
        done, total = self.next - self.first, self.end - self.first
        rate = done / self.seconds if self.seconds else 0.0
        return (
            f"{done:>10,} of {total:,} ({done / max(total, 1):.1%}), {rate:.0f} a second of"
            f" processor time, at most {self.megabytes} MB a process, {len(self.faults)} faults"
        )

    def report(self) -> None:
        """The table at the end."""
        print(self.line())
        for verdict, count in Counter(self.verdicts).most_common():
            print(f"{verdict:28} {count:>10,} {count / (self.next - self.first):6.1%}")
        print(f"{'anything else':28} {len(self.faults):>10,}")


def arguments(args: Sequence[str] | None) -> argparse.Namespace:
    """The options of the command."""
    parser = argparse.ArgumentParser(description="Fuzz the simulators and the hazard checker.")
    parser.add_argument("--count", type=int, default=4000, help="programs (default: 4000)")
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    parser.add_argument("--state", type=Path, metavar="FILE", help="go on from here, and note it")
    parser.add_argument("--plain", action="store_true", help="compare the two machines instead")
    parser.add_argument("--again", nargs=2, metavar=("PROGRAM", "SEED"), help="one mutant alone")
    return parser.parse_args(args)


def main(args: Sequence[str] | None = None) -> int:
    """Try programs on all processors; 1 if what came of one is not accepted."""
    options = arguments(args)
    if options.plain:
        _trials.update({PLAIN + shape: comparison(shape) for shape in SHAPES})
    else:
        programs = [*map(pipeline, TARGETS), *compiled("pynq", "chisel-pynq")]
        _trials.update({program.name: mutants_of(program) for program in programs})
    if options.again:
        print(_trials[options.again[0]](int(options.again[1])))
        return 0
    state, reported = State.of(options), time.monotonic()
    blocks = state.blocks()
    with multiprocessing.get_context("fork").Pool(options.jobs) as pool:
        for seeds, block in zip(blocks, pool.imap(try_block, blocks), strict=True):
            state.add(seeds, block)
            if time.monotonic() - reported > REPORT_SECONDS:
                state.write(options.state)
                reported = time.monotonic()
                print(state.line(), flush=True)
    state.write(options.state)
    state.report()
    return int(bool(state.faults))


if __name__ == "__main__":
    sys.exit(main())
