"""Runs ONNX's backend suite against `vtac.backend`, and prints a table.

``python test/benchmarks/bench_backend.py [PART OF A NAME]... [--processes N]``: what passed, what
failed although onnxruntime passes it (the exit status is then 1), what onnxruntime fails as well.
"""

import argparse
import multiprocessing
import sys
import warnings
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from backend_suite import FAILED, KINDS, NOWHERE, PASSED, cases, outcome

TASKS = [(kind, case) for kind in KINDS for case in cases(kind)]
"""Made before the processes fork: models need not travel."""

BAR = 40


def _outcome(index: int) -> tuple[int, str, str]:
    warnings.simplefilter("ignore")
    return index, *outcome(TASKS[index][1])


def _show_progress(done: int, total: int) -> None:
    if sys.stderr.isatty():
        filled = BAR * done // total
        end = "\n" if done == total else ""
        print(f"\r[{'#' * filled:<{BAR}}] {done}/{total}", end=end, file=sys.stderr, flush=True)


def main() -> int:
    """Print the failures, then the table; the status of the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="parts of names: run only the cases with one")
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args()
    chosen = [
        index
        for index, (_, case) in enumerate(TASKS)
        if not arguments.names or any(part in case.name for part in arguments.names)
    ]
    counts: dict[str, Counter[str]] = {kind: Counter() for kind in KINDS}
    failures: list[str] = []
    with multiprocessing.get_context("fork").Pool(arguments.processes) as pool:
        found = pool.imap_unordered(_outcome, chosen, chunksize=8)
        for done, (index, what, why) in enumerate(found, 1):
            kind, case = TASKS[index]
            counts[kind][what] += 1
            if what == FAILED:
                failures.append(f"FAILED {kind}/{case.name}: {why}")
            _show_progress(done, len(chosen))
    print("\n".join(sorted(failures)))
    columns = (PASSED, FAILED, NOWHERE)
    print(f"{'kind':<18}" + "".join(f"  {column}" for column in columns))
    for kind in KINDS:
        cells = (f"  {counts[kind][column]:>{len(column)}}" for column in columns)
        print(f"{kind:<18}" + "".join(cells))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
