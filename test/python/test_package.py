"""The package format: the same bytes for the same contents, and nothing wrong gets through."""

import dataclasses
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_package import tiny_package

from vtac.dialects.errors import CompileError
from vtac.runtime.package import (
    Package,
    TuningRecord,
    package_from_bytes,
    package_to_bytes,
    read_package,
    write_package,
)
from vtac.runtime.package.archive import pack_files, unpack_files
from vtac.runtime.package.manifest import NEW_IN_PLACEMENTS, to_files

DATA = package_to_bytes(tiny_package())


def changed_manifest(change: Any) -> bytes:
    """The package with its manifest changed in place, and sealed again."""
    files = unpack_files(DATA, "package")
    manifest = json.loads(files["manifest.json"])
    change(manifest)
    files["manifest.json"] = json.dumps(manifest).encode()
    return pack_files(files)


def refusal(data: bytes) -> str:
    with pytest.raises(CompileError) as caught:
        package_from_bytes(data, "p.vtapkg")
    return str(caught.value)


def test_the_same_contents_are_the_same_bytes() -> None:
    assert package_to_bytes(tiny_package()) == DATA


def test_what_is_read_is_what_was_written(tmp_path: Path) -> None:
    write_package(tiny_package(), tmp_path / "p.vtapkg")
    assert [file.name for file in tmp_path.iterdir()] == ["p.vtapkg"]
    package = read_package(tmp_path / "p.vtapkg")
    assert package == tiny_package()
    assert package_to_bytes(package) == DATA


def test_a_constant_is_stored_once() -> None:
    with zipfile.ZipFile(io.BytesIO(DATA)) as archive:
        assert len([name for name in archive.namelist() if name.startswith("blobs/")]) == 3
        assert all(info.compress_type == zipfile.ZIP_STORED for info in archive.infolist())


@given(st.integers(0, len(DATA) - 1), st.integers(0, 7))
def test_a_flipped_bit_anywhere_is_one_error(place: int, bit: int) -> None:
    damaged = bytearray(DATA)
    damaged[place] ^= 1 << bit
    with pytest.raises(CompileError) as caught:
        package_from_bytes(bytes(damaged), "p.vtapkg")
    assert len(caught.value.problems) == 1
    assert "p.vtapkg: is " in str(caught.value)


@given(st.integers(0, len(DATA) - 1))
def test_a_truncated_package_is_one_error(length: int) -> None:
    assert "is not a vtac package" in refusal(DATA[:length])


def test_other_files_are_refused(tmp_path: Path) -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("manifest.json", "{}")
    assert "is not a vtac package" in refusal(stream.getvalue())
    with pytest.raises(CompileError, match="cannot read it: No such file"):
        read_package(tmp_path / "none.vtapkg")


def test_versions_and_fields_it_does_not_know_are_refused() -> None:
    assert "format version 6; this vtac reads versions 1, 2, 3, 4, 5" in refusal(
        changed_manifest(lambda m: m.update(version=6))
    )
    assert "unknown fields: colour" in refusal(changed_manifest(lambda m: m.update(colour=1)))
    assert "unknown fields: size" in refusal(
        changed_manifest(lambda m: m["values"][0].update(size=1))
    )
    assert "lacks the fields: steps" in refusal(changed_manifest(lambda m: m.pop("steps")))
    assert "steps[0].kind: must be of type str" in refusal(
        changed_manifest(lambda m: m["steps"][0].update(kind=1))
    )
    assert "shape[1]: must be of type int" in refusal(
        changed_manifest(lambda m: m["values"][0].update(shape=[1, True]))
    )


def test_files_are_those_of_the_manifest() -> None:
    files = unpack_files(DATA, "p")
    assert "contains files it does not name: other" in refusal(pack_files({**files, "other": b""}))
    del files["host/host_0.onnx"]
    assert "lacks the files host/host_0.onnx" in refusal(pack_files(files))
    with_dots = changed_manifest(lambda m: m["host_parts"].append("../../x"))
    assert "lacks the files host/../../x.onnx" in refusal(with_dots)


def test_an_impossible_machine_is_refused() -> None:
    assert "unknown target preset" in refusal(
        changed_manifest(lambda m: m["target"].update(preset="pink"))
    )
    assert "its target is impossible" in refusal(
        changed_manifest(lambda m: m["target"].update(log_inp_width=4))
    )


def test_the_plan_must_hold_together() -> None:
    assert "reads 'y' before it is made" in refusal(changed_manifest(lambda m: m["steps"].pop(1)))
    assert "which is not there" in refusal(
        changed_manifest(lambda m: m["steps"][0].update(part="host_7"))
    )
    assert "lives from step" in refusal(changed_manifest(lambda m: m["values"][1].update(last=0)))
    assert "output 'result' is never made" in refusal(
        changed_manifest(lambda m: m["outputs"][0].update(value="z"))
    )
    assert "needs the engine 'os'" in refusal(
        changed_manifest(lambda m: m["functions"][0].update(codegen="os"))
    )


def buffers(manifest: Any) -> Any:
    return manifest["functions"][0]["metadata"]["buffers"]


@pytest.mark.parametrize(
    ("buffer", "change", "message"),
    [
        (1, {"size": 8}, "leaves buffer 'x'"),
        (1, {"size": 32}, "has not the size of value 'x'"),
        (1, {"alignment": 3}, "impossible size or alignment"),
        (1, {"alignment": 8}, "not aligned to the elements of instruction 1"),
        (1, {"index": 1}, "not numbered 0, 1, ..."),
        (1, {"kind": "output", "index": 1}, "buffers of kind input for 1 values"),
        (1, {"kind": "attic"}, "unknown kind 'attic'"),
        (1, {"instructions": [[]]}, "relocations are not its transfers"),
        (1, {"instructions": [[0]]}, "relocations are not its transfers"),
        (1, {"instructions": [[1], []]}, "1 and 2 streams of instructions, not 1"),
        (1, {"live": [0, 1]}, "of kind input has a place or a lifetime"),
        (1, {"live": [0]}, "no first and last step"),
        (1, {"place": {"scope": "dram", "offset": 0}}, "of kind input has a place"),
        (2, {"size": 128}, "has not the size of its constant"),
        (2, {"blob": "0" * 64}, "has not the size of its constant"),
        (2, {"blob": None}, "has data, or lacks it"),
        (3, {"kind": "input", "index": 1}, "writes the input 'y'"),
    ],
)
def test_programs_stay_in_their_buffers(buffer: int, change: dict[str, Any], message: str) -> None:
    assert message in refusal(changed_manifest(lambda m: buffers(m)[buffer].update(change)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"live": [2, 1]}, "lives from step 2 to 1"),
        ({"place": {"scope": "dram", "offset": 3}}, "cannot lie at byte 3 of 'dram'"),
        ({"place": {"scope": "elsewhere", "offset": 0}}, "cannot lie at byte 0 of 'elsewhere'"),
    ],
)
def test_scratch_has_a_possible_place(change: dict[str, Any], message: str) -> None:
    scratch = {"name": "s", "kind": "scratch", "index": None, "instructions": [[]], "live": None}

    def add(manifest: Any) -> None:
        buffers(manifest).append({**buffers(manifest)[1], **scratch, **change})

    assert message in refusal(changed_manifest(add))


def version_1() -> bytes:
    """The package as version 1 of the format had it: one stream, and no places."""
    files = unpack_files(DATA, "package")
    files["functions/vta_0/program.bin"] = files.pop("functions/vta_0/program.0.bin")
    manifest = json.loads(files["manifest.json"])
    manifest["version"] = 1
    without(manifest, 3)
    without(manifest, 4)
    (function,) = manifest["functions"]
    function["files"] = [name.replace("program.0", "program") for name in function["files"]]
    (function["metadata"]["instructions"],) = function["metadata"].pop("streams")
    for buffer in function["metadata"]["buffers"]:
        (buffer["instructions"],) = buffer["instructions"]
        del buffer["place"], buffer["live"]
    files["manifest.json"] = json.dumps(manifest).encode()
    return pack_files(files)


def without(manifest: Any, version: int) -> None:
    """Remove what a version of the format added to nodes."""
    for placement in manifest["placements"]:
        for name in NEW_IN_PLACEMENTS[version]:
            del placement[name]


def uncounted() -> Package:
    """The package as it is read from versions before 3."""
    package = tiny_package()
    placements = [
        dataclasses.replace(each, macs=0, macs_known=False) for each in package.placements
    ]
    return dataclasses.replace(package, placements=tuple(placements))


def test_packages_of_older_versions_are_read() -> None:
    """Nodes of these have no multiply-accumulates, or no neighbours."""
    assert package_from_bytes(version_1()) == uncounted()

    def version_2(manifest: Any) -> None:
        without(manifest, 3)
        version_3(manifest)
        manifest["version"] = 2

    def version_3(manifest: Any) -> None:
        without(manifest, 4)
        manifest["version"] = 3

    assert package_from_bytes(changed_manifest(version_2)) == uncounted()
    assert package_from_bytes(changed_manifest(version_3)) == tiny_package()
    assert "lacks the fields: macs" in refusal(changed_manifest(lambda m: without(m, 3)))
    assert "lacks the fields: after" in refusal(changed_manifest(lambda m: without(m, 4)))


def test_what_is_no_program_of_version_1_is_refused() -> None:
    files = unpack_files(version_1(), "package")
    manifest = json.loads(files["manifest.json"])
    del manifest["functions"][0]["metadata"]["instructions"]
    files["manifest.json"] = json.dumps(manifest).encode()
    assert "its metadata are not those of a program" in refusal(pack_files(files))


def test_words_that_mean_nothing_are_refused() -> None:
    files = unpack_files(DATA, "p")
    name = "functions/vta_0/program.0.bin"
    files[name] = b"\xff" * len(files[name])
    assert "unknown opcode" in refusal(pack_files(files))
    files[name] = files[name][:-1]
    assert "not those of a program" in refusal(pack_files(files))


def test_constants_are_what_they_say() -> None:
    files = unpack_files(DATA, "p")
    blob = next(name for name in files if name.startswith("blobs/"))
    files[blob] = b"\0" * len(files[blob])
    assert "is not what it says" in refusal(pack_files(files))


def test_ir_of_levels_is_kept() -> None:
    package: Package = dataclasses.replace(tiny_package(), ir={"graph": "a\n", "vta": "b\n"})
    assert package_from_bytes(package_to_bytes(package)).ir == {"graph": "a\n", "vta": "b\n"}


def test_records_of_tuning_are_listed_where_there_are_any() -> None:
    record = TuningRecord(("conv", "conv again"), "0123456789ab", "tiles/1", 4711)
    tuned = dataclasses.replace(tiny_package(), tuning=(record,))
    files = to_files(tuned)
    assert json.loads(files["manifest.json"])["version"] == 5
    assert package_from_bytes(package_to_bytes(tuned)) == tuned
    plain = json.loads(to_files(tiny_package())["manifest.json"])
    assert plain["version"] == 4 and "tuning" not in plain
    assert "manifest.json" in refusal(changed_manifest(lambda m: m.update(tuning=[1])))
