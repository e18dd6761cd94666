"""Which records make a whole network quicker.

Kernels overlap in a network: loads of the next fill gaps of the one before. A schedule that is good
for its kernel alone may therefore cost more than it gains. Records are tried one after the other,
and each is kept only if the network takes fewer cycles with it and those that were kept before.
"""

import os
import tempfile
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from vtac.dialects.target import Target
from vtac.lowering.onnx_to_graph import ModelSource
from vtac.runtime.atomic import write_whole
from vtac.runtime.samples import Source
from vtac.tools.driver.compiler import compile_model
from vtac.tools.driver.options import CompileOptions
from vtac.tools.tune.records import Record


@dataclass(frozen=True)
class TunedModel:
    """A model as it is compiled. options: those of `vtac.compile`."""

    model: ModelSource
    target: Target
    calibration: Source | None
    options: CompileOptions

    def cycles(self, tuning: Sequence[str | os.PathLike[str]] | None) -> int:
        """Cycles of all its launches, by the clock. tuning: files of records; None for none."""
        options = replace(self.options, tuning=False if tuning is None else tuple(tuning))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compiled = compile_model(self.model, self.target, self.calibration, options)
        return compiled.profile().cycles


def useful_records(
    network: TunedModel,
    records: Iterable[Record],
    told: Callable[[str], None] = lambda _: None,
) -> list[Record]:
    """The records by which a network gets quicker; those that promise most are tried first.

    Records that come with vtac count as there already. told: gets a line for each step.
    """
    kept: list[Record] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "records.jsonl"

        def cycles(chosen: Sequence[Record]) -> int:
            write_lines(path, chosen)
            return network.cycles([path])

        best = cycles(kept)
        told(f"the network takes {best:,} cycles without them")
        for record in sorted(records, key=lambda r: r.cycles - (r.default or r.cycles)):
            if record.gain is None or record.gain <= 1:
                continue
            now = cycles([*kept, record])
            told(f"record {record.name}: {now:,} cycles, {'kept' if now < best else 'left out'}")
            if now < best:
                best = now
                kept.append(record)
    return kept


def write_lines(path: str | os.PathLike[str], records: Iterable[Record]) -> None:
    """Write records as JSON lines, sorted."""
    lines = sorted(record.line for record in records)
    write_whole(path, "".join(f"{line}\n" for line in lines).encode())
