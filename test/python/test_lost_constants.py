"""Large constants that are not beside the text: printed text and whoever reads it say so."""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from digits_model import MODEL, save_images

from vtac.tools.commands import vta_compile, vta_opt, vta_sim, vta_translate

Main = Callable[[Sequence[str]], None]


@pytest.fixture(scope="module")
def levels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The IR of every level, with its constants, and the same without them, in ``bare``."""
    folder = tmp_path_factory.mktemp("levels")
    samples = save_images(folder / "samples.npz", 4)
    vta_compile.main([str(MODEL), "--calibrate", str(samples), "--save-ir", str(folder / "ir")])
    (folder / "bare").mkdir()
    for file in (folder / "ir").glob("*.mlir"):
        shutil.copy(file, folder / "bare" / file.name)
    return folder


LEVELS = ("0_imported", "1_canonical", "2_calibrated", "3_quantised", "4_graph", "5_te", "7_vta")


@pytest.mark.parametrize("level", LEVELS)
def test_text_without_its_constants(
    level: str, levels: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = levels / "bare" / f"{level}.mlir"
    vta_opt.main([str(levels / "ir" / f"{level}.mlir")])
    assert "large constants, which are not in it: -o FILE.mlir" in capsys.readouterr().err
    for more in ([], ["-o", str(tmp_path / "out.mlir")]):
        vta_opt.main([str(file), *more])
        assert "large constants are not at hand" in capsys.readouterr().err
    assert not (tmp_path / "out.mlir.npz").exists()
    start = level.partition("_")[2]
    if start != "vta":  # its instructions need no weights
        with pytest.raises(SystemExit):
            vta_opt.main([str(file), "--from", start, "-o", str(tmp_path / "end.mlir")])
        said = capsys.readouterr().err
        assert "its bytes are not loaded" in said and "FILE.mlir.npz" in said
        assert not (tmp_path / "end.mlir").exists()


@pytest.mark.parametrize(
    ("main", "args"),
    [
        (vta_translate.main, ["--encode", "{}", "--function", "vta_0", "-o", "p.npz"]),
        (vta_sim.main, ["{}", "--check"]),
    ],
)
def test_programs_without_their_constants(
    main: Main,
    args: list[str],
    levels: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    main([arg.format(levels / "ir/7_vta.mlir") for arg in args])
    (tmp_path / "p.npz").unlink(missing_ok=True)
    capsys.readouterr()
    with pytest.raises(SystemExit):
        main([arg.format(levels / "bare/7_vta.mlir") for arg in args])
    assert "its bytes are not loaded" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_the_constants_of_all_parts_are_written(levels: Path, tmp_path: Path) -> None:
    texts, arrays = [], {}
    for level in ("1_canonical", "3_quantised"):
        file = levels / "ir" / f"{level}.mlir"
        texts.append(file.read_text())
        with np.load(f"{file}.npz") as stored:
            arrays |= dict(stored)
    (tmp_path / "all.mlir").write_text("// -----\n".join(texts))
    np.savez(tmp_path / "all.mlir.npz", **arrays)
    vta_opt.main([str(tmp_path / "all.mlir"), "--split-input-file", "-o", str(tmp_path / "o.mlir")])
    with np.load(tmp_path / "o.mlir.npz") as written:
        assert set(written.files) == set(arrays)


@pytest.mark.parametrize("content", [b"", b"text", b"PK\x03\x04", b"\x93NUMPY"])
def test_what_is_no_file_of_constants(
    content: bytes, levels: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(levels / "bare/1_canonical.mlir", tmp_path / "m.mlir")
    (tmp_path / "m.mlir.npz").write_bytes(content)
    with pytest.raises(SystemExit):
        vta_opt.main([str(tmp_path / "m.mlir")])
    said = capsys.readouterr().err
    assert "m.mlir.npz: cannot be read" in said and "pickle" not in said


def test_printed_levels_say_what_is_not_in_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    samples = str(save_images(tmp_path / "samples.npz", 4))
    vta_compile.main([str(MODEL), "--calibrate", samples, "--emit", "graph"])
    assert "large constants, which are not in it: --save-ir DIR" in capsys.readouterr().err
