"""ONNX as people have it: control flow, sequences, strings, functions, opsets, odd borders.

Small models, compiled for the host or calibrated, against onnxruntime on the same file.
"""

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from small_models import assert_same, floats, run, small_model, value_info

from vtac.dialects.errors import CompileError
from vtac.runtime.executor import Module
from vtac.tools.driver.compiler import compile_model

node = helper.make_node
FLOAT, INT64, BOOL, STRING = (
    TensorProto.FLOAT,
    TensorProto.INT64,
    TensorProto.BOOL,
    TensorProto.STRING,
)


def compiled(model: onnx.ModelProto | Path, **options: Any) -> Module:
    """Without the warning that all of it runs on the host."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return compile_model(model, **options)


def assert_agrees(model: onnx.ModelProto, feeds: Mapping[str, Any], **options: Any) -> Module:
    """Assert that the compiled model answers as onnxruntime does."""
    module = compiled(model, **options)
    found = module.run(dict(feeds))
    assert_same(run(model, feeds), [found[o.name] for o in model.graph.output], rtol=1e-6)
    return module


def graph(nodes: list[onnx.NodeProto], inputs: list[Any], outputs: list[Any]) -> onnx.GraphProto:
    return helper.make_graph(nodes, "inner", inputs, outputs)


def typed(model: onnx.ModelProto, **types: onnx.TypeProto) -> onnx.ModelProto:
    """The model with these types of inputs and outputs."""
    for value in [*model.graph.input, *model.graph.output]:
        if value.name in types:
            value.type.CopyFrom(types[value.name])
    return model


def tensor(element: int, shape: list[int | str | None] | None = None) -> onnx.TypeProto:
    return helper.make_tensor_type_proto(element, shape)


def test_if_captures_what_lies_outside() -> None:
    then = graph([node("Add", ["x", "w"], ["t"])], [], [value_info("t", None)])
    other = graph([node("Sub", ["x", "y"], ["e"])], [], [value_info("e", None)])
    model = small_model(
        [
            node("Neg", ["x"], ["y"]),
            node("If", ["c"], ["z"], then_branch=then, else_branch=other),
        ],
        {"c": [], "x": [2]},
        ["z"],
        {"w": floats((2,))},
    )
    model = typed(model, c=tensor(BOOL, []))
    for condition in (True, False):
        assert_agrees(model, {"c": np.array(condition), "x": floats((2,), 1)})


def test_loop_and_scan() -> None:
    body = graph(
        [
            node("Identity", ["go"], ["go_on"]),
            node("Mul", ["s", "x"], ["s_out"]),
            node("Add", ["s_out", "one"], ["each"]),
        ],
        [value_info("i", [], INT64), value_info("go", [], BOOL), value_info("s", [2])],
        [value_info("go_on", [], BOOL), value_info("s_out", [2]), value_info("each", [2])],
    )
    step = graph(
        [node("Add", ["sum", "e"], ["new"]), node("Identity", ["new"], ["out"])],
        [value_info("sum", [2]), value_info("e", [2])],
        [value_info("new", [2]), value_info("out", [2])],
    )
    model = small_model(
        [
            node("Loop", ["n", "", "x"], ["last", "all"], body=body),
            node("Scan", ["x", "all"], ["total", "sums"], body=step, num_scan_inputs=1),
        ],
        {"n": [], "x": [2]},
        ["last", "total", "sums"],
        {"one": np.ones(1, np.float32)},
    )
    assert_agrees(typed(model, n=tensor(INT64, [])), {"n": np.array(3), "x": floats((2,))})


def test_sequences_come_in_and_go_out() -> None:
    model = small_model(
        [
            node("SequenceInsert", ["s", "x"], ["longer"]),
            node("ConcatFromSequence", ["longer"], ["all"], axis=0),
            node("SequenceLength", ["longer"], ["count"]),
            node("SplitToSequence", ["all", "two"], ["parts"], axis=0),
        ],
        {"s": None, "x": [2, 3]},
        ["all", "count", "parts"],
        {"two": np.array(2)},
    )
    sequence = helper.make_sequence_type_proto(tensor(FLOAT, None))
    model = typed(model, s=sequence, parts=sequence, count=tensor(INT64, []))
    assert_agrees(model, {"s": [floats((1, 3), 1), floats((3, 3), 2)], "x": floats((2, 3))})


def test_optionals() -> None:
    model = small_model(
        [
            node("Optional", ["x"], ["o"]),
            node("OptionalHasElement", ["o"], ["has"]),
            node("OptionalGetElement", ["o"], ["y"]),
        ],
        {"x": [2]},
        ["has", "y"],
        opset=18,
    )
    assert_agrees(typed(model, has=tensor(BOOL, [])), {"x": floats((2,))})


def test_strings() -> None:
    model = small_model(
        [
            node("StringConcat", ["s", "s"], ["double"]),
            node("Constant", [], ["k"], value=helper.make_tensor("k", STRING, [1], ["straße"])),
            node("Concat", ["double", "k"], ["both"], axis=0),
            node("Equal", ["both", "both"], ["same"]),
        ],
        {"s": [2]},
        ["both", "same"],
        opset=20,
    )
    model = typed(model, s=tensor(STRING, [2]), both=tensor(STRING, None), same=tensor(BOOL, None))
    feeds = {"s": np.array(["Größe", "ÅÄ"], dtype=object)}
    found, expected = compiled(model).run(feeds), run(model, feeds)
    assert [found[name].tolist() for name in ("both", "same")] == [e.tolist() for e in expected]
    assert found["both"][2] == "straße"


@pytest.mark.parametrize("opset", [7, 9, 11, 13, 17, 21, 23, onnx.defs.onnx_opset_version()])
def test_every_opset(opset: int) -> None:
    axes = {} if opset >= 13 else {"axes": [0]}
    squeeze = node("Squeeze", ["s", "zero"] if opset >= 13 else ["s"], ["q"], **axes)
    model = small_model(
        [
            node("Conv", ["x", "w"], ["c"], pads=[1, 1]),
            node("Softmax", ["c"], ["s"], axis=1),
            squeeze,
        ],
        {"x": [1, 2, 5]},
        ["q"],
        {"w": floats((3, 2, 3)), **({"zero": np.array([0])} if opset >= 13 else {})},
        opset=opset,
    )
    found = compiled(model).run({"x": floats((1, 2, 5))})["q"]
    model.opset_import[0].version = min(opset, 21)  # what any onnxruntime knows; the same meaning
    np.testing.assert_allclose(run(model, {"x": floats((1, 2, 5))})[0], found, rtol=1e-6)


def test_symbolic_dimensions_are_fixed() -> None:
    model = small_model(
        [
            node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
            node("Shape", ["c"], ["all"]),
            node("Slice", ["all", "zero", "two"], ["front"]),
            node("Concat", ["front", "rest"], ["shape"], axis=0),
            node("Reshape", ["c", "shape"], ["y"]),
        ],
        {"x": ["N", 2, "H", "W"]},
        ["y"],
        {
            "w": floats((3, 2, 3, 3)),
            "zero": np.array([0]),
            "two": np.array([2]),
            "rest": np.array([-1]),
        },
    )
    feeds = {"x": floats((2, 2, 5, 4))}
    unfixed = assert_agrees(model, feeds)
    assert unfixed.report.warnings  # that its dimensions are unknown
    assert_agrees(model, {"x": floats((1, 2, 3, 3))})
    fixed = compiled(model, shapes={"x": [2, 2, 5, 4]}, calibration={"x": feeds["x"][None]})
    assert next(p.where for p in fixed.explain if p.op == "graph.conv") == "vta_0"
    assert np.abs(fixed.run(feeds)["y"] - run(model, feeds)[0]).max() < 0.3


def test_inputs_and_outputs_of_every_kind() -> None:
    model = small_model(
        [
            node("Relu", ["x"], ["y"]),
            node("Identity", ["y"], ["z"]),
            node("Identity", ["w"], ["k"]),
            node("Split", ["x"], ["rest", "half"], axis=1),
        ],
        {"x": ["N", 2], "w": [2], "unused": ["N", "M"]},
        ["y", "z", "x", "w", "k", "half"],
        {"w": floats((2,))},
        opset=13,
    )
    feeds = {"x": floats((3, 2)), "unused": floats((3, 1))}
    module = assert_agrees(model, feeds)
    with pytest.raises(CompileError, match="'w'"):
        module.run({**feeds, "w": floats((2,), 1)})


def test_a_split_of_which_a_part_has_no_name() -> None:
    model = small_model([node("Split", ["x"], ["", "y"], axis=1)], {"x": ["N", 4]}, ["y"], opset=13)
    x = floats((3, 4))  # onnxruntime itself crashes
    assert np.array_equal(compiled(model).run({"x": x})["y"], x[:, 2:])


def test_optional_inputs_that_are_empty() -> None:
    model = small_model(
        [
            node("Clip", ["x", "", "hi"], ["c"]),
            node("Resize", ["c", "", "", "sizes"], ["r"], mode="linear"),
            node("LSTM", ["l", "lw", "lr", "", "", "h0"], ["", "h"], hidden_size=2),
        ],
        {"x": [1, 1, 4, 4], "l": [3, 1, 2]},
        ["r", "h"],
        {
            "hi": np.array(0.5, np.float32),
            "sizes": np.array([1, 1, 7, 6]),
            "lw": floats((1, 8, 2)),
            "lr": floats((1, 8, 2), 1),
            "h0": floats((1, 1, 2), 2),
        },
    )
    assert_agrees(model, {"x": floats((1, 1, 4, 4)), "l": floats((3, 1, 2))})


def test_functions_of_functions() -> None:
    twice = helper.make_function(
        "local", "Twice", ["a"], ["b"], [node("Scaled", ["a"], ["b"], domain="local", by=2.0)],
        [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)],
    )  # fmt: skip
    factor = node("Constant", [], ["f"])
    factor.attribute.append(
        onnx.AttributeProto(name="value_float", ref_attr_name="by", type=onnx.AttributeProto.FLOAT)
    )
    scaled = helper.make_function(
        "local", "Scaled", ["a"], ["b"], [factor, node("Mul", ["a", "f"], ["b"])],
        [helper.make_opsetid("", 17)], ["by"],
    )  # fmt: skip
    model = small_model(
        [node("Twice", ["x"], ["h"], domain="local"), node("Relu", ["h"], ["y"])],
        {"x": [3]},
        ["y"],
        functions=[twice, scaled],
    )
    model.opset_import.append(helper.make_opsetid("local", 1))
    module = assert_agrees(model, {"x": floats((3,))})
    assert [p.op for p in module.explain][-2:] == ["graph.mul", "graph.relu"]


def test_standard_functions_are_inlined() -> None:
    model = small_model(
        [node("CenterCropPad", ["x", "shape"], ["y"], axes=[2])],
        {"x": [1, 2, 6]},
        ["y"],
        {"shape": np.array([4])},
        opset=18,
    )
    module = assert_agrees(model, {"x": floats((1, 2, 6))})
    assert "graph.slice" in [p.op for p in module.explain]


def test_sparse_and_external_initialisers(tmp_path: Path) -> None:
    values = numpy_helper.from_array(np.array([2.0, 3.0], np.float32), "s")
    indices = numpy_helper.from_array(np.array([0, 3]), "i")
    model = small_model(
        [node("Add", ["x", "s"], ["a"]), node("MatMul", ["a", "w"], ["y"])],
        {"x": [2, 2]},
        ["y"],
        {"w": floats((2, 40))},
    )
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [2, 2]))
    feeds = {"x": floats((2, 2))}
    expected = run(model, feeds)
    path = tmp_path / "model.onnx"
    onnx.save(model, path, save_as_external_data=True, location="w.bin", size_threshold=64)
    assert (tmp_path / "w.bin").stat().st_size == 2 * 40 * 4
    assert_same(expected, list(compiled(path).run(feeds).values()), rtol=1e-6)
