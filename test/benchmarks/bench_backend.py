"""Runs ONNX's backend suite against `vtac.backend`, and prints a table.

``python test/benchmarks/bench_backend.py [PART OF A NAME]... [--mode MODE] [--processes N]``: what
passed, what failed although onnxruntime passes it (the exit status is then 1), what onnxruntime
fails as well, and how many of those that passed the accelerator had a part in. The modes: ``host``,
the suite as it is; ``integer``, cases of integer operators with constant weights and scales;
``calibrated``, all cases with one constant operand or more, quantised, within the error bound.
"""

import argparse
import multiprocessing
import sys
import warnings
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from backend_suite import (
    FAILED,
    KINDS,
    MODES,
    NOWHERE,
    PASSED,
    Outcome,
    cases,
    outcome,
    takes_part,
)

TASKS = [(kind, case) for kind in KINDS for case in cases(kind)]
"""Made before the processes fork: models need not travel."""

ACCELERATED = "on the accelerator"
BAR = 40


def _outcome(task: tuple[int, str]) -> tuple[int, Outcome]:
    index, mode = task
    warnings.simplefilter("ignore")
    return index, outcome(TASKS[index][1], mode)


def _show_progress(done: int, total: int) -> None:
    if sys.stderr.isatty():
        filled = BAR * done // total
        end = "\n" if done == total else ""
        print(f"\r[{'#' * filled:<{BAR}}] {done}/{total}", end=end, file=sys.stderr, flush=True)


def main() -> int:
    """Print the failures, then the table; the status of the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="parts of names: run only the cases with one")
    parser.add_argument("--mode", choices=MODES, default=MODES[0])
    parser.add_argument("--list", action="store_true", help="name the cases on the accelerator")
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args()
    chosen = [
        (index, arguments.mode)
        for index, (_, case) in enumerate(TASKS)
        if takes_part(case, arguments.mode)
        and (not arguments.names or any(part in case.name for part in arguments.names))
    ]
    counts: dict[str, Counter[str]] = {kind: Counter() for kind in KINDS}
    failures: list[str] = []
    with multiprocessing.get_context("fork").Pool(arguments.processes) as pool:
        found = pool.imap_unordered(_outcome, chosen, chunksize=8)
        for done, (index, became) in enumerate(found, 1):
            kind, case = TASKS[index]
            counts[kind][became.what] += 1
            if became.what == FAILED:
                failures.append(f"FAILED {kind}/{case.name}: {became.why}")
            if became.accelerated:
                counts[kind][ACCELERATED] += 1
                if arguments.list:
                    print(f"{ACCELERATED}: {case.name}")
            _show_progress(done, len(chosen))
    print("\n".join(sorted(failures)))
    columns = (PASSED, FAILED, NOWHERE, ACCELERATED)
    print(f"{'kind':<18}" + "".join(f"  {column}" for column in columns))
    for kind in KINDS:
        cells = (f"  {counts[kind][column]:>{len(column)}}" for column in columns)
        print(f"{kind:<18}" + "".join(cells))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
