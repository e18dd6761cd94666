"""The run half of codegen ``json``: a reference runtime in NumPy.

Every value is an array of f32. Sums of products are accumulated in f64 and rounded once. Before a
graph runs, it is checked: ops are known, inputs exist, shapes agree.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.payload import Payload
from vtac.runtime.engine import Array, FunctionEngine, Run, Signature
from vtac.runtime.package.contents import Value
from vtac.runtime.package.records import from_json

FILE = "graph.json"


@dataclass(frozen=True)
class NodeRecord:
    """A node of ``graph.json``; inputs are the numbers of values."""

    op: str
    layer: str
    inputs: tuple[int, ...]
    shape: tuple[int, ...]
    attributes: Mapping[str, Any]


@dataclass(frozen=True)
class GraphRecord:
    """``graph.json``; values are numbered: inputs, then constants, then results of nodes."""

    inputs: tuple[tuple[int, ...], ...]
    constants: int
    nodes: tuple[NodeRecord, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True)
class WindowRecord:
    """Strides, pads (begins, then ends) and dilations over two dimensions."""

    strides: tuple[int, ...]
    pads: tuple[int, ...]
    dilations: tuple[int, ...]


@dataclass(frozen=True)
class ConvRecord(WindowRecord):
    """The attributes of ``conv``."""

    group: int
    relu: bool


@dataclass(frozen=True)
class PoolRecord(WindowRecord):
    """The attributes of ``max_pool``."""

    kernel: tuple[int, ...]


@dataclass(frozen=True)
class GemmRecord:
    """The attributes of ``gemm``."""

    alpha: float
    beta: float
    trans_a: bool
    trans_b: bool
    relu: bool


@dataclass(frozen=True)
class NoRecord:
    """The record of ops without attributes."""


def _windows(record: WindowRecord, x: Array, kernel: Sequence[int], outside: float) -> Array:
    """The windows of a padded tensor, [N, C, windows..., taps...]."""
    top, left, bottom, right = record.pads
    reach = [d * (k - 1) + 1 for d, k in zip(record.dilations, kernel, strict=True)]
    edges = ((0, 0), (0, 0), (top, bottom), (left, right))
    views = sliding_window_view(np.pad(x, edges, constant_values=outside), reach, axis=(2, 3))
    sh, sw = record.strides
    dh, dw = record.dilations
    return views[:, :, ::sh, ::sw, ::dh, ::dw]


def _conv(record: ConvRecord, x: Array, w: Array, bias: Array | None = None) -> Array:
    windows = _windows(record, x.astype(np.float64), w.shape[2:], 0.0)
    parts = zip(np.split(windows, record.group, 1), np.split(w, record.group, 0), strict=True)
    sums = [np.einsum("nchwij,ocij->nohw", part, weights) for part, weights in parts]
    result = np.concatenate(sums, 1)
    if bias is not None:
        result = result + bias.reshape(1, -1, 1, 1)
    return np.maximum(result, 0) if record.relu else result


def _gemm(record: GemmRecord, a: Array, b: Array, c: Array | None = None) -> Array:
    left, right = (a.T if record.trans_a else a), (b.T if record.trans_b else b)
    result = record.alpha * (left.astype(np.float64) @ right.astype(np.float64))
    if c is not None:
        result = result + record.beta * c.astype(np.float64)
    return np.maximum(result, 0) if record.relu else result


def _max_pool(record: PoolRecord, x: Array) -> Array:
    return np.asarray(_windows(record, x, record.kernel, -np.inf).max(axis=(4, 5)))


@dataclass(frozen=True)
class _Kernel:
    """A kernel: the type of its attributes, how many inputs it takes, and what it computes."""

    record: type[Any]
    inputs: range
    run: Callable[..., Array]


_KERNELS: Mapping[str, _Kernel] = {
    "add": _Kernel(NoRecord, range(2, 3), lambda _, a, b: np.asarray(a + b)),
    "conv": _Kernel(ConvRecord, range(2, 4), _conv),
    "gemm": _Kernel(GemmRecord, range(2, 4), _gemm),
    "max_pool": _Kernel(PoolRecord, range(1, 2), _max_pool),
    "relu": _Kernel(NoRecord, range(1, 2), lambda _, x: np.asarray(np.maximum(x, 0))),
    "reshape": _Kernel(NoRecord, range(1, 2), lambda _, x: x),
}


@dataclass(frozen=True)
class _Node:
    """A node with its parsed attributes. place: its name in error messages."""

    record: NodeRecord
    kernel: _Kernel
    attributes: Any
    place: str

    def run(self, inputs: Sequence[Array]) -> Array:
        """The result, in f32 and in the shape that the node declares."""
        try:
            found = self.kernel.run(self.attributes, *inputs)
            result = np.asarray(found, np.float32)
            whole = result.reshape(self.record.shape) if self.record.op == "reshape" else result
        except (ValueError, IndexError, TypeError, OverflowError, MemoryError) as error:
            raise CompileError(Problem(self.place, f"cannot run: {error}")) from error
        if whole.shape != self.record.shape:
            what = f"gives {list(whole.shape)}, not {list(self.record.shape)}"
            raise CompileError(Problem(self.place, what))
        return whole


class JsonEngine(FunctionEngine):
    """Interprets ``graph.json``."""

    def load(self, payload: Payload, signature: Signature, where: str) -> Run:
        """Read and check the graph; the returned function interprets its nodes in order."""
        graph = _read(payload, where)
        nodes = _checked_nodes(graph, payload, where)
        given = [_shape(value) for value in signature.inputs]
        returned = [_shape(value) for value in signature.outputs]
        shapes = [*graph.inputs, *(c.shape for c in payload.constants)]
        shapes += [node.shape for node in graph.nodes]
        if given != list(graph.inputs) or returned != [shapes[n] for n in graph.outputs]:
            raise CompileError(Problem(where, "its inputs or outputs are not the launch's"))

        def run(inputs: Sequence[Array]) -> list[Array]:
            values = [*inputs, *payload.constants]
            for node in nodes:
                values.append(node.run([values[number] for number in node.record.inputs]))
            return [values[number] for number in graph.outputs]

        return run


def _shape(value: Value) -> tuple[int | None, ...] | None:
    """The shape of a value if it is a tensor of f32 without a layout, else None."""
    return value.shape if value.type == "tensor(float)" and value.layout is None else None


def _read(payload: Payload, where: str) -> GraphRecord:
    try:
        (text,) = (payload.files[name] for name in {FILE, *payload.files})
        data = json.loads(text)
    except (KeyError, ValueError, RecursionError):
        raise CompileError(Problem(where, f"its only file must be a readable {FILE}")) from None
    return from_json(GraphRecord, data, f"{where}: {FILE}")


def _checked_nodes(graph: GraphRecord, payload: Payload, where: str) -> list[_Node]:
    """The nodes, each with its kernel. Raises `CompileError` with everything that is wrong."""
    nodes: list[_Node] = []
    problems: list[Problem] = []
    first = len(graph.inputs) + graph.constants
    if graph.constants != len(payload.constants):
        problems.append(Problem(where, f"needs {graph.constants} constants"))
    for number, node in enumerate(graph.nodes):
        place = f"{where}: node {number} ({node.op})"
        kernel = _KERNELS.get(node.op)
        sound = all(0 <= i < first + number for i in node.inputs)
        sound = sound and all(extent > 0 for extent in node.shape)
        if kernel is None or not sound or len(node.inputs) not in kernel.inputs:
            problems.append(Problem(place, "is no node: its kernel, inputs or shape are unknown"))
            continue
        attributes = from_json(kernel.record, dict(node.attributes), place)
        if not _is_sound(attributes):
            problems.append(Problem(place, "has impossible attributes"))
        nodes.append(_Node(node, kernel, attributes, place))
    if not all(0 <= number < first + len(graph.nodes) for number in graph.outputs):
        problems.append(Problem(where, "returns a value that it does not have"))
    if problems:
        raise CompileError(problems)
    return nodes


def _is_sound(record: object) -> bool:
    """Whether windows have two dimensions and positive strides, and there is at least one group."""
    if isinstance(record, ConvRecord) and record.group < 1:
        return False
    if not isinstance(record, WindowRecord):
        return True
    pairs = [record.strides, record.dilations]
    if isinstance(record, PoolRecord):
        pairs.append(record.kernel)
    moves = all(len(pair) == 2 and min(pair) >= 1 for pair in pairs)
    return moves and len(record.pads) == 4 and min(record.pads) >= 0


ENGINE = JsonEngine()
"""The engine that ``engine_named("json")`` returns."""
