"""``raise-moves``: sums of convolutions that only move elements become concatenations and slices.

The quantiser turns concatenations and slices into sums of convolutions, so that the scales of
operands and result may differ. If they are equal, the requantised sum of convolutions with 1x1
kernels computes ``(x << s + bias) >> s`` with ``0 <= bias < 2^s``, which is x. Such a sum becomes a
``graph.concat`` of ``graph.slice`` on int8, or just its operand if it takes all of that. (In MLIR,
*raising* is a rewrite to ops of a higher level.)

A reshape of integers that nothing reads goes: two in a row became one when the first had its form.

Takes quantised functions. Rewrites a sum only if a pattern of a codegen that is free matches the
new ops (`NamedPattern`), that is, if they cost nothing. No options.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType, i8
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import (
    PatternRewriter,
    PatternRewriteWalker,
    RewritePattern,
    op_type_rewrite_pattern,
)
from xdsl.rewriter import Rewriter

from vtac.dialects.context import Array
from vtac.dialects.graph import (
    AddOp,
    ConcatOp,
    ConstantOp,
    ConvOp,
    RequantizeOp,
    ReshapeOp,
    SliceOp,
    pad_value_of,
    shape_of,
)
from vtac.dialects.target import Target, target_at
from vtac.passes.graph.codegen import Codegen, codegens_named
from vtac.passes.graph.constants import constant_of
from vtac.passes.graph.patterns import match_root

MOST_PARTS = 64
"""Sums that take more parts than this remain: the GEMM core computes them better."""


@dataclass(frozen=True)
class RaiseMovesPass(ModulePass):
    """Make concatenations and slices of convolutions that only move elements."""

    name = "raise-moves"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """See the module's docstring."""
        codegens = codegens_named(ctx, None)
        pattern = _RaiseMoves(ctx, codegens, target_at(op))
        PatternRewriteWalker(pattern, apply_recursively=False).rewrite_module(op)
        for inner in reversed(list(op.walk())):
            if isinstance(inner, ReshapeOp) and not inner.result.uses:
                Rewriter.erase_op(inner)


@dataclass(frozen=True)
class _Term:
    """A convolution each of whose output channels is one input channel times a weight, or 0.

    source: the input channel of each output channel, -1 if all weights are 0. weight: the factor of
    each output channel, or 0. pads: elements before the operand in each spatial dimension; negative
    pads cut elements off. outside: the number in the pads.
    """

    x: SSAValue
    source: Array
    weight: Array
    pads: Sequence[int]
    outside: int


@dataclass(frozen=True)
class _Part:
    """A rectangle of the result, and where its elements begin in an operand."""

    x: SSAValue
    start: tuple[int, ...]
    shape: tuple[int, ...]
    source: tuple[int, ...]


@dataclass
class _RaiseMoves(RewritePattern):
    ctx: Context
    codegens: Sequence[Codegen]
    target: Target | None

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: RequantizeOp, rewriter: PatternRewriter) -> None:
        """Match requantised sums of 1x1 convolutions."""
        parts = self._parts(op)
        axis = None if parts is None else _joined_along(parts, shape_of(op.result) or ())
        if parts is None or axis is None:
            return
        ops, value = _moves(op, parts, axis)
        if not all(map(self._is_free, ops)):
            for each in reversed(ops):
                each.erase()
            return
        for each in ops:
            each.location = op.location
        if ops:
            value.name_hint = op.result.name_hint
        read = list(op.operands)
        rewriter.replace(op, ops, [value])
        _erase_unused(read, rewriter)

    def _is_free(self, op: Operation) -> bool:
        """Whether a free pattern of a codegen matches an op."""
        return any(
            row.free and match_root(row.pattern, op)[0] is not None
            for codegen in self.codegens
            for row in codegen.patterns(self.target)
        )

    def _parts(self, op: RequantizeOp) -> list[_Part] | None:
        """The rectangles of the result, if each element of it is one of an operand."""
        shape = shape_of(op.result)
        bias, shift = constant_of(self.ctx, op.bias), constant_of(self.ctx, op.shift)
        if shape is None or len(shape) < 2 or bias is None or shift is None:
            return None
        if (op.lo.value.data, op.hi.value.data) != (-128, 127):
            return None
        terms = [self._term(conv) for conv in _addends(op.acc)]
        one = np.int64(1) << shift.astype(np.int64)
        parts = []
        for term in terms:
            if term is None or ((term.weight != 0) & (term.weight != one)).any():
                return None
            parts += list(_rectangles(term, shape))
        if len(parts) > MOST_PARTS:
            return None
        for term in terms:
            assert term is not None
            others = sum(o.weight * o.outside for o in terms if o is not term and o is not None)
            rest = bias + others
            if ((term.weight != 0) & ((rest < 0) | (rest >= one))).any():
                return None
        return parts

    def _term(self, conv: Operation | None) -> _Term | None:
        """The term that a convolution is, None if it does more than select and scale channels."""
        if not isinstance(conv, ConvOp) or not isinstance(conv.x.type, TensorType):
            return None
        weights = constant_of(self.ctx, conv.w)
        if weights is None or conv.bias is not None or conv.x.type.element_type != i8:
            return None
        if prod(weights.shape[2:]) != 1 or set(conv.strides.get_values()) - {1}:
            return None
        used = weights.reshape(weights.shape[:2]) != 0
        if (used.sum(axis=1) > 1).any():
            return None
        outputs = np.arange(len(weights))
        groups = conv.group.value.data
        first = outputs // (len(weights) // groups) * weights.shape[1]
        column = used.argmax(axis=1)
        taken = used.any(axis=1)
        weight = weights.reshape(weights.shape[:2])[outputs, column].astype(np.int64)
        pads = conv.pads.get_values()[: weights.ndim - 2]
        source = np.where(taken, first + column, -1)
        return _Term(conv.x, source, weight, pads, pad_value_of(conv))


def _addends(value: SSAValue) -> Iterator[Operation | None]:
    """The ops whose results are added; None for a value with other readers, or of no op."""
    waiting = [value]
    while waiting:
        value = waiting.pop()
        owner = value.owner
        if not isinstance(owner, Operation) or not value.has_one_use():
            yield None
        elif isinstance(owner, AddOp):
            waiting += (owner.b, owner.a)
        else:
            yield owner


def _rectangles(term: _Term, shape: Sequence[int]) -> Iterator[_Part]:
    """The rectangles that a term fills: one for each run of neighbouring channels."""
    size = shape_of(term.x) or ()
    if len(size) != len(shape) or size[0] != shape[0]:
        return
    lows = [max(0, pad) for pad in term.pads]
    highs = [
        min(extent, n + pad) for extent, n, pad in zip(shape[2:], size[2:], term.pads, strict=True)
    ]
    spatial = tuple(max(0, high - low) for low, high in zip(lows, highs, strict=True))
    sources = tuple(low - pad for low, pad in zip(lows, term.pads, strict=True))
    channels = len(term.source)
    breaks = [c for c in range(1, channels) if not _is_next(*term.source[c - 1 : c + 1])]
    for first, last in zip((0, *breaks), (*breaks, channels), strict=True):
        if term.source[first] >= 0 and 0 not in spatial:
            start = (0, first, *lows)
            source = (0, int(term.source[first]), *sources)
            yield _Part(term.x, start, (shape[0], last - first, *spatial), source)


def _is_next(one: int, other: int) -> bool:
    """Whether neighbouring output channels have neighbouring input channels, or both have none."""
    return other == one + 1 if one >= 0 and other >= 0 else one < 0 and other < 0


def _joined_along(parts: Sequence[_Part], shape: Sequence[int]) -> int | None:
    """The axis along which the parts fill a tensor one after the other, None if they do not."""
    for axis in range(1, len(shape)):
        reached = 0
        for part in sorted(parts, key=lambda part: part.start):
            whole = [n for dim, n in enumerate(shape) if dim != axis]
            if part.start[axis] != reached or whole != [
                n for dim, n in enumerate(part.shape) if dim != axis
            ]:
                break
            reached += part.shape[axis]
        else:
            if reached == shape[axis]:
                return axis
    return None


def _moves(op: RequantizeOp, parts: Sequence[_Part], axis: int) -> tuple[list[Operation], SSAValue]:
    """The slices and the concatenation that are needed, and the result."""
    ops: list[Operation] = []
    values = []
    for part in sorted(parts, key=lambda part: part.start):
        value = part.x
        if part.shape != shape_of(value):
            cut = SliceOp(value, part.source, [1] * len(part.shape), TensorType(i8, part.shape))
            ops.append(cut)
            value = cut.result
        values.append(value)
    if len(values) == 1:
        return ops, values[0]
    joined = ConcatOp(values, axis, op.result.type)
    return [*ops, joined], joined.result


def _erase_unused(values: Sequence[SSAValue], rewriter: PatternRewriter) -> None:
    """Erase the ops of these values if nothing reads them, then those of their operands."""
    waiting = list(reversed(dict.fromkeys(values)))
    while waiting:
        value = waiting.pop()
        owner = value.owner
        if isinstance(owner, AddOp | ConvOp | ConstantOp) and not value.uses:
            waiting += reversed(dict.fromkeys(owner.operands))
            rewriter.erase(owner)
