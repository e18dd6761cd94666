"""Recorded schedules: what a look-up costs, and what a compilation with records costs.

Fills a database and a file of JSON lines with records of made-up kernels, and looks kernels up in
them: the mean of many, in processor time. Then compiles the network for handwritten digits without
records, and with a database of 100 that has none of its kernels.
Run: ``python FILE [--records N]``.
"""

import argparse
import hashlib
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from digits_model import MODEL, save_images
from tuning_records import TARGET, record, write_records

from vtac.tools.driver.compiler import compile_model
from vtac.tools.tune.database import Database
from vtac.tools.tune.keys import oracle_digest, target_digest
from vtac.tools.tune.lookup import RecordFile
from vtac.tools.tune.records import Record

LOOKUPS = 2_000
COMPILATIONS = 7


def records(count: int) -> Iterator[Record]:
    """Records of so many kernels."""
    for number in range(count):
        yield record(f"kernel {number}", 1000 + number % 77)


def look_ups(source: Database | RecordFile, count: int) -> float:
    """Milliseconds of a look-up; every second kernel has a record."""
    machine, clock = target_digest(TARGET), oracle_digest(TARGET.timing)
    names = [f"kernel {n * count // LOOKUPS if n % 2 else -n - 1}" for n in range(LOOKUPS)]
    digests = [hashlib.sha256(name.encode()).hexdigest() for name in names]
    started = time.process_time()
    found = sum(bool(source.best(digest, machine, clock)) for digest in digests)
    spent = time.process_time() - started
    assert LOOKUPS // 2 <= found <= LOOKUPS // 2 + 1, found
    return 1000 * spent / LOOKUPS


def compilations(folder: Path) -> tuple[float, float]:
    """Processor seconds of a compilation without and with records, the least of runs in turn."""
    save_images(folder / "samples.npz", 8)
    with Database.open(folder / "small.db") as database:
        database.offer(records(100))
    spent: dict[bool, list[float]] = {False: [], True: []}
    for number in range(COMPILATIONS + 1):
        for is_tuned, tuning in ((False, False), (True, folder / "small.db")):
            started = time.process_time()
            compile_model(str(MODEL), TARGET, str(folder / "samples.npz"), tuning=tuning)
            if number:  # the first one imports what it needs
                spent[is_tuned].append(time.process_time() - started)
    return min(spent[False]), min(spent[True])


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=100_000)
    count = parser.parse_args().records
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with Database.open(folder / "tune.db") as database:
            database.offer(records(count))
        write_records(folder / "r.jsonl", records(count))
        print(f"look-up in {count:,} records (wanted: at most 1 ms)")
        with Database.read(folder / "tune.db") as database:
            print(f"  database    {look_ups(database, count):8.4f} ms")
        started = time.process_time()
        lines = RecordFile(folder / "r.jsonl")
        spent = time.process_time() - started
        print(f"  JSON lines  {look_ups(lines, count):8.4f} ms, after {spent:.1f} s to read them")
        without, with_records = compilations(folder)
        print(f"compilation   {without:.3f} s without records, {with_records:.3f} s with 100")
        print(f"              {100 * (with_records / without - 1):+.1f} % (wanted: at most +3 %)")


if __name__ == "__main__":
    main()
