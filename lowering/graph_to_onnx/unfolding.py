"""``graph.unfold`` as ONNX nodes: one Gather per axis, by a table of the windows' positions.

With channels last a tap is a contiguous piece, and so is a row of windows; the layout of the
accelerator is then a transposition of whole blocks. Every opset has Gather, and onnxruntime copies
what it gathers piece by piece, not element by element.
"""

from collections.abc import Sequence

import numpy as np

from vtac.dialects.context import Array
from vtac.dialects.graph import UnfoldOp, pad_value_of, shape_of
from vtac.lowering.graph_to_onnx.builder import ElementOrder, OnnxBuilder


def unfold(b: OnnxBuilder, op: UnfoldOp) -> None:
    """[N, C, spatial...] as [N, windows..., taps * C + constants]."""
    b.require(op, 8)
    shape, result = shape_of(op.x) or (), shape_of(op.result) or ()
    rank = len(shape) - 2
    laid = [shape[0], *shape[2:], shape[1]]
    if shape[1] == 1:
        name = b.reshape(b.name(op.x), laid)
    else:
        name = b.add("Transpose", [b.name(op.x)], perm=[0, *range(2, 2 + rank), 1])
    windows: list[int] = []
    taps: list[int] = []
    for axis in reversed(range(1, 1 + rank)):
        table = positions(op, axis - 1)
        windows = [axis, *windows]
        if np.array_equal(table[:, 0], np.arange(laid[axis])) and table.shape[1] == 1:
            continue
        if (table == laid[axis]).any():
            name = _with_pad(b, name, laid, axis, pad_value_of(op))
        name = b.add("Gather", [name, b.weight(table, "windows")], axis=axis)
        laid[axis : axis + 1] = table.shape
        windows = [axis, *(later + 1 for later in windows[1:])]
        taps = [axis + 1, *(later + 1 for later in taps)]
    order = [0, *windows, *taps, len(laid) - 1]
    if order != list(range(len(laid))):
        name = b.add("Transpose", [name], perm=order)
    constants = op.constants.get_values()
    name = b.reshape(name, [result[0], *result[2:], result[1] - len(constants)])
    if constants:
        name = _with_constants(b, name, [result[0], *result[2:]], constants)
    b.define(op.result, name, ElementOrder.CHANNELS_LAST)


def positions(op: UnfoldOp, axis: int) -> Array:
    """[windows, taps]: where each tap of each window lies along an axis; the extent if nowhere."""
    size, count = ((shape_of(value) or ())[2 + axis] for value in (op.x, op.result))
    kernel = op.kernel.get_values()[axis]
    starts = np.arange(count) * op.strides.get_values()[axis] - op.pads.get_values()[axis]
    places = starts[:, None] + np.arange(kernel) * op.dilations.get_values()[axis]
    return np.where((places < 0) | (places >= size), size, places).astype(np.int64)


def _with_pad(b: OnnxBuilder, name: str, laid: Sequence[int], axis: int, value: int) -> str:
    """A tensor with one more position along an axis, where all is the pad value."""
    pad = np.full([*laid[:axis], 1, *laid[axis + 1 :]], value, np.int8)
    return b.add("Concat", [name, b.weight(pad, "zeros" if value == 0 else "pad")], axis=axis)


def _with_constants(
    b: OnnxBuilder, name: str, outer: Sequence[int], constants: Sequence[int]
) -> str:
    """A tensor of channels last with further channels, each of one value."""
    values = b.weight(np.array(constants, np.int8).reshape(*(1 for _ in outer), -1), "constants")
    shape = b.weight(np.array([*outer, len(constants)], np.int64), "shape")
    lanes = b.add("Expand", [values, shape])
    return b.add("Concat", [name, lanes], axis=len(outer))
