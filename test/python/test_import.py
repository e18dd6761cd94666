"""The ONNX front: what each operator becomes, and what the module around the nodes says."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from small_models import (
    assert_imports,
    context,
    floats,
    kinds,
    ops_of,
    small_model,
    value_info,
)

from vtac.dialects.context import constant_value
from vtac.dialects.graph import (
    AveragePoolOp,
    ConvOp,
    HostOp,
    MaxPoolOp,
    PadOp,
    row_steps,
    shape_of,
)
from vtac.lowering.onnx_to_graph import import_model

node = helper.make_node


# Convolution and pooling.


@st.composite
def windows(draw):
    rank = draw(st.integers(1, 3))
    extents = draw(st.lists(st.integers(3, 8), min_size=rank, max_size=rank))
    kernel = [draw(st.integers(1, min(3, e))) for e in extents]
    strides = draw(st.lists(st.integers(1, 3), min_size=rank, max_size=rank))
    attributes = {"strides": strides}
    auto = draw(st.sampled_from(["NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"]))
    if auto.startswith("SAME"):  # onnxruntime refuses the negative pads that it would compute here
        strides = [min(stride, taps) for stride, taps in zip(strides, kernel, strict=True)]
        attributes["strides"] = strides
    if auto != "NOTSET":
        attributes["auto_pad"] = auto
    else:
        attributes["pads"] = [draw(st.integers(0, k - 1)) for k in kernel * 2]
    return extents, kernel, attributes


@given(windows(), st.sampled_from([1, 2]), st.booleans())
def test_conv_has_explicit_pads(window, group, biased):
    extents, kernel, attributes = window
    weights = {"w": floats((4, 4 // group, *kernel), 1), "b": floats((4,), 2)}
    names = ["x", "w", "b"][: 3 if biased else 2]
    model = small_model(
        [node("Conv", names, ["y"], group=group, **attributes)],
        {"x": [2, 4, *extents]},
        ["y"],
        {name: weights[name] for name in names[1:]},
    )
    module = assert_imports(model, {"x": floats((2, 4, *extents))}, "graph.conv")
    conv = ops_of(module)[0]
    assert isinstance(conv, ConvOp) and len(conv.pads.get_values()) == 2 * len(kernel)


@given(windows(), st.sampled_from(["MaxPool", "AveragePool"]), st.booleans(), st.booleans())
def test_pooling_rounds_up_by_pads(window, kind, ceil, count):
    extents, kernel, attributes = window
    if kind == "AveragePool":
        attributes = {**attributes, "count_include_pad": int(count)}
    model = small_model(
        [node(kind, ["x"], ["y"], kernel_shape=kernel, ceil_mode=int(ceil), **attributes)],
        {"x": [1, 2, *extents]},
        ["y"],
    )
    module = assert_imports(model, {"x": floats((1, 2, *extents))})
    if kind == "MaxPool":
        assert kinds(module) == ["graph.max_pool"]
    elif not (ceil and count):
        assert kinds(module) == ["graph.average_pool"]


def test_what_rounding_up_adds_does_not_count():
    attributes = {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 0, 0, 1]}
    counted = {"ceil_mode": 1, "count_include_pad": 1}
    model = small_model(
        [node("AveragePool", ["x"], ["y"], **attributes, **counted)], {"x": [1, 2, 5, 7]}, ["y"]
    )
    module = assert_imports(model, {"x": floats((1, 2, 5, 7))})
    assert kinds(module) == ["graph.pad", "graph.average_pool"]
    pad, pool = ops_of(module)
    assert isinstance(pad, PadOp) and isinstance(pool, AveragePoolOp)
    assert pad.pads.get_values() == (0, 0, 1, 0, 0, 0, 0, 1)
    assert pool.pads.get_values() == (0, 0, 1, 0) and not pool.count_include_pad.value.data


def test_last_window_that_would_start_in_the_pad_is_dropped():
    model = small_model(
        [node("MaxPool", ["x"], ["y"], kernel_shape=[2], strides=[3], pads=[1, 1], ceil_mode=1)],
        {"x": [1, 1, 5]},
        ["y"],
    )
    module = assert_imports(model, {"x": floats((1, 1, 5))}, "graph.max_pool")
    pool = ops_of(module)[0]
    assert isinstance(pool, MaxPoolOp) and shape_of(pool.result) == (1, 1, 2)


def test_dilated_windows():
    model = small_model(
        [
            node("Conv", ["x", "w"], ["c"], dilations=[2, 3], pads=[1, 2, 3, 4]),
            node("MaxPool", ["c"], ["y"], kernel_shape=[2, 2], dilations=[3, 1]),
        ],
        {"x": [1, 2, 9, 9]},
        ["y"],
        {"w": floats((3, 2, 3, 3))},
    )
    assert_imports(model, {"x": floats((1, 2, 9, 9))}, "graph.conv", "graph.max_pool")


def test_same_pads_of_an_unknown_extent_need_stride_one():
    def conv(stride):
        return small_model(
            [node("Conv", ["x", "w"], ["y"], strides=[stride], auto_pad="SAME_LOWER")],
            {"x": ["N", 1, "W"]},
            ["y"],
            {"w": floats((1, 1, 4))},
        )

    feeds = {"x": floats((2, 1, 7))}
    assert_imports(conv(1), feeds, "graph.conv")
    module = assert_imports(conv(2), feeds, "Conv")
    assert "unknown extent" in str(ops_of(module)[0].attributes["graph.host_reason"])


def test_forms_that_stay_whole():
    weights = {"w": floats((1, 1, 2)), "r": np.array([0, 0, -1], np.int64)}
    model = small_model(
        [
            node("MaxPool", ["x"], ["m", "indices"], kernel_shape=[2]),
            node("Cast", ["m"], ["h"], to=TensorProto.FLOAT16),
            node("Cast", ["x"], ["d"], to=TensorProto.INT32),
            node("Add", ["d", "d"], ["i"]),
            node("Dropout", ["x"], ["p", "mask"]),
            node("Clip", ["x", "x0"], ["c"]),
        ],
        {"x": [1, 1, 5], "x0": []},
        ["h", "indices", "i", "p", "mask", "c"],
        weights,
    )
    for index, kind in ((0, "FLOAT16"), (1, "INT64"), (2, "INT32"), (4, "BOOL")):
        model.graph.output[index].type.tensor_type.elem_type = TensorProto.DataType.Value(kind)
    feeds = {"x": floats((1, 1, 5)), "x0": np.array(0.5, np.float32)}
    assert_imports(model, feeds, "MaxPool", "Cast", "Cast", "Add", "Dropout", "Clip")


# Other operators, and their forms in older opsets.


@pytest.mark.parametrize("opset", [7, 8, 9, 10, 11, 12, 13, 15, 18])
def test_every_operator_in_every_opset(opset):
    c = np.array
    weights = {
        "w": floats((4, 3, 3, 3)),
        "scale": floats((4,), 1),
        "bias": floats((4,), 2),
        "mean": floats((4,), 3),
        "variance": np.abs(floats((4,), 4)),
        "shape": c([0, 4, -1], np.int64),
        "m": floats((9, 5), 5),
        "g": floats((20, 3), 6),
        "v": floats((1, 3), 7),
    }
    clip = (
        [node("Clip", ["n"], ["c"], min=-0.5, max=0.5)]
        if opset < 11
        else [node("Clip", ["n", "lo", "hi"], ["c"])]
    )
    if opset >= 11:
        weights |= {"lo": c(-0.5, np.float32), "hi": c(0.5, np.float32)}
    model = small_model(
        [
            node("Identity", ["x"], ["x1"]),
            node("Conv", ["x1", "w"], ["y"]),
            node("BatchNormalization", ["y", "scale", "bias", "mean", "variance"], ["n"]),
            *clip,
            node("Dropout", ["c"], ["p", "unread"]),
            node("Relu", ["p"], ["r"]),
            node("AveragePool", ["r"], ["a"], kernel_shape=[2, 2], strides=[2, 2]),
            node("Reshape", ["a", "shape"], ["f"]),
            node("MatMul", ["f", "m"], ["mm"]),
            node("Flatten", ["mm"], ["ff"]),
            node("Gemm", ["ff", "g", "v"], ["y1"], alpha=0.5, beta=2.0),
            node("GlobalAveragePool", ["r"], ["y2"]),
        ],
        {"x": [2, 3, 8, 8]},
        ["y1", "y2"],
        weights,
        opset=opset,
    )
    graph = "conv batch_norm clip relu average_pool reshape matmul reshape gemm"
    expected = [f"graph.{kind}" for kind in [*graph.split(), "global_average_pool"]]
    assert_imports(model, {"x": floats((2, 3, 8, 8))}, *expected)


def test_constants_of_every_form_and_type():
    model = small_model(
        [
            node("Constant", [], ["a"], value_floats=[1.0, 2.0]),
            node("Constant", [], ["b"], value=numpy_helper.from_array(floats((70, 2)), "t")),
            node("Constant", [], ["s"], value_string=b"caf\xc3\xa9"),
            node("Add", ["x", "a"], ["y"]),
            node("Add", ["y", "b"], ["z"]),
            node("Identity", ["s"], ["t"]),
        ],
        {"x": [70, 2]},
        ["z", "t"],
    )
    model.graph.output[1].type.tensor_type.elem_type = TensorProto.STRING
    module = import_model(model, context())
    assert kinds(module) == ["Constant", "graph.add", "graph.add"]


def test_shape_arithmetic_is_folded():
    model = small_model(
        [
            node("Shape", ["x"], ["s"]),
            node("Gather", ["s", "zero"], ["n"]),
            node("Unsqueeze", ["n", "axes"], ["u"]),
            node("Concat", ["u", "rest"], ["shape"], axis=0),
            node("Reshape", ["x", "shape"], ["y"]),
        ],
        {"x": ["N", 2, 3]},
        ["y"],
        {"zero": np.array(0), "axes": np.array([0]), "rest": np.array([-1])},
    )
    module = import_model(model, context(), shapes={"x": [4, 2, 3]})
    assert kinds(module) == ["graph.reshape"]
    assert shape_of(ops_of(module)[0].results[0]) == (4, 6)


def test_quantised_weights_are_constants_on_a_grid():
    model = small_model(
        [
            node("DequantizeLinear", ["q", "scale"], ["w"]),
            node("Conv", ["x", "w"], ["y"]),
        ],
        {"x": [1, 1, 4]},
        ["y"],
        {"q": np.ones((1, 1, 2), np.int8), "scale": np.array(0.5, np.float32)},
    )
    module = assert_imports(model, {"x": floats((1, 1, 4))}, "graph.conv")
    (conv,) = ops_of(module)
    assert row_steps(conv.operands[1], 1) == [0.5]


def test_weights_are_shared_and_exact():
    w = floats((3, 2, 5, 5))
    model = small_model(
        [node("Conv", ["x", "w1"], ["a"]), node("Conv", ["x", "w2"], ["b"])],
        {"x": [1, 2, 9, 9]},
        ["a", "b"],
        {"w1": w, "w2": w},
    )
    ctx = context()
    module = import_model(model, ctx)
    conv = ops_of(module)[1]
    assert isinstance(conv, ConvOp)
    value = constant_value(ctx, conv.w.owner.properties["value"], conv.w.type)
    np.testing.assert_array_equal(value, w)
    assert len(ctx.resources) == 1


# The graph around the nodes.


def test_inputs_and_outputs_of_every_kind():
    model = small_model(
        [node("Relu", ["x"], ["y"]), node("Identity", ["w"], ["k"])],
        {"x": ["N", 2], "w": [2], "unused": ["N", "M"]},
        ["y", "x", "w", "k"],
        {"w": floats((2,))},
    )
    module = import_model(model, context())
    main = next(iter(module.body.block.ops))
    assert [a.data for a in main.attributes["graph.inputs"].data] == ["x", "unused"]
    assert [a.data for a in main.attributes["graph.outputs"].data] == ["y", "x", "w", "k"]
    assert 'graph.symbols = ["N", "M"]' in str(module)
    assert_imports(model, {"x": floats((3, 2)), "unused": floats((3, 1))}, "graph.relu")


def test_nodes_out_of_order_and_without_names():
    model = small_model(
        [node("Relu", ["a"], ["y"]), node("Exp", ["x"], ["a"]), node("Exp", ["x"], ["b"])],
        {"x": [2]},
        ["y", "b"],
    )
    # onnx.checker wants nodes sorted; onnxruntime does not, and neither do we.
    model.graph.node[0].name = "last"
    sorted_model = onnx.ModelProto()
    sorted_model.CopyFrom(model)
    sorted_model.graph.ClearField("node")
    sorted_model.graph.node.extend([model.graph.node[i] for i in (1, 0, 2)])
    module = import_model(sorted_model, context())
    assert [op.location.desc.data for op in ops_of(module)] == ["Exp_0", "last", "Exp_1"]


def test_local_functions_are_inlined():
    double = helper.make_function(
        "local", "Double", ["a"], ["b"], [node("Add", ["a", "a"], ["b"])],
        [helper.make_opsetid("", 17)],
    )  # fmt: skip
    model = small_model(
        [node("Double", ["x"], ["y"], domain="local")], {"x": [2]}, ["y"], functions=[double]
    )
    model.opset_import.append(helper.make_opsetid("local", 1))
    assert kinds(import_model(model, context())) == ["graph.add"]


def test_names_that_are_no_identifiers():
    model = small_model(
        [node("Relu", ["1/x:0"], ["_12"]), node("Exp", ["_12"], ['a "b"'])],
        {"1/x:0": [2]},
        ['a "b"'],
    )
    assert_imports(model, {"1/x:0": floats((2,))}, "graph.relu", "Exp")


# Shapes from the user.


def test_shapes_fix_symbols_everywhere():
    model = small_model([node("Add", ["a", "b"], ["y"])], {"a": ["N", 2], "b": ["N", "M"]}, ["y"])
    module = import_model(model, context(), shapes={"a": [3, 2]})
    main = next(iter(module.body.block.ops))
    assert str(main.function_type).startswith("(tensor<3x2xf32>, tensor<3x?xf32>)")


# Whole models.


def test_shared_models_import(shared: Path):
    for path in sorted((shared / "models").glob("*/model.onnx")):
        module = import_model(path, context())
        module.verify()
        assert len(ops_of(module)) > 5, path


def test_resnet18_imports_whole(root: Path, tmp_path: Path):
    path = tmp_path / "resnet18.onnx"
    script = root / "test" / "benchmarks" / "resnet18.py"
    subprocess.run([sys.executable, script, path], check=True)
    module = import_model(path, context())
    assert not [op for op in ops_of(module) if isinstance(op, HostOp)]


def test_value_info_of_an_input_without_a_shape():
    model = small_model([node("Relu", ["x"], ["y"])], {}, ["y"])
    model.graph.input.append(value_info("x", None))
    module = import_model(model, context())
    assert kinds(module) == ["Relu"]
    module = import_model(model, context(), shapes={"x": [2, 3]})
    assert kinds(module) == ["graph.relu"]
