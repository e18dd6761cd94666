# ruff: noqa: E501 (IR is wide)
"""From graph ops to ONNX: what is rebuilt answers as the original and as the NumPy reference."""

from functools import cache

import numpy as np
import onnx
import pytest
from graph_reference import run_reference
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from small_models import (
    assert_imports,
    assert_same,
    context,
    floats,
    kinds,
    run,
    small_model,
    value_info,
)
from xdsl.dialects.builtin import i8
from xdsl.dialects.func import FuncOp
from xdsl.parser import Parser

from vtac.dialects import graph
from vtac.dialects.context import constant_attr
from vtac.dialects.errors import CompileError
from vtac.lowering.graph_to_onnx import OPSET, build_model, host_model
from vtac.lowering.onnx_to_graph import import_model

node = helper.make_node


def branch(name, nodes, output, shape=None, inputs=(), kind=TensorProto.FLOAT):
    return helper.make_graph(nodes, name, inputs, [value_info(output, shape, kind)])


# Operators carried whole.


def test_branches_capture_values_and_constants():
    then = branch("then", [node("Add", ["h", "w"], ["t"])], "t")
    inner = branch("inner", [node("Mul", ["h", "x"], ["i"])], "i")
    deeper = branch("deeper", [node("Neg", ["h"], ["i"])], "i")
    otherwise = branch(
        "else", [node("If", ["flag"], ["e"], then_branch=inner, else_branch=deeper)], "e"
    )
    model = small_model(
        [
            node("Relu", ["x"], ["h"]),
            node("If", ["flag"], ["y"], then_branch=then, else_branch=otherwise),
        ],
        {"x": [3]},
        ["y"],
        {"w": floats((3,), 1)},
    )
    model.graph.input.append(value_info("flag", [], TensorProto.BOOL))
    model.graph.output[0].type.tensor_type.shape.dim.add(dim_value=3)
    for flag in (True, False):
        feeds = {"x": floats((3,)), "flag": np.array(flag)}
        module = assert_imports(model, feeds, "graph.relu", "If")
    assert 'captured_names = ["flag", "h", "x", "w"]' in str(module)


def test_a_loop_builds_a_sequence():
    body = helper.make_graph(
        [
            node("Identity", ["go"], ["still"]),
            node("Add", ["state", "step"], ["next"]),
            node("SequenceInsert", ["list_in", "next"], ["list_out"]),
        ],
        "body",
        [
            value_info("i", [], TensorProto.INT64),
            value_info("go", [], TensorProto.BOOL),
            value_info("state", [2]),
            helper.make_tensor_sequence_value_info("list_in", TensorProto.FLOAT, [2]),
        ],
        [
            value_info("still", [], TensorProto.BOOL),
            value_info("next", [2]),
            helper.make_tensor_sequence_value_info("list_out", TensorProto.FLOAT, [2]),
        ],
    )
    model = small_model(
        [
            node("SequenceEmpty", [], ["empty"]),
            node("Loop", ["count", "", "x", "empty"], ["last", "list"], body=body),
            node("ConcatFromSequence", ["list"], ["y"], axis=0),
        ],
        {"x": [2], "step": [2]},
        ["last", "y"],
        {"count": np.array(3, np.int64)},
    )
    model.graph.output.append(
        helper.make_tensor_sequence_value_info("list", TensorProto.FLOAT, None)
    )
    feeds = {"x": floats((2,)), "step": floats((2,), 1)}
    module = import_model(model, context())
    assert kinds(module) == ["SequenceEmpty", "Loop", "ConcatFromSequence"]
    assert '!graph.opaque<"seq(tensor(float))">' in str(module)
    ctx = context()
    rebuilt = host_model(import_model(model, ctx), ctx)
    assert_same(run(model, feeds), run(rebuilt, feeds))


def test_sequences_and_strings_cross_the_border():
    model = small_model([node("SequenceAt", ["s", "i"], ["y"])], {}, ["y"], {"i": np.array(1)})
    model.graph.input.append(helper.make_tensor_sequence_value_info("s", TensorProto.STRING, None))
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.STRING
    ctx = context()
    rebuilt = host_model(import_model(model, ctx), ctx)
    feeds = {"s": [np.array(["a", "b"]), np.array(["c"])]}
    assert run(rebuilt, feeds)[0].tolist() == run(model, feeds)[0].tolist() == ["c"]


def test_absent_inputs_and_outputs_keep_their_places():
    model = small_model(
        [
            node("Resize", ["x", "", "scales"], ["r"], mode="linear"),
            node("Squeeze", ["r", "axis"], ["s"]),
            node("LSTM", ["s", "w", "u", "", "", "h0"], ["", "h"], hidden_size=3),
        ],
        {"x": [1, 1, 2, 2]},
        ["h"],
        {
            "scales": np.array([1, 1, 2, 2], np.float32),
            "axis": np.array([0]),
            "w": floats((1, 12, 4), 1),
            "u": floats((1, 12, 3), 2),
            "h0": floats((1, 4, 3), 3),
        },
    )
    module = assert_imports(model, {"x": floats((1, 1, 2, 2))}, "Resize", "Squeeze", "LSTM")
    assert "absent = array<i64: 3, 4>" in str(module)
    assert "absent_outputs = array<i64: 0>" in str(module)


def test_attributes_of_every_kind_survive():
    tensor = numpy_helper.from_array(np.array([1.0, np.inf], np.float32), "t")
    attributes = {
        "a_float": 0.1,
        "an_int": -(2**63),
        "a_string": b'caf\xc3\xa9 \xff"',
        "floats": [0.5, float("-inf")],
        "ints": [1, 2],
        "strings": [b"a", b"\xff"],
        "a_tensor": tensor,
        "a_graph": branch("g", [node("Relu", ["v"], ["u"])], "u", inputs=[value_info("v", [1])]),
        "a_type": helper.make_tensor_type_proto(TensorProto.FLOAT, [1]),
        "tensors": [tensor, tensor],
        "large": numpy_helper.from_array(floats((100,)), "large"),
    }
    model = small_model(
        [node("Custom", ["x"], ["y"], domain="com.microsoft", **attributes)], {"x": [1]}, ["y"]
    )
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    ctx = context()
    text = str(import_model(model, ctx))
    module = Parser(ctx, text).parse_module()
    (rebuilt,) = host_model(module, ctx).graph.node
    actual = {a.name: helper.get_attribute_value(a) for a in rebuilt.attribute}
    assert set(actual) == set(attributes)
    for name in ("an_int", "a_string", "ints", "strings", "a_type", "floats"):
        assert actual[name] == attributes[name], name
    assert actual["a_float"] == np.float32(0.1)
    assert actual["a_graph"].node[0].op_type == "Relu"
    for name in ("a_tensor", "large"):
        expected = numpy_helper.to_array(attributes[name])
        np.testing.assert_array_equal(numpy_helper.to_array(actual[name]), expected)
    assert len(actual["tensors"]) == 2


def test_tensors_of_types_that_numpy_lacks():
    model = small_model(
        [
            node("Cast", ["w"], ["i"], to=TensorProto.INT32),
            node("Cast", ["i"], ["c"], to=TensorProto.FLOAT),
            node("Add", ["c", "x"], ["y"]),
        ],
        {"x": [2]},
        ["y"],
    )
    model.graph.initializer.append(helper.make_tensor("w", TensorProto.BFLOAT16, [2], [1.5, 2.5]))
    assert_imports(model, {"x": floats((2,))}, "Constant", "Cast", "Cast", "graph.add")


# Names, opsets, sets of ops.


@cache
def parse(text: str):
    """Once for all examples of a test."""
    ctx = context()
    module = Parser(ctx, text).parse_module()
    module.verify()
    return module, ctx


def test_any_set_of_ops_is_a_model():
    module, ctx = parse("""
      func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
        %c = graph.constant dense<[1.0, 2.0]> : tensor<2xf32>
        %a = graph.add %x, %c : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
        %b = graph.relu %a : (tensor<2xf32>) -> tensor<2xf32>
        %d = graph.add %b, %c : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
        func.return %d : tensor<2xf32>
      }""")
    _, _, relu, add, _ = next(iter(module.body.block.ops)).regions[0].block.ops
    (middle,) = relu.operands
    # The same value twice, an input and a constant as outputs.
    outputs = [add.results[0], add.results[0], middle, add.operands[1]]
    model = build_model([relu, add], [middle], outputs, {middle: "a", add.results[0]: "d"}, ctx, {})
    onnx.checker.check_model(model, full_check=True)
    assert [i.name for i in model.graph.input] == ["a"]
    assert model.graph.output[0].name == "d"
    answers = run(model, {"a": np.array([-1.0, 1.0], np.float32)})
    assert [a.tolist() for a in answers] == [[1, 3], [1, 3], [-1, 1], [1, 2]]
    with pytest.raises(CompileError, match="neither an input"):
        build_model([relu, add], [], outputs, {}, ctx, {})


def test_extra_outputs_for_calibration():
    model = small_model([node("Relu", ["x"], ["h"]), node("Exp", ["h"], ["y"])], {"x": [2]}, ["y"])
    ctx = context()
    module = import_model(model, ctx)
    relu = next(iter(next(iter(module.body.block.ops)).regions[0].block.ops))
    rebuilt = host_model(module, ctx, extra_outputs={"hidden": relu.results[0]})
    assert [o.name for o in rebuilt.graph.output] == ["y", "hidden"]
    answers = run(rebuilt, {"x": np.array([-1.0, 2.0], np.float32)})
    assert answers[1].tolist() == [0, 2]


def test_opset_of_a_model_is_kept_only_where_it_matters():
    def rebuilt_opset(operator, **attributes):
        model = small_model([node(operator, ["x"], ["y"], **attributes)], {"x": [2, 3, 2]}, ["y"],
                            opset=9)  # fmt: skip
        ctx = context()
        return host_model(import_model(model, ctx), ctx).opset_import[0].version

    assert rebuilt_opset("Relu") == OPSET
    assert rebuilt_opset("Sin") == OPSET
    assert rebuilt_opset("Softmax") == 9


def test_a_slice_of_everything_before_slices_had_inputs():
    nodes = [node("Slice", ["x"], ["s"], starts=[0], ends=[9]), node("Softmax", ["s"], ["y"])]
    model = small_model(nodes, {"x": [2, 3]}, ["y"], opset=9)
    assert_imports(model, {"x": floats((2, 3))}, "graph.slice", "Softmax")


def test_sums_over_a_single_element():
    model = small_model(
        [node("ReduceSum", ["x", "axes"], ["y"])],
        {"x": [1, 2, 5, 1]},
        ["y"],
        {"axes": np.array([3])},
    )
    assert_imports(model, {"x": floats((1, 2, 5, 1))}, "graph.sum_pool")


@pytest.mark.parametrize(
    ("kernel", "strides", "pads", "extents"),
    [((1, 1), (1, 2), (0, 0, 0, 0), (4, 3)), ((2, 5), (1, 1), (0, -1, 1, 0), (4, 1)),
     ((4, 1), (3, 1), (0, 0, 0, 0), (1, 5))],
)  # fmt: skip
def test_float_sums_of_windows(kernel, strides, pads, extents):
    shapes = [
        f"tensor<1x2x{height}x{width}xf32>"
        for height, width in ((4, 6 if kernel[1] > 1 else 5), extents)
    ]
    lists = zip(
        ("kernel", "strides", "pads", "dilations"), (kernel, strides, pads, (1, 1)), strict=True
    )
    properties = ", ".join(
        f"{name} = array<i64: {', '.join(map(str, numbers))}>" for name, numbers in lists
    )
    ctx = context()
    module = Parser(ctx, f"""
      func.func @main(%x: {shapes[0]}) -> {shapes[1]} {{
        %y = graph.sum_pool %x {{{properties}}} : ({shapes[0]}) -> {shapes[1]}
        func.return %y : {shapes[1]}
      }}""").parse_module()  # fmt: skip
    module.verify()
    feeds = {"input_0": floats(module.body.block.first_op.body.block.args[0].type.get_shape())}
    (expected,) = run_reference(module, feeds, ctx.resources).values()
    assert_same([expected], run(host_model(module, ctx), feeds), rtol=1e-6)


QUANTISE = """
  builtin.module attributes {{graph.opsets = {{"" = {opset} : i64}}}} {{
    func.func @main(%x: tensor<3x5x2xf32>) -> (tensor<3x5x2xi8>, tensor<3x5x2xf32>, tensor<3x5x2xf32>, tensor<2x1x2x2x4xi8>) {{
      %q = graph.quantize %x {{scale = 0.1 : f64, zero_point = {zero} : i64}} : (tensor<3x5x2xf32>) -> tensor<3x5x2xi8>
      %d = graph.dequantize %q {{scales = array<f64: 0.1>, zero_point = {zero} : i64}} : (tensor<3x5x2xi8>) -> tensor<3x5x2xf32>
      %s = graph.host "Softmax" (%d) {{domain = "", onnx_attributes = {{axis = 2 : i64}}}} : (tensor<3x5x2xf32>) -> tensor<3x5x2xf32>
      %c = graph.dequantize %q {{scales = array<f64: 0.1, 0.2, 0.3, 0.4, 0.5>, zero_point = 0 : i64}} : (tensor<3x5x2xi8>) -> tensor<3x5x2xf32>
      %p = graph.pack %q : (tensor<3x5x2xi8>) -> tensor<3x5x2xi8, #graph.packed<2, 4>>
      %u = graph.unpack %p : (tensor<3x5x2xi8, #graph.packed<2, 4>>) -> tensor<3x5x2xi8>
      func.return %u, %s, %c, %p : tensor<3x5x2xi8>, tensor<3x5x2xf32>, tensor<3x5x2xf32>, tensor<3x5x2xi8, #graph.packed<2, 4>>
    }}
  }}"""


@pytest.mark.parametrize("opset", [7, 9, 10, 13, 17])
@pytest.mark.parametrize("zero", [0, -3])
def test_borders_in_every_opset(opset, zero):
    text = QUANTISE.format(opset=opset, zero=zero)
    text = text.replace("tensor<2x1x2x2x4xi8>", "tensor<3x5x2xi8, #graph.packed<2, 4>>")
    module, ctx = parse(text)
    model = host_model(module, ctx)
    assert model.opset_import[0].version == (opset if opset < 13 else OPSET)
    x = np.concatenate([np.linspace(-14, 14, 24), [0.05, 0.15, 0.25, -0.05, 1e9, -1e9]])
    x = x.astype(np.float32).reshape(3, 5, 2)
    u, _, c, p = run(model, {"input_0": x})
    expected = np.clip(np.rint(x / np.float32(0.1)) + zero, -128, 127).astype(np.int8)
    np.testing.assert_array_equal(u, expected)
    scales = np.array([0.1, 0.2, 0.3, 0.4, 0.5], np.float32).reshape(5, 1)
    np.testing.assert_array_equal(c, expected.astype(np.float32) * scales)
    whole = np.zeros((4, 8, 2), np.int8)
    whole[:3, :5] = expected
    np.testing.assert_array_equal(p, whole.reshape(2, 2, 2, 4, 2).transpose(0, 2, 4, 1, 3))


def test_packed_values_cross_the_border_in_their_layout():
    module, ctx = parse("""
      func.func @main(%x: tensor<1x5xi8, #graph.packed<1, 4>>) -> tensor<1x5xi8> {
        %u = graph.unpack %x : (tensor<1x5xi8, #graph.packed<1, 4>>) -> tensor<1x5xi8>
        func.return %u : tensor<1x5xi8>
      }""")
    model = host_model(module, ctx)
    onnx.checker.check_model(model, full_check=True)
    x = np.arange(8, dtype=np.int8).reshape(1, 2, 1, 4)
    assert run(model, {"input_0": x})[0].tolist() == [[0, 1, 2, 3, 4]]


# Integer ops against the NumPy reference.

INTEGERS = """
  func.func @main(%x: tensor<2x3x5x5xi8>) -> (tensor<2x4x3x3xi8>, tensor<2x4xi32>, tensor<2x3x2x2xi32>) {{
    %w = graph.constant dense<1> : tensor<4x3x3x3xi8>
    %bias = graph.constant dense<[5, -7, 0, 123456]> : tensor<4xi32>
    %shift = graph.constant dense<[0, 1, 5, 9]> : tensor<4xi32>
    %acc = graph.conv %x, %w {{strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64, pad_value = {pad} : i64}} : (tensor<2x3x5x5xi8>, tensor<4x3x3x3xi8>) -> tensor<2x4x3x3xi32>
    %q = graph.requantize %acc bias %bias shift %shift {{lo = -100 : i64, hi = 101 : i64, scale = 1.0 : f64, zero_point = 0 : i64}} : (tensor<2x4x3x3xi32>, tensor<4xi32>, tensor<4xi32>) -> tensor<2x4x3x3xi8>
    %l = graph.shift_left %q, %shift : (tensor<2x4x3x3xi8>, tensor<4xi32>) -> tensor<2x4x3x3xi32>
    %sum = graph.add %acc, %l : (tensor<2x4x3x3xi32>, tensor<2x4x3x3xi32>) -> tensor<2x4x3x3xi32>
    %r = graph.requantize %sum bias %bias shift %shift {{lo = 0 : i64, hi = 127 : i64, scale = 1.0 : f64, zero_point = 0 : i64}} : (tensor<2x4x3x3xi32>, tensor<4xi32>, tensor<4xi32>) -> tensor<2x4x3x3xi8>
    %m = graph.max_pool %r {{kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 0, 0>, dilations = array<i64: 1, 1>}} : (tensor<2x4x3x3xi8>) -> tensor<2x4x2x2xi8>
    %f = graph.reshape %m : (tensor<2x4x2x2xi8>) -> tensor<2x16xi8>
    %d = graph.constant dense<1> : tensor<4x16xi8>
    %g = graph.gemm %f, %d {{alpha = 1.0 : f64, beta = 1.0 : f64, trans_a = false, trans_b = true}} : (tensor<2x16xi8>, tensor<4x16xi8>) -> tensor<2x4xi32>
    %b = graph.add_bias %g, %bias : (tensor<2x4xi32>, tensor<4xi32>) -> tensor<2x4xi32>
    %p:4 = graph.split_bytes %b : (tensor<2x4xi32>) -> (tensor<2x4xi8>, tensor<2x4xi8>, tensor<2x4xi8>, tensor<2x4xi8>)
    %j = graph.join_bytes %p#0, %p#1, %p#2, %p#3 : (tensor<2x4xi8>, tensor<2x4xi8>, tensor<2x4xi8>, tensor<2x4xi8>) -> tensor<2x4xi32>
    %s = graph.sum_pool %x {{kernel = array<i64: 3, 3>, strides = array<i64: 3, 2>, pads = array<i64: 1, 0, 2, 0>, dilations = array<i64: 1, 1>, pad_value = {pad} : i64}} : (tensor<2x3x5x5xi8>) -> tensor<2x3x2x2xi32>
    func.return %r, %j, %s : tensor<2x4x3x3xi8>, tensor<2x4xi32>, tensor<2x3x2x2xi32>
  }}"""


@given(st.integers(0, 2**32 - 1), st.sampled_from([-128, -3]), st.sampled_from([0, -128, 5]))
def test_integer_ops_agree_with_the_reference(seed, low, pad):
    rng = np.random.default_rng(seed)
    draw = lambda *shape: rng.integers(low, -low, shape).astype(np.int8)  # noqa: E731
    module, ctx = parse(INTEGERS.format(pad=pad))
    for op in module.walk():
        if isinstance(op, graph.ConstantOp) and op.result.type.element_type == i8:
            op.value = constant_attr(ctx, draw(*op.result.type.get_shape()))
    module.verify()
    x = draw(2, 3, 5, 5)
    expected = list(run_reference(module, {"input_0": x}, ctx.resources).values())
    model = host_model(module, ctx)
    onnx.checker.check_model(model, full_check=True)
    assert_same(expected, run(model, {"input_0": x}))
    assert_same(expected, ReferenceEvaluator(model).run(None, {"input_0": x}))


BATCHES = """
  func.func @main(%a: tensor<4x5x{element}>, %b: tensor<6x5x{element}>) -> tensor<4x2x{result}> {{
    %y = graph.batch_matmul %a, %b {{batch = 2 : i64}} : (tensor<4x5x{element}>, tensor<6x5x{element}>) -> tensor<4x2x{result}>
    %p = graph.slice %y {{starts = array<i64: 0, 0>, steps = array<i64: 1, 1>}} : (tensor<4x2x{result}>) -> tensor<4x2x{result}>
    func.return %p : tensor<4x2x{result}>
  }}"""


@pytest.mark.parametrize(("element", "result"), [("i8", "i32"), ("f32", "f32")])
def test_batches_of_products(element, result):
    """Two entries of two rows by three, of which two count."""
    module, ctx = parse(BATCHES.format(element=element, result=result))
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-9, 9, s).astype("int8" if element == "i8" else "f4") for s in BATCHED)
    found = [run(host_model(module, ctx), {"input_0": a, "input_1": b})[0]]
    found += run_reference(module, {"input_0": a, "input_1": b}, ctx.resources).values()
    wide = a.astype(int), b.astype(int)
    exact = np.concatenate([wide[0][:2] @ wide[1][:2].T, wide[0][2:] @ wide[1][3:5].T])
    assert all(np.array_equal(each, exact) for each in found)


BATCHED = (4, 5), (6, 5)


PADDED = """
  builtin.module attributes {{graph.opsets = {{"" = {opset} : i64}}}} {{
    func.func @main(%x: tensor<1x2xi8>, %r: tensor<1x2xf32>) -> (tensor<2x3xi8>, tensor<1x2xf32>) {{
      %y = graph.pad %x {{pads = array<i64: 1, 0, 0, 1>, value = 5.0 : f64}} : (tensor<1x2xi8>) -> tensor<2x3xi8>
      %s = graph.host "Softmax" (%r) {{domain = "", onnx_attributes = {{axis = 1 : i64}}}} : (tensor<1x2xf32>) -> tensor<1x2xf32>
      func.return %y, %s : tensor<2x3xi8>, tensor<1x2xf32>
    }}
  }}"""


@pytest.mark.parametrize("opset", [9, 11, 13])
def test_integers_are_padded_in_every_opset(opset):
    model = host_model(*parse(PADDED.format(opset=opset)))
    assert model.opset_import[0].version == (opset if opset < 13 else OPSET)
    feeds = {"input_0": np.array([[-128, 127]], np.int8), "input_1": floats((1, 2))}
    assert run(model, feeds)[0].tolist() == [[5, 5, 5], [-128, 127, 5]]


@given(st.lists(st.integers(-(2**31), 2**31 - 1), min_size=6, max_size=6))
def test_bytes_of_any_int32(values):
    module, ctx = parse("""
      func.func @main(%x: tensor<2x3xi32>) -> (tensor<2x3xi8>, tensor<2x3xi8>, tensor<2x3xi8>, tensor<2x3xi8>, tensor<2x3xi32>) {
        %p:4 = graph.split_bytes %x : (tensor<2x3xi32>) -> (tensor<2x3xi8>, tensor<2x3xi8>, tensor<2x3xi8>, tensor<2x3xi8>)
        %j = graph.join_bytes %p#0, %p#1, %p#2, %p#3 : (tensor<2x3xi8>, tensor<2x3xi8>, tensor<2x3xi8>, tensor<2x3xi8>) -> tensor<2x3xi32>
        func.return %p#0, %p#1, %p#2, %p#3, %j : tensor<2x3xi8>, tensor<2x3xi8>, tensor<2x3xi8>, tensor<2x3xi8>, tensor<2x3xi32>
      }""")
    x = np.array(values, "<i4").reshape(2, 3)
    *planes, joined = run(host_model(module, ctx), {"input_0": x})
    np.testing.assert_array_equal(np.stack(planes, -1), x.view(np.int8).reshape(2, 3, 4))
    np.testing.assert_array_equal(joined, x)


def test_composites_and_calls_are_inlined():
    module, ctx = parse(
        """
      func.func private @half(%x: tensor<2x4xi8, #graph.packed<1, 4>>) -> tensor<2x4xi32, #graph.packed<1, 4>> {
        %k = graph.constant dense<[0, 1, 2, 3]> : tensor<4xi32>
        %y = graph.composite "double" (%x, %k) : (tensor<2x4xi8, #graph.packed<1, 4>>, tensor<4xi32>) -> tensor<2x4xi32, #graph.packed<1, 4>> {
        ^bb0(%a: tensor<2x4xi8, #graph.packed<1, 4>>, %c: tensor<4xi32>):
          %s = graph.shift_left %a, %c : (tensor<2x4xi8, #graph.packed<1, 4>>, tensor<4xi32>) -> tensor<2x4xi32, #graph.packed<1, 4>>
          graph.yield %s : tensor<2x4xi32, #graph.packed<1, 4>>
        }
        func.return %y : tensor<2x4xi32, #graph.packed<1, 4>>
      }
      func.func @main(%x: tensor<2x4xi8>) -> (tensor<2x4xi32>, tensor<2x4xi32>) {
        %m = graph.max_pool %x4 {kernel = array<i64: 1>, strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>} : (tensor<2x4x1xi8>) -> tensor<2x4x1xi8>
        %z = graph.reshape %m : (tensor<2x4x1xi8>) -> tensor<2x4xi8>
        %p = graph.pack %x : (tensor<2x4xi8>) -> tensor<2x4xi8, #graph.packed<1, 4>>
        %q = graph.pack %z : (tensor<2x4xi8>) -> tensor<2x4xi8, #graph.packed<1, 4>>
        %a = func.call @half(%p) : (tensor<2x4xi8, #graph.packed<1, 4>>) -> tensor<2x4xi32, #graph.packed<1, 4>>
        %b = func.call @half(%q) : (tensor<2x4xi8, #graph.packed<1, 4>>) -> tensor<2x4xi32, #graph.packed<1, 4>>
        %c = graph.unpack %a : (tensor<2x4xi32, #graph.packed<1, 4>>) -> tensor<2x4xi32>
        %d = graph.unpack %b : (tensor<2x4xi32, #graph.packed<1, 4>>) -> tensor<2x4xi32>
        func.return %c, %d : tensor<2x4xi32>, tensor<2x4xi32>
      }""".replace("(%x: tensor<2x4xi8>)", "(%x: tensor<2x4xi8>, %x4: tensor<2x4x1xi8>)")
    )
    x = np.arange(8, dtype=np.int8).reshape(2, 4)
    c, d = run(host_model(module, ctx), {"input_0": x, "input_1": -x[..., None]})
    expected = x.astype(np.int32) << np.arange(4)
    np.testing.assert_array_equal(c, expected)
    np.testing.assert_array_equal(d, -expected)


def test_an_op_without_meaning_in_onnx():
    module, ctx = parse("""
      func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
        %y = "test.op"(%x) : (tensor<2xf32>) -> tensor<2xf32>
        func.return %y : tensor<2xf32>
      }""")
    with pytest.raises(CompileError, match="no meaning in ONNX"):
        host_model(module, ctx)
    module, ctx = parse('func.func @other() { "test.op"() : () -> () func.return }')
    with pytest.raises(CompileError, match="no function @main"):
        host_model(module, ctx)
    assert not isinstance(module, FuncOp)
