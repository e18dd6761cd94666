"""Concatenations and slices that do not cut elements of the packed layout.

In ``#graph.packed<batch, block>`` an element holds BATCH entries and BLOCK channels. If the
operands of a concatenation, or the result of a slice, begin at the first entry and channel of an
element, the op moves nothing: the accelerator reads and writes rectangles of elements in place.
Lanes beyond the last channel or entry of a tensor may hold any number.
"""

from collections.abc import Sequence

from .arrangement import ConcatOp, SliceOp
from .network import shape_of


def starts_of(op: ConcatOp) -> list[list[int]]:
    """For each operand of a concatenation, the index in the result at which it begins."""
    axis, first, starts = op.axis.value.data, 0, list[list[int]]()
    for value in op.inputs:
        shape = shape_of(value) or ()
        starts.append([first if dim == axis else 0 for dim in range(len(shape))])
        first += shape[axis]
    return starts


def moves_whole_elements(op: ConcatOp | SliceOp, batch: int, block: int) -> bool:
    """Whether a concatenation or a slice moves elements of packed tensors as they are.

    Each operand of a concatenation, and the result of a slice, must begin at the first lane of an
    element, and a slice must not skip elements. Shapes are static, [N, C, spatial...]. False for
    tensors without channels, which are not packed.
    """
    result = shape_of(op.result) or ()
    if len(result) < 2:
        return False
    if isinstance(op, ConcatOp):
        return all(_is_first(start, batch, block) for start in starts_of(op))
    steps = zip(op.steps.get_values(), result, strict=True)
    dense = all(step == 1 or count == 1 for step, count in steps)
    return dense and _is_first(op.starts.get_values(), batch, block)


def _is_first(start: Sequence[int], batch: int, block: int) -> bool:
    """Whether the entry and the channel at an index are the first ones of an element."""
    return start[0] % batch == 0 and start[1] % block == 0
