"""``sort-channels``: channels whose shifts agree become neighbours, so that blocks have one shift.

The quantiser chooses which channels of a layer form a block (``quantize/block_sharing``, attribute
`CHANNEL_BLOCKS`). A dense layer mixes its channels, so the order in which they are stored
is free: this pass moves the rows of the weights, the columns of the weights that read them, and
every constant with an entry per channel. The network computes the same integers as before.

Takes quantised functions. Values that an operation ties channel by channel are reordered together;
they keep their order where any operation needs it (a result, a concatenation, the host). The
attribute goes in any case. No options.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import DenseArrayBase, ModuleOp, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from vtac.dialects.context import Array
from vtac.dialects.graph import (
    AxisAttributes,
    ConstantOp,
    ConvOp,
    ElementWise,
    GemmOp,
    PoolOp,
    ReshapeOp,
    UpsampleOp,
    shape_of,
)
from vtac.passes.graph.constants import constant_of, new_constant

CHANNEL_BLOCKS = "graph.channel_blocks"
"""Attribute of an op: the number of the block in which each channel of its result should lie."""


def blocks_attribute(numbers: Array) -> DenseArrayBase[Any]:
    """The attribute for the block of each channel, [C]."""
    return DenseArrayBase.from_list(i64, numbers.tolist())


@dataclass(frozen=True)
class SortChannelsPass(ModulePass):
    """Reorder channels as the attribute `CHANNEL_BLOCKS` asks."""

    name = "sort-channels"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Sort in every function of the module."""
        for function in op.walk():
            if isinstance(function, FuncOp) and any(
                CHANNEL_BLOCKS in inner.attributes for inner in function.walk()
            ):
                _sort(ctx, function)


def _sort(ctx: Context, function: FuncOp) -> None:
    """Reorder the channels of a function."""
    ops = [op for op in function.walk() if not isinstance(op, FuncOp | ConstantOp)]
    orders = _Orders()
    for argument in function.args:
        orders.fix(argument)
    for op in ops:
        values = _activations(op)
        if _takes_each_channel(ctx, op):
            orders.tie(values)
        elif not _mixes_channels(ctx, op):
            for value in values:
                orders.fix(value)
    for op in ops:
        wish = op.attributes.pop(CHANNEL_BLOCKS, None)
        if isinstance(wish, DenseArrayBase):
            orders.ask(op.results[0], np.argsort(np.array(wish.get_values()), kind="stable"))
    for op in ops:
        if any(orders.of(value) is not None for value in _activations(op)):
            _reorder(ctx, op, orders)


class _Orders:
    """The order of the channels of each value: values that are tied share one (union-find)."""

    def __init__(self) -> None:
        self._parents: dict[SSAValue, SSAValue] = {}
        self._fixed: set[SSAValue] = set()
        self._orders: dict[SSAValue, Array] = {}

    def _root(self, value: SSAValue) -> SSAValue:
        while (parent := self._parents.get(value, value)) is not value:
            self._parents[value] = self._parents.get(parent, parent)
            value = parent
        return value

    def tie(self, values: Sequence[SSAValue]) -> None:
        """Let values share an order."""
        first = self._root(values[0])
        for value in values[1:]:
            other = self._root(value)
            if other is not first:
                self._parents[other] = first
                if other in self._fixed:
                    self._fixed.add(first)

    def fix(self, value: SSAValue) -> None:
        """Keep the order of a value."""
        self._fixed.add(self._root(value))

    def ask(self, value: SSAValue, order: Array) -> None:
        """Give a value an order, unless it is fixed or has one already."""
        root = self._root(value)
        if root not in self._fixed:
            self._orders.setdefault(root, order)

    def of(self, value: SSAValue) -> Array | None:
        """For each place the channel that comes to lie there; None where nothing moves."""
        return self._orders.get(self._root(value))


def _activations(op: Operation) -> list[SSAValue]:
    """The operands and results of an op that are no constants."""
    return [v for v in (*op.operands, *op.results) if not isinstance(v.owner, ConstantOp)]


def _takes_each_channel(ctx: Context, op: Operation) -> bool:
    """Whether an op takes each channel by itself, and its constants can be reordered."""
    values = _activations(op)
    shapes = [shape_of(value) or () for value in values]
    if len(op.results) != 1 or op.regions or len(values) < 2 or len(shapes[0]) < 2:
        return False
    if any(shape[:2] != shapes[0][:2] for shape in shapes):
        return False
    if isinstance(op, ConvOp):
        depthwise = op.group.value.data == shapes[0][1] == shapes[-1][1] > 1
        return depthwise and constant_of(ctx, op.w) is not None
    if isinstance(op, ReshapeOp | UpsampleOp | PoolOp):
        return True
    if not op.has_trait(ElementWise):
        return False
    constants = sum(isinstance(value.owner, ConstantOp) for value in op.operands)
    return constants == len(_vectors(op)) and not any(map(op.properties.get, _names(op)))


def _mixes_channels(ctx: Context, op: Operation) -> bool:
    """Whether an op is a dense layer with constant weights: its operand and its result may each
    have an order of their own."""
    if isinstance(op, ConvOp):
        return op.group.value.data == 1 and constant_of(ctx, op.w) is not None
    if not isinstance(op, GemmOp) or op.trans_a.value.data or constant_of(ctx, op.b) is None:
        return False
    addend = op.c
    return addend is None or len(constant_of(ctx, addend) or ()) == (shape_of(op.result) or ())[1]


def _names(op: Operation) -> Sequence[str]:
    """The names of what has one entry per channel."""
    trait = op.get_trait(AxisAttributes)
    return () if trait is None else trait.channels


def _vectors(op: Operation) -> list[SSAValue]:
    """The constant operands with one entry per channel."""
    found = (getattr(op, name) for name in _names(op) if name not in op.properties)
    return [v for v in found if isinstance(v, SSAValue) and isinstance(v.owner, ConstantOp)]


def _reorder(ctx: Context, op: Operation, orders: _Orders) -> None:
    """Move the entries of an op's constants to where its channels lie."""
    made = orders.of(op.results[0]) if op.results else None
    if isinstance(op, ConvOp | GemmOp):
        read = orders.of(op.data)
        weights = constant_of(ctx, op.weights)
        assert weights is not None, "only layers with constant weights are reordered"
        rows, columns = (1, 0) if isinstance(op, GemmOp) and not op.trans_b.value.data else (0, 1)
        if made is not None:
            weights = weights.take(made, axis=rows)
        if read is not None and op.groups == 1:
            weights = weights.take(read, axis=columns)
        _replace(ctx, op, op.weights, weights)
        vectors = [] if op.addend is None else [op.addend]
    else:
        vectors = _vectors(op)
    for vector in vectors if made is not None else ():
        array = constant_of(ctx, vector)
        assert array is not None and made is not None, "vectors are constants"
        if array.size > 1:
            _replace(ctx, op, vector, array.reshape(-1)[made].reshape(array.shape))


def _replace(ctx: Context, op: Operation, old: SSAValue, array: Array) -> None:
    """Let an op read another constant in place of an old one, which goes if nothing reads it."""
    constant = new_constant(ctx, np.ascontiguousarray(array), old.name_hint, op)
    Rewriter.insert_op(constant, InsertPoint.before(op))
    op.operands[list(op.operands).index(old)] = constant.result
    if not old.uses:
        Rewriter.erase_op(old.owner)  # type: ignore[arg-type]
