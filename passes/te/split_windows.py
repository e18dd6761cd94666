"""``te-split-windows``: extremes and sums over a window start from one of its taps, and may be
taken one dimension after the other.

``max over (kh, kw) of x[s * h + kh, t * w + kw]`` is ``max over kw of (max over kh of ..)``: with
the rows first, K + K operations instead of K * K, but the first K for each column of x rather than
of the result. (Separable structuring elements of morphology; van Herk 1992.) And where a tap lies
inside the tensor for all outputs, accumulators start from a copy of it, rather than from the
identity, which takes a reset, an addition and one more operation.

Takes kernels of tensors whose stages are single operations; looks at reductions of accumulators by
max, min or add with one tap axis per subscript. The cheapest form by the rates of the target is
taken, and recorded on the kernel: unchanged; from a tap, all dimensions at once; or dimension by
dimension in any order, with intermediates in the accumulators. Declined where a dimension has no
tap to start from. Needs a target.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i32
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from vtac.dialects.target import Target, target_at
from vtac.dialects.te import (
    ComputeOp,
    KernelOp,
    Read,
    Row,
    identity_map,
    rows_of,
    scalar_body,
)
from vtac.dialects.te.standard import IMMEDIATE
from vtac.passes.te.computes import fresh_label
from vtac.passes.te.epilogue_costs import EpilogueCosts, chosen_form, record_choice
from vtac.passes.te.parameters import kernels_with_calls
from vtac.passes.te.window_reductions import (
    SlidingAxis,
    WindowReduction,
    absorbs,
    operand_interval,
    window_reduction,
)

Passes = Sequence[Sequence[SlidingAxis]]
"""The dimensions that are reduced together, one group after the other."""

AT_ONCE = "from the identity"
"""The name of the unchanged form in recorded choices."""


@dataclass(frozen=True)
class SplitWindowsPass(ModulePass):
    """Reduce windows from a tap, dimension by dimension, where that is cheaper."""

    name = "te-split-windows"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite every kernel of tensors, if the module has a target."""
        target = target_at(op)
        if target is None:
            return
        for kernel, calls in kernels_with_calls(op):
            for compute in kernel.computes:
                window = window_reduction(compute)
                if window is not None and window.may_start:
                    interval = operand_interval(ctx, kernel, calls, window)
                    _rewrite(kernel, window, absorbs(window, interval), target)


def _rewrite(kernel: KernelOp, window: WindowReduction, is_absorbed: bool, target: Target) -> None:
    """Choose a form. is_absorbed: whether the identity may be left out."""
    forms = {_named(passes): passes for passes in _ordered_partitions(window.axes)}
    costs = {name: _cost(window, passes, target) for name, passes in forms.items()}
    if not is_absorbed:
        last = EpilogueCosts(target).immediate(window.elements(window.compute.spatial.extents))
        costs = {name: cost + last for name, cost in costs.items()}
    if IMMEDIATE[0] <= window.identity <= IMMEDIATE[1]:
        costs = {AT_ONCE: _cost_at_once(window, target), **costs}
    chosen = chosen_form(kernel, window.compute.label.data, costs)
    record_choice(kernel, window.compute.label.data, costs, chosen)
    if chosen != AT_ONCE:
        _Splitter(kernel, window, forms[chosen], is_absorbed).run()


def _ordered_partitions(axes: Sequence[SlidingAxis]) -> Iterator[Passes]:
    """All ways to put axes into groups that follow each other, fewer groups first."""
    for size in range(len(axes), 0, -1):
        for first in combinations(axes, size):
            rest = [axis for axis in axes if axis not in first]
            if not rest:
                yield [first]
            yield from ([first, *others] for others in _ordered_partitions(rest) if rest)


def _named(passes: Passes) -> str:
    return "from a tap: " + ", then ".join(
        " and ".join(axis.name for axis in group) for group in passes
    )


def _cost_at_once(window: WindowReduction, target: Target) -> int:
    """Cycles from the identity: a reset, an addition unless it is 0, an operation for each tap."""
    costs, elements = EpilogueCosts(target), window.elements(window.compute.spatial.extents)
    start = costs.gemm(elements) + (costs.immediate(elements) if window.identity else 0)
    taps = prod(axis.taps for axis in window.axes)
    return start + costs.register(elements * taps) + costs.instructions(elements, 3)


def _cost(window: WindowReduction, passes: Passes, target: Target) -> int:
    """Cycles of reducing dimension by dimension, each from a tap."""
    costs, total, done = EpilogueCosts(target), 0, list[SlidingAxis]()
    for group in passes:
        done += group
        extents = _extents(window, done, group is passes[-1])
        elements, taps = window.elements(extents), prod(axis.taps for axis in group)
        pieces = 1 + sum(len(axis.rest) for axis in group)
        total += costs.copy(elements) + costs.register(elements * (taps - 1))
        total += costs.instructions(elements, pieces + 1)
    return total


def _extents(window: WindowReduction, done: Sequence[SlidingAxis], is_last: bool) -> Sequence[int]:
    """The extents of a tensor in which some dimensions of the window are reduced."""
    outputs, dimensions = window.compute.spatial.extents, {axis.dimension for axis in done}
    if is_last:
        return outputs
    return [outputs[d] if d in dimensions else size for d, size in enumerate(window.shape)]


@dataclass
class _Splitter:
    """The rewrite of one reduction. is_absorbed: whether its identity may be left out."""

    kernel: KernelOp
    window: WindowReduction
    passes: Passes
    is_absorbed: bool

    def run(self) -> None:
        """Insert stages before the reduction, and replace it by the last of them."""
        compute, value = self.window.compute, self.window.read.value
        done: list[SlidingAxis] = []
        for group in self.passes:
            is_last = group is self.passes[-1]
            value = self._reduce(value, group, done, is_last)
            done += group
        if not self.is_absorbed:
            value = self._with_identity(value)
        assert isinstance(value.owner, ComputeOp)
        value.owner.properties["label"] = compute.label
        value.name_hint = compute.result.name_hint
        Rewriter.replace_op(compute, [], [value])

    def _reduce(
        self, value: SSAValue, group: Sequence[SlidingAxis], done: Sequence[SlidingAxis], last: bool
    ) -> SSAValue:
        """One group of dimensions: a copy of a tap, and the other taps onto it."""
        extents = _extents(self.window, [*done, *group], last)
        spatial = dict(zip(self.window.compute.spatial.names, extents, strict=True))
        reduced = {axis.dimension for axis in done}
        rows = [
            row if last and d not in reduced else Row(((d, 1),))
            for d, row in enumerate(self.window.rows_without_taps)
        ]

        def read(taps: Sequence[Row], reduce: dict[str, int]) -> Read:
            found = list(rows)
            for axis, row in zip(group, taps, strict=True):
                found[axis.dimension] = row
            variables = (*spatial.values(), *reduce.values())
            return Read(value, tuple(found)).bordered(variables, self.window.neutral)

        first = read([axis.row(_start(axis)) for axis in group], {})
        total = self._stage("start", spatial, {}, first, None)
        for place, axis in enumerate(group):
            inner = {other.name: other.taps for other in group[place + 1 :]}
            for begin, step, count in axis.rest:
                reduce = {axis.name: count, **inner}
                variable = len(spatial)
                taps = [other.row(_start(other)) for other in group[:place]]
                taps.append(axis.row(begin, (step, variable)))
                taps += [
                    other.row(0, (1, variable + 1 + n))
                    for n, other in enumerate(group[place + 1 :])
                ]
                total = self._stage(axis.name, spatial, reduce, read(taps, reduce), total)
        return total

    def _stage(
        self,
        what: str,
        spatial: dict[str, int],
        reduce: dict[str, int],
        read: Read,
        init: SSAValue | None,
    ) -> SSAValue:
        """A reduction onto ``init``, or without it a copy, in front of the old reduction."""
        operation = self.window.operation
        body = (
            scalar_body([i32], lambda x: x)
            if init is None
            else scalar_body([i32, i32], lambda acc, x: operation(acc, x).results[0])
        )
        return self._insert(
            ComputeOp(self._label(what), spatial, reduce, [read], body, i32, init=init)
        )

    def _with_identity(self, value: SSAValue) -> SSAValue:
        """The result combined with what the old reduction started from."""
        window, spatial = self.window, self.window.compute.spatial

        def body(x: SSAValue) -> SSAValue:
            constant = arith.ConstantOp(IntegerAttr(window.identity, i32))
            return window.operation(x, constant.result).results[0]

        read = Read(value, rows_of(identity_map(len(spatial))))
        label = self._label("identity")
        return self._insert(ComputeOp(label, spatial, {}, [read], scalar_body([i32], body), i32))

    def _label(self, what: str) -> str:
        return fresh_label(self.kernel, f"{self.window.compute.label.data}_{what}")

    def _insert(self, stage: ComputeOp) -> SSAValue:
        stage.location = self.window.compute.location
        stage.result.name_hint = stage.label.data
        Rewriter.insert_op(stage, InsertPoint.before(self.window.compute))
        return stage.result


def _start(axis: SlidingAxis) -> int:
    assert axis.start is not None
    return axis.start
