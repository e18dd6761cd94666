"""Nodes with very many operands: no kernel is made of them, and they run on the host."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import vtac
from vtac.lowering.codegens.vta import MOST_JOINED, MOST_OPERANDS


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


def compiled(kind: str, count: int) -> tuple[vtac.Module, float]:
    """A model compiled for the accelerator, and its relative error on one sample."""
    rng = np.random.default_rng(0)
    samples = {f"x{n}": rng.normal(0, 1, (4, 2, 2, 2)).astype(np.float32) for n in range(count)}
    feeds = {name: array[:1] for name, array in samples.items()}
    module = vtac.compile(
        model_of(kind, count), "pynq", samples, criteria=vtac.Criteria(compare=False)
    )
    joined = np.concatenate(list(feeds.values()), axis=1)
    wanted = np.maximum(joined if kind == "Concat" else sum(feeds.values()), 0)
    found = module.run(feeds)["y"]
    return module, float(np.sqrt(np.mean((found - wanted) ** 2)) / wanted.std())


@pytest.mark.parametrize(("kind", "count"), [("Concat", 20), ("Sum", 150), ("Add", 150)])
def test_wide_nodes_on_the_accelerator(kind: str, count: int) -> None:
    module, error = compiled(kind, count)
    assert error < 0.05
    assert all(node.where != "host" for node in module.explain)


@pytest.mark.parametrize(
    ("kind", "most", "reason"),
    [
        ("Concat", MOST_JOINED, f"joins more than {MOST_JOINED} values"),
        ("Sum", 30, f"reads more than {MOST_OPERANDS} values"),
        ("Add", 30, f"reads more than {MOST_OPERANDS} values"),
    ],
)
def test_wider_nodes_stay_on_the_host(
    kind: str, most: int, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind != "Concat":
        monkeypatch.setattr("vtac.lowering.codegens.vta.MOST_OPERANDS", most)
    module, error = compiled(kind, most + 1)
    assert error < 0.05
    (relu,) = [node for node in module.explain if node.node == "relu"]
    assert relu.where == "host"
    assert any(reason in node.reason for node in module.explain)
