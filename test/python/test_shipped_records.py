"""The records that are shipped: of this compiler, exact, and used unless nobody wants them."""

from dataclasses import replace
from pathlib import Path

import pytest
from digits_model import MODEL, save_images

import vtac
from vtac.dialects.target import Target
from vtac.tools.tune import lookup, shipped
from vtac.tools.tune.database import Database
from vtac.tools.tune.keys import target_digest
from vtac.tools.tune.lookup import SHIPPED, RecordFile
from vtac.tools.tune.recheck import recheck
from vtac.tools.tune.verification import verify_record

TARGET = Target.named("chisel-pynq")
SHIPPED_FILES = sorted(SHIPPED.glob("*.jsonl"))


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("digits") / "samples.npz"
    save_images(path, 8)
    return path


@pytest.mark.parametrize("path", SHIPPED_FILES, ids=lambda path: path.stem)
def test_shipped_records_are_of_this_compiler(path: Path) -> None:
    """Every record that comes with vtac is of its preset, and takes the cycles that it says."""
    records = RecordFile(path).records()
    assert records
    for record in records:
        verify_record(record)
        assert record.key.target == target_digest(Target.named(path.stem))
        assert record.proved and record.gain is not None and record.gain > 1
        assert not (found := recheck(record)).changed, found.told


def test_shipped_records_are_used_unless_nobody_wants_them(
    samples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record that is shipped for a preset is found without any option."""
    monkeypatch.setattr(lookup, "SHIPPED", tmp_path)
    monkeypatch.setattr(shipped, "SHIPPED", tmp_path)
    database = tmp_path / "tune.db"
    vtac.tune(str(MODEL), TARGET, str(samples), database, layers=["third"], trials=24, method="p")
    with Database.read(database) as found:
        records = [replace(record, default=record.cycles + 1) for record in found.records()]
    assert shipped.write_shipped("chisel-pynq", records) == 1
    assert shipped.write_shipped("chisel-pynq", records) == 1
    stale = [replace(records[0], cycles=records[0].cycles - 1)]
    assert shipped.write_shipped("chisel-pynq", stale) == 1
    assert RecordFile(tmp_path / "chisel-pynq.jsonl").records() == records
    (used,) = vtac.compile(str(MODEL), TARGET, str(samples)).report.tuned
    assert used[0].layers == ("third",) and used[1].source == "chisel-pynq.jsonl"
    assert not vtac.compile(str(MODEL), TARGET, str(samples), tuning=False).report.tuned
    assert not vtac.compile(str(MODEL), "chisel-de10", str(samples)).report.tuned
