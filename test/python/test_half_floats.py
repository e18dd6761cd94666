"""Networks of float16 and bfloat16: calibrated, they run on the accelerator as float32 ones do."""

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from small_models import context, floats, kinds, run, value_info

from vtac.lowering.graph_to_onnx import host_model
from vtac.lowering.onnx_to_graph import import_model
from vtac.tools.driver.compiler import compile_model

node = helper.make_node
HALF, FULL, BRAIN = TensorProto.FLOAT16, TensorProto.FLOAT, TensorProto.BFLOAT16
STEPS = ("Relu", "MaxPool", "Add", "Softmax", "Cast", "Shape")


def network(steps: list[str], half: int = HALF, border: int = HALF) -> onnx.ModelProto:
    """A convolution, some steps of 16 bits, and a convolution; ``border``: type of x and y."""
    weights = {"w": floats((8, 3, 3, 3), 1) / 5, "v": floats((4, 8, 3, 3), 2) / 8}
    tensors = [
        helper.make_tensor(name, half, array.shape, array.reshape(-1).tolist())
        for name, array in weights.items()
    ]
    nodes = [node("Cast", ["x"], ["h"], to=half)] if border != half else []
    nodes.append(node("Conv", ["h" if nodes else "x", "w"], ["v0"], pads=[1] * 4))
    outputs = [value_info("y", None, border)]
    last = "v0"
    for number, step in enumerate(steps, 1):
        value = f"v{number}"
        if step == "MaxPool":
            pool = {"kernel_shape": [3, 3], "pads": [1] * 4}
            nodes.append(node(step, [last], [value], **pool))
        elif step == "Add":
            nodes.append(node(step, [last, "v0"], [value]))
        elif step == "Cast":  # to float32 and back, as exporters write it around some operators
            nodes.append(node(step, [last], [f"{value}.f"], to=FULL))
            nodes.append(node("Relu", [f"{value}.f"], [f"{value}.r"]))
            nodes.append(node(step, [f"{value}.r"], [value], to=half))
        elif step == "Shape":  # what no graph op reads keeps its type, and is an output besides
            nodes.append(node("Softmax", [last], [f"{value}.s"], axis=1))
            outputs.append(value_info(f"{value}.s", None, half))
            nodes.append(node("Relu", [last], [value]))
        else:
            nodes.append(node(step, [last], [value]))
        last = value
    nodes.append(node("Conv", [last, "v"], ["z" if border != half else "y"], pads=[1] * 4))
    if border != half:
        nodes.append(node("Cast", ["z"], ["y"], to=border))
    graph = helper.make_graph(nodes, "g", [value_info("x", [1, 3, 8, 8], border)], outputs, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@given(st.lists(st.sampled_from(STEPS), max_size=4), st.sampled_from([HALF, FULL]))
@settings(max_examples=40)
def test_widened_networks_compute_the_same(steps, border):
    model, ctx = network(steps, border=border), context()
    module = import_model(model, ctx, calibrated=True)
    module.verify()
    x = floats((1, 3, 8, 8), 3).astype(np.float16 if border == HALF else np.float32)
    expected = run(model, {"x": x})
    found = run(host_model(module, ctx), {"x": x})
    for a, b in zip(expected, found, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(b, a, rtol=2e-2, atol=2e-2)
    assert kinds(module).count("graph.conv") == 2


def test_without_widening_the_network_stays_as_it_is():
    model = network(["Relu"])
    ctx, x = context(), floats((1, 3, 8, 8), 3).astype(np.float16)
    found = run(host_model(import_model(model, ctx), ctx), {"x": x})
    np.testing.assert_array_equal(found[0], run(model, {"x": x})[0])


@pytest.mark.parametrize("half", [HALF, BRAIN])
@pytest.mark.parametrize("steps", [["Relu"], ["Relu", "MaxPool", "Add"], ["Cast", "Relu"]])
def test_calibrated_networks_run_on_the_accelerator(half, steps):
    model = network(steps, half, FULL)
    samples = np.stack([floats((1, 3, 8, 8), seed) for seed in range(4)])
    module = compile_model(model, "pynq", {"x": samples})
    assert {p.where for p in module.explain if p.op.startswith("graph.")} == {"vta_0"}
    plain = network(steps, FULL, FULL)
    expected = run(plain, {"x": samples[0]})[0]
    error = module.run({"x": samples[0]})["y"] - expected
    assert np.sqrt((error**2).mean() / (expected**2).mean()) < 0.05


def test_constants_of_16_bits_become_float32():
    weight = numpy_helper.from_array(floats((4, 5), 1).astype(np.float16), "w")
    graph = helper.make_graph(
        [node("MatMul", ["x", "w"], ["y"])],
        "g",
        [value_info("x", [3, 4], HALF)],
        [value_info("y", None, HALF)],
        [weight],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    found = kinds(import_model(model, context(), calibrated=True))
    assert found == ["Cast", "graph.matmul", "Cast"]
