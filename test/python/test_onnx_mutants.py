"""Slightly broken models: each is imported or refused with its problems, never a traceback."""

from collections import Counter
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx_mutants import mutant
from small_models import context, floats, small_model, value_info

from vtac.dialects.errors import CompileError
from vtac.lowering.onnx_to_graph import import_model

MUTANTS = 120
"""Of each model."""

node = helper.make_node


def convolutions() -> onnx.ModelProto:
    return small_model(
        [
            node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1], name="conv"),
            node("BatchNormalization", ["c", "s", "b", "b", "s"], ["n"]),
            node("Relu", ["n"], ["r"]),
            node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1),
            node("GlobalAveragePool", ["p"], ["g"]),
            node("Flatten", ["g"], ["f"]),
            node("Gemm", ["f", "m", "k"], ["y"], transB=1),
        ],
        {"x": [1, 3, 5, 5]},
        ["y"],
        {
            "w": floats((4, 3, 3, 3)),
            "b": floats((4,)),
            "s": np.abs(floats((4,))),
            "m": floats((5, 4)),
            "k": floats((5,)),
        },
    )


def arrangements() -> onnx.ModelProto:
    double = helper.make_function(
        "local", "Double", ["a"], ["b"], [node("Add", ["a", "a"], ["b"])],
        [helper.make_opsetid("", 13)],
    )  # fmt: skip
    model = small_model(
        [
            node("Double", ["x"], ["d"], domain="local"),
            node("Split", ["d"], ["h", "i"], axis=1),
            node("Concat", ["i", "h"], ["j"], axis=1),
            node("Slice", ["j", "starts", "ends"], ["k"]),
            node("Transpose", ["k"], ["t"], perm=[1, 0]),
            node("Pad", ["t", "pads"], ["p"]),
            node("Shape", ["p"], ["s"]),
            node("Reshape", ["p", "s"], ["y"]),
            node("Resize", ["z", "", "scales"], ["r"], mode="nearest"),
        ],
        {"x": ["N", 4], "z": [1, 1, 2, 2]},
        ["y", "r"],
        {
            "starts": np.array([0, 1]),
            "ends": np.array([2, 4]),
            "pads": np.array([0, 1, 1, 0]),
            "scales": np.array([1, 1, 2, 2], np.float32),
        },
        opset=13,
        functions=[double],
    )
    model.opset_import.append(helper.make_opsetid("local", 1))
    return model


def branches() -> onnx.ModelProto:
    def branch(kind: str, name: str) -> onnx.GraphProto:
        inner = [node(kind, ["x", "w"], [name])]
        return helper.make_graph(inner, "branch", [], [value_info(name, None)])

    choices: dict[str, Any] = {"then_branch": branch("Add", "t"), "else_branch": branch("Sub", "e")}
    model = small_model(
        [node("If", ["c"], ["z"], **choices)], {"c": [], "x": [2]}, ["z"], {"w": floats((2,))}
    )
    model.graph.input[0].type.tensor_type.elem_type = TensorProto.BOOL
    return model


def integers() -> onnx.ModelProto:
    names = ["q", "s", "z", "w", "ws", "wz", "s", "z"]
    return small_model(
        [
            node("QuantizeLinear", ["x", "s", "z"], ["q"]),
            node("QLinearConv", names, ["c"], pads=[1, 1, 1, 1]),
            node("DequantizeLinear", ["c", "s", "z"], ["y"]),
        ],
        {"x": [1, 2, 4, 4]},
        ["y"],
        {
            "s": np.array(0.05, np.float32),
            "z": np.array(3, np.int8),
            "w": np.ones((3, 2, 3, 3), np.int8),
            "ws": np.full(3, 0.1, np.float32),
            "wz": np.zeros(3, np.int8),
        },
    )


@pytest.mark.parametrize("make", [convolutions, arrangements, branches, integers])
def test_mutants_are_imported_or_refused(make: Any) -> None:
    data, found = make().SerializeToString(), Counter[bool]()
    for seed in range(MUTANTS):
        try:
            module = import_model(mutant(data, np.random.default_rng(seed)), context())
        except CompileError as error:
            assert error.problems and all(problem.what for problem in error.problems)
            found[False] += 1
        else:
            module.verify()
            found[True] += 1
    assert min(found[True], found[False]) > MUTANTS // 20
