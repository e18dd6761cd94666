"""``te-extremes-first``: monotonic operations move behind the extreme of a window.

``max over k of f(x[k])`` is ``f(max over k of x[k])`` where f never decreases. Right shifts and
clips never do, nor do additions that do not overflow. So where a pooling follows a layer in one
kernel, the layer's shift and clips are done for each window rather than for each element.

Takes kernels of tensors whose stages are single operations; looks at extremes of accumulators over
windows. A stage moves behind the extreme if nothing else reads it, if its other operand is a
constant, or does not move along the window, and if the window has no more positions than the tensor
has elements. The extreme then starts from one of its taps (te-split-windows, which must follow), so
it stays where it is if there is no such tap, or if what it started from could be its result. Needs
a target, as te-split-windows does.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i32
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from vtac.dialects.target import target_at
from vtac.dialects.te import (
    CallOp,
    ComputeOp,
    KernelOp,
    Read,
    Row,
    identity_map,
    rows_of,
    yielded,
)
from vtac.passes.te.call_intervals import intervals_of_call
from vtac.passes.te.intervals import INT32
from vtac.passes.te.parameters import kernels_with_calls
from vtac.passes.te.window_reductions import (
    WindowReduction,
    absorbs,
    operand_interval,
    window_reduction,
)


@dataclass(frozen=True)
class ExtremesFirstPass(ModulePass):
    """Move operations that never decrease behind the extremes that read them."""

    name = "te-extremes-first"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite every kernel of tensors, if the module has a target."""
        if target_at(op) is None:
            return
        for kernel, calls in kernels_with_calls(op):
            for compute in kernel.computes:
                window = window_reduction(compute)
                if window is None or window.operation is arith.AddiOp or not window.may_start:
                    continue
                chain = _chain(ctx, kernel, calls, window)
                if chain and absorbs(window, operand_interval(ctx, kernel, calls, window)):
                    _swap(window, chain)


@dataclass(frozen=True)
class _Monotone:
    """A stage that never decreases in one of its operands, and the number of that operand."""

    stage: ComputeOp
    operand: int


def _chain(
    ctx: Context, kernel: KernelOp, calls: Sequence[CallOp], window: WindowReduction
) -> list[_Monotone]:
    """The stages that can move, from the one that the window reads upwards."""
    found: list[_Monotone] = []
    value = window.read.value
    while (step := _monotone(value, window)) is not None:
        if isinstance(yielded(step.stage.body).owner, arith.AddiOp) and not _adds_exactly(
            ctx, kernel, calls, step
        ):
            break
        found.append(step)
        value = step.stage.inputs[step.operand]
    return found


def _monotone(value: SSAValue, window: WindowReduction) -> _Monotone | None:
    """The stage that makes a value, if it can move behind the window."""
    stage = value.owner
    if not isinstance(stage, ComputeOp) or len(list(value.uses)) != 1 or len(stage.reduce):
        return None
    compute = window.compute
    if window.elements(compute.spatial.extents) > window.elements(stage.spatial.extents):
        return None
    operation, arguments = yielded(stage.body).owner, list(stage.body.block.args)
    if not isinstance(operation, arith.ShRSIOp | arith.MaxSIOp | arith.MinSIOp | arith.AddiOp):
        return None
    operands = (
        operation.operands[:1] if isinstance(operation, arith.ShRSIOp) else operation.operands
    )
    own = rows_of(identity_map(len(stage.spatial)))
    moving = {axis.dimension for axis in window.axes}
    reads = stage.reads
    for number, read in enumerate(reads):
        is_data = arguments[number] in operands and read.rows == own
        if is_data and isinstance(read.value.owner, ComputeOp) and read.value.type == value.type:
            others = [*reads[:number], *reads[number + 1 :]]
            if all(_stands_still(other, moving) for other in others):
                return _Monotone(stage, number)
    return None


def _stands_still(read: Read, moving: set[int]) -> bool:
    """Whether an operand is the same for all elements of a window."""
    used = {variable for row in read.rows for variable, _ in row.terms}
    return read.outside is None and not used & moving


def _adds_exactly(ctx: Context, kernel: KernelOp, calls: Sequence[CallOp], step: _Monotone) -> bool:
    """Whether an addition stays in 32 bits in all calls."""
    for call in calls:
        intervals = intervals_of_call(ctx, kernel, call, {})
        ends = [intervals[value] for value in step.stage.inputs]
        operation = yielded(step.stage.body).owner
        assert isinstance(operation, arith.AddiOp)
        for operand in operation.operands:
            constant = operand.owner
            if isinstance(constant, arith.ConstantOp) and isinstance(constant.value, IntegerAttr):
                ends.append((constant.value.value.data, constant.value.value.data))
        low, high = (sum(end[side] for end in ends) for side in (0, 1))
        if low < INT32[0] or high > INT32[1]:
            return False
    return bool(calls)


def _swap(window: WindowReduction, chain: Sequence[_Monotone]) -> None:
    """Reduce the chain's input first, and apply the stages of the chain to the extreme, in
    order."""
    compute, (first, *_) = window.compute, reversed(chain)
    read = Read(first.stage.inputs[first.operand], window.read.rows)
    extreme = ComputeOp(
        compute.label.data,
        compute.spatial,
        compute.reduce,
        [read.bordered(compute.extents, window.neutral)],
        compute.body.clone(),
        i32,
        identity=window.neutral,
    )
    extreme.location, extreme.result.name_hint = compute.location, compute.result.name_hint
    Rewriter.insert_op(extreme, InsertPoint.before(compute))
    value: SSAValue = extreme.result
    same, rows = rows_of(identity_map(len(compute.spatial))), window.rows_without_taps
    for step in reversed(chain):
        stage = step.stage
        reads = [
            Read(value, same) if number == step.operand else _at(read, rows)
            for number, read in enumerate(stage.reads)
        ]
        moved = ComputeOp(stage.label.data, compute.spatial, {}, reads, stage.body.clone(), i32)
        moved.location, moved.result.name_hint = stage.location, stage.result.name_hint
        Rewriter.insert_op(moved, InsertPoint.before(compute))
        value = moved.result
    Rewriter.replace_op(compute, [], [value])
    for step in chain:
        Rewriter.erase_op(step.stage)


def _at(read: Read, rows: Sequence[Row]) -> Read:
    """The operand at the window's position: variables are replaced by the window's subscripts."""
    return Read(read.value, tuple(row.substituted(rows) for row in read.rows))
