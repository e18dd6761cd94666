"""``te-drop-clips``: clips that cannot change any value are removed.

Requantisation clips at both bounds before a store keeps the low byte, by one ALU operation per
bound. Where the weights and biases that calls pass prove that values stay within a bound, its clip
is removed; many means, for example, need neither clip. (Ranges seen in calibration prove nothing.)

Takes kernels of tensors whose stages are single operations. Looks through whole functions, so that
what one kernel has clipped bounds what another reads. Calls for which different clips are void get
kernels of their own; kernels that nothing calls stay as they are.
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i32
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from vtac.dialects.te import (
    CallOp,
    ComputeOp,
    KernelOp,
    YieldOp,
    identity_map,
    rows_of,
    yielded,
)
from vtac.passes.te.call_intervals import intervals_of_call
from vtac.passes.te.intervals import Interval
from vtac.passes.te.parameters import kernels_with_calls, variants


@dataclass(frozen=True)
class DropClipsPass(ModulePass):
    """Leave out clips that are void in every call."""

    name = "te-drop-clips"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Look at all calls in order, then rewrite every kernel of tensors that they call."""
        called = kernels_with_calls(op)
        kernels = {kernel.sym_name.data: kernel for kernel, _ in called}
        void: dict[CallOp, frozenset[str]] = {}
        for function in op.ops:
            known: dict[SSAValue, Interval] = {}
            for call in function.body.block.ops if isinstance(function, FuncOp) else ():
                if not isinstance(call, CallOp):
                    continue
                kernel = kernels.get(call.callee.root_reference.data)
                if kernel is not None:
                    void[call] = _look(ctx, kernel, call, known)
        for kernel, calls in called:
            wishes = [void.get(call, frozenset()) for call in calls]
            for own, _, labels in variants(op, kernel, calls, wishes):
                _drop(own, labels)


def _look(
    ctx: Context, kernel: KernelOp, call: CallOp, known: dict[SSAValue, Interval]
) -> frozenset[str]:
    """The clips that are void in a call, by label; adds the intervals of its results to
    ``known``."""
    intervals = intervals_of_call(ctx, kernel, call, known)
    last = kernel.body.block.last_op
    assert isinstance(last, YieldOp)
    for result, value in zip(call.outputs, last.values, strict=True):
        known[result] = intervals[value]
    return frozenset(
        compute.label.data
        for compute in kernel.computes
        if (bound := _bound_of(compute)) is not None
        and _is_void(compute, bound, intervals[compute.inputs[0]])
    )


def _bound_of(compute: ComputeOp) -> int | None:
    """The constant of a stage that clips accumulators at one end."""
    operation = yielded(compute.body).owner
    if len(compute.reduce) or len(compute.inputs) != 1 or compute.element_type != i32:
        return None
    (read,) = compute.reads
    if read.rows != rows_of(identity_map(len(compute.spatial))) or not isinstance(
        read.value.owner, ComputeOp
    ):
        return None
    if not isinstance(operation, arith.MaxSIOp | arith.MinSIOp):
        return None
    constants = [v.owner for v in operation.operands if isinstance(v.owner, arith.ConstantOp)]
    if len(constants) != 1 or not isinstance(constants[0].value, IntegerAttr):
        return None
    return constants[0].value.value.data


def _is_void(compute: ComputeOp, bound: int, interval: Interval) -> bool:
    low, high = interval
    is_lower = isinstance(yielded(compute.body).owner, arith.MaxSIOp)
    return low >= bound if is_lower else high <= bound


def _drop(kernel: KernelOp, labels: frozenset[str]) -> None:
    for compute in kernel.computes:
        if compute.label.data in labels:
            Rewriter.replace_op(compute, [], [compute.inputs[0]])
