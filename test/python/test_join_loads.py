"""`vta-join-loads`: layers with many weights, compiled with the pass and without it."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from vtac.tools.driver.compiler import compile_model

SHAPES = ((1, 1000, 300), (3, 640, 1000), (1, 2048, 48))
"""Rows, inputs and outputs of a dense layer."""


def dense(rows: int, inputs: int, outputs: int) -> onnx.ModelProto:
    """A dense layer with random weights behind another of as many inputs as outputs."""
    rng = np.random.default_rng(rows + inputs + outputs)
    weights = rng.normal(size=(inputs, inputs)), rng.normal(size=(inputs, outputs))
    tensors = [
        numpy_helper.from_array((w / np.sqrt(inputs)).astype(np.float32), name)
        for w, name in zip(weights, "ab", strict=True)
    ]
    nodes = [
        helper.make_node("MatMul", ["x", "a"], ["h"]),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("MatMul", ["r", "b"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, inputs])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [rows, outputs])
    graph = helper.make_graph(nodes, "dense", [x], [y], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.mark.parametrize("preset", ["chisel-pynq", "sim"])
@pytest.mark.parametrize(("rows", "inputs", "outputs"), SHAPES)
def test_the_same_result_by_fewer_loads_in_no_more_cycles(
    rows: int, inputs: int, outputs: int, preset: str
) -> None:
    model = dense(rows, inputs, outputs)
    samples = np.random.default_rng(1).normal(size=(4, rows, inputs)).astype(np.float32)
    joined = compile_model(model, preset, {"x": samples})
    apart = compile_model(
        model, preset, {"x": samples}, pipeline=lambda p: p.without("vta-join-loads")
    )
    found, expected = (m.run({"x": samples[0]})["y"] for m in (joined, apart))
    assert np.array_equal(found, expected)
    counts = [
        sum(launch.report.total.instructions for launch in m.profile().launches)
        for m in (joined, apart)
    ]
    assert counts[0] < counts[1]
    assert joined.profile().cycles <= apart.profile().cycles
