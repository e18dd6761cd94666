"""Networks that take strings, such as names of categories, beside numbers: calibrated and run."""

import tempfile
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import vtac
from vtac.dialects.errors import CompileError
from vtac.runtime.casts import cast_fault

CATEGORIES = ["red", "green", "blue", "a longer name", ""]
COUNT, FEATURES, HIDDEN = 3, 4, 16


def network(batch: int | str | None, rng: np.random.Generator) -> onnx.ModelProto:
    """Two dense layers of features, of which some are categories [batch, COUNT]."""
    nodes = [
        helper.make_node(
            "LabelEncoder", ["names"], ["codes"], domain="ai.onnx.ml", keys_strings=CATEGORIES,
            values_floats=rng.normal(size=len(CATEGORIES)).tolist(),
        ),
        helper.make_node("Concat", ["codes", "x"], ["all"], axis=1),
        helper.make_node("MatMul", ["all", "w0"], ["h"]),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("MatMul", ["r", "w1"], ["y"]),
    ]  # fmt: skip
    shapes = (COUNT + FEATURES, HIDDEN), (HIDDEN, 5)
    weights = [
        numpy_helper.from_array(rng.normal(0, 0.4, shape).astype(np.float32), f"w{number}")
        for number, shape in enumerate(shapes)
    ]
    info = helper.make_tensor_value_info
    inputs = [
        info("names", TensorProto.STRING, [batch, COUNT]),
        info("x", TensorProto.FLOAT, [batch, FEATURES]),
    ]
    outputs = [info("y", TensorProto.FLOAT, [batch, 5])]
    graph = helper.make_graph(nodes, "categories", inputs, outputs, weights)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


@settings(max_examples=25)
@given(st.randoms(use_true_random=False))
def test_strings_calibrate_and_run(random: Random) -> None:
    rng = np.random.default_rng(random.randrange(1 << 30))
    size = random.randint(1, 3)
    given = random.choice([size, "N", "?", None])
    model, batches = network(given, rng), random.randint(2, 9)
    as_batches = given != size or random.random() < 0.5
    shape = (batches, size) if as_batches else (batches * size,)
    kind: Any = random.choice([object, np.str_])
    names = rng.choice(CATEGORIES, (*shape, COUNT)).astype(kind)
    x = rng.normal(size=(*shape, FEATURES)).astype(np.float32)
    samples: Any = {"names": names, "x": x}
    with tempfile.TemporaryDirectory() as folder:
        if kind is np.str_ and random.random() < 0.5:
            samples = Path(folder) / "samples.npz"
            np.savez(samples, names=names, x=x)
        elif given == size and random.random() < 0.5:
            samples = {"names": list(names), "x": list(x)}
        module = vtac.compile(model, random.choice(("pynq", "sim")), samples)
    assert any(node.where.startswith("vta") for node in module.explain)
    feed = {
        "names": names.reshape(-1, size, COUNT)[0].astype(object),
        "x": x.reshape(-1, size, FEATURES)[0],
    }
    (expected,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, feed)
    error = module.run(feed)["y"] - expected
    # One row of results may hardly vary; its size is what the steps go by.
    assert np.sqrt(np.mean(error**2)) < 0.1 * np.sqrt(np.mean(expected**2))


def test_strings_at_every_level_and_in_layer_errors(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    model = network(1, rng)
    samples = {
        "names": rng.choice(CATEGORIES, (8, COUNT)),
        "x": rng.normal(size=(8, FEATURES)).astype(np.float32),
    }
    module = vtac.compile(model, "pynq", samples, save_ir=tmp_path, layer_errors=True)
    assert module.report.layer_errors
    assert list(tmp_path.glob("*calibrated*"))


@pytest.mark.parametrize("wrong", [np.zeros((4, COUNT)), np.full((4, COUNT), None, object)])
def test_numbers_are_no_strings(wrong: Any) -> None:
    x = np.ones((4, FEATURES), np.float32)
    with pytest.raises(CompileError, match="'names' takes"):
        vtac.compile(network(1, np.random.default_rng(0)), "pynq", {"names": wrong, "x": x})
    assert cast_fault(wrong, np.dtype(np.str_))


def test_sequences_are_told() -> None:
    model = network(1, np.random.default_rng(0))
    sequence = helper.make_tensor_sequence_value_info("parts", TensorProto.FLOAT, None)
    model.graph.input.append(sequence)
    with pytest.raises(CompileError, match=r"(?s)'parts'.*only be tensors.*without samples"):
        vtac.compile(model, "pynq", {"parts": [np.ones(1)]})
