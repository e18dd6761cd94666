"""A softmax in integers on ``sim``: its cycles, its error, and what the host takes for it.

``python test/benchmarks/bench_softmax.py`` prints a row for each form of attention: the cycles of
one head on the simulator with constant keys and values, without the products of queries by keys,
and per score; what the host and a second launch take by the rates of docs/partitioning.md; and the
errors of shares and of results against a softmax in floats. ``--page docs/transformers.md`` writes
the table.
"""

import argparse
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from integer_softmax import Softmax
from onnx import ModelProto, TensorProto, helper, numpy_helper
from xdsl.dialects.builtin import ModuleOp, TensorType, i8
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

import vtac
from vtac.dialects.context import VtacContext
from vtac.dialects.graph import DequantizeOp, QuantizeOp
from vtac.passes.graph.host_model import HostModel
from vtac.passes.graph.streams.fine import Draft

Array = np.ndarray[Any, np.dtype[Any]]

FORMS = {
    "64 x 64, depth 32": (64, 64, 32),
    "128 x 128, depth 64": (128, 128, 64),
    "197 x 197, depth 64": (197, 197, 64),
}
HOST_BYTES = (4 + 4) + (4 + 4) + (4 + 2) + (4 + 2)
"""Per score: to floats, their softmax, to two planes; and over the border and back."""
BEGIN, END = "<!-- bench_softmax -->", "<!-- end softmax -->"


def head(rows: int, keys: int, depth: int) -> tuple[ModelProto, dict[str, Array]]:
    """A float model of the same shapes as one head, whose middle `replaced` replaces."""
    rng = np.random.default_rng(0)
    weights = {
        "k": rng.normal(0, 1, (depth, keys)).astype(np.float32),
        "v": rng.normal(0, 1, (keys, depth)).astype(np.float32),
    }
    nodes = [
        helper.make_node("MatMul", ["x", "k"], ["s"]),
        helper.make_node("MatMul", ["s", "v"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "head",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, depth])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [rows, depth])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    opsets = [helper.make_opsetid("", 17)]
    samples = {"x": rng.normal(0, 1, (4 * rows, depth)).astype(np.float32)}
    return helper.make_model(graph, opset_imports=opsets, ir_version=8), samples


def compiled(
    softmax: Softmax | None, rows: int, keys: Array, values: Array
) -> tuple[vtac.Module, Array]:
    """One head with int8 keys and values [keys, D], and the integers of one batch of queries.

    softmax: None for the scores alone, which leave as int8.
    """

    def replace(level: str, module: ModuleOp, ctx: VtacContext) -> None:
        if level != "quantised":
            return
        (function,) = (op for op in module.body.block.ops if isinstance(op, FuncOp))
        block = function.body.block
        end = block.last_op
        assert end is not None
        for op in list(block.ops)[:-1]:
            op.detach()
        draft = Draft(ctx, end, end)
        x = block.args[0]
        stored = draft.insert(QuantizeOp(x, 1.0, 0, _bytes(x)))
        scores = draft.product(stored, keys)
        if softmax is None:
            y = draft.product(Softmax.byte(draft, scores, 0, 8), values.T)
            y = Softmax.byte(draft, y, 0, 8)
        else:
            y = softmax.emit(draft, scores, values)
        real = draft.insert(DequantizeOp(y, [1.0], 0, end.operands[0].type))
        draft.commit()
        end.operands[0] = real

    model, samples = head(rows, *keys.shape)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        criteria = vtac.Criteria(compare=False)
        module = vtac.compile(model, "sim", samples, observe=replace, criteria=criteria)
    queries = np.random.default_rng(1).integers(-127, 128, (rows, keys.shape[1]))
    return module, queries.astype(np.float32)


def _bytes(x: SSAValue) -> Any:
    return TensorType(i8, x.type.get_shape())  # type: ignore[attr-defined]


def softmax_of(scores: Array) -> Array:
    """In floats, over the last axis."""
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def measured(rows: int, keys: int, depth: int) -> list[str]:
    """The cells of a row."""
    rng = np.random.default_rng(0)
    k = rng.integers(-127, 128, (keys, depth))
    v = rng.integers(-127, 128, (keys, depth)).astype(np.int8)
    step = 3 / 73**2 / np.sqrt(depth)  # scores whose deviation is 3
    softmax = Softmax(keys, step, 128 * 128 * depth, np.zeros(keys, bool))
    module, queries = compiled(softmax, rows, k, v)
    plain, _ = compiled(None, rows, k, v)
    scores = queries.astype(np.int64) @ k.T
    exact = softmax.at(scores, v)
    found = module.run({"x": queries})["y"]
    np.testing.assert_array_equal(found, exact)
    shares = softmax.exponentials(scores)
    real = softmax_of(scores * softmax.step)
    wrong = np.abs(shares / shares.sum(axis=-1, keepdims=True) - real)
    wanted = real @ v
    error = np.linalg.norm(exact - wanted) / np.linalg.norm(wanted)
    own = module.profile().cycles - plain.profile().cycles
    host, count = HostModel(), rows * keys
    there = count * HOST_BYTES / host.bytes_a_cycle + 3 * host.cycles_an_op + host.cycles_a_launch
    assert module.crossings.launches == 1
    return [
        f"{own:,}", f"{own / count:.2f}", f"{there:,.0f}", f"{there / count:.2f}",
        f"{wrong.max():.2%}", f"{error:.2%}",
    ]  # fmt: skip


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--page", type=Path)
    arguments = parser.parse_args()
    heads = ["queries x keys", "cycles", "per score", "host", "per score", "share", "result"]
    table = [f"| {' | '.join(heads)} |", f"|{' --- |' * len(heads)}"]
    for name, form in FORMS.items():
        table.append(f"| {' | '.join([name, *measured(*form)])} |")
        print(table[-1], flush=True)
    if arguments.page:
        old = arguments.page.read_text()
        start, end = old.index(BEGIN) + len(BEGIN), old.index(END)
        arguments.page.write_text(old[:start] + "\n".join(["", "", *table, "", ""]) + old[end:])


if __name__ == "__main__":
    main()
