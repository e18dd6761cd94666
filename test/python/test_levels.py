"""What ``--save-ir`` writes can be taken up at every level, and ends in the same words."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from digits_model import MODEL, images
from onnx import helper
from small_models import floats, small_model
from trained_models import SHARED, model_path, samples_and_inputs

from vtac.tools import vta_compile, vta_opt, vta_translate
from vtac.tools.program_files import read_program

LEVELS = ("imported", "canonical", "calibrated", "quantised", "graph", "te", "loops", "vta")

Case = tuple[Path, Path | None, list[str]]
"""A model, a file of samples if it needs any, and options of vta-compile."""


def digits(folder: Path) -> Case:
    np.savez(folder / "x.npz", image=images()[:16])
    return MODEL, folder / "x.npz", []


def branches(folder: Path) -> Case:
    """An operator that stays on the host between two programs, a batch of two, outliers."""
    weights = {"w": floats((8, 4, 3, 3), 1), "v": floats((5, 8, 3, 3), 2), "b": floats((5,), 3)}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], "first", pads=[1, 1, 1, 1]),
        helper.make_node("Erf", ["a"], ["c"], "erf"),
        helper.make_node("Conv", ["c", "v", "b"], ["d"], "second"),
        helper.make_node("Relu", ["d"], ["y"], "relu"),
    ]
    onnx.save(small_model(nodes, {"x": [2, 4, 8, 8]}, ["y"], weights), folder / "m.onnx")
    samples = floats((7, 4, 8, 8), 4)
    samples[3] *= 50
    np.savez(folder / "x.npz", x=samples)
    options = ["--target", "sim", "--method", "percentile", "--percentile", "99"]
    return folder / "m.onnx", folder / "x.npz", [*options, "--host-model", "none"]


def transposed(folder: Path) -> Case:
    """A transposed convolution, whose shifts are shared by blocks, and layers kept on the host."""
    weights = {"w": floats((8, 20, 2, 2), 1), "v": floats((4, 20, 1, 1), 2)}
    nodes = [
        helper.make_node("ConvTranspose", ["x", "w"], ["a"], "up", strides=[2, 2]),
        helper.make_node("Relu", ["a"], ["b"], "relu"),
        helper.make_node("MaxPool", ["b"], ["c"], "pool", kernel_shape=[2, 2]),
        helper.make_node("Conv", ["c", "v"], ["y"], "last"),
    ]
    onnx.save(small_model(nodes, {"x": [1, 8, 5, 5]}, ["y"], weights), folder / "m.onnx")
    np.savez(folder / "x.npz", x=floats((9, 8, 5, 5), 4))
    options = ["--target", "chisel-pynq", "--shift", "block", "--requantise", "exact"]
    return folder / "m.onnx", folder / "x.npz", [*options, "--min-layer-snr", "1"]


def shared(name: str) -> Callable[[Path], Case]:
    def case(folder: Path) -> Case:
        if not SHARED.exists():
            pytest.skip("needs ../shared")
        if name.endswith("qdq"):
            return model_path(name), None, ["--shape", "input_1=1,49,10,1"]
        np.save(folder / "x.npy", samples_and_inputs(name)[0][:8])
        return model_path(name), folder / "x.npy", []

    case.__name__ = name
    return case


CASES = (digits, branches, transposed, shared("mnist8"), shared("mlperf_kws_qdq"))


def programs_of(path: Path, names: list[str]) -> list[tuple[object, ...]]:
    """The words of programs, their buffers, and the bytes of their constants.

    Buffers are told by their place: constants are named after what was loaded before them.
    """
    found: list[tuple[object, ...]] = []
    for name in names:
        program, resources = read_program(
            path / f"{name}.npz" if path.is_dir() else path, None, name
        )
        buffers = [
            (
                buffer.kind,
                buffer.size,
                buffer.data if buffer.resource is None else resources[buffer.resource[0]].tobytes(),
            )
            for buffer in program.buffers
        ]
        places = [buffer.name for buffer in program.buffers]
        relocations = [(index, places.index(name)) for index, name in program.relocations]
        found.append((program.insns.tolist(), relocations, buffers))
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_each_level_ends_in_the_same_words(
    case: Callable[[Path], Case], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, samples, options = case(tmp_path)
    calibrate = [] if samples is None else ["--calibrate", str(samples)]
    package, folder = tmp_path / "m.vtapkg", tmp_path / "ir"
    arguments = [str(model), *options, *calibrate]
    vta_compile.main([*arguments, "-o", str(package), "--save-ir", str(folder)])
    files = {file.stem.partition("_")[2]: file for file in folder.glob("*.mlir")}
    assert set(files) == set(LEVELS) - (set() if samples else {"calibrated"})
    words = {f.stem for f in folder.glob("*.observations.npz")}
    assert {word.partition("_")[2] for word in words} == (
        {"calibrated.mlir.observations"} if samples else set()
    )
    names = [line.split("@")[1].split(" ")[0] for line in _programs(files["vta"])]
    assert names
    expected = programs_of(package, names)
    for level, file in files.items():
        capsys.readouterr()
        given = calibrate if level in ("imported", "canonical") else []
        vta_compile.main([*options, *given, "--print-pipeline", "--from", level])
        passes = capsys.readouterr().out.strip()
        again = tmp_path / f"from_{level}"
        again.mkdir()
        vta_opt.main([str(file), "-p", passes, "-o", str(again / "vta.mlir")])
        for name in names:
            encode = ["--encode", str(again / "vta.mlir"), "--function", name]
            vta_translate.main([*encode, "-o", str(again / f"{name}.npz")])
        assert programs_of(again, names) == expected, f"from {level} on"


def _programs(file: Path) -> list[str]:
    return [line for line in file.read_text().splitlines() if "vta.program @" in line]
