"""What ``--save-ir`` writes can be taken up at every level, and ends in the same words."""

from collections.abc import Callable
from pathlib import Path
from typing import get_type_hints

import numpy as np
import onnx
import pytest
from digits_model import MODEL, images
from onnx import helper
from small_models import context, floats, small_model
from trained_models import SHARED, model_path, samples_and_inputs

import vtac
from vtac.tools.commands import vta_compile, vta_opt, vta_translate
from vtac.tools.commands.positions import Positions, parse_module
from vtac.tools.driver.observations import Observed
from vtac.tools.driver.options import CompileKeywords, CompileOptions
from vtac.tools.driver.planner import main_function
from vtac.tools.files.ir_files import load_observations_beside, load_resources_beside
from vtac.tools.files.program_files import read_program

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
        helper.make_node("Sin", ["a"], ["c"], "sin"),
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
        fast = ["--disable-verify"] if SHARED in model.parents else []
        vta_opt.main([str(file), "-p", passes, "-o", str(again / "vta.mlir"), *fast])
        for name in names:
            encode = ["--encode", str(again / "vta.mlir"), "--function", name]
            vta_translate.main([*encode, "-o", str(again / f"{name}.npz")])
        assert programs_of(again, names) == expected, f"from {level} on"


def _programs(file: Path) -> list[str]:
    return [line for line in file.read_text().splitlines() if "vta.program @" in line]


def test_the_default_pipeline_is_taken_up_by_the_name_of_a_level(tmp_path: Path) -> None:
    model, samples, _ = digits(tmp_path)
    package, folder = tmp_path / "m.vtapkg", tmp_path / "ir"
    arguments = [str(model), "--calibrate", str(samples), "-o", str(package)]
    vta_compile.main([*arguments, "--save-ir", str(folder)])
    expected = programs_of(package, ["vta_0"])
    text = str(tmp_path / "vta.mlir")
    start = [str(folder / "1_canonical.mlir"), "--from", "canonical", "--calibrate", str(samples)]
    vta_opt.main([*start, "--to", "calibrated", "-o", text])
    vta_opt.main([text, "--from", "calibrated", "--to", "graph", "-o", text])
    assert not Path(f"{text}.observations.npz").exists(), "those of another level are removed"
    vta_opt.main([text, "--from", "graph", "-o", text])
    vta_translate.main(["--encode", text, "-o", str(tmp_path / "vta_0.npz")])
    assert programs_of(tmp_path, ["vta_0"]) == expected


@pytest.fixture
def calibrated(tmp_path: Path) -> Path:
    model, samples, _ = digits(tmp_path)
    text = tmp_path / "calibrated.mlir"
    shape = ["--shape", "image=1,1,8,8"]
    vta_translate.main(["--import-onnx", str(model), *shape, "-o", str(tmp_path / "i.mlir")])
    vta_opt.main([str(tmp_path / "i.mlir"), "--to", "calibrated", "--calibrate", str(samples),
                  "--target", "pynq", "-o", str(text)])  # fmt: skip
    return text


def test_observations_are_read_as_they_were_written(calibrated: Path) -> None:
    ctx = context()
    module = parse_module(ctx, calibrated.read_text(), Positions("m"))
    load_resources_beside(ctx, calibrated)
    load_observations_beside(ctx, calibrated, module)
    first = ctx.observations
    assert isinstance(first, Observed) and len(first.batches) == 16
    seen = 0
    for op in main_function(module).body.block.ops:
        for value in op.results:
            if first.mean(value) is not None:
                mean, power, largest = first.mean(value), first.power(value), first.largest(value)
                assert power is not None and largest is not None and mean is not None
                assert (np.square(mean) <= power * (1 + 1e-6) + 1e-12).all()
                assert (np.abs(mean) <= largest + 1e-6).all()
                seen += 1
    assert seen >= 8
    first.save(calibrated.with_name("again.npz"))
    again = Observed.load(calibrated.with_name("again.npz"), module, main_function(module), ctx)
    for mine, theirs in zip(first.batches, again.batches, strict=True):
        assert all((a == b).all() for a, b in zip(mine, theirs, strict=True))
    for name in ("means", "powers", "maxima"):
        mine, theirs = getattr(first, name), getattr(again, name)
        assert set(mine) == set(theirs)
        assert all((mine[key] == theirs[key]).all() for key in mine)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda arrays: arrays.pop("format"), "in format 1"),
        (lambda arrays: arrays.update(format=np.array(2)), "in format 1"),
        (lambda arrays: arrays.pop("input/image"), "has the inputs none, the module image"),
        (lambda arrays: arrays.clear(), "in format 1"),
    ],
)
def test_files_of_other_observations_are_refused(
    calibrated: Path,
    change: Callable[[dict[str, np.ndarray]], object],
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = Path(f"{calibrated}.observations.npz")
    with np.load(file) as archive:
        arrays = dict(archive)
    change(arrays)
    np.savez(file, **arrays)
    with pytest.raises(SystemExit):
        vta_opt.main([str(calibrated), "--from", "calibrated"])
    assert message in capsys.readouterr().err
    file.write_bytes(b"no archive")
    with pytest.raises(SystemExit):
        vta_opt.main([str(calibrated), "--from", "calibrated"])
    assert "is no file of observations" in capsys.readouterr().err


def test_lost_observations_are_missed(calibrated: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [str(calibrated), "--from", "calibrated", "--to", "quantised"]
    vta_opt.main([*arguments, "-o", str(calibrated.with_name("with.mlir"))])
    assert "observations" not in capsys.readouterr().err
    Path(f"{calibrated}.observations.npz").unlink()
    vta_opt.main([*arguments, "-o", str(calibrated.with_name("without.mlir"))])
    assert "note: the observations of this network are not beside it" in capsys.readouterr().err
    texts = [calibrated.with_name(f"{name}.mlir").read_text() for name in ("with", "without")]
    assert texts[0] != texts[1], "observations matter"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--from", "vta", "--to", "te"], "no level 'te'"),
        (["--from", "tea"], "no level 'tea'"),
        (["--from", "te", "-p", "canonicalize-graph"], "instead of --passes"),
        (["--calibrate", str(MODEL)], "belongs to the default pipeline"),
        (["-p", "calibrate"], "there are no samples"),
        (["-p", "calibrate{samples=absent}"], "no such file of samples"),
        (["-p", 'calibrate{samples="x.npz" method=guess}'], "method"),
    ],
)
def test_parts_of_the_pipeline_that_make_no_sense(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        vta_opt.main([str(MODEL), *arguments])
    assert message in capsys.readouterr().err


def test_options_are_the_same_as_keywords_and_as_an_object() -> None:
    hints = get_type_hints(CompileKeywords)
    assert hints == get_type_hints(CompileOptions)
    samples = images()[:4]
    one = vtac.compile(MODEL, "pynq", samples, shift="block", keep_ir=["vta"])
    two = vtac.compile(MODEL, "pynq", samples, CompileOptions(shift="block", keep_ir=["vta"]))
    assert one.package.ir == two.package.ir
    with pytest.raises(TypeError, match=r"no option 'shfit' .did you mean shift"):
        vtac.compile(MODEL, shfit="block")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="not both"):
        vtac.compile(MODEL, options=CompileOptions(), shift="block")
    with pytest.raises(vtac.CompileError, match=r"(?s)option shift.*option method.*percentile"):
        CompileOptions(shift="both", method="guess", percentile=0)  # type: ignore[arg-type]


def test_recorded_schedules_are_those_of_the_compilation(tmp_path: Path) -> None:
    """Whether those that come with vtac are used or none at all."""
    model, samples, _ = digits(tmp_path)
    found = []
    for number, options in enumerate((["--no-tuning"], [])):
        package, folder = tmp_path / f"{number}.vtapkg", tmp_path / f"ir{number}"
        arguments = [str(model), "--calibrate", str(samples), "-o", str(package), *options]
        vta_compile.main([*arguments, "--save-ir", str(folder)])
        expected = programs_of(package, ["vta_0"])
        (graph,) = folder.glob("*_graph.mlir")
        again = tmp_path / f"again{number}"
        again.mkdir()
        vta_opt.main([str(graph), "--from", "graph", *options, "-o", str(again / "vta.mlir")])
        vta_translate.main(["--encode", str(again / "vta.mlir"), "-o", str(again / "vta_0.npz")])
        assert programs_of(again, ["vta_0"]) == expected
        found.append(expected)
    assert found[0] != found[1], "records come with vtac for this network"
