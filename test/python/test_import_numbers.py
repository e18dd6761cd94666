"""Constants of number types that NumPy lacks, and of none: import computes with what they hold.

Weights of 2, 4 and 8 bits, bfloat16 and float8 become float constants, whatever the scales look
like, so that the network behind them is quantised as any other. onnxruntime is the oracle.
"""

from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from small_models import assert_same, context, floats, kinds, one_thread, run, value_info

from vtac.lowering.graph_to_onnx import host_model
from vtac.lowering.onnx_to_graph import import_model
from vtac.tools.driver.compiler import compile_model

node = helper.make_node

INTEGERS = {
    TensorProto.INT4: (-8, 8),
    TensorProto.UINT4: (0, 16),
    TensorProto.INT8: (-128, 128),
    TensorProto.UINT8: (0, 256),
}
FLOATS = (TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT8E5M2, TensorProto.BFLOAT16)
MICROSOFT = "com.microsoft"


def product_with(
    nodes: list[onnx.NodeProto],
    weights: list[onnx.TensorProto],
    inner: int,
    as_nodes: bool = False,
    extra: tuple[tuple[str, int], ...] = (),
) -> onnx.ModelProto:
    """``y`` from ``x`` [3, inner] by nodes with these constants, initialisers or Constant nodes."""
    if as_nodes:
        nodes = [node("Constant", [], [w.name], value=w) for w in weights] + nodes
        weights = []
    graph = helper.make_graph(
        nodes, "g", [value_info("x", [3, inner])], [value_info("y", None)], weights
    )
    opsets = [helper.make_opsetid("", 21), *(helper.make_opsetid(*named) for named in extra)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def assert_same_product(model: onnx.ModelProto, inner: int, *expected: str) -> None:
    """Assert the kinds of the imported ops, and that they compute what onnxruntime does."""
    ctx, x = context(), floats((3, inner), 5)
    module = import_model(model, ctx)
    module.verify()
    assert kinds(module) == list(expected)
    assert_same(run(model, {"x": x}), run(host_model(module, ctx), {"x": x}), rtol=1e-5)


@given(
    st.sampled_from([*INTEGERS]),
    st.integers(1, 9),
    st.integers(1, 7),
    st.sampled_from(["tensor", "channel", "block"]),
    st.integers(2, 4),
    st.booleans(),
    st.booleans(),
)
@settings(max_examples=60)
def test_dequantised_integers(kind, inner, outer, scales, block, shifted, as_nodes):
    rng = np.random.default_rng([inner, outer, block])
    low, high = INTEGERS[kind]
    shape = {"tensor": (), "channel": (outer,), "block": (-(-inner // block), outer)}[scales]
    attributes: dict[str, Any] = {"axis": 0 if scales == "block" else 1}
    if scales == "block":
        attributes["block_size"] = block
    values = rng.integers(low, high, (inner, outer))
    weights = [
        helper.make_tensor("w", kind, values.shape, values.reshape(-1).tolist()),
        numpy_helper.from_array(rng.uniform(0.01, 0.1, shape).astype(np.float32), "s"),
    ]
    names = ["w", "s"]
    if shifted:
        zeros = rng.integers(low, high, shape)
        weights.append(helper.make_tensor("z", kind, shape, np.reshape(zeros, -1).tolist()))
        names.append("z")
    nodes = [
        node("DequantizeLinear", names, ["f"], **attributes),
        node("MatMul", ["x", "f"], ["y"]),
    ]
    model = product_with(nodes, weights, inner, as_nodes)
    assert_same_product(model, inner, "graph.matmul")


@given(st.sampled_from(FLOATS), st.integers(1, 9), st.integers(1, 7), st.booleans())
@settings(max_examples=30)
def test_cast_floats(kind, inner, outer, as_nodes):
    values = floats((inner, outer), inner)
    weights = [helper.make_tensor("w", kind, values.shape, values.reshape(-1).tolist())]
    nodes = [node("Cast", ["w"], ["f"], to=TensorProto.FLOAT), node("MatMul", ["x", "f"], ["y"])]
    model = product_with(nodes, weights, inner, as_nodes)
    assert_same_product(model, inner, "graph.matmul")


@pytest.mark.parametrize("kind", FLOATS[:2])
@pytest.mark.parametrize("channels", [False, True])
def test_dequantised_floats(kind, channels):
    values = floats((6, 5), 1)
    weights = [
        helper.make_tensor("w", kind, values.shape, values.reshape(-1).tolist()),
        numpy_helper.from_array(np.full((5,) if channels else (), 0.25, np.float32), "s"),
    ]
    nodes = [
        node("DequantizeLinear", ["w", "s"], ["f"], axis=1),
        node("MatMul", ["x", "f"], ["y"]),
    ]
    assert_same_product(product_with(nodes, weights, 6), 6, "graph.matmul")


@st.composite
def few_bits(draw):
    """A MatMulNBits node with its weights, and how many numbers it sums."""
    bits = draw(st.sampled_from([4, 8]))
    inner, outer = draw(st.integers(1, 70)), draw(st.integers(1, 9))
    block = draw(st.sampled_from([16, 32]))
    blocks = -(-inner // block)
    rng = np.random.default_rng([bits, inner, outer])
    packed = rng.integers(0, 256, (outer, blocks, block * bits // 8)).astype(np.uint8)
    scales = rng.uniform(0.01, 0.1, outer * blocks).astype(np.float32)
    weights = [numpy_helper.from_array(packed, "w"), numpy_helper.from_array(scales, "s")]
    names = ["x", "w", "s", "", "", ""]
    if draw(st.booleans()):
        zeros = rng.integers(0, 256, outer * -(-blocks * bits // 8)).astype(np.uint8)
        weights.append(numpy_helper.from_array(zeros, "z"))
        names[3] = "z"
    if draw(st.booleans()):
        weights.append(numpy_helper.from_array(floats((outer,), 2), "b"))
        names[5] = "b"
    values = {"K": inner, "N": outer, "bits": bits, "block_size": block}
    made = node("MatMulNBits", names, ["y"], name="few", domain=MICROSOFT, **values)
    return made, weights, inner


@given(few_bits(), st.booleans())
@settings(max_examples=60)
def test_products_with_weights_of_few_bits(case, as_nodes):
    made, weights, inner = case
    model = product_with([made], weights, inner, as_nodes, ((MICROSOFT, 1),))
    expected = ["graph.matmul", "graph.add"] if made.input[5] else ["graph.matmul"]
    ctx, x = context(), floats((3, inner), 5)
    module = import_model(model, ctx)
    assert kinds(module) == expected
    session = ort.InferenceSession(model.SerializeToString(), one_thread())
    found = run(host_model(module, ctx), {"x": x})
    np.testing.assert_allclose(found[0], session.run(None, {"x": x})[0], rtol=1e-4, atol=1e-4)


def test_weights_of_few_bits_that_do_not_fit_stay_whole():
    weights = [
        numpy_helper.from_array(np.zeros((4, 1, 8), np.uint8), "w"),
        numpy_helper.from_array(np.ones(4, np.float32), "s"),
    ]
    values = {"K": 32, "N": 4, "bits": 4, "block_size": 32}
    made = node("MatMulNBits", ["x", "w", "s"], ["y"], domain=MICROSOFT, **values)
    model = product_with([made], weights, 32, extra=((MICROSOFT, 1),))
    assert kinds(import_model(model, context())) == ["MatMulNBits"]


def test_strings_cross_the_host_parts_of_a_calibrated_network():
    labels = helper.make_tensor("labels", TensorProto.STRING, [2], [b"cat", b"dog"])
    weights = [
        labels,
        numpy_helper.from_array(floats((6, 2), 3), "w"),
        numpy_helper.from_array(floats((2, 2), 4), "v"),
    ]
    nodes = [
        node("MatMul", ["x", "w"], ["a"]),
        node("Relu", ["a"], ["b"]),
        node("ArgMax", ["b"], ["best"], axis=1, keepdims=0),
        node("Gather", ["labels", "best"], ["named"]),
        node("MatMul", ["b", "v"], ["y"]),
    ]
    model = product_with(nodes, weights, 6)
    for name in ("named", "labels"):
        model.graph.output.append(helper.make_tensor_value_info(name, TensorProto.STRING, [None]))
    x = floats((3, 6), 5)
    module = compile_model(model, "pynq", {"x": x[None]})
    assert {p.op for p in module.explain if p.where != "host"} == {"graph.matmul", "graph.relu"}
    found = module.run({"x": x})
    expected = run(model, {"x": x})
    assert found["labels"].tolist() == ["cat", "dog"]
    assert found["named"].tolist() == expected[1].tolist()


@given(st.integers(0, 12), st.booleans(), st.booleans(), st.integers(0, 99))
@settings(max_examples=30)
def test_sparse_constants_are_dense(count, flat, as_node, seed):
    rng = np.random.default_rng(seed)
    places = np.sort(rng.choice(12, count, replace=False))
    indices = places if flat else np.stack(np.unravel_index(places, (4, 3)), axis=1)
    values = numpy_helper.from_array(floats((count,), seed), "w")
    index = numpy_helper.from_array(indices.astype(np.int64), "i")
    sparse = helper.make_sparse_tensor(values, index, [4, 3])
    nodes = [node("MatMul", ["x", "w"], ["y"])]
    if as_node:
        nodes.insert(0, node("Constant", [], ["w"], sparse_value=sparse))
    model = product_with(nodes, [], 4)
    if not as_node:
        model.graph.sparse_initializer.append(sparse)
    module, x = import_model(model, context()), floats((3, 4), 5)
    assert kinds(module) == ["graph.matmul"]
    dense = np.zeros(12, np.float32)
    dense[places] = floats((count,), seed)
    ctx = context()
    found = run(host_model(import_model(model, ctx), ctx), {"x": x})[0]
    np.testing.assert_allclose(found, x @ dense.reshape(4, 3), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("place", ["before", "between", "after"])
@pytest.mark.parametrize("kind", ["RandomNormal", "RandomUniform", "Constant"])
def test_host_operators_without_operands_beside_quantised_layers(kind, place):
    if kind == "Constant":
        noise = node("Constant", [], ["n"], value_strings=["a", "b"])
        use = [node("StringNormalizer", ["n"], ["t"]), node("Shape", ["t"], ["i"])]
        use += [node("Cast", ["i"], ["f"], to=TensorProto.FLOAT)]
        use += [node("Sub", ["f", "f"], ["r"])]
    else:
        tiny = {"scale": 1e-30} if kind == "RandomNormal" else {"low": 0.0, "high": 1e-30}
        noise, use = node(kind, [], ["r"], shape=[3, 6], seed=1.0, **tiny), []
    names = {"before": ("x", "p"), "between": ("a", "p"), "after": ("b", "y")}
    source, result = names[place]
    added = node("Add", [source, "r"], [result])
    nodes = [
        noise,
        *use,
        *([added] if place == "before" else []),
        node("MatMul", ["p" if place == "before" else "x", "w"], ["a"]),
        *([added] if place == "between" else []),
        node("MatMul", ["p" if place == "between" else "a", "v"], ["b"]),
        added if place == "after" else node("Relu", ["b"], ["y"]),
    ]
    weights = [numpy_helper.from_array(floats((6, 6), seed), n) for n, seed in (("w", 1), ("v", 2))]
    model, x = product_with(nodes, weights, 6), floats((3, 6), 5)
    module = compile_model(model, "pynq", {"x": np.stack([x, -x])})
    assert sum(p.op == "graph.matmul" and p.where != "host" for p in module.explain) == 2
    expected = run(model, {"x": x})[0]
    error = module.run({"x": x})["y"] - expected
    assert np.sqrt((error**2).mean() / (expected**2).mean()) < 0.05
