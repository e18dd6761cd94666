"""Small ONNX models for tests, and how to import and run them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from vtac.dialects.context import VtacContext
from vtac.dialects.graph import HostOp
from vtac.lowering.graph_to_onnx import host_model
from vtac.lowering.onnx_to_graph import import_model
from vtac.passes.graph.canonicalize_graph import CanonicalizeGraphPass
from vtac.passes.graph.flatten_to_conv import FlattenToConvPass
from vtac.passes.graph.fold_constants import FoldConstantsPass
from vtac.tools.driver.discovery import load_dialects

Array = np.ndarray[Any, np.dtype[Any]]

CLEANING: Sequence[ModulePass] = (
    FoldConstantsPass(),
    CanonicalizeGraphPass(),
    FlattenToConvPass(),
)
"""The passes between import and quantisation."""


def context() -> VtacContext:
    ctx = VtacContext()
    load_dialects(ctx)
    return ctx


def value_info(name: str, shape: Sequence[int | str | None] | None, type: int = TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, type, shape)


def small_model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Sequence[int | str | None]],
    outputs: Sequence[str],
    weights: Mapping[str, Array] | None = None,
    opset: int = 17,
    **more: Any,
) -> onnx.ModelProto:
    """A float model whose outputs have unknown shapes."""
    graph = helper.make_graph(
        nodes,
        "small",
        [value_info(name, shape) for name, shape in inputs.items()],
        [value_info(name, None) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()],
    )
    imports = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8, **more)


def floats(shape: Sequence[int], seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(tuple(shape)).astype(np.float32)


def ops_of(module: ModuleOp) -> list[Operation]:
    """The ops of ``@main`` except constants and the return."""
    main = next(iter(module.body.block.ops))
    return [
        op for op in main.regions[0].block.ops if op.name not in ("graph.constant", "func.return")
    ]


def kinds(module: ModuleOp) -> list[str]:
    """The names of those ops; the operator where one was carried whole."""
    return [op.op_type.data if isinstance(op, HostOp) else op.name for op in ops_of(module)]


def one_thread() -> ort.SessionOptions:
    """Options of onnxruntime for a small model: threads would cost more than they compute."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return options


def run(model: onnx.ModelProto, feeds: Mapping[str, Any]) -> list[Any]:
    """The outputs, without optimisations that round differently or saturate sums of products."""
    options = one_thread()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(model.SerializeToString(), options).run(None, dict(feeds))


def assert_same(expected: Sequence[Any], actual: Sequence[Any], rtol: float = 0.0) -> None:
    assert len(expected) == len(actual)
    for a, b in zip(expected, actual, strict=True):
        if isinstance(a, list):
            assert_same(a, b, rtol)
        elif a is None or b is None:
            assert a is b
        else:
            np.testing.assert_allclose(b, a, rtol=rtol, atol=rtol)
            assert np.asarray(a).dtype == np.asarray(b).dtype


def assert_imports(model: onnx.ModelProto, feeds: Mapping[str, Any], *expected: str) -> ModuleOp:
    """Import, compare the kinds of ops, and rebuild: the answers stay, also after cleaning."""
    ctx = context()
    module = import_model(model, ctx)
    module.verify()
    if expected:
        assert kinds(module) == list(expected)
    answers = run(model, feeds)
    rebuilt = host_model(module, ctx)
    onnx.checker.check_model(rebuilt, full_check=True)
    assert_same(answers, run(rebuilt, feeds), rtol=1e-6)  # opsets differ in the order of sums
    cleaned = module.clone()
    for cleaning in CLEANING:
        cleaning.apply(ctx, cleaned)
        cleaned.verify()
    assert_same(answers, run(host_model(cleaned, ctx), feeds), rtol=1e-4)
    return module
