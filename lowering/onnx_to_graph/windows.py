"""Convolution and pooling: pads made explicit, whatever way the model gives them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import DYNAMIC_INDEX, BoolAttr
from xdsl.ir import Operation

from vtac.dialects.graph import (
    AveragePoolOp,
    ConvOp,
    GlobalAveragePoolOp,
    MaxPoolOp,
    PadOp,
    window_extent,
)
from vtac.lowering.onnx_to_graph.node import Node, StaysOnHostError, known_shape, like
from vtac.passes.graph.channels_first import max_pooling
from vtac.passes.graph.reasons import ReasonKind


@dataclass(frozen=True)
class WindowAttributes:
    """Kernel, strides, dilations and pads (all begins, then all ends) of a node.

    overhang: the part of each end pad that is due to ceil_mode alone.
    """

    kernel: list[int]
    strides: list[int]
    dilations: list[int]
    pads: list[int]
    overhang: list[int]


def conv(node: Node) -> Operation:
    """Conv."""
    node.floats(0, 1, 2)
    window = window_of(node, list(known_shape(node.operand(1))[2:]))
    return ConvOp(
        node.operand(0),
        node.operand(1),
        node.optional(2),
        node.result_type(),
        strides=window.strides,
        pads=window.pads,
        dilations=window.dilations,
        group=node.attributes.get("group", 1),
    )


def window_of(node: Node, kernel: list[int]) -> WindowAttributes:
    """The window of a convolution whose weights have these extents in space."""
    if DYNAMIC_INDEX in kernel:
        raise StaysOnHostError("the extents of its kernel are unknown", ReasonKind.SHAPE)
    if node.ints("kernel_shape", kernel) != kernel:
        raise StaysOnHostError("kernel_shape contradicts the weights")
    return _window(node, kernel)


def max_pool(node: Node) -> Operation:
    """MaxPool with one output."""
    node.moved(0)
    if node.is_used(1):
        raise StaysOnHostError("the indices of the maxima are used")
    window = _pooling_window(node)
    return MaxPoolOp(
        node.operand(0),
        node.result_type(),
        kernel=window.kernel,
        strides=window.strides,
        pads=window.pads,
        dilations=window.dilations,
    )


def average_pool(node: Node) -> Sequence[Operation]:
    """AveragePool.

    The mean may count pads (count_include_pad), but never those that ceil_mode adds. If there are
    both, the pads that count are made elements of the tensor, and the others remain pads.
    """
    node.floats(0)
    counts = bool(node.attributes.get("count_include_pad", 0))
    window = _pooling_window(node)
    x, pads, made = node.operand(0), window.pads, list[Operation]()
    if counts and any(window.overhang):
        rank = len(window.kernel)
        rest = [0] * rank + window.overhang
        counted = [pad - extra for pad, extra in zip(pads, rest, strict=True)]
        begins, ends = counted[:rank], counted[rank:]
        shape = known_shape(x)
        extents = [a + n + b for a, n, b in zip(begins, shape[2:], ends, strict=True)]
        around = [0, 0, *begins, 0, 0, *ends]
        made.append(PadOp(x, around, 0.0, like(x, [*shape[:2], *extents])))
        x, pads, counts = made[-1].results[0], rest, False
    pool = AveragePoolOp(
        x,
        node.result_type(),
        kernel=window.kernel,
        strides=window.strides,
        pads=pads,
        dilations=window.dilations,
        count_include_pad=BoolAttr.from_bool(counts),
    )
    return [*made, pool]


def global_average_pool(node: Node) -> Operation:
    """GlobalAveragePool."""
    node.floats(0)
    return GlobalAveragePoolOp(node.operand(0), node.result_type())


def global_max_pool(node: Node) -> Sequence[Operation]:
    """GlobalMaxPool: a max pooling whose window is as large as its input."""
    node.floats(0)
    shape = known_shape(node.operand(0))
    if DYNAMIC_INDEX in shape or 0 in shape:
        raise StaysOnHostError("the shape of its input is unknown or empty", ReasonKind.SHAPE)
    return max_pooling(node.operand(0), set(range(2, len(shape))), keeps=True)


def _window(node: Node, kernel: list[int]) -> WindowAttributes:
    return explicit_window(node.attributes, list(known_shape(node.operand(0))[2:]), kernel)


def _pooling_window(node: Node) -> WindowAttributes:
    window = _window(node, node.ints("kernel_shape", ()))
    rank = len(window.kernel)
    if any(pad >= window.kernel[i % rank] for i, pad in enumerate(window.pads)):
        raise StaysOnHostError("its explicit pads are as wide as its kernel")
    return window


def explicit_window(
    attributes: Mapping[str, Any], extents: list[int], kernel: list[int]
) -> WindowAttributes:
    """The window of a node over spatial ``extents``, with the pads that auto_pad and ceil_mode say.

    Raises StaysOnHostError where explicit pads cannot say the same.
    """
    rank = len(kernel)
    strides = list(attributes.get("strides", [1] * rank))
    dilations = list(attributes.get("dilations", [1] * rank))
    if not len(extents) == len(strides) == len(dilations) == rank or rank < 1:
        raise StaysOnHostError("its window does not fit the rank of its input", ReasonKind.SHAPE)
    if min((*kernel, *strides, *dilations)) < 1:
        raise StaysOnHostError("its kernel, strides and dilations are not all positive")
    auto = attributes.get("auto_pad", b"NOTSET").decode()
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        pads = _same_pads(extents, kernel, strides, dilations, auto == "SAME_LOWER")
    elif auto == "VALID":
        pads = [0] * (2 * rank)
    else:
        pads = list(attributes.get("pads", [0] * (2 * rank)))
    if min(pads, default=0) < 0 or len(pads) != 2 * rank:
        raise StaysOnHostError(f"pads {pads} are not supported")
    overhang = [0] * rank
    if attributes.get("ceil_mode", 0) and not auto.startswith("SAME"):
        for i in range(rank):
            begin, end = pads[i], pads[rank + i]
            overhang[i] = _ceil_pad(extents[i], kernel[i], strides[i], begin, end, dilations[i])
            pads[rank + i] += overhang[i]
    return WindowAttributes(kernel, strides, dilations, pads, overhang)


def window_counts(window: WindowAttributes, extents: list[int]) -> list[int]:
    """How many windows there are along each spatial dimension."""
    rank = len(extents)
    return [
        window_extent(
            extents[i],
            window.kernel[i],
            window.strides[i],
            window.pads[i] + window.pads[rank + i],
            window.dilations[i],
        )
        for i in range(rank)
    ]


def _same_pads(
    extents: list[int], kernel: list[int], strides: list[int], dilations: list[int], lower: bool
) -> list[int]:
    """Pads so that the result has ceil(extent / stride) windows; the odd one first if ``lower``."""
    begins, ends = [], []
    for extent, taps, stride, dilation in zip(extents, kernel, strides, dilations, strict=True):
        reach = dilation * (taps - 1) + 1
        if extent == DYNAMIC_INDEX and stride != 1:
            raise StaysOnHostError("auto_pad SAME over an unknown extent", ReasonKind.SHAPE)
        total = (
            reach - 1
            if stride == 1
            else max((-(-extent // stride) - 1) * stride + reach - extent, 0)
        )
        begins.append((total + 1) // 2 if lower else total // 2)
        ends.append(total - begins[-1])
    return begins + ends


def _ceil_pad(extent: int, taps: int, stride: int, begin: int, end: int, dilation: int) -> int:
    """What to add to the end pad so that rounding down gives what rounding up would.

    A last window that would start in the end pad does not count (as in PyTorch and onnxruntime).
    """
    if extent == DYNAMIC_INDEX:
        raise StaysOnHostError("ceil_mode over an unknown extent", ReasonKind.SHAPE)
    rest = (extent + begin + end - dilation * (taps - 1) - 1) % stride
    if rest == 0:
        return 0
    windows = window_extent(extent, taps, stride, begin + end, dilation)
    return stride - rest if windows * stride < extent + begin else 0
