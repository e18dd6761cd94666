"""A kernel that computes only a box of its results, from only what that box needs.

The boxes of operands follow from those of results by interval analysis of affine subscripts,
backwards through the stages of a kernel: a box of rows of a convolution needs these rows of its
input and a border around them, a box of its output channels needs the weights of these channels.
So nothing here knows kinds of layers. Values that a read yields outside a tensor stay at its true
borders: a box of an operand ends at a border of the tensor, or else holds everything that is read.
"""

from collections.abc import Sequence
from itertools import pairwise

from xdsl.dialects.builtin import FunctionType, TensorType
from xdsl.ir import Attribute, Block, Region, SSAValue

from vtac.dialects.te import Box, ComputeOp, KernelOp, Read, Row, YieldOp, shaped

Boxes = dict[SSAValue, Box]
"""Which box of each tensor of a kernel is computed or read."""


def boxes_for(kernel: KernelOp, results: Sequence[Box]) -> Boxes | None:
    """The boxes of all tensors of a kernel that boxes of its results need.

    Tensors that nothing needs are missing. None if a result is needed beyond its box, because
    another stage reads it as well.
    """
    last = kernel.body.block.last_op
    assert isinstance(last, YieldOp)
    boxes: Boxes = {}
    for value, box in zip(last.values, results, strict=True):
        _need(boxes, value, box)
    while True:
        for compute in reversed(kernel.computes):
            if compute.result in boxes:
                _read(boxes, compute)
        wider = [
            compute
            for compute in kernel.computes
            if compute.init is not None
            and compute.result in boxes
            and boxes[compute.init] != boxes[compute.result]
        ]
        if not wider:
            break
        for compute in wider:  # it starts from a tensor of its own shape
            assert compute.init is not None
            boxes[compute.result] = boxes[compute.init]
    is_whole = all(boxes[v] == box for v, box in zip(last.values, results, strict=True))
    return boxes if is_whole else None


def _read(boxes: Boxes, compute: ComputeOp) -> None:
    """Record what a compute needs for its box."""
    box = boxes[compute.result]
    extents = (*(length for _, length in box), *compute.reduce.extents)
    for read in compute.reads:
        rows = [_moved(row, box) for row in read.rows]
        shape = shaped(read.value).get_shape()
        needed = []
        for row, size in zip(rows, shape, strict=True):
            low, high = row.interval(extents)
            low = min(max(low, 0), size - 1)
            needed.append((low, max(min(high, size - 1) - low, 0) + 1))
        _need(boxes, read.value, tuple(needed))
    if compute.init is not None:
        _need(boxes, compute.init, box)


def _moved(row: Row, box: Box, origin: int = 0) -> Row:
    """A subscript over variables that count from the start of a box, relative to an origin."""
    shift = sum(c * box[variable][0] for variable, c in row.terms if variable < len(box))
    return Row(row.terms, row.constant + shift - origin * row.divisor, row.divisor)


def _need(boxes: Boxes, value: SSAValue, box: Box) -> None:
    """Widen the box of a tensor so that it holds another one."""
    known = boxes.get(value, box)
    joined = []
    for (start, length), (other, more) in zip(known, box, strict=True):
        first = min(start, other)
        joined.append((first, max(start + length, other + more) - first))
    boxes[value] = tuple(joined)


def restricted(kernel: KernelOp, boxes: Boxes) -> KernelOp:
    """The kernel on these boxes (`boxes_for`); a new one, in no module, with the same name.

    Its parameters are those that are needed, in the same order.
    """
    old = kernel.body.block
    taken = [argument for argument in old.args if argument in boxes]
    block = Block(arg_types=[_type(value, boxes) for value in taken])
    values: dict[SSAValue, SSAValue] = dict(zip(taken, block.args, strict=True))
    for before, after in values.items():
        after.name_hint = before.name_hint
    for compute in kernel.computes:
        if compute.result in boxes:
            new = _compute(compute, boxes, values)
            block.add_op(new)
            values[compute.result] = new.result
    last = old.last_op
    assert isinstance(last, YieldOp)
    results = [values[value] for value in last.values]
    block.add_op(YieldOp(*results))
    type = FunctionType.from_lists(block.arg_types, [value.type for value in results])
    made = KernelOp(kernel.sym_name.data, type, Region(block))
    made.attributes |= kernel.attributes
    return made


def _type(value: SSAValue, boxes: Boxes) -> Attribute:
    return TensorType(shaped(value).element_type, [length for _, length in boxes[value]])


def _compute(compute: ComputeOp, boxes: Boxes, values: dict[SSAValue, SSAValue]) -> ComputeOp:
    box = boxes[compute.result]
    spatial = {name: n for name, (_, n) in zip(compute.spatial.names, box, strict=True)}
    extents = (*spatial.values(), *compute.reduce.extents)
    new = ComputeOp(
        compute.label.data,
        spatial,
        compute.reduce,
        [_restricted_read(read, box, extents, boxes, values) for read in compute.reads],
        compute.body.clone(),
        compute.element_type,
        identity=None if compute.identity is None else compute.identity.value.data,
        init=None if compute.init is None else values[compute.init],
    )
    new.location = compute.location
    new.attributes |= compute.attributes
    new.result.name_hint = compute.result.name_hint
    return new


def _restricted_read(
    read: Read, box: Box, extents: Sequence[int], boxes: Boxes, values: dict[SSAValue, SSAValue]
) -> Read:
    origin = boxes[read.value]
    rows = tuple(_moved(row, box, at) for row, (at, _) in zip(read.rows, origin, strict=True))
    inside = Read(values[read.value], rows)
    if read.outside is None:
        return inside
    leaves_remainders = any(row.divisor > 1 for row in rows)
    return (
        Read(inside.value, rows, read.outside)
        if leaves_remainders
        else inside.bordered(extents, read.outside)
    )


def boxes_of_parts(shape: Sequence[int], parts: Sequence[int]) -> list[Box]:
    """A tensor's shape cut into so many parts along each dimension, as equal as possible.

    Parts are in row-major order, the larger ones of a dimension last.
    """
    boxes: list[Box] = [()]
    for size, count in zip(shape, parts, strict=True):
        ends = [size * number // count for number in range(count + 1)]
        ranges = [(a, b - a) for a, b in pairwise(ends) if b > a]
        boxes = [(*box, item) for box in boxes for item in ranges]
    return boxes
