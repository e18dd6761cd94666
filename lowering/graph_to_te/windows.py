"""Reads through a window that moves over the spatial dimensions, for convolution and pooling."""

from collections.abc import Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from vtac.dialects.graph import WindowOp, shape_of
from vtac.dialects.te import Read, Row
from vtac.lowering.graph_to_te.kernel import KernelBuilder, axis


def logical_shape(value: SSAValue) -> tuple[int, ...]:
    """The shape [N, C, spatial...] of an activation."""
    shape = shape_of(value)
    assert shape is not None
    return shape


class Window:
    """Axes and subscripts of an op whose window moves over the spatial dimensions of ``x``.

    Variables: the axes of the result as `Layout.names` has them; then the reduction axes.
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
        self.rows += [axis(i) for i in range(first + len(extents), self.rank - 2)]

    def read(self, channel: Row, lane: int, outside: int) -> Read:
        """The read of ``x`` at this block of channels, and this variable for the lane in it."""
        before = map(axis, range(self.channel))
        rows = (*before, channel, *self.rows, axis(self.rank - 2), axis(lane))
        extents = (*self.spatial.values(), *self.reduce.values())
        return read_with_border(self.x, rows, extents, outside)


def read_with_border(x: SSAValue, rows: Sequence[Row], extents: Sequence[int], value: int) -> Read:
    """A read that says what lies outside, if any of it does."""
    assert isinstance(x.type, TensorType)
    outside = None
    for row, size in zip(rows, x.type.get_shape(), strict=True):
        low, high = row.interval(extents)
        if low < 0 or high >= size:
            outside = value
    return Read(x, tuple(rows), outside)
