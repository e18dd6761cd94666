"""``fold-first-layer``: kernel axes become channels where the input's channels fill no block.

A micro-op of the GEMM core takes a block of channels; three colours fill 3 of 16 lanes. The host,
which has to pack a network's input anyway, lays out the elements under taps of some kernel axes as
channels (``graph.unfold``), and the convolution loses these axes, or has fewer taps along them. On
a cluster, whose cores share one DDR, it is often better to fold fewer taps: each is read once more.
Lanes that stay spare hold the constants (1, 127, 127, ...): their weights are the digits of the
bias, which then costs nothing.

Takes integer convolutions (``quantize``) whose operand the host makes, also by reshapes and
transposes of an input. Convolutions that fold in the same way, such as the planes of weights, share
what the host lays out. ``folds`` looks for the cheapest axes to fold, perhaps none. The bias moves
as a whole or stays in what ends the sum.
"""

from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType, i8
from xdsl.ir import BlockArgument, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import (
    PatternRewriter,
    PatternRewriteWalker,
    RewritePattern,
    op_type_rewrite_pattern,
)
from xdsl.rewriter import InsertPoint

from vtac.dialects.context import Array
from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.graph import (
    AddBiasOp,
    AddOp,
    ConstantOp,
    ConvOp,
    HostOp,
    QuantizeOp,
    RequantizeOp,
    ReshapeOp,
    TransposeOp,
    UnfoldOp,
    integers,
    is_static,
    pad_property,
    pad_value_of,
    shape_of,
)
from vtac.dialects.target import Machine, cores_of, machine_at
from vtac.passes.graph.codegen import functions_of_host
from vtac.passes.graph.constants import constant_of, new_constant
from vtac.passes.graph.folds import (
    Fold,
    FoldChooser,
    fold_weights,
    windows_of,
    with_bias_lanes,
)
from vtac.passes.graph.reasons import is_settled


@dataclass
class FoldConvolution(RewritePattern):
    """Fold one convolution, if that is cheaper."""

    ctx: Context
    machine: Machine
    border: float

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ConvOp, rewriter: PatternRewriter) -> None:
        """Match convolutions of what the host makes, by constants, in int8."""
        weights = constant_of(self.ctx, op.w)
        if weights is None or weights.dtype != np.int8 or not _is_foldable(op):
            return
        ending = _ending_of(op.result)
        bias = None if ending is None else constant_of(self.ctx, ending.bias)
        if bias is not None and not bias.any():
            bias = None
        others = (use.operation for use in op.x.uses if use.operation is not op)
        is_shared = any(not isinstance(other, UnfoldOp) for other in others)
        core, cores = cores_of(self.machine)
        choice = FoldChooser(op, bias, is_shared, core, self.border, cores)
        fold = choice.best()
        if fold == choice.unfolded:
            return
        weights = fold_weights(weights, fold.groups)
        if fold.lanes:
            assert bias is not None and ending is not None
            weights = with_bias_lanes(weights, bias, fold)
            zeros = new_constant(self.ctx, np.zeros_like(bias), ending.bias.name_hint, ending)
            rewriter.insert(zeros, InsertPoint.before(op))
            old, ending.operands[1] = ending.bias, zeros.result
            _erase_unused(old, rewriter)
        old = op.w
        self._replace(op, fold, weights, rewriter)
        _erase_unused(old, rewriter)

    def _replace(self, op: ConvOp, fold: Fold, weights: Array, rewriter: PatternRewriter) -> None:
        """The host unfolds some taps; the convolution has a kernel of the others only."""
        windows, shape = windows_of(op), shape_of(op.x) or ()
        own, rest = [], []
        for group, window in zip(fold.groups, windows, strict=True):
            whole = window.kernel, window.stride, window.pad, window.pad_behind, window.dilation
            if group == 0:
                own.append((1, 1, 0, 0, 1))
                rest.append(whole)
            elif group == window.kernel:
                own.append(whole)
                rest.append((1, 1, 0, 0, 1))
            else:
                own.append((group, group, window.pad, window.filled_up(group), 1))
                rest.append((window.taps(group), 1, 0, 0, 1))
        extents = [w.extent(g) for g, w in zip(fold.groups, windows, strict=True)]
        kernel, strides, begins, ends, dilations = map(list, zip(*own, strict=True))
        unfold = UnfoldOp(
            op.x,
            TensorType(i8, [shape[0], weights.shape[1], *extents]),
            kernel=kernel,
            strides=strides,
            pads=begins + ends,
            dilations=dilations,
            constants=integers(fold.constants),
            **pad_property(pad_value_of(op) if any(begins + ends) else 0),
        )
        unfold.result.name_hint = op.x.name_hint
        unfold.location = op.location
        made = _same_unfold(unfold)
        w = new_constant(self.ctx, weights, op.w.name_hint, op)
        _, strides, begins, ends, dilations = map(list, zip(*rest, strict=True))
        conv = ConvOp(
            made.result,
            w.result,
            None,
            op.result.type,
            strides=strides,
            pads=begins + ends,
            dilations=dilations,
            pad_value=pad_value_of(op) if any(begins + ends) else 0,
        )
        conv.location = op.location
        rewriter.replace(op, [*([unfold] if made is unfold else []), w, conv])
        if made is not unfold:
            unfold.erase()


def _same_unfold(unfold: UnfoldOp) -> UnfoldOp:
    """An earlier op that lays out the same elements, or else this one.

    Planes of weights are convolutions of one operand, and fold alike.
    """
    others = (use.operation for use in unfold.x.uses if use.operation is not unfold)
    same = (
        other
        for other in others
        if isinstance(other, UnfoldOp) and other.properties == unfold.properties
    )
    return next(same, unfold)


def _erase_unused(constant: SSAValue, rewriter: PatternRewriter) -> None:
    if isinstance(constant.owner, ConstantOp) and not constant.uses:
        rewriter.erase(constant.owner)


def _is_foldable(op: ConvOp) -> bool:
    return (
        op.group.value.data == 1
        and not is_settled(op)
        and op.bias is None
        and is_static(op.x)
        and isinstance(op.x.type, TensorType)
        and op.x.type.get_element_type() == i8
        and _is_made_on_host(op.x)
    )


def _is_made_on_host(value: SSAValue) -> bool:
    """Whether an int8 value comes from the host whatever the codegens take."""
    while isinstance(value.owner, ReshapeOp | TransposeOp):
        value = value.owner.x
    return isinstance(value, BlockArgument) or isinstance(value.owner, QuantizeOp | HostOp)


def _ending_of(acc: SSAValue) -> RequantizeOp | AddBiasOp | None:
    """The op that adds the bias to the sum of which these accumulators are part."""
    while (use := acc.get_user_of_unique_use()) is not None:
        if isinstance(use, RequantizeOp | AddBiasOp) and use.operands[0] is acc:
            return use
        if not isinstance(use, AddOp):
            return None
        acc = use.result
    return None


@dataclass(frozen=True)
class FoldFirstLayerPass(ModulePass):
    """Fold kernel axes of convolutions of the host's values into their channels.

    border: cycles to count for each element of INP that the host lays out.
    """

    name = "fold-first-layer"

    border: float = 0.5

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Fold in every function that no codegen has taken, for the target of the module."""
        machine = machine_at(op)
        if machine is None:
            what = "lanes can only be filled for a target, and there is none"
            raise CompileError(Problem(self.name, what, "Name one: vta-opt --target pynq."))
        walker = PatternRewriteWalker(
            FoldConvolution(ctx, machine, self.border), apply_recursively=False
        )
        for function in functions_of_host(op):
            walker.rewrite_region(function.body)
