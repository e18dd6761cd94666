"""Imports every node test of ONNX's backend suite, rebuilds it, and compares in onnxruntime.

``python test/benchmarks/bench_onnx_nodes.py [PART OF A NAME]`` prints what differs and a summary.
Models that onnx.checker refuses, opsets before 7 and random operators are left out.
"""

import sys
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx.backend.test.loader import load_model_tests

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from small_models import context, run

from vtac.dialects.errors import CompileError
from vtac.lowering.graph_to_onnx import host_model
from vtac.lowering.onnx_to_graph import import_model
from vtac.runtime.sessions import FAILURES

RANDOM = {
    "Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform",
    "RandomUniformLike",
}  # fmt: skip


def same(a: Any, b: Any) -> bool:
    """Equal, floats within rounding."""
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if a is None or b is None:
        return a is b
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype.kind != "f":
        return bool((a == b).all())
    slack = 1e-3 if a.dtype == np.float16 else 1e-5
    return np.allclose(a, b, rtol=slack, atol=slack, equal_nan=True)


def outcome(model: onnx.ModelProto, inputs: list[Any]) -> str:
    """One word on what became of a model."""
    ctx = context()
    try:
        module = import_model(model, ctx)
        module.verify()
        rebuilt = host_model(module, ctx)
    except CompileError as error:
        return f"refused: {error.problems[0]}"
    if any(node.op_type in RANDOM for node in model.graph.node):
        return "random"
    feeds = {i.name: value for i, value in zip(model.graph.input, inputs, strict=False)}
    try:
        expected = run(model, feeds)
    except FAILURES:
        return "not in onnxruntime"
    return "equal" if same(expected, run(rebuilt, feeds)) else "DIFFERENT"


def main() -> None:
    """Print the models that are not equal, then how many there are of each kind."""
    warnings.simplefilter("ignore")
    started, counts = time.perf_counter(), Counter[str]()
    for case in load_model_tests(kind="node"):
        if case.model is None or any(part not in case.name for part in sys.argv[1:]):
            continue
        try:
            onnx.checker.check_model(case.model)
        except onnx.checker.ValidationError:
            continue
        if any(o.domain == "" and o.version < 7 for o in case.model.opset_import):
            continue
        found = outcome(case.model, list(case.data_sets[0][0]))
        counts[found.split(":")[0]] += 1
        if found not in ("equal", "random", "not in onnxruntime"):
            print(f"{case.name}: {found}")
    summary = ", ".join(f"{count} {kind}" for kind, count in counts.most_common())
    print(f"{summary}; {time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
