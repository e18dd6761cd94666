"""The commands, in this process: what they write, what they print, how they fail."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from digits_model import MODEL, images, save_images
from onnx import TensorProto, helper

from vtac.tools.commands import vta_compile, vta_run, vta_translate
from vtac.tools.driver.discovery import _pass_in_its_file, our_passes

Main = Callable[[Sequence[str]], None]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("digits")
    samples = save_images(folder / "samples.npz", 32)
    path = folder / "digits.vtapkg"
    vta_compile.main([str(MODEL), "-o", str(path), "--calibrate", str(samples)])
    return path


class Failure:
    """Runs a command that must fail: exit status 1, something said, and no traceback."""

    def __init__(self, capsys: pytest.CaptureFixture[str]):
        self._capsys = capsys

    def __call__(self, main: Main, *args: str | Path) -> str:
        self._capsys.readouterr()
        with pytest.raises(SystemExit) as stopped:
            main([str(arg) for arg in args])
        assert stopped.value.code == 1
        said = self._capsys.readouterr()
        assert "Traceback" not in said.err
        assert said.err.count(": error: ") == 1, said.err
        return said.err


@pytest.fixture
def failure(capsys: pytest.CaptureFixture[str]) -> Failure:
    return Failure(capsys)


def test_compile_says_what_it_did(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    samples = save_images(tmp_path / "samples.npz", 8)
    out = tmp_path / "out.vtapkg"
    vta_compile.main(
        [str(MODEL), "-o", str(out), "--calibrate", str(samples), "--explain", "--target", "sim"]
    )
    said = capsys.readouterr()
    assert "what runs where" in said.out
    assert "vta_0" in said.out
    assert "chosen by cost" in said.out and "product, " in said.out
    assert "nodes on the accelerator in 1 program of" in said.out.replace("\n", " ")
    assert "note: input 'image' has shape [1, 1, 8, 8]" in said.err
    assert sorted(file.name for file in tmp_path.iterdir()) == ["out.vtapkg", "samples.npz"]


@pytest.mark.parametrize(
    ("level", "text"), [("imported", "graph.conv"), ("te", "te.kernel"), ("vta", "vta.finish")]
)
def test_a_level_is_printed(
    level: str, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    samples = save_images(tmp_path / "samples.npz", 4)
    vta_compile.main([str(MODEL), "--emit", level, "--calibrate", str(samples)])
    printed = capsys.readouterr().out
    assert printed.startswith("builtin.module") and text in printed


def test_run_writes_outputs_and_compares(
    package: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(tmp_path / "x.npy", images()[32:42])
    vta_run.main(
        [
            *(str(package), "--input", str(tmp_path / "x.npy"), "-o", str(tmp_path / "y.npz")),
            *("--compare-onnxruntime", str(MODEL), "--dump-programs", str(tmp_path / "d")),
        ]
    )
    said = capsys.readouterr().out
    assert "against onnxruntime" in said and "GEMM micro-ops" in said
    with np.load(tmp_path / "y.npz") as outputs:
        assert outputs["logits"].shape == (10, 10)
    assert [file.name for file in (tmp_path / "d").iterdir()] == ["000_vta_0.npz"]


def test_a_package_is_evaluated(
    package: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez(tmp_path / "d.npz", x=images()[32:40], y=np.zeros(8, np.uint8))
    args = [str(package), "--evaluate", str(tmp_path / "d.npz"), "--reference", str(MODEL)]
    vta_run.main(args)
    said = capsys.readouterr().out
    for text in ("against onnxruntime, 8 samples", "top-1 compiled", "signal to noise", " dB"):
        assert text in said
    vta_run.main([*args, "--json", "--limit", "3"])
    found = json.loads(capsys.readouterr().out)["evaluation"]
    assert found["samples"] == 3 and found["outputs"][0]["snr_db"] > 20


def test_accuracy_is_measured_and_kept_when_compiling(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    samples = save_images(tmp_path / "samples.npz", 4)
    args = [str(MODEL), "--calibrate", str(samples), "--keep-float", "second"]
    args += ["--evaluate", str(samples), "--layer-errors", "--explain", "--json"]
    vta_compile.main(args)
    said = capsys.readouterr()
    found = json.loads(said.out)
    assert found["evaluation"]["samples"] == 4
    layers = {layer["node"]: layer for layer in found["layer_errors"]}
    assert set(layers) == {"first", "third", "logits"}
    assert all(layer["own_snr_db"] > 20 for layer in layers.values())
    assert "kept by the user" in said.err


def test_samples_are_regrouped_and_what_filled_the_last_batch_is_dropped(tmp_path: Path) -> None:
    samples = save_images(tmp_path / "samples.npz", 10)
    package = tmp_path / "batch.vtapkg"
    vta_compile.main(
        [
            *(str(MODEL), "-o", str(package), "--calibrate", str(samples)),
            *("--shape", "image=4,1,8,8"),
        ]
    )
    for options, rows in (([], 10), (["--limit", "1"], 4)):
        out = tmp_path / f"{rows}.npz"
        vta_run.main([str(package), "--input", str(samples), "-o", str(out), *options])
        with np.load(out) as outputs:
            assert outputs["logits"].shape == (rows, 10)


def test_programs_of_a_package_are_decoded(
    package: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    vta_translate.main(["--decode", str(package), "-o", str(tmp_path / "p.mlir")])
    vta_translate.main(["--encode", str(tmp_path / "p.mlir"), "-o", str(tmp_path / "p.npz")])
    vta_translate.main(["--decode", str(tmp_path / "p.npz"), "-o", str(tmp_path / "q.mlir")])
    assert (tmp_path / "p.mlir").read_text() == (tmp_path / "q.mlir").read_text()
    vta_translate.main(["--disassemble", str(package)])
    assert "GEMM reset" in capsys.readouterr().out


def test_files_that_are_no_models(tmp_path: Path, failure: Failure) -> None:
    out = tmp_path / "out.vtapkg"
    data = MODEL.read_bytes()
    (tmp_path / "half.onnx").write_bytes(data[: len(data) // 2])
    (tmp_path / "empty.onnx").write_bytes(b"")
    (tmp_path / "text.onnx").write_text("This is a text about models.")
    assert "No such file" in failure(vta_compile.main, tmp_path / "none.onnx", "-o", out)
    assert "truncated" in failure(vta_compile.main, tmp_path / "half.onnx", "-o", out)
    assert "no graph" in failure(vta_compile.main, tmp_path / "empty.onnx", "-o", out)
    assert "not an ONNX model" in failure(vta_compile.main, tmp_path / "text.onnx", "-o", out)
    assert not out.exists()


def test_operators_of_unknown_domains(tmp_path: Path, failure: Failure) -> None:
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Foo", ["x"], ["y"], domain="my.own", name="foo")],
        "g",
        [value("x", TensorProto.FLOAT, [2])],
        [value("y", TensorProto.FLOAT, [2])],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("my.own", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / "m.onnx")
    said = failure(vta_compile.main, tmp_path / "m.onnx", "-o", tmp_path / "out.vtapkg")
    assert "my.own" in said and "Foo" in said


def test_arguments_that_make_no_sense(tmp_path: Path, failure: Failure) -> None:
    out = tmp_path / "out.vtapkg"
    samples = save_images(tmp_path / "samples.npz", 4)
    np.savez(tmp_path / "other.npz", picture=images()[:4])
    (tmp_path / "text.npy").write_text("no array")
    cases: list[tuple[list[str | Path], str]] = [
        (["--calibrate", tmp_path / "none.npz"], "none.npz"),
        (["--calibrate", tmp_path / "text.npy"], "text.npy"),
        (["--target", "pink"], "neither a target preset"),
        (["--calibrate", samples, "--percentile", "101"], "101.0 is no percentage above 0"),
        (["--shift", "both"], "invalid choice: 'both'"),
        (["--shape", "image=a"], "--shape image=a"),
        (["--calibrate", samples, "--shape", "image=1,1,9,9"], "image"),
    ]
    for args, message in cases:
        assert message in failure(vta_compile.main, MODEL, "-o", out, *args)
    assert "which model" in failure(vta_compile.main)
    for option, number in (("--limit", "0"), ("--max-ops", "0"), ("--min-macs", "-1")):
        assert "is less than" in failure(vta_compile.main, MODEL, f"{option}={number}")
    (tmp_path / "text.npz").write_text("no archive")
    said = failure(vta_compile.main, MODEL, "--calibrate", tmp_path / "text.npz")
    assert "neither an .npy nor an .npz" in said and "pickle" not in said
    assert "absent.vtapkg" in failure(vta_run.main, tmp_path / "absent.vtapkg")
    zeros = tmp_path / "zeros.npz"
    np.savez(zeros, image=np.zeros((4, 1, 8, 8), np.float32))
    said = failure(vta_compile.main, MODEL, "--calibrate", zeros, "-o", out, "--strict")
    assert "all samples of input 'image' are 0" in said and not out.exists()
    assert "--print-pipeline" in failure(vta_compile.main, MODEL, "--from", "te")
    assert "Levels: imported, canonical," in failure(vta_compile.main, MODEL, "--emit", "tea")
    cases = [
        (["--keep-float", "frist"], "has no node of that name (did you mean first?)"),
        (["--layer-errors"], "are measured where samples calibrate the network"),
    ]
    for args, message in cases:
        assert message in failure(vta_compile.main, MODEL, "-o", out, *args)
    assert not out.exists()


def test_outputs_that_cannot_be_written(tmp_path: Path, failure: Failure) -> None:
    samples = save_images(tmp_path / "samples.npz", 4)
    out = tmp_path / "no" / "such" / "folder.vtapkg"
    assert "cannot write it" in failure(vta_compile.main, MODEL, "-o", out, "--calibrate", samples)


def test_packages_and_inputs_that_do_not_fit(
    package: Path, tmp_path: Path, failure: Failure
) -> None:
    data = bytearray(package.read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "flipped.vtapkg").write_bytes(data)
    x = tmp_path / "x.npy"
    np.save(x, images()[:2])
    np.save(tmp_path / "wrong.npy", images()[:2, :, :7])
    assert "is damaged" in failure(vta_run.main, tmp_path / "flipped.vtapkg", "--input", x)
    assert "No such file" in failure(vta_run.main, tmp_path / "none.vtapkg", "--input", x)
    assert "not a vtac package" in failure(vta_run.main, MODEL, "--input", x)
    assert "none.npy: cannot read it" in failure(vta_run.main, package, "--input", "none.npy")
    for option in ("--input", "--evaluate"):
        assert "[1, 1, 8, 8]" in failure(vta_run.main, package, option, tmp_path / "wrong.npy")
    assert "nothing to compare with" in failure(vta_run.main, package, "--evaluate", x)
    both = ("--json", "--profile")
    assert "not for both" in failure(vta_run.main, package, "--evaluate", x, *both)


@pytest.mark.parametrize("name", our_passes())
def test_a_pass_is_found_by_the_name_of_its_file(name: str) -> None:
    assert _pass_in_its_file(name) is our_passes()[name]
