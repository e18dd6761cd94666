"""What an op needs to compute a piece of its results: the rules by which networks are split.

This is the one place that knows how rectangles of results follow from rectangles of operands. The
pieces of instances and the parts on cores are both found by `piece_of`. (SplitInfo of Zhao et al.,
"GraphTurbo", OSDI 2023, section 3.1, with halo.) Passes ask for no kind of op:

=========================  ====================================  =========================
kind                       rows h needed for rows [lo, hi)       channels
=========================  ====================================  =========================
window: kernel k, stride   [lo s - p, (hi - 1) s + (k - 1) e     outputs: all inputs;
s, dilation e, pad p       + 1 - p), cut to the tensor           depthwise, pooling: same
element-wise               same                                  same
repeated by r              [lo / r, hi / r), rounded outwards    same
concatenation, slice       shifted                               shifted
dense, global pooling,     all                                   outputs / same / none
reshape of rows
product of activations     left rows; right operand whole        outputs
=========================  ====================================  =========================

Batch entries n are the same everywhere, but for products of activations, whose rows they are.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, i64
from xdsl.ir import Attribute, Operation, SSAValue

from vtac.dialects.graph.arrangement import (
    ConcatOp,
    DepthToSpaceOp,
    SliceOp,
    TakeChannelsOp,
    TransposeOp,
    UpsampleOp,
)
from vtac.dialects.graph.network import (
    ConvOp,
    GlobalAveragePoolOp,
    PoolOp,
    ReshapeOp,
    WindowOp,
    integers,
    shape_of,
)
from vtac.dialects.graph.pieces import (
    Rectangle,
    hull,
    is_aligned,
    meet,
    relative,
    whole,
)
from vtac.dialects.graph.products import BatchMatMulOp, GemmOp
from vtac.dialects.graph.quantised import SplitBytesOp
from vtac.dialects.graph.structure import CompositeOp, ConstantOp, YieldOp
from vtac.dialects.graph.traits import AxisAttributes, ElementWise

Range = tuple[int, int]


@dataclass(frozen=True)
class OpPiece:
    """How an op computes a rectangle of its results.

    made: the rectangle of each result that it then computes. It contains the one that was asked
    for, and is larger only where a repeated row cannot be made alone.
    operands: the rectangle of each operand that it reads; None: the operand is left out.
    properties: the properties that change.
    inner: for a composite, the same for those ops of its body that must compute something.
    """

    made: Rectangle
    operands: Sequence[Rectangle | None]
    properties: Mapping[str, Attribute] = field(default_factory=dict)
    inner: Mapping[Operation, "OpPiece"] = field(default_factory=dict)


def piece_of(op: Operation, asked: Rectangle) -> OpPiece | None:
    """How the op computes this rectangle of its results, which have one shape.

    None: it cannot, be it that the op has no rule, or that the rectangle of an operand would cut
    elements of the packed layout.
    """
    if asked == whole(op.results[0]):
        return _of_all(op)
    if len({shape_of(result) for result in op.results}) > 1:
        return None
    found = _piece(op, asked)
    if found is None:
        return None
    for operand, rectangle in zip(op.operands, found.operands, strict=True):
        if rectangle and not is_aligned(operand, *zip(*rectangle, strict=True)):
            return None
    return found


def _of_all(op: Operation) -> OpPiece:
    """All results; inside a composite, all results of the ops of its body."""
    inner: Mapping[Operation, OpPiece] = {}
    if isinstance(op, CompositeOp):
        ops = [o for o in op.body.block.ops if not isinstance(o, ConstantOp | YieldOp)]
        inner = {o: _of_all(o) for o in ops}
    return OpPiece(whole(op.results[0]), [whole(v) for v in op.operands], inner=inner)


def _piece(op: Operation, asked: Rectangle) -> OpPiece | None:
    if op.has_trait(ElementWise) or isinstance(op, SplitBytesOp):
        return _of_elements(op, asked)
    for kind, rule in _RULES.items():
        if isinstance(op, kind):
            return rule(op, asked)
    return None


@dataclass(frozen=True)
class Demands:
    """What the ops of a block compute, so that a rectangle of some values is known.

    pieces: of each op that computes something. values: the hull of the rectangles that are read of
    each value, arguments included.
    """

    pieces: Mapping[Operation, OpPiece]
    values: Mapping[SSAValue, Rectangle]


def demands_of(
    ops: Sequence[Operation],
    asked: Mapping[SSAValue, Rectangle],
    rule: Callable[[Operation, Rectangle], OpPiece | None] = piece_of,
) -> Demands | Operation:
    """What ops, in order, must compute for these rectangles of values.

    Returns the op that cannot compute its piece, if there is one. rule: a memory of `piece_of`.
    """
    values, pieces = dict(asked), dict[Operation, OpPiece]()
    for op in reversed(ops):
        needed: Rectangle | None = None
        for result in op.results:
            if result in values:
                needed = hull(needed, values[result])
        if needed is None or isinstance(op, ConstantOp):
            continue
        piece = rule(op, needed)
        if piece is None:
            return op
        pieces[op] = piece
        for operand, rectangle in zip(op.operands, piece.operands, strict=True):
            if rectangle is not None:
                values[operand] = hull(values.get(operand), rectangle)
    return Demands(pieces, values)


def _of_composite(op: CompositeOp, asked: Rectangle) -> OpPiece | None:
    """A composite is one kernel: each value of its body is computed and read as one rectangle."""
    body = op.body.block
    last = body.last_op
    assert isinstance(last, YieldOp)
    ops = [inner for inner in body.ops if inner is not last]
    found = demands_of(ops, dict.fromkeys(last.arguments, asked))
    if isinstance(found, Operation):
        return None
    made: dict[SSAValue, Rectangle] = {}
    for inner, piece in found.pieces.items():
        made |= dict.fromkeys(inner.results, piece.made)
    made |= {argument: found.values[argument] for argument in body.args if argument in found.values}
    for inner, piece in found.pieces.items():
        for operand, rectangle in zip(inner.operands, piece.operands, strict=True):
            if operand in made and made[operand] != rectangle:
                return None
    if any(made.get(value, asked) != asked for value in last.arguments):
        return None
    operands = [found.values.get(argument, whole(argument)) for argument in body.args]
    return OpPiece(asked, operands, inner=found.pieces)


def _of_elements(op: Operation, asked: Rectangle) -> OpPiece:
    """The same place of each operand; vectors of channels and broadcast extents as they are."""
    rank, channels = len(asked), _channel_names(op)
    vectors = {
        op.operands.index(cast(SSAValue, getattr(op, n))) for n in channels if _is_operand(op, n)
    }
    operands: list[Rectangle] = []
    for number, operand in enumerate(op.operands):
        shape = shape_of(operand) or ()
        if number in vectors:
            operands.append((asked[1],) if shape[0] > 1 else ((0, 1),))
            continue
        ranges = asked[rank - len(shape) :]
        result = (shape_of(op.results[0]) or ())[rank - len(shape) :]
        operands.append(
            tuple(
                r if extent == full else (0, extent)
                for r, extent, full in zip(ranges, shape, result, strict=True)
            )
        )
    properties = {}
    for name in channels:
        entries = op.properties.get(name)
        if isinstance(entries, DenseArrayBase) and len(entries) > 1:
            taken = entries.get_values()[slice(*asked[1])]
            properties[name] = DenseArrayBase.from_list(entries.elt_type, cast(Any, taken))
    return OpPiece(asked, operands, properties)


def _channel_names(op: Operation) -> Sequence[str]:
    trait = op.get_trait(AxisAttributes)
    return trait.channels if trait is not None else ()


def _is_operand(op: Operation, name: str) -> bool:
    return isinstance(getattr(op, name), SSAValue)


def _of_window(op: WindowOp, asked: Rectangle) -> OpPiece | None:
    """The windows of the piece; pads remain only where these leave the tensor."""
    shape, result = shape_of(op.x) or (), shape_of(op.result) or ()
    rank, kernel = len(shape) - 2, op.kernel_shape()
    strides, pads = op.strides.get_values(), list(op.pads.get_values())
    dilations = op.dilations.get_values()
    read: list[Range] = [asked[0], (0, shape[1])]
    for i in range(rank):
        (lo, hi), extent = asked[2 + i], shape[2 + i]
        if (lo, hi) == (0, result[2 + i]):
            read.append((0, extent))
            continue
        start = lo * strides[i] - pads[i]
        end = (hi - 1) * strides[i] + (kernel[i] - 1) * dilations[i] + 1 - pads[i]
        first = min(max(start, 0), extent - 1)
        last = max(min(end, extent), first + 1)
        read.append((first, last))
        pads[i], pads[rank + i] = first - start, end - last
    properties: dict[str, Attribute] = {"pads": integers(pads)}
    if isinstance(op, ConvOp):
        return _of_convolution(op, asked, read, properties)
    if not isinstance(op, PoolOp) or op.result_channels() != shape[1]:
        return None
    read[1] = asked[1]
    return OpPiece(asked, [tuple(read)], properties)


def _of_convolution(
    op: ConvOp, asked: Rectangle, read: list[Range], properties: dict[str, Attribute]
) -> OpPiece | None:
    """Output channels read the inputs of their groups; cuts lie between groups."""
    outputs, inner = (shape_of(op.w) or ())[:2]
    low, high = asked[1]
    if op.groups > 1 and asked[1] != (0, outputs):
        each = outputs // op.groups
        if low % each or high % each:
            return None
        first, last = low // each, high // each
        read[1] = (first * inner, last * inner)
        properties["group"] = IntegerAttr(last - first, i64)
    operands: list[Rectangle] = [tuple(read), (asked[1], *whole(op.w)[1:])]
    if op.bias is not None:
        operands.append((asked[1],))
    return OpPiece(asked, operands, properties)


def _of_gemm(op: GemmOp, asked: Rectangle) -> OpPiece:
    (a, b), (rows, columns) = (whole(op.a), whole(op.b)), asked
    left = (a[0], rows) if op.trans_a.value.data else (rows, a[1])
    right = (columns, b[1]) if op.trans_b.value.data else (b[0], columns)
    operands: list[Rectangle] = [left, right]
    if op.c is not None:
        shape = shape_of(op.c) or ()
        ranges = asked[2 - len(shape) :]
        operands.append(tuple((0, 1) if n == 1 else r for r, n in zip(ranges, shape, strict=True)))
    return OpPiece(asked, operands)


def _of_batch_product(op: BatchMatMulOp, asked: Rectangle) -> OpPiece | None:
    """Whole entries of the batch, or some rows and columns of one entry."""
    (rows, inner), (low, high) = shape_of(op.a) or (0, 0), asked[0]
    each, stored = rows // op.entries, (shape_of(op.b) or (0, 0))[0] // op.entries
    first, last = low // each, -(-high // each)
    if last - first > 1 and (low % each or high % each):
        return None
    right = (first * stored, last * stored)
    if asked[1] != (0, (shape_of(op.result) or (0, 0))[1]):
        if last - first > 1:
            return None
        right = (first * stored + asked[1][0], first * stored + asked[1][1])
    count: Mapping[str, Attribute] = {"batch": IntegerAttr(last - first, i64)}
    return OpPiece(asked, [(asked[0], (0, inner)), (right, (0, inner))], count)


def _of_concatenation(op: ConcatOp, asked: Rectangle) -> OpPiece:
    """The common part with each operand; operands without one are left out."""
    axis, start, operands = op.axis.value.data, 0, list[Rectangle | None]()
    for value in op.inputs:
        full = list(whole(value))
        extent = full[axis][1]
        common = meet(((start, start + extent),), (asked[axis],))
        ranges = list(asked)
        if common is not None:
            (ranges[axis],) = relative(common, ((start, start + extent),))
        operands.append(None if common is None else tuple(ranges))
        start += extent
    return OpPiece(asked, operands)


def _of_slice(op: SliceOp, asked: Rectangle) -> OpPiece:
    starts, steps = op.starts.get_values(), op.steps.get_values()
    read = tuple(
        (start + lo * step, start + (hi - 1) * step + 1)
        for (lo, hi), start, step in zip(asked, starts, steps, strict=True)
    )
    return OpPiece(asked, [read], {"starts": integers([0] * len(read))})


def _of_taken_channels(op: TakeChannelsOp, asked: Rectangle) -> OpPiece:
    low, high = asked[1]
    read = (asked[0], whole(op.x)[1], *asked[2:])
    return OpPiece(asked, [read], {"indices": integers(op.indices.get_values()[low:high])})


def _of_repetition(factors: Sequence[int], asked: Rectangle) -> tuple[Rectangle, Rectangle]:
    """What is made and read of ranges in which each element is repeated."""
    read = tuple((lo // f, -(-hi // f)) for (lo, hi), f in zip(asked, factors, strict=True))
    made = tuple((lo * f, hi * f) for (lo, hi), f in zip(read, factors, strict=True))
    return made, read


def _of_upsampling(op: UpsampleOp, asked: Rectangle) -> OpPiece:
    made, read = _of_repetition(op.factors.get_values(), asked)
    return OpPiece(made, [read])


def _of_depth_to_space(op: DepthToSpaceOp, asked: Rectangle) -> OpPiece | None:
    if asked[1] != whole(op.result)[1]:
        return None
    made, read = _of_repetition((1, 1, *op.blocks.get_values()), asked)
    return OpPiece(made, [(read[0], whole(op.x)[1], *read[2:])])


def _of_transpose(op: TransposeOp, asked: Rectangle) -> OpPiece:
    read = [(0, 0)] * len(asked)
    for place, source in enumerate(op.permutation.get_values()):
        read[source] = asked[place]
    return OpPiece(asked, [tuple(read)])


def _of_reshape(op: ReshapeOp, asked: Rectangle) -> OpPiece | None:
    """Leading dimensions that stay can be cut; of the others all elements are needed."""
    before, after = shape_of(op.x) or (), shape_of(op.result) or ()
    read = list(whole(op.x))
    same = True
    for dimension, r in enumerate(asked):
        same = same and dimension < len(before) and before[dimension] == after[dimension]
        if same:
            read[dimension] = r
        elif r != (0, after[dimension]):
            return None
    return OpPiece(asked, [tuple(read)])


def _of_global_pooling(op: GlobalAveragePoolOp, asked: Rectangle) -> OpPiece:
    return OpPiece(asked, [(*asked[:2], *whole(op.x)[2:])])


_RULES: Mapping[type[Operation], Callable[[Any, Rectangle], OpPiece | None]] = {
    BatchMatMulOp: _of_batch_product,
    CompositeOp: _of_composite,
    ConcatOp: _of_concatenation,
    DepthToSpaceOp: _of_depth_to_space,
    GemmOp: _of_gemm,
    GlobalAveragePoolOp: _of_global_pooling,
    ReshapeOp: _of_reshape,
    SliceOp: _of_slice,
    TakeChannelsOp: _of_taken_channels,
    TransposeOp: _of_transpose,
    UpsampleOp: _of_upsampling,
    WindowOp: _of_window,
}
"""The rule of each kind of op that is not element-wise."""
