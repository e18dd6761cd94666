"""The integer reference: its sums against plain loops, its floats against onnxruntime."""

import itertools
from typing import Any

import graph_reference as reference
import numpy as np
import onnx.helper as oh
import onnxruntime
import pytest
from graph_reference import run_reference
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto
from small_models import one_thread
from small_networks import Network, main_of, run
from xdsl.dialects.builtin import BoolAttr
from xdsl.parser import Parser

from vtac.dialects import graph
from vtac.dialects.context import VtacContext
from vtac.dialects.errors import CompileError
from vtac.tools.driver.discovery import load_dialects

Array = np.ndarray[Any, np.dtype[Any]]


def parse(text: str) -> tuple[Any, VtacContext]:
    ctx = VtacContext()
    load_dialects(ctx)
    module = Parser(ctx, text).parse_module()
    module.verify()
    return module, ctx


def evaluate(body: str, **inputs: Array) -> list[Array]:
    """Results of the ops in ``body``, which reads %name for each input and defines them all."""
    module, ctx = parse(body)
    return list(run_reference(module, inputs, ctx.resources).values())


def onnxruntime_result(op_type: str, inputs: dict[str, Array], **attributes: Any) -> Array:
    """One ONNX operator, run by onnxruntime."""
    kinds = {"f": TensorProto.FLOAT, "i": TensorProto.INT8}
    values = [
        oh.make_tensor_value_info(name, kinds[array.dtype.kind], array.shape)
        for name, array in inputs.items()
    ]
    out = TensorProto.INT32 if op_type.endswith("Integer") else TensorProto.FLOAT
    node = oh.make_node(op_type, list(inputs), ["y"], **attributes)
    net = oh.make_graph([node], "g", values, [oh.make_tensor_value_info("y", out, None)])
    model = oh.make_model(net, opset_imports=[oh.make_opsetid("", 17)], ir_version=9)
    session = onnxruntime.InferenceSession(model.SerializeToString(), one_thread())
    return session.run(None, inputs)[0]


def conv_by_loops(x: Array, w: Array, op: graph.ConvOp, shape: tuple[int, ...]) -> Array:
    """Convolution as its definition reads, one product at a time, on Python integers."""
    strides, pads = op.strides.get_values(), op.pads.get_values()
    dilations = op.dilations.get_values()
    y = np.zeros(shape, object)
    for n, o, i, j in itertools.product(*map(range, shape)):
        for c, p, q in itertools.product(*map(range, w.shape[1:])):
            row = i * strides[0] - pads[0] + p * dilations[0]
            column = j * strides[1] - pads[1] + q * dilations[1]
            inside = 0 <= row < x.shape[2] and 0 <= column < x.shape[3]
            value = int(x[n, c, row, column]) if inside else graph.pad_value_of(op)
            y[n, o, i, j] += value * int(w[o, c, p, q])
    return y.astype(np.int64)


@st.composite
def windows(draw: st.DrawFn) -> dict[str, list[int]]:
    kernel = draw(st.lists(st.integers(1, 3), min_size=2, max_size=2))
    return {
        "kernel_shape": kernel,
        "strides": draw(st.lists(st.integers(1, 3), min_size=2, max_size=2)),
        "pads": [draw(st.integers(0, k - 1)) for k in kernel * 2],
        "dilations": draw(st.lists(st.integers(1, 2), min_size=2, max_size=2)),
    }


@settings(max_examples=60)
@given(windows(), st.integers(1, 3), st.integers(1, 4), st.integers(1, 3), st.integers(0, 2**32))
def test_convolution_is_its_definition(
    window: dict[str, list[int]], n: int, c: int, o: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    x = rng.integers(-128, 128, (n, c, 7, 6)).astype(np.int8)
    w = rng.integers(-128, 128, (o, c, *window["kernel_shape"])).astype(np.int8)
    numbers = {key: window[key] for key in ("strides", "pads", "dilations")}
    net = Network(x.shape)
    op = net.conv(net.inputs[0], w.astype(np.float32), **numbers).owner
    shape = op.result.type.get_shape()
    expected = conv_by_loops(x, w, op, shape)
    assert np.array_equal(reference.convolution(x, w, None, op, 1), expected)
    theirs = onnxruntime_result("ConvInteger", {"x": x, "w": w}, **window)
    assert np.array_equal(expected, theirs)
    op.properties.update(graph.pad_property(-128))
    padded = conv_by_loops(x, w, op, shape)
    assert np.array_equal(reference.convolution(x, w, None, op, 1), padded)


@settings(max_examples=40)
@given(windows(), st.sampled_from([1, 2, 4]), st.booleans(), st.integers(0, 2**32))
def test_float_windows_against_onnxruntime(
    window: dict[str, list[int]], group: int, include: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(2, 4, 9, 8)).astype(np.float32)
    kernel = window["kernel_shape"]
    w = rng.normal(size=(8, 4 // group, *kernel)).astype(np.float32)
    bias = rng.normal(size=8).astype(np.float32)
    numbers = {key: window[key] for key in ("strides", "pads", "dilations")}
    net = Network(x.shape)
    conv = net.conv(net.inputs[0], w, bias, group=group, **numbers)
    module = net.module(conv)
    theirs = onnxruntime_result("Conv", {"x": x, "w": w, "b": bias}, group=group, **window)
    np.testing.assert_allclose(run(module, net.ctx, [x])[0], theirs, rtol=1e-4, atol=1e-4)

    net = Network(x.shape)
    plain = {"strides": window["strides"], "pads": window["pads"]}
    largest = net.pool(graph.MaxPoolOp, net.inputs[0], kernel, **plain)
    flag = BoolAttr.from_bool(include)
    mean = net.pool(graph.AveragePoolOp, net.inputs[0], kernel, count_include_pad=flag, **plain)
    results = run(net.module(largest, mean), net.ctx, [x])
    plain["kernel_shape"] = kernel
    assert np.array_equal(results[0], onnxruntime_result("MaxPool", {"x": x}, **plain))
    theirs = onnxruntime_result("AveragePool", {"x": x}, count_include_pad=int(include), **plain)
    np.testing.assert_allclose(results[1], theirs, rtol=1e-5, atol=1e-6)


def test_quantize_and_dequantize_are_onnx() -> None:
    x = np.concatenate(
        [np.arange(-140, 140, 0.25), np.random.default_rng(0).normal(size=9000) * 50]
    ).astype(np.float32)
    for scale in (1.0, 0.5, 0.37, 1 / 127):
        values = [oh.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)]
        constants = [
            oh.make_tensor("s", TensorProto.FLOAT, [], [scale]),
            oh.make_tensor("z", TensorProto.INT8, [], [3]),
        ]
        nodes = [
            oh.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
            oh.make_node("DequantizeLinear", ["q", "s", "z"], ["y"]),
        ]
        outputs = [
            oh.make_tensor_value_info("q", TensorProto.INT8, x.shape),
            oh.make_tensor_value_info("y", TensorProto.FLOAT, x.shape),
        ]
        net = oh.make_graph(nodes, "g", values, outputs, constants)
        model = oh.make_model(net, opset_imports=[oh.make_opsetid("", 17)], ir_version=9)
        session = onnxruntime.InferenceSession(model.SerializeToString(), one_thread())
        q, y = session.run(None, {"x": x})
        ours = reference.quantize(x, scale, 3)
        assert np.array_equal(ours, q)
        assert np.array_equal(reference.dequantize(ours, [scale], 3), y)


def test_requantize_rounds_halves_up_and_clamps() -> None:
    acc = np.array([[-7, -6, -5, -2, 2, 5, 6, 7, 1000, -1000]], np.int32).T
    bias, shift = np.array([2]), np.array([2])
    # (acc + 2) >> 2: -6/4 = -1.5 goes to -1, 6/4 = 1.5 goes to 2
    expected = [-2, -1, -1, 0, 1, 1, 2, 2, 100, -100]
    assert reference.requantize(acc, bias, shift, -100, 100).ravel().tolist() == expected
    assert reference.requantize(acc, np.array([0]), np.array([0]), 0, 9).ravel().tolist() == [
        0, 0, 0, 0, 2, 5, 6, 7, 9, 0,
    ]  # fmt: skip


def test_integers_that_leave_int32_are_an_error() -> None:
    acc = np.array([[2**31 - 2]], np.int32)
    assert reference.add_bias(acc, np.array([1], np.int32)) == 2**31 - 1
    with pytest.raises(OverflowError, match="acc \\+ bias"):
        reference.add_bias(acc, np.array([2], np.int32))
    with pytest.raises(OverflowError, match="shift_left"):
        evaluate(
            """
            func.func @main(%x: tensor<1x1xi8>) -> tensor<1x1xi32> {
              %k = graph.constant dense<25> : tensor<1xi32>
              %y = graph.shift_left %x, %k : (tensor<1x1xi8>, tensor<1xi32>) -> tensor<1x1xi32>
              func.return %y : tensor<1x1xi32>
            }""",
            input_0=np.full((1, 1), 64, np.int8),
        )
    for kind in ("add", "mul", "sub"):
        with pytest.raises(OverflowError, match=kind):
            evaluate(
                f"""
                func.func @main(%a: tensor<1x2xi32>, %b: tensor<1x2xi32>) -> tensor<1x2xi32> {{
                  %y = graph.{kind} %a, %b : (tensor<1x2xi32>, tensor<1x2xi32>) -> tensor<1x2xi32>
                  func.return %y : tensor<1x2xi32>
                }}""",
                input_0=np.array([[2**30, -(2**31)]], np.int32),
                input_1=np.array([[2**30, 2]], np.int32),
            )


def test_bytes_split_and_join() -> None:
    x = np.array([[0, 1, -1, 2**31 - 1, -(2**31), 0x12345678, -129]], np.int32)
    planes = reference.split_bytes(x)
    assert [int(p[0, 5]) for p in planes] == [0x78, 0x56, 0x34, 0x12]
    assert np.array_equal(reference.join_bytes(planes), x)


def test_calls_composites_and_layouts_keep_logical_values() -> None:
    x = np.arange(-6, 6, dtype=np.int8).reshape(1, 12)
    (result,) = evaluate(
        """
        func.func private @vta_0(%x: tensor<1x12xi8, #graph.packed<1, 16>>)
            -> tensor<1x12xi8, #graph.packed<1, 16>> attributes {codegen = "vta"} {
          %y = graph.composite "vta.relu"(%x) : (tensor<1x12xi8, #graph.packed<1, 16>>)
              -> tensor<1x12xi8, #graph.packed<1, 16>> {
          ^bb0(%z: tensor<1x12xi8, #graph.packed<1, 16>>):
            %r = graph.relu %z : (tensor<1x12xi8, #graph.packed<1, 16>>)
                -> tensor<1x12xi8, #graph.packed<1, 16>>
            graph.yield %r : tensor<1x12xi8, #graph.packed<1, 16>>
          }
          func.return %y : tensor<1x12xi8, #graph.packed<1, 16>>
        }
        func.func @main(%x: tensor<1x12xi8>) -> tensor<1x12xi8>
            attributes {graph.inputs = ["in"], graph.outputs = ["out"]} {
          %p = graph.pack %x : (tensor<1x12xi8>) -> tensor<1x12xi8, #graph.packed<1, 16>>
          %q = func.call @vta_0(%p) : (tensor<1x12xi8, #graph.packed<1, 16>>)
              -> tensor<1x12xi8, #graph.packed<1, 16>>
          %y = graph.unpack %q : (tensor<1x12xi8, #graph.packed<1, 16>>) -> tensor<1x12xi8>
          func.return %y : tensor<1x12xi8>
        }""",
        **{"in": x},
    )
    assert np.array_equal(result, np.maximum(x, 0))


def test_host_ops_and_wrong_inputs_are_refused() -> None:
    net = Network((1, 2))
    module = net.module(net.relu(net.inputs[0]))
    with pytest.raises(CompileError) as problems:
        run_reference(module, {"y": np.zeros((1, 2), np.float32)}, net.ctx.resources)
    assert [p.what for p in problems.value.problems] == [
        "the network has no such input",
        "it is missing",
    ]
    with pytest.raises(CompileError, match=r"float64\[1, 2\], expected float32\[1, 2\]"):
        run(module, net.ctx, [np.zeros((1, 2))])
    net = Network((1, 2))
    host = net.add_op(graph.HostOp("Softmax", net.inputs, [net.inputs[0].type]))
    module = net.module(host)
    with pytest.raises(CompileError, match="Softmax is not a graph op"):
        run(module, net.ctx, [np.zeros((1, 2), np.float32)])


def test_every_value_can_be_observed() -> None:
    net = Network((1, 2))
    y = net.add(net.relu(net.inputs[0]), net.inputs[0])
    module = net.module(y)
    seen: dict[str, list[float]] = {}
    x = np.array([[-1.0, 2.0]], np.float32)
    run_reference(
        main_of(module),
        {"x0": x},
        net.ctx.resources,
        lambda value, array: seen.update({value.owner.name: array.ravel().tolist()}),
    )
    assert seen == {"graph.relu": [0.0, 2.0], "graph.add": [-1.0, 4.0]}
