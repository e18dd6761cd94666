"""Networks in instances on a cluster: no hazard, and the integers of one core."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import vtac
from vtac.dialects.target import COMPUTE, CORE, LOAD, STORE, ClusterTarget
from vtac.passes.pipeline import Pipeline
from vtac.passes.vta.accesses import Access, Order
from vtac.passes.vta.insert_dependences import derive_tokens

PLANS = {
    "paper": 'graph-group-layers{mode="paper" rows=false stage=4096},'
    'graph-plan-instances{mode="paper"},graph-instantiate,graph-order-instances{order="depth"}',
    "cost": "graph-plan-instances,graph-instantiate,graph-order-instances",
}


def network(seed: int, batch: int) -> onnx.ModelProto:
    """Three convolutions with random weights; the second halves the images."""
    rng = np.random.default_rng(seed)
    channels, nodes, weights, x = [16, 32, 32, 16], [], [], "x"
    for layer, stride in enumerate((1, 2, 1)):
        shape = (channels[layer + 1], channels[layer], 3, 3)
        values = rng.normal(size=shape).astype(np.float32) / 12
        weights.append(numpy_helper.from_array(values, f"w{layer}"))
        made = {"pads": [1] * 4, "strides": [stride] * 2}
        nodes.append(helper.make_node("Conv", [x, f"w{layer}"], [f"c{layer}"], **made))
        nodes.append(helper.make_node("Relu", [f"c{layer}"], [f"r{layer}"]))
        x = f"r{layer}"
    ends = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 16, 12, 12]),
        helper.make_tensor_value_info(x, TensorProto.FLOAT, None),
    ]
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("cores", [2, 3])
def test_instances_equal_one_core(plan: str, cores: int) -> None:
    """The compiler proves programs free of hazards, and raises an error where one is not."""
    model = network(cores, batch=4)
    x = np.random.default_rng(1).normal(size=(4, 16, 12, 12)).astype(np.float32)

    def in_instances(pipeline: Pipeline) -> Pipeline:
        planned = pipeline.before("graph-bind-cores", PLANS[plan])
        return planned.before("graph-to-te", "graph-inline-instances")

    machine = ClusterTarget.named("cluster-4").replace(cores=cores, gb_bytes=1 << 14)
    alone = vtac.compile(model, "chisel-pynq", {"x": x})
    module = vtac.compile(model, machine, {"x": x}, pipeline=in_instances)
    (expected,), (found,) = (m.run({"x": x}).values() for m in (alone, module))
    np.testing.assert_array_equal(found, expected)


def test_stores_follow_waits_and_waits_no_store() -> None:
    """A store waits for what its core has waited for, though nothing that it stores was loaded
    behind that. A wait does not wait for the stores before it: two units would block each other."""
    one = slice(0, 1)
    wait = [Access(Order.WAITED, one, True), Access(Order.BEGUN, one, True)]
    store = [Access(Order.BEGUN, one, False)]
    modules = [LOAD, STORE, LOAD, COMPUTE]
    tokens = derive_tokens(CORE, modules, [wait, store, wait, None], lambda _: 1, 64)
    assert tokens is not None
    # The order from load to store goes through an empty instruction of compute.
    ((place, _, carrier),) = tokens.carriers
    assert place == 1 and sum(carrier) == 2
    first, second, third, finish = tokens.flags
    assert any(first) and any(second)
    # What the second wait does is to push for FINISH: it pops nothing.
    assert sum(third) == 1 and sum(finish) == 2
