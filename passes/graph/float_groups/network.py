"""What the quantiser reads from a function: constants, ranges, and the ops that make values."""

from collections.abc import Mapping, Sequence
from math import prod
from typing import cast

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import TensorType, f32
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, BlockArgument, Operation, OpResult, SSAValue

from vtac.dialects.context import Array, Observations, VtacContext, constant_value
from vtac.dialects.graph import (
    ConcatOp,
    ConstantOp,
    ConvOp,
    GemmOp,
    Given,
    MatMulOp,
    MovesElements,
    PadOp,
    SelectsElements,
    WeightedOp,
    given_by,
    row_steps,
    shape_of,
)
from vtac.dialects.graph.given import grid_of
from vtac.dialects.graph.ranges import range_of
from vtac.dialects.target import Target, target_at
from vtac.passes.graph.codegen import known_codegens
from vtac.passes.graph.float_groups.forms import Form


class Network:
    """A float function as the quantiser sees it. Nothing here changes the IR."""

    def __init__(self, ctx: Context, function: FuncOp):
        self.ctx = ctx
        self.function = function
        self.factors: Mapping[SSAValue, Array] = {}
        """By what channels of values are enlarged (``equalisation``): powers of two, [C]."""
        self.blocks: Mapping[Operation, Array] = {}
        """The block of each channel of the sums that share shifts, by root (``block_sharing``)."""
        self._given_to_all: dict[Operation, Given | None] = {}
        """Of concatenations that were asked for: the given scale of all their parts."""

    def refusal(self, op: Operation) -> str | None:
        """Why no codegen takes the integer form of an op; None if one does, or if the context has
        none."""
        asked = [codegen for codegen in known_codegens(self.ctx) if codegen.quantises]
        reasons = [codegen.refuses_in_integers(op, self.target) for codegen in asked]
        return None if not all(reasons) else next(iter(reasons), None)

    @property
    def multiplies(self) -> bool:
        """Whether the ALU of the target, if there is one, multiplies."""
        return self.target is not None and self.target.alu_mul

    @property
    def target(self) -> Target | None:
        """The target of the module, if it has one."""
        return target_at(self.function.parent_op())

    @property
    def observations(self) -> Observations | None:
        """The observations of the function on samples, if there are any."""
        return self.ctx.observations if isinstance(self.ctx, VtacContext) else None

    def mean(self, value: SSAValue) -> Array | None:
        """The observed mean of each channel, enlarged as the value is."""
        found = None if self.observations is None else self.observations.mean(value)
        return None if found is None else found * self.factors.get(value, 1.0)

    def power(self, value: SSAValue) -> float | None:
        """The observed mean square of all elements, enlarged as they are."""
        found = None if self.observations is None else self.observations.power(value)
        if found is None:
            return None
        return float(np.mean(found * np.square(self.factors.get(value, 1.0))))

    @property
    def block(self) -> Block:
        """The only block of the function."""
        return self.function.body.block

    def constant(self, value: SSAValue) -> Array | None:
        """The array of a constant, None for any other value."""
        if isinstance(value, OpResult) and isinstance(value.op, ConstantOp):
            return constant_value(self.ctx, value.op.value, value.type)
        return None

    def range_of(self, value: SSAValue) -> tuple[float, float] | None:
        """The calibrated range; constants, moved and rounded values have one without
        calibration. The range of moved elements is the union of their sources' ranges."""
        found: list[tuple[float, float]] = []
        waiting, seen = [value], {value}
        while waiting:
            value = waiting.pop()
            op = producer(value)
            if (own := self._own_range(value)) is not None:
                found.append(own)
            elif op is not None and (op.has_trait(MovesElements) or op.has_trait(SelectsElements)):
                if isinstance(op, PadOp):
                    found.append((op.value.value.data, op.value.value.data))
                operands = [v for v in dict.fromkeys(op.operands) if v not in seen]
                waiting += operands
                seen.update(operands)
            else:
                return None
        return min(lo for lo, _ in found), max(hi for _, hi in found)

    def _own_range(self, value: SSAValue) -> tuple[float, float] | None:
        """The range that is known of a value without that of others."""
        given = self.given(value)
        if given is not None:
            return given.range
        array = self.constant(value)
        if array is not None and array.size:
            return float(array.min()), float(array.max())
        return range_of(value)

    def given(self, value: SSAValue) -> Given | None:
        """The given scale of a value, if the network has one."""
        op = producer(value)
        if isinstance(op, ConcatOp) and given_by(op) is None:
            return self._given_of_parts(op)
        return given_by(op)

    def _given_of_parts(self, concat: ConcatOp) -> Given | None:
        """The given scale of all that a concatenation puts together, if it is one and the same."""
        if concat not in self._given_to_all:
            found: set[Given | None] = set()
            waiting, seen = list(concat.operands), set(concat.operands)
            while waiting and len(found) <= 1:
                op = producer(waiting.pop())
                if op in self._given_to_all:
                    found.add(self._given_to_all[op])
                elif op is not None and op.has_trait(SelectsElements):
                    waiting += [value for value in op.operands if value not in seen]
                    seen.update(op.operands)
                else:
                    found.add(given_by(op))
            self._given_to_all[concat] = found.pop() if len(found) == 1 else None
        return self._given_to_all[concat]

    def given_rows(self, form: Form) -> Array | None:
        """The given steps of the weights of each output channel, if the network has them.

        Where a form has only some columns of a layer's weights (`taken_apart`), the steps of the
        rows are those of the layer.
        """
        source = form.source
        enlarged = form.result in self.factors or form.operand in self.factors
        if not isinstance(source, WeightedOp) or enlarged or not (form.factor == 1).all():
            return None
        if isinstance(source, GemmOp) and not (
            source.trans_b.value.data and source.alpha.value.data == 1
        ):
            return None
        steps = row_steps(source.weights, channels_of(source.result))
        return None if steps is None else np.array(steps)

    def lacks_rows(self, form: Form) -> bool:
        """Whether the weights of a form are given as integers, but not with one step per row."""
        source = form.source
        if not isinstance(source, WeightedOp) or grid_of(source.weights) is None:
            return False
        return self.given_rows(form) is None

    def weights(self, form: Form) -> Array:
        """Real weights [O, C/group, kernel...] of a linear form, in float64, an array of their own.

        Rows are multiplied by the factors of enlarged channels of the result, columns divided by
        those of the operand (`factors`).
        """
        w = form.matrix
        if w is None:
            assert isinstance(form.source, WeightedOp), "others have a matrix of their own"
            w = self.given_weights(form.source)
        rows = form.factor * self.factors.get(form.result, np.ones(1))
        if form.operand in self.factors:
            taken = self.factors[form.operand]
            if form.group == 1:  # a dense layer
                w = w / taken.reshape(1, -1, *(1 for _ in w.shape[2:]))
            else:
                rows = rows / np.repeat(taken, len(w) // len(taken))
        if form.matrix is None and (rows == 1).all():
            return w
        rows = rows.reshape(-1, *(1 for _ in w.shape[1:]))
        return cast(Array, np.multiply(w, rows, out=w if form.matrix is None else None))

    def shape_of_weights(self, form: Form) -> tuple[int, ...]:
        """The shape of the weights of a linear form, see `weights`."""
        if form.matrix is not None:
            return tuple(form.matrix.shape)
        assert isinstance(form.source, WeightedOp), "others have a matrix of their own"
        w = self.constant(form.source.weights)
        assert w is not None, "the quantiser takes ops with constant weights only"
        turned = isinstance(form.source, GemmOp) and not form.source.trans_b.value.data
        return tuple(w.shape[::-1] if turned else w.shape)

    def given_weights(self, layer: WeightedOp) -> Array:
        """The weights of a layer [O, ...] in float64; alpha and transposition of a gemm applied."""
        w = self.constant(layer.weights)
        assert w is not None, "the quantiser takes ops with constant weights only"
        if not isinstance(layer, GemmOp):
            return w.astype(np.float64)
        w = (w if layer.trans_b.value.data else w.T).astype(np.float64)
        w *= layer.alpha.value.data
        return w

    def bias(self, layer: WeightedOp) -> Array:
        """Real bias [O] in float64; zeros where there is none."""
        channels = channels_of(layer.result)
        if layer.addend is None:
            return np.zeros(channels)
        bias = self.channel_vector(layer.addend, channels)
        return bias * layer.beta.value.data if isinstance(layer, GemmOp) else bias

    def channel_vector(self, value: SSAValue, channels: int) -> Array:
        """A constant that holds one number per channel (or a single one), as float64 [C]."""
        array = self.constant(value)
        assert array is not None, "a bias is a constant"
        return np.broadcast_to(array.astype(np.float64).reshape(-1), (channels,))


def channels_of(value: SSAValue) -> int:
    """Extent of the channel dimension."""
    return (shape_of(value) or ())[1]


def producer(value: SSAValue) -> Operation | None:
    """The op that makes a value, None for an argument."""
    return None if isinstance(value, BlockArgument) else value.owner  # type: ignore[return-value]


def is_float32(value: SSAValue) -> bool:
    """Whether the value is a tensor of f32."""
    return isinstance(value.type, TensorType) and value.type.get_element_type() == f32


def is_channel_vector(shape: Sequence[int], other: Sequence[int]) -> bool:
    """Whether a shape broadcasts against ``other`` [N, C, ...] along channels only."""
    if prod(shape) == 1 and len(shape) <= len(other):
        return True
    padded = [1] * (len(other) - len(shape)) + list(shape)
    return len(padded) == len(other) and all(
        extent == (other[1] if axis == 1 else 1) for axis, extent in enumerate(padded)
    )


def is_dense(op: Operation | None) -> bool:
    """Whether an op is a dense layer: a gemm, or a convolution whose kernel covers its input."""
    if isinstance(op, ConvOp):
        return (shape_of(op.x) or ())[2:] == op.kernel_shape() and not any(op.pads.get_values())
    return isinstance(op, GemmOp)


def is_matrix_product(op: Operation | None, network: Network) -> bool:
    """Whether an op multiplies matrices that are no dense layer: two activations, for example.

    Canonicalisation makes dense layers, which are Gemm, of products with constant matrices [in,
    out]; other constants are laid out as activations are.
    """
    if isinstance(op, GemmOp):
        return network.constant(op.b) is None or bool(op.trans_a.value.data)
    return isinstance(op, MatMulOp)
