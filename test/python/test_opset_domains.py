"""Domains that a model does not import: they mean the newest opset, as they do for onnxruntime."""

from typing import Any

import numpy as np
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

import vtac
from vtac.dialects.errors import CompileError

SHAPE = [3, 8]

OPERATORS: dict[str, tuple[str, dict[str, Any]]] = {
    "Relu": ("", {}),
    "Erf": ("", {}),
    "Scaler": ("ai.onnx.ml", {"offset": [0.5], "scale": [2.0]}),
    "Binarizer": ("ai.onnx.ml", {"threshold": 0.25}),
    "Gelu": ("com.microsoft", {}),
    "QuickGelu": ("com.microsoft", {}),
}
"""Operators of one operand, with their domains and attributes."""


@st.composite
def chains(draw: st.DrawFn) -> list[NodeProto]:
    """Operators one after the other, some of them in branches of an If."""
    nodes = list[NodeProto]()
    previous = "x"
    for number in range(draw(st.integers(1, 5))):
        name = draw(st.sampled_from(list(OPERATORS)))
        domain, fields = OPERATORS[name]
        result = f"v{number}"
        if draw(st.booleans()):
            branches = []
            for end in (f"{result}_then", f"{result}_else"):
                inner = helper.make_node(name, [previous], [end], domain=domain, **fields)
                branches.append(helper.make_graph([inner], end, [], [value(end)]))
            fields = {"then_branch": branches[0], "else_branch": branches[1]}
            nodes.append(helper.make_node("If", ["yes"], [result], **fields))
        else:
            nodes.append(helper.make_node(name, [previous], [result], domain=domain, **fields))
        previous = result
    return nodes


def value(name: str) -> ValueInfoProto:
    """A tensor of floats."""
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, SHAPE)


@settings(max_examples=40)
@given(chains(), st.sets(st.sampled_from(["", "ai.onnx.ml", "com.microsoft", "elsewhere"])))
def test_domains_that_are_not_imported(nodes: list[NodeProto], imported: set[str]) -> None:
    versions = {"": 17, "ai.onnx.ml": 3}
    imports = [helper.make_opsetid(name, versions.get(name, 1)) for name in sorted(imported)]
    yes = numpy_helper.from_array(np.array(True), "yes")
    graph = helper.make_graph(nodes, "chain", [value("x")], [value(nodes[-1].output[0])], [yes])
    model = helper.make_model(graph, opset_imports=imports, ir_version=9)
    if not imported:
        del model.opset_import[:]
        with pytest.raises(CompileError) as error:
            vtac.compile(model, "chisel-pynq")
        assert [p.what for p in error.value.problems] == ["it does not say which opset it uses"]
        return
    x = np.random.default_rng(len(nodes)).normal(size=SHAPE).astype(np.float32)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    (expected,) = session.run(None, {"x": x})
    (found,) = vtac.compile(model, "chisel-pynq").run({"x": x}).values()
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
