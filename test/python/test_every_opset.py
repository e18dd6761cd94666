# ruff: noqa: E501 (IR is wide)
"""Every graph op goes back to ONNX in every opset, or says from which opset on it can.

A host part keeps the opset of its model, so an op may be written in any of them. Each form below is
written in each opset from 7 on, checked by onnx, and run by onnxruntime: the results are those of
the default opset.
"""

from functools import cache

import numpy as np
import onnx
import pytest
from small_models import context, run
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.parser import Parser

from vtac.dialects.context import VtacContext, element_dtype
from vtac.dialects.errors import CompileError
from vtac.dialects.graph import packing
from vtac.lowering.graph_to_onnx import OPSET, host_model, model

OPSETS = range(7, min(onnx.defs.onnx_opset_version(), 25) + 1)
IMAGE, BYTES = "tensor<1x2x4x6xf32>", "tensor<1x2x4x6xi8>"
WINDOW = "kernel = array<i64: 2, 3>, strides = array<i64: 2, 1>, pads = array<i64: 0, 1, 1, 1>, dilations = array<i64: {}, 1>"
PLAIN = "strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>"
CONV = "strides = array<i64: 2, 1>, pads = array<i64: 1, 0, 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64"


def elementwise(name: str, count: int, attributes: str = "", type: str = IMAGE) -> str:
    """An op on operands of one type; the second is ``%k``, which broadcasts along space."""
    operands = ", ".join(["%x", "%k"][:count])
    key = type.replace("1x2x4x6", "2x1x1")
    types = ", ".join([type, key][:count])
    constant = f"%k = graph.constant dense<2{'' if 'i8' in type else '.0'}> : {key}\n"
    return f"{type} -> {type}: {constant}%y = graph.{name} {operands} {attributes} : ({types}) -> {type}"


def unary(name: str, source: str, result: str, attributes: str, constants: str = "") -> str:
    return f"{source} -> {result}: {constants}%y = graph.{name} %x {{{attributes}}} : ({source}) -> {result}"


VECTOR = "%v = graph.constant dense<[3, 1]> : tensor<2xi32>\n"
SUMS = "tensor<1x2x4x6xi32>"
RESCALE = "%m = graph.constant dense<[1000000, 77]> : tensor<2xi32>\n%s = graph.constant dense<[3, 1]> : tensor<2xi32>\n"

FORMS = {
    "graph.add": [elementwise("add", 2)],
    "graph.sub": [elementwise("sub", 2)],
    "graph.mul": [elementwise("mul", 2)],
    "graph.div": [elementwise("div", 2)],
    "graph.max": [elementwise("max", 2), elementwise("max", 2, type=BYTES)],
    "graph.min": [elementwise("min", 2), elementwise("min", 2, type=BYTES)],
    "graph.abs": [elementwise("abs", 1)],
    "graph.activation": [
        elementwise("activation", 1, f'{{operator = "{name}"{more}}}')
        for name, more in (
            ("Sigmoid", ""),
            ("Erf", ""),
            ("Softsign", ""),
            ("Elu", ", alpha = 0.5 : f64"),
            ("Selu", ", alpha = 0.5 : f64, gamma = 2.0 : f64"),
        )
    ],
    "graph.neg": [elementwise("neg", 1)],
    "graph.relu": [elementwise("relu", 1)],
    "graph.prelu": [elementwise("prelu", 2)],
    "graph.leaky_relu": [elementwise("leaky_relu", 1, "{alpha = 0.1 : f64}")],
    "graph.hard_sigmoid": [elementwise("hard_sigmoid", 1, "{alpha = 0.2 : f64, beta = 0.5 : f64}")],
    "graph.hard_swish": [elementwise("hard_swish", 1)],
    "graph.clip": [
        elementwise("clip", 1, "{min = -0.5 : f64, max = 0.75 : f64}"),
        elementwise("clip", 1, "{max = 0.75 : f64}"),
        elementwise("clip", 1),
    ],
    "graph.concat": [
        f"{t} -> {t.replace('x6x', 'x12x')}: %y = graph.concat %x, %x {{axis = 3 : i64}} : ({t}, {t}) -> {t.replace('x6x', 'x12x')}"
        for t in (IMAGE, BYTES)
    ],
    "graph.slice": [
        unary(
            "slice",
            t,
            t.replace("1x2x4x6", "1x1x2x3"),
            f"starts = array<i64: 0, 1, 2, 0>, steps = array<i64: 1, 1, 1, {step}>",
        )
        for t in (IMAGE, BYTES)
        for step in (1, 2)
    ],
    "graph.pad": [
        unary(
            "pad",
            t,
            t.replace("4x6", "5x8"),
            "pads = array<i64: 0, 0, 1, 0, 0, 0, 0, 2>, value = 1.0 : f64",
        )
        for t in (IMAGE, BYTES)
    ],
    "graph.upsample": [
        unary("upsample", t, t.replace("4x6", "8x18"), "factors = array<i64: 1, 1, 2, 3>")
        for t in (IMAGE, BYTES)
    ],
    "graph.depth_to_space": [
        unary("depth_to_space", t, t.replace("2x4x6", "1x4x12"), "blocks = array<i64: 1, 2>")
        for t in (IMAGE, BYTES)
    ],
    "graph.take_channels": [
        unary("take_channels", t, t.replace("1x2x", "1x3x"), "indices = array<i64: 1, 0, 1>")
        for t in (IMAGE, BYTES)
    ],
    "graph.transpose": [
        unary(
            "transpose", t, t.replace("1x2x4x6", "1x4x6x2"), "permutation = array<i64: 0, 2, 3, 1>"
        )
        for t in (IMAGE, BYTES)
    ],
    "graph.reshape": [
        f"{t} -> {t.replace('1x2x4x6', '1x48')}: %y = graph.reshape %x : ({t}) -> {t.replace('1x2x4x6', '1x48')}"
        for t in (IMAGE, BYTES)
    ],
    "graph.max_pool": [
        unary("max_pool", t, t.replace("4x6", "2x6"), WINDOW.format(dilation))
        for t in (IMAGE, BYTES)
        for dilation in (1, 2)
    ],
    "graph.average_pool": [
        unary(
            "average_pool",
            IMAGE,
            IMAGE.replace("4x6", "2x6"),
            f"{WINDOW.format(1)}, count_include_pad = {count}",
        )
        for count in ("true", "false")
    ],
    "graph.global_average_pool": [
        f"{IMAGE} -> tensor<1x2x1x1xf32>: %y = graph.global_average_pool %x : ({IMAGE}) -> tensor<1x2x1x1xf32>"
    ],
    "graph.sum_pool": [
        unary("sum_pool", BYTES, SUMS.replace("4x6", "2x6"), WINDOW.format(1)),
        unary("sum_pool", IMAGE, IMAGE.replace("4x6", "2x6"), WINDOW.format(1)),
        unary(
            "sum_pool", IMAGE, IMAGE.replace("4x6", "1x1"), f"kernel = array<i64: 4, 6>, {PLAIN}"
        ),
    ],
    "graph.batch_norm": [
        f"{IMAGE} -> {IMAGE}: %v = graph.constant dense<[0.5, 2.0]> : tensor<2xf32>\n"
        f"%y = graph.batch_norm %x, %v, %v, %v, %v {{epsilon = 1.0e-05 : f64}} : ({IMAGE}, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> {IMAGE}"
    ],
    "graph.conv": [
        f"{IMAGE} -> tensor<1x3x3x6xf32>: %w = graph.constant dense<0.5> : tensor<3x2x2x2xf32>\n"
        f"%y = graph.conv %x, %w {{{CONV}}} : ({IMAGE}, tensor<3x2x2x2xf32>) -> tensor<1x3x3x6xf32>",
        f"{BYTES} -> tensor<1x3x3x6xi32>: %w = graph.constant dense<3> : tensor<3x2x2x2xi8>\n"
        f"%y = graph.conv %x, %w {{{CONV}}} : ({BYTES}, tensor<3x2x2x2xi8>) -> tensor<1x3x3x6xi32>",
    ],
    "graph.gemm": [
        f"tensor<2x4xf32> -> tensor<2x3xf32>: %w = graph.constant dense<0.5> : tensor<3x4xf32>\n%b = graph.constant dense<1.5> : tensor<3xf32>\n"
        f"%y = graph.gemm %x, %w {biased} {{alpha = 1.0 : f64, beta = 1.0 : f64, trans_a = false, trans_b = true}} : (tensor<2x4xf32>, tensor<3x4xf32>{more}) -> tensor<2x3xf32>"
        for biased, more in (("", ""), ("bias %b", ", tensor<3xf32>"))
    ]
    + [
        "tensor<2x4xi8> -> tensor<2x3xi32>: %w = graph.constant dense<5> : tensor<3x4xi8>\n"
        "%y = graph.gemm %x, %w {alpha = 1.0 : f64, beta = 1.0 : f64, trans_a = false, trans_b = true} : (tensor<2x4xi8>, tensor<3x4xi8>) -> tensor<2x3xi32>"
    ],
    "graph.matmul": [
        f"tensor<2x4x{a}> -> tensor<2x3x{c}>: %w = graph.constant dense<{v}> : tensor<4x3x{a}>\n%y = graph.matmul %x, %w : (tensor<2x4x{a}>, tensor<4x3x{a}>) -> tensor<2x3x{c}>"
        for a, c, v in (("f32", "f32", "0.5"), ("i8", "i32", "5"))
    ],
    "graph.batch_matmul": [
        f"tensor<4x3x{a}> -> tensor<4x2x{c}>: %y = graph.batch_matmul %x, %x {{batch = 2 : i64}} : (tensor<4x3x{a}>, tensor<4x3x{a}>) -> tensor<4x2x{c}>"
        for a, c in (("f32", "f32"), ("i8", "i32"))
    ],
    "graph.quantize": [
        unary("quantize", IMAGE, t, f"scale = 0.02 : f64, zero_point = {z} : i64")
        for t, z in ((BYTES, 5), (BYTES.replace("i8", "ui8"), 128))
    ],
    "graph.fake_quantize": [
        unary(
            "fake_quantize",
            IMAGE,
            IMAGE,
            f"scale = 0.02 : f64, zero_point = {zero} : i64, low = {low} : i64, high = {low + 255} : i64",
        )
        for zero, low in ((5, -128), (128, 0))
    ],
    "graph.dequantize": [
        unary("dequantize", t, IMAGE, f"scales = array<f64: {scales}>, zero_point = {zero} : i64")
        for t in (BYTES, SUMS)
        for scales, zero in (("0.125", 0), ("0.125", 7), ("0.125, 0.5", 0))
    ],
    "graph.requantize": [
        f"{SUMS} -> {BYTES}: {VECTOR}%y = graph.requantize %x bias %v shift %v {{lo = -100 : i64, hi = 100 : i64, scale = 0.5 : f64, zero_point = 0 : i64}} : ({SUMS}, tensor<2xi32>, tensor<2xi32>) -> {BYTES}"
    ],
    "graph.rescale": [
        f"{SUMS} -> {BYTES}: {RESCALE}%y = graph.rescale %x bias %s within %s, %m times %s plus %m {{shift = 3 : i64, lo = -100 : i64, hi = 100 : i64, scale = 0.5 : f64, zero_point = 0 : i64}} : ({SUMS}, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> {BYTES}"
    ],
    "graph.shift_left": [
        f"{t} -> {SUMS}: {VECTOR}%y = graph.shift_left %x, %v : ({t}, tensor<2xi32>) -> {SUMS}"
        for t in (BYTES,)
    ],
    "graph.add_bias": [
        f"{SUMS} -> {SUMS}: {VECTOR}%y = graph.add_bias %x, %v : ({SUMS}, tensor<2xi32>) -> {SUMS}"
    ],
    "graph.multiply_shift": [
        f"{SUMS} -> {SUMS}: %y = graph.multiply_shift %x {{multiplier = -3 : i64, offset = 70 : i64, shift = 2 : i64}} : ({SUMS}) -> {SUMS}"
    ],
    "graph.shift_right_by": [
        f"{SUMS} -> {SUMS}: %z = graph.multiply_shift %x {{multiplier = 0 : i64, offset = 3 : i64, shift = 0 : i64}} : ({SUMS}) -> {SUMS}\n%y = graph.shift_right_by %x, %z : ({SUMS}, {SUMS}) -> {SUMS}"
    ],
    "graph.requantize_planes": [
        f"{SUMS} -> {BYTES}: {VECTOR}%h, %l = graph.requantize_planes %x bias %v shift %v {{bound = 1000 : i64, scale = 0.5 : f64}} : ({SUMS}, tensor<2xi32>, tensor<2xi32>) -> ({BYTES}, {BYTES})\n%y = graph.max %h, %l : ({BYTES}, {BYTES}) -> {BYTES}"
    ],
    "graph.split_bytes": [
        f"{SUMS} -> {BYTES}: %p:4 = graph.split_bytes %x : ({SUMS}) -> ({BYTES}, {BYTES}, {BYTES}, {BYTES})\n%y = graph.max %p#1, %p#0 : ({BYTES}, {BYTES}) -> {BYTES}"
    ],
    "graph.join_bytes": [
        f"{BYTES} -> {SUMS}: %y = graph.join_bytes %x, %x, %x, %x : ({BYTES}, {BYTES}, {BYTES}, {BYTES}) -> {SUMS}"
    ],
    "graph.pack": [
        f"{BYTES} -> tensor<1x2x4x6xi8, #graph.packed<2, 4>>: %y = graph.pack %x : ({BYTES}) -> tensor<1x2x4x6xi8, #graph.packed<2, 4>>"
    ],
    "graph.unpack": [
        f"tensor<1x2x4x6xi8, #graph.packed<2, 4>> -> {BYTES}: %y = graph.unpack %x : (tensor<1x2x4x6xi8, #graph.packed<2, 4>>) -> {BYTES}"
    ],
    "graph.unfold": [
        unary(
            "unfold",
            BYTES,
            "tensor<1x8x4x3xi8>",
            f"kernel = array<i64: 1, 3>, strides = array<i64: 1, 2>, pads = array<i64: 0, 1, 0, 0>, dilations = array<i64: 1, 1>, constants = array<i64: 1, 127>{more}",
        )
        for more in ("", ", pad_value = 5 : i64")
    ],
}


@cache
def network(form: str) -> tuple[ModuleOp, VtacContext]:
    """``TYPE -> TYPE: ops from %x to %y`` as a network."""
    types, body = form.split(": ", 1)
    source, result = types.split(" -> ")
    ctx = context()
    text = f"func.func @main(%x: {source}) -> {result} {{\n{body}\nfunc.return %y : {result}\n}}"
    module = Parser(ctx, text).parse_module()
    module.verify()
    return module, ctx


def operand(module: ModuleOp) -> np.ndarray:
    """Numbers for the network's argument, as it crosses the border."""
    type = next(iter(module.ops)).body.block.args[0].type
    assert isinstance(type, TensorType)
    packed, dtype = packing(type), element_dtype(type.element_type)
    shape = packed.physical_shape(type.get_shape()) if packed else type.get_shape()
    numbers = np.random.default_rng(3).uniform(-3, 3, shape)
    return (numbers if dtype.kind == "f" else numbers * 30).astype(dtype)


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("name", FORMS)
def test_every_op_in_every_opset(name, opset, monkeypatch):
    for form in FORMS[name]:
        module, ctx = network(form)
        feeds = {"input_0": operand(module)}
        expected = run(host_model(module, ctx), feeds)
        with monkeypatch.context() as patch:
            patch.setattr(model, "_default_opset", lambda ops, version, ctx: opset)
            try:
                written = host_model(module, ctx)
            except CompileError as error:
                assert "needs opset" in str(error)
                assert opset < OPSET, form
                continue
        assert written.opset_import[0].version == opset
        onnx.checker.check_model(written, full_check=True)
        if opset <= 22:  # later ones are ahead of onnxruntime
            np.testing.assert_allclose(run(written, feeds)[0], expected[0], rtol=1e-5, atol=1e-6)


def test_every_op_has_a_form():
    written = {op.name for op in model._CONVERTERS} - {"graph.host"}
    assert written == set(FORMS)
    for forms in FORMS.values():
        for form in forms:
            assert network(form)
