"""The records that come with vtac: ``make tuned`` searches them, a test times every one again.

    python -m vtac.tools.tune.shipped MODEL.onnx SAMPLES.npz --presets chisel-de10 --trials 400

For each preset the kernels of each model are searched, and the records by which the network gets
quicker (`selection`) are added to the preset's file in `tools/tune/records`. Those that are there
stay unless better ones are found; those that this compiler does not time as they say are dropped.
"""

import argparse
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from vtac.dialects.target import PRESETS, Target
from vtac.tools.commands.parsers.types import at_least
from vtac.tools.driver.options import CompileOptions
from vtac.tools.tune.api import tune
from vtac.tools.tune.database import Database
from vtac.tools.tune.keys import target_digest
from vtac.tools.tune.lookup import SHIPPED, RecordFile
from vtac.tools.tune.recheck import recheck
from vtac.tools.tune.records import Record, merged
from vtac.tools.tune.selection import TunedModel, useful_records, write_lines


def main(args: Sequence[str] | None = None) -> None:
    """Entry point of the script."""
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("files", nargs="*", metavar="MODEL SAMPLES", help="models, each followed by its samples")
    add("--presets", nargs="+", default=list(PRESETS), choices=list(PRESETS))
    add("--trials", type=at_least(1), default=400, help="of each model (default: %(default)s)")
    add("--jobs", type=at_least(1), default=1, help="(default: %(default)s)")
    add("--database", help="where the searches are kept (default: nowhere)")
    given = parser.parse_args(args)
    if len(given.files) % 2:
        parser.error("each model is followed by its samples")
    models = list(zip(given.files[::2], given.files[1::2], strict=True))
    with tempfile.TemporaryDirectory() as folder:
        database = given.database or str(Path(folder) / "tune.db")
        for preset in given.presets:
            found: list[Record] = []
            for model, samples in models:
                print(f"{preset}: {model}", flush=True)
                tune(model, preset, samples, database, trials=given.trials, jobs=given.jobs)
                network = TunedModel(model, Target.named(preset), samples, CompileOptions())
                found += useful_records(network, _found(database, preset), print)
            print(f"{preset}: {write_shipped(preset, found)} records", flush=True)


def write_shipped(preset: str, records: Iterable[Record]) -> int:
    """Add records to a preset's file; returns how many are there then."""
    path = SHIPPED / f"{preset}.jsonl"
    before = RecordFile(path).records() if path.is_file() else []
    better = (record for record in records if record.gain is not None and record.gain > 1)
    kept = merged(r for r in (*before, *better) if not recheck(r).changed).values()
    if kept or path.is_file():
        write_lines(path, kept)
    return len(kept)


def _found(database: str, preset: str) -> list[Record]:
    wanted = target_digest(Target.named(preset))
    with Database.read(database) as opened:
        return [record for record in opened.records() if record.key.target == wanted]


if __name__ == "__main__":
    main()
