"""`vtac.InferenceSession` against onnxruntime's, and the folder of compiled models."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import helper, numpy_helper
from small_models import small_model

import vtac
from vtac.dialects.errors import CompileError
from vtac.dialects.target import Target
from vtac.tools.driver.compiled_cache import compilation_digest
from vtac.tools.driver.options import CompileOptions

SHAPE = [2, 8]


def dense(seed: int = 0) -> onnx.ModelProto:
    """A dense layer with a relu and its sum beside it, two outputs."""
    weights = np.random.default_rng(seed).normal(size=(8, 5)).astype(np.float32)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("Relu", ["m"], ["y"]),
        helper.make_node("Sin", ["m"], ["z"]),
    ]
    return small_model(nodes, {"x": SHAPE}, ["y", "z"], {"w": weights})


@pytest.fixture
def samples() -> np.ndarray[Any, Any]:
    return np.random.default_rng(1).normal(size=(20, 8)).astype(np.float32)


def test_a_session_looks_and_answers_like_onnxruntimes(samples: np.ndarray[Any, Any]) -> None:
    model = dense()
    ours = vtac.InferenceSession(model, calibration=samples, target="sim")
    theirs = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for mine, other in (
        (ours.get_inputs(), theirs.get_inputs()),
        (ours.get_outputs(), theirs.get_outputs()),
    ):
        assert [(a.name, a.type) for a in mine] == [(b.name, b.type) for b in other]
    assert [a.shape for a in ours.get_inputs()] == [b.shape for b in theirs.get_inputs()] == [SHAPE]
    assert ours.get_providers() == ["VtaExecutionProvider", "CPUExecutionProvider"]
    feed = {"x": samples[:2]}
    for names in (None, [], ["y"], ["z", "y"], ["y", "y"]):
        found, expected = ours.run(names, feed), theirs.run(names, feed)
        assert len(found) == len(expected)
        for a, b in zip(found, expected, strict=True):
            assert a.dtype == b.dtype and a.shape == b.shape
            assert np.abs(a - b).max() < 0.2
    with pytest.raises(CompileError, match=r"output 'q': the model has no such output\n.*y, z"):
        ours.run(["q", "y"], feed)


@pytest.mark.parametrize(
    ("names", "feed"),
    [
        (None, {}),
        (None, {"z": SHAPE}),
        (None, {"x": SHAPE, "z": SHAPE}),
        (["q"], {"x": SHAPE}),
        (["y", ""], {"x": SHAPE}),
        (None, {"x": (*SHAPE[1:], 1, 1)}),
        (None, {"x": (*SHAPE[:-1], SHAPE[-1] + 1)}),
        (None, {"x": ()}),
    ],
)
def test_wrong_names_and_shapes_raise_what_onnxruntime_raises(
    samples: np.ndarray[Any, Any], names: list[str] | None, feed: dict[str, Sequence[int]]
) -> None:
    model = dense()
    ours = vtac.InferenceSession(model, calibration=samples)
    theirs = ort.InferenceSession(model.SerializeToString())
    feeds = {name: np.ones(shape, np.float32) for name, shape in feed.items()}
    with pytest.raises(Exception, match=r".") as expected:
        theirs.run(names, feeds)
    with pytest.raises(expected.type) as found:
        ours.run(names, feeds)
    assert isinstance(found.value, CompileError | ValueError)


def test_without_the_accelerators_provider_all_runs_on_the_host() -> None:
    model, feed = dense(), {"x": np.ones(SHAPE, np.float32)}
    session = vtac.InferenceSession(model, providers=["CPUExecutionProvider"])
    assert session.get_providers() == ["CPUExecutionProvider"]
    reference = ort.InferenceSession(model.SerializeToString())
    for a, b in zip(session.run(None, feed), reference.run(None, feed), strict=True):
        np.testing.assert_array_equal(a, b)


def test_options_of_the_provider_are_those_of_compile(samples: np.ndarray[Any, Any]) -> None:
    options = {"target": "sim", "calibration": samples, "shift": "block"}
    for arguments in (
        {"providers": [("VtaExecutionProvider", options)]},
        {"providers": ["VtaExecutionProvider"], "provider_options": [options]},
    ):
        session = vtac.InferenceSession(dense(), **arguments)  # type: ignore[arg-type]
        assert session.module.target == Target.named("sim")
    with pytest.warns(UserWarning, match="no execution provider 'CUDAExecutionProvider' here"):
        vtac.InferenceSession(dense(), providers=["CUDAExecutionProvider", "CPUExecutionProvider"])
    with pytest.raises(TypeError, match="no option 'shifts'"):
        vtac.InferenceSession(dense(), calibration=samples, shifts="block")


def test_a_session_opens_models_and_packages(samples: np.ndarray[Any, Any], tmp_path: Path) -> None:
    onnx.save(dense(), tmp_path / "model.onnx")
    np.save(tmp_path / "samples.npy", samples)
    session = vtac.InferenceSession(
        str(tmp_path / "model.onnx"), calibration=tmp_path / "samples.npy"
    )
    session.module.save(tmp_path / "model.vtapkg")
    again = vtac.InferenceSession(tmp_path / "model.vtapkg")
    feed = {"x": samples[:2]}
    for a, b in zip(session.run(None, feed), again.run(None, feed), strict=True):
        np.testing.assert_array_equal(a, b)
    assert again.get_inputs() == session.get_inputs()


def test_a_model_is_compiled_once(
    samples: np.ndarray[Any, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = {"x": samples[:2]}
    folder = tmp_path / "a" / "cache"
    first = vtac.InferenceSession(dense(), calibration=samples, cache=folder)
    (entry,) = folder.iterdir()
    with monkeypatch.context() as patched:
        patched.setattr(
            "vtac.tools.driver.compiled_cache.compile_model", lambda *_: pytest.fail("again")
        )
        again = vtac.InferenceSession(dense(), calibration=samples, cache=folder)
    assert [y.tolist() for y in again.run(None, feed)] == [
        y.tolist() for y in first.run(None, feed)
    ]
    content = entry.read_bytes()
    entry.write_bytes(content[: len(content) // 2])
    vtac.InferenceSession(dense(), calibration=samples, cache=folder)
    assert entry.read_bytes() == content


def test_whatever_decides_what_is_compiled_changes_the_digest(
    samples: np.ndarray[Any, Any], tmp_path: Path
) -> None:
    path = tmp_path / "model.onnx"
    weights = tmp_path / "w.bin"
    model = dense()
    onnx.save(model, path, save_as_external_data=True, location=weights.name, size_threshold=0)
    machine, plain = Target.named("pynq"), CompileOptions()
    base = compilation_digest(path, machine, samples, plain)
    assert base == compilation_digest(path, machine, samples.copy(), CompileOptions())
    assert base == compilation_digest(path, machine, samples, CompileOptions(progress=print))
    other = samples.copy()
    other[3, 3] += 1
    digests = [
        base,
        compilation_digest(path, Target.named("sim"), samples, plain),
        compilation_digest(path, machine, other, plain),
        compilation_digest(path, machine, {"x": samples}, plain),
        compilation_digest(path, machine, None, plain),
        compilation_digest(path, machine, samples, CompileOptions(percentile=99.0)),
        compilation_digest(path, machine, samples, CompileOptions(keep_float=["n"])),
        compilation_digest(path, machine, samples, CompileOptions(shapes={"x": (2, 8)})),
        compilation_digest(path, machine, samples, CompileOptions(criteria=vtac.Criteria(3))),
        compilation_digest(model, machine, samples, plain),
        compilation_digest(dense(1), machine, samples, plain),
    ]
    content = bytearray(weights.read_bytes())
    content[0] ^= 1
    weights.write_bytes(content)
    digests.append(compilation_digest(path, machine, samples, plain))
    assert len(set(digests)) == len(digests)


def test_options_that_ask_for_more_than_a_package_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CompileError) as refused:
        vtac.InferenceSession(
            dense(), cache=tmp_path / "cache", layer_errors=True, pipeline=lambda found: found
        )
    assert [problem.where for problem in refused.value.problems] == [
        "option layer_errors",
        "option pipeline",
    ]
    assert not (tmp_path / "cache").exists()


PROGRAM = """
import sys, warnings
import numpy as np
import vtac
samples = np.random.default_rng(1).normal(size=(20, 8)).astype(np.float32)
vtac.compile(sys.argv[1], "sim", samples).save(sys.argv[2])
"""


def test_packages_are_the_same_in_every_process(tmp_path: Path) -> None:
    """The same input gives the same bytes, whatever the seed of Python's hashes."""
    onnx.save(dense(), tmp_path / "model.onnx")
    for seed in ("1", "2"):
        subprocess.run(
            [sys.executable, "-c", PROGRAM, tmp_path / "model.onnx", tmp_path / f"{seed}.vtapkg"],
            env={"PYTHONHASHSEED": seed, "PATH": ""},
            check=True,
        )
    assert (tmp_path / "1.vtapkg").read_bytes() == (tmp_path / "2.vtapkg").read_bytes()


def test_weights_stay_as_they_are() -> None:
    """A session leaves the model that it is given unchanged."""
    model = dense()
    before = model.SerializeToString(deterministic=True)
    vtac.InferenceSession(model, calibration=np.eye(8, dtype=np.float32))
    assert model.SerializeToString(deterministic=True) == before
    assert numpy_helper.to_array(model.graph.initializer[0]).shape == (8, 5)
