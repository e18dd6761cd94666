"""``conv-transpose-phases``: a transposed convolution as a convolution whose channels are phases.

Outputs s * q + r with the same r meet the same taps of a transposed convolution of stride s, as in
an ordinary convolution at q. So the s phases of each spatial dimension become groups of channels of
one convolution (Shi et al., "Real-time single image and video super-resolution using an efficient
sub-pixel convolutional neural network"), and ``graph.depth_to_space`` puts them where they belong.
``te-split-phases`` says the same in tensor expressions.

Takes ``graph.host "ConvTranspose"`` with constant float weights and static shapes. Batch norms,
relus and clips behind it move before `graph.depth_to_space`, where they fold into the convolution.
Weights on a grid, one step per output channel, stay on it. Declined, so left on the host: dilation
with a stride. Option ``given``: take only layers whose weights are on a grid, those of a model that
brings its scales.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import (
    DenseArrayBase,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    TensorType,
    f32,
)
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import (
    PatternRewriter,
    PatternRewriteWalker,
    RewritePattern,
    op_type_rewrite_pattern,
)

from vtac.dialects.context import Array
from vtac.dialects.graph import (
    BatchNormOp,
    ClipOp,
    ConvOp,
    DepthToSpaceOp,
    GridAttr,
    HostOp,
    ReluOp,
    SliceOp,
    TakeChannelsOp,
    grid_of,
    is_static,
    set_grid,
    shape_of,
)
from vtac.passes.graph.constants import constant_of, new_constant

OPERATOR = "ConvTranspose"
"""The ONNX operator that the pass takes; `can_split` says in which form."""


@dataclass(frozen=True)
class TransposedDimension:
    """One spatial dimension of a transposed convolution, and of the convolution it becomes.

    size, taps, stride, dilation, extent: of input, weights and output. first: the tap of phase 0
    that t = 0 stands for, 0 or less. steps: taps of each phase. before, after: pads of the
    convolution. start: the output of the convolution that is the first of each phase.
    """

    size: int
    taps: int
    stride: int
    dilation: int
    extent: int
    first: int
    steps: int
    before: int
    after: int
    start: int

    @staticmethod
    def of(
        size: int, taps: int, stride: int, dilation: int, pad: int, extent: int
    ) -> "TransposedDimension":
        """A dimension from the attributes of ONNX; pad is the one before the input."""
        first = -(-pad % stride)
        steps = (taps - 1 - first) // stride + 1
        reach = dilation * (steps - 1)
        before = reach - (pad - first) // stride
        after = max(0, -(-extent // stride) - size + reach - before)
        start = max(0, -before)
        before = max(0, before)
        return TransposedDimension(
            size, taps, stride, dilation, extent, first, steps, before, after, start
        )

    @property
    def count(self) -> int:
        """Outputs of the convolution: each is an output of every phase."""
        return self.size + self.before + self.after - self.dilation * (self.steps - 1)

    def tap(self, phase: int) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
        """For each tap of the convolution the index into the weights; an index outside them has no
        weight."""
        return self.stride * np.arange(self.steps - 1, -1, -1) + phase + self.first


def can_split(ctx: Context, op: Operation) -> bool:
    """Whether an op is a transposed convolution that the pass takes.

    It has constant float weights and static shapes, and no dilation together with a stride.
    """
    if not isinstance(op, HostOp) or op.op_type.data != OPERATOR or op.domain.data:
        return False
    weights, *bias = (constant_of(ctx, value) for value in op.inputs[1:])
    if weights is None or weights.dtype != np.float32 or any(b is None for b in bias):
        return False
    return is_static(op.inputs[0]) and _dimensions(op) is not None


@dataclass
class SplitIntoPhases(RewritePattern):
    """Rewrite one transposed convolution. given: take only layers whose weights are on a grid."""

    ctx: Context
    given: bool = False

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: HostOp, rewriter: PatternRewriter) -> None:
        """Match what `can_split` says."""
        if not can_split(self.ctx, op) or (self.given and grid_of(op.inputs[1]) is None):
            return
        weights, dimensions = constant_of(self.ctx, op.inputs[1]), _dimensions(op)
        bias = constant_of(self.ctx, op.inputs[2]) if len(op.inputs) > 2 else None
        assert weights is not None and dimensions is not None
        group = _integer(op, "group", 1)
        kernel = new_constant(
            self.ctx, _weights_of_phases(weights, dimensions, group), op.inputs[1].name_hint, op
        )
        phases = prod(dimension.stride for dimension in dimensions)
        set_grid(kernel, _grid_of_phases(grid_of(op.inputs[1]), phases, group))
        made: list[Operation] = [kernel]
        vector: SSAValue | None = None
        if bias is not None:
            repeated = new_constant(
                self.ctx, _repeat(bias, phases, group), op.inputs[2].name_hint, op
            )
            made.append(repeated)
            vector = repeated.result
        shape = shape_of(op.inputs[0]) or ()
        counts = [dimension.count for dimension in dimensions]
        conv = ConvOp(
            op.inputs[0],
            kernel.result,
            vector,
            TensorType(f32, [shape[0], weights.shape[1] * group * phases, *counts]),
            strides=[1] * len(dimensions),
            pads=[*(d.before for d in dimensions), *(d.after for d in dimensions)],
            dilations=[d.dilation for d in dimensions],
            group=group,
        )
        conv.location = op.location
        made.append(conv)
        last = self._followers(op, conv.result, phases, group, made)
        made += _in_place(made[-1].results[0], op, dimensions, group)
        for new in made:
            rewriter.insert(new)
        last.replace_all_uses_with(made[-1].results[0])
        self._erase(last, op, rewriter)

    def _followers(
        self, op: HostOp, value: SSAValue, phases: int, group: int, made: list[Operation]
    ) -> SSAValue:
        """Repeat what follows channel by channel on the phases; returns the value then reached."""
        reached: SSAValue = op.outputs[0]
        while reached.has_one_use():
            (user,) = (use.operation for use in reached.uses)
            if isinstance(user, ReluOp):
                new: Operation = ReluOp(value, value.type)
            elif isinstance(user, ClipOp):
                new = ClipOp(value, value.type, **user.properties)
            elif isinstance(user, BatchNormOp) and user.x is reached:
                vectors = [constant_of(self.ctx, operand) for operand in user.operands[1:]]
                constants = [
                    new_constant(self.ctx, _repeat(v, phases, group), "scale", user)
                    for v in vectors
                    if v is not None
                ]
                if len(constants) != len(vectors):
                    return reached
                made += constants
                operands = [value, *(constant.result for constant in constants)]
                new = BatchNormOp(operands, user.epsilon.value.data, value.type)
            else:
                return reached
            new.location = user.location
            made.append(new)
            value, reached = new.results[0], user.results[0]
        return reached

    def _erase(self, last: SSAValue, op: HostOp, rewriter: PatternRewriter) -> None:
        """Erase the ops from the last that was repeated back to the first."""
        old = last.owner
        while old is not op:
            assert isinstance(old, Operation)
            before = old.operands[0].owner
            rewriter.erase(old)
            old = before
        rewriter.erase(op)


def _dimensions(op: HostOp) -> list[TransposedDimension] | None:
    """The spatial dimensions; None where the pass declines."""
    x, w, y = (shape_of(value) for value in (op.inputs[0], op.inputs[1], op.outputs[0]))
    attributes = op.onnx_attributes.data
    automatic = attributes.get("auto_pad", StringAttr("NOTSET"))
    asked = "output_shape" in attributes or automatic not in (
        StringAttr("NOTSET"),
        StringAttr("VALID"),
    )
    if x is None or w is None or y is None or not is_static(op.outputs[0]) or asked:
        return None  # import makes pads explicit wherever shapes are known
    rank = len(x) - 2
    strides, dilations = (
        _integers(op, "strides", [1] * rank),
        _integers(op, "dilations", [1] * rank),
    )
    pads = _integers(op, "pads", [0] * (2 * rank))
    if automatic == StringAttr("VALID"):
        pads = [0] * (2 * rank)
    found = [
        TransposedDimension.of(*numbers)
        for numbers in zip(x[2:], w[2:], strides, dilations, pads, y[2:], strict=False)
    ]
    if any(d.dilation > 1 and d.stride > 1 for d in found):
        return None
    return found


def _integers(op: HostOp, name: str, default: list[int]) -> list[int]:
    attr = op.onnx_attributes.data.get(name)
    return list(attr.get_values()) if isinstance(attr, DenseArrayBase) else default


def _integer(op: HostOp, name: str, default: int) -> int:
    attr = op.onnx_attributes.data.get(name)
    return int(attr.value.data) if isinstance(attr, IntegerAttr) else default


def _repeat(vector: Array, phases: int, group: int) -> Array:
    """Repeat one number per channel for each phase: the convolution's channels are
    [group][phase][o]."""
    return np.repeat(vector.reshape(group, 1, -1), phases, axis=1).reshape(-1)


def _grid_of_phases(grid: GridAttr | None, phases: int, group: int) -> GridAttr | None:
    """The grid of the weights of all phases, from that of weights [C, O/group, k...]."""
    if grid is None or len(grid.steps) == 1:
        return grid
    if grid.axis.data != 1:
        return None
    return GridAttr(0, list(grid.steps.get_values()) * (group * phases))


def _weights_of_phases(
    weights: Array, dimensions: Sequence[TransposedDimension], group: int
) -> Array:
    """[C, O/group, k...] as [group * phases * O/group, C/group, t...]."""
    channels, outputs, *_ = weights.shape
    split = weights.reshape(group, channels // group, outputs, *weights.shape[2:])
    parts = []
    for phase in np.ndindex(*(dimension.stride for dimension in dimensions)):
        part = split
        for axis, (dimension, r) in enumerate(zip(dimensions, phase, strict=True), start=3):
            taps = dimension.tap(r)
            known = (taps >= 0) & (taps < dimension.taps)
            part = np.take(part, np.where(known, taps, 0), axis=axis)
            along = [1] * part.ndim
            along[axis] = -1
            part = part * known.reshape(along).astype(part.dtype)
        parts.append(np.moveaxis(part, 2, 1))
    stacked = np.stack(parts, axis=1)
    return stacked.reshape(-1, channels // group, *stacked.shape[4:])


def _in_place(
    value: SSAValue, op: HostOp, dimensions: Sequence[TransposedDimension], group: int
) -> list[Operation]:
    """[N, group * phases * O, q...] as [N, group * O, s * q + r...], cut to its extents."""
    made: list[Operation] = []
    y = shape_of(op.outputs[0]) or ()
    rank, strides = len(dimensions), [d.stride for d in dimensions]
    phases, outputs = prod(strides), y[1] // group
    if phases > 1:
        if group > 1:
            apart = np.arange(phases * y[1]).reshape(group, phases, outputs)
            order = apart.transpose(1, 0, 2).reshape(-1).tolist()
            made.append(TakeChannelsOp(value, order, value.type))
            value = made[-1].results[0]
        extents = [d.count * d.stride for d in dimensions]
        made.append(DepthToSpaceOp(value, strides, TensorType(f32, [*y[:2], *extents])))
        value = made[-1].results[0]
    if shape_of(value) != y:
        starts = [0, 0, *(d.start * d.stride for d in dimensions)]
        made.append(SliceOp(value, starts, [1] * (2 + rank), op.outputs[0].type))
    for new in made:
        new.location = op.location
    return made


@dataclass(frozen=True)
class ConvTransposePhasesPass(ModulePass):
    """Transposed convolutions become convolutions, whose phases are spread over space.

    given: only those whose weights are on a grid.
    """

    name = "conv-transpose-phases"
    given: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite every such layer."""
        PatternRewriteWalker(SplitIntoPhases(ctx, self.given)).rewrite_module(op)
