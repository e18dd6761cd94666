"""Sliding windows: the reads of convolutions and poolings."""

from collections.abc import Sequence

from xdsl.ir import SSAValue

from vtac.dialects.graph import WindowOp, shape_of
from vtac.dialects.te import Read, Row
from vtac.lowering.graph_to_te.kernel import KernelBuilder, axis


def logical_shape(value: SSAValue) -> tuple[int, ...]:
    """The shape [N, C, spatial...] of an activation."""
    shape = shape_of(value)
    assert shape is not None
    return shape


class SlidingWindow:
    """Axes and subscripts of an op with a window that slides over the spatial dimensions of ``x``.

    The iteration variables are the axes of the result (`BlockedLayout.names`), then reduction axes.
    """

    def __init__(self, op: WindowOp, kernel: KernelBuilder, before: Sequence[str] = ()):
        layout = kernel.layout
        self.channel, first = layout.channel, layout.channel + 1
        self.spatial = layout.domain(logical_shape(op.result))
        self.rank = len(self.spatial)
        self.x = kernel.values[op.x]
        names = [f"k{name}" for name in layout.spatial_names]
        extents = op.kernel_shape()
        self.reduce = dict.fromkeys(before, 1) | dict(zip(names, extents, strict=False))
        self.taps = [self.rank + len(before) + i for i in range(len(extents))]
        strides, dilations = op.strides.get_values(), op.dilations.get_values()
        pads = op.pads.get_values()
        self.rows = [
            Row.of([(first + i, strides[i]), (tap, dilations[i])], -pads[i])
            for i, tap in enumerate(self.taps)
        ]
        self.rows += [axis(i) for i in range(first + len(extents), self.rank)]

    def read(self, channel: Row, outside: int) -> Read:
        """The read of ``x`` at a channel."""
        rows = (*map(axis, range(self.channel)), channel, *self.rows)
        extents = (*self.spatial.values(), *self.reduce.values())
        return Read(self.x, rows).bordered(extents, outside)
