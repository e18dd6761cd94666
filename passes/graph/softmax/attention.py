"""Softmaxes between two products of activations, as the quantiser leaves them to the host.

The scores leave as int32, and the host takes them to floats; the shares come back in one or two
planes of int8, which products with the values read.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation, SSAValue

from vtac.dialects.context import Array
from vtac.dialects.graph import (
    AddBiasOp,
    AddOp,
    BatchMatMulOp,
    DequantizeOp,
    HostOp,
    QuantizeOp,
    RequantizeOp,
    ReshapeOp,
    ShiftLeftOp,
    SliceOp,
    SubOp,
    TransposeOp,
    is_static,
    known_extents,
    shape_of,
)
from vtac.passes.graph.constants import constant_of


@dataclass(frozen=True, eq=False)
class AttentionProduct:
    """A product of shares by values that ends as int8.

    ops: what accumulates, to be erased. entries: which head each entry of its batch is. values:
    int8 [entries D, keys].
    """

    end: RequantizeOp
    ops: Sequence[Operation]
    entries: Sequence[int]
    values: SSAValue


@dataclass(frozen=True, eq=False)
class Attention:
    """A softmax of the host and both products around it.

    scores: the product that makes its operand, of as many entries as there are heads. bias: int64
    [keys]. real: the conversion to floats. step: of the shares. replaced: what the host does.
    """

    softmax: HostOp
    scores: BatchMatMulOp
    bias: Array
    real: DequantizeOp
    step: float
    products: Sequence[AttentionProduct]
    replaced: Sequence[Operation]

    @property
    def heads(self) -> int:
        """How many softmaxes of [rows, keys] there are."""
        return self.scores.entries

    @property
    def rows(self) -> int:
        """Rows of a head."""
        return known_extents(self.scores.a)[0] // self.heads

    @property
    def keys(self) -> int:
        """Scores of a row."""
        return known_extents(self.scores.result)[1]


def is_softmax(op: Operation) -> bool:
    """Whether an op is ONNX's Softmax over the last dimension of a static tensor."""
    if not isinstance(op, HostOp) or (op.op_type.data, op.domain.data) != ("Softmax", ""):
        return False
    if len(op.outputs) != 1 or not is_static(op.outputs[0]):
        return False
    axis, rank = op.onnx_attributes.data.get("axis"), len(shape_of(op.inputs[0]) or ())
    return rank > 1 and (not isinstance(axis, IntegerAttr) or axis.value.data in (-1, rank - 1))


def attention_of(ctx: Context, op: HostOp) -> Attention | str:
    """The products around a softmax, or why they have another form than this takes."""
    made = _made(ctx, op.inputs[0])
    if made is None:
        return "its scores are no product of activations that only it reads"
    scores, bias, real, hosted = made
    planes = _planes(op.outputs[0])
    if planes is None:
        return "its shares are not read by products alone"
    high, low, split = planes
    form = (*known_extents(scores.result),)
    rows = form[0] // scores.entries
    if tuple(known_extents(op.outputs[0])[-2:]) != (rows, form[1]):
        return "rows of its scores are joined"
    products = _products(high, low, (scores.entries, rows, form[1]))
    if products is None:
        return "its shares are not read by products alone"
    found, moves = products
    step = (low or high).owner.scale.value.data  # type: ignore[union-attr]
    return Attention(op, scores, bias, real, step, found, [*hosted, op, *split, *moves])


def _made(
    ctx: Context, value: SSAValue
) -> tuple[BatchMatMulOp, Array, DequantizeOp, list[Operation]] | None:
    """The product that makes scores, its bias, its conversion, and what the host does to it."""
    hosted: list[Operation] = []
    while isinstance(value.owner, ReshapeOp) and value.has_one_use():
        hosted.append(value.owner)
        value = value.owner.x
    real = value.owner
    if not isinstance(real, DequantizeOp) or not value.has_one_use() or len(real.scales) != 1:
        return None
    added = real.x.owner
    if real.zero_point.value.data or not isinstance(added, AddBiasOp) or not real.x.has_one_use():
        return None
    product, bias = added.acc.owner, constant_of(ctx, added.bias)
    if not isinstance(product, BatchMatMulOp) or bias is None or not added.acc.has_one_use():
        return None
    return product, bias.astype(np.int64), real, [*hosted, real]


def _planes(
    value: SSAValue,
) -> tuple[SSAValue, SSAValue | None, list[Operation]] | None:
    """The int8 of shares: the high plane and the low one, if there are two; and their ops."""
    users = [use.operation for use in value.uses]
    quantise = [user for user in users if isinstance(user, QuantizeOp)]
    if len(quantise) != 1 or quantise[0].zero_point.value.data:
        return None
    high = quantise[0].result
    if len(users) == 1:
        return high, None, [quantise[0]]
    (rest,) = [user for user in users if user is not quantise[0]][:1]
    if len(users) != 2 or not isinstance(rest, SubOp) or rest.a is not value:
        return None
    back = rest.b.owner
    if not isinstance(back, DequantizeOp) or back.x is not high or not rest.result.has_one_use():
        return None
    (second,) = [use.operation for use in rest.result.uses]
    if not isinstance(second, QuantizeOp) or second.zero_point.value.data:
        return None
    return high, second.result, [quantise[0], back, rest, second]


def _products(
    high: SSAValue, low: SSAValue | None, form: tuple[int, int, int]
) -> tuple[list[AttentionProduct], list[Operation]] | None:
    """What reads the planes; and the ops that move them. None if something else reads them."""
    moves: list[Operation] = []
    readers = []
    for plane in (high, low):
        if plane is not None:
            shape = known_extents(plane)
            places = np.arange(int(np.prod(shape))).reshape(shape)
            found = list(_readers(plane, places, moves))
            if any(reader is None for reader in found):
                return None
            readers.append(dict(reader for reader in found if reader is not None))
    products, seen = [], set()
    for op, places in readers[0].items():
        product = _product(op, places, readers[1] if low is not None else None, form)
        if product is None:
            return None
        products.append(product)
        seen |= {each for each in product.ops if isinstance(each, BatchMatMulOp)}
    if seen != {op for one in readers for op in one}:
        return None
    return products, moves


def _readers(
    value: SSAValue, places: Array, moves: list[Operation]
) -> Iterator[tuple[BatchMatMulOp, Array] | None]:
    """The products that read a plane, and where each element of their operand stands in it."""
    for use in value.uses:
        op = use.operation
        if isinstance(op, BatchMatMulOp) and use.index == 0 and op.a is not op.b:
            yield op, places
            continue
        if isinstance(op, ReshapeOp):
            moved = places.reshape(known_extents(op.result))
        elif isinstance(op, TransposeOp):
            moved = places.transpose(op.permutation.get_values())
        elif isinstance(op, SliceOp) and set(op.steps.get_values()) == {1}:
            extents = zip(op.starts.get_values(), known_extents(op.result), strict=True)
            moved = places[tuple(slice(start, start + extent) for start, extent in extents)]
        else:
            if not isinstance(op, DequantizeOp):  # which the low plane is made of
                yield None
            continue
        if op not in moves:
            moves.append(op)
        yield from _readers(op.results[0], moved, moves)


def _product(
    op: BatchMatMulOp, places: Array, low: dict[BatchMatMulOp, Array] | None,
    form: tuple[int, int, int],
) -> AttentionProduct | None:  # fmt: skip
    """The product of the high plane, with that of the low one, up to its requantisation."""
    heads, rows, keys = form
    if places.shape != (op.entries * rows, keys):
        return None
    entries = places.reshape(op.entries, rows, keys)
    whole = np.arange(heads * rows * keys).reshape(form)
    first = entries[:, 0, 0] // (rows * keys)
    if not np.array_equal(entries, whole[first]):
        return None
    ops: list[Operation] = [op]
    end = _only_reader(op.result)
    if low is not None:
        if not isinstance(end, ShiftLeftOp):
            return None
        total = _only_reader(end.result)
        if not isinstance(total, AddOp):
            return None
        other = (total.b if total.a is end.result else total.a).owner
        if not isinstance(other, BatchMatMulOp) or other not in low:
            return None
        if not np.array_equal(low[other], places):
            return None
        if other.b is not op.b or not other.result.has_one_use():
            return None
        ops += [end, other, total]
        end = _only_reader(total.result)
    if not isinstance(end, RequantizeOp):
        return None
    return AttentionProduct(end, ops, first.tolist(), op.b)


def _only_reader(value: SSAValue) -> Operation | None:
    users = [use.operation for use in value.uses]
    return users[0] if len(users) == 1 else None
