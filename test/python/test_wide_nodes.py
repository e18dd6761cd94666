"""Nodes with very many operands: no kernel is made of them, and they run on the host."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import vtac
from vtac.lowering.codegens.vta import MOST_OPERANDS


def model_of(kind: str, count: int) -> onnx.ModelProto:
    """A Concat, a Sum or a chain of Adds of so many inputs, and a relu."""
    names = [f"x{number}" for number in range(count)]
    if kind == "Add":
        results = ["x0", *(f"a{number}" for number in range(1, count - 1)), "s"]
        pairs = zip(results, names[1:], results[1:], strict=False)
        nodes = [helper.make_node("Add", [a, b], [c]) for a, b, c in pairs]
    else:
        nodes = [helper.make_node(kind, names, ["s"], **({"axis": 1} if kind == "Concat" else {}))]
    nodes.append(helper.make_node("Relu", ["s"], ["y"], name="relu"))
    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 2, 2, 2]) for n in names]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "wide", inputs, [output])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("kind", ["Concat", "Sum", "Add"])
@pytest.mark.parametrize(("count", "fits"), [(20, True), (MOST_OPERANDS + 1, False)])
def test_wide_nodes(kind: str, count: int, fits: bool) -> None:
    rng = np.random.default_rng(0)
    samples = {f"x{n}": rng.normal(0, 1, (4, 2, 2, 2)).astype(np.float32) for n in range(count)}
    feeds = {name: array[:1] for name, array in samples.items()}
    module = vtac.compile(
        model_of(kind, count), "pynq", samples, criteria=vtac.Criteria(compare=False)
    )
    joined = np.concatenate(list(feeds.values()), axis=1)
    wanted = np.maximum(joined if kind == "Concat" else sum(feeds.values()), 0)
    found = module.run(feeds)["y"]
    assert np.sqrt(np.mean((found - wanted) ** 2)) < 0.05 * wanted.std()
    (relu,) = [node for node in module.explain if node.node == "relu"]
    assert (relu.where != "host") == fits
    if not fits:
        assert f"more than {MOST_OPERANDS} values" in relu.reason
