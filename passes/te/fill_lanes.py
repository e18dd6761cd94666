"""``te-fill-lanes``: where channels do not fill an element, neighbouring pixels share it.

A tensor of 8 channels fills half of an element of 16 lanes, so every micro-op and every step of the
epilogue computes 8 numbers that nobody reads. Where only convolutions read such a tensor, two
pixels of a row share an element: the convolution that makes it computes both at once, and half the
elements go through the epilogue. A depthwise convolution gains most, since two outputs of a row
meet windows of four pixels, which are two elements: 3x3 taps take 6 micro-ops for two pixels, not
18. (`pixel_folds` says which elements meet; docs/depthwise.md has the numbers.)

Takes kernels of tensors in lanes, as ``graph-to-te`` leaves them: a product by constants with a
sliding window, and an epilogue. Which tensors are folded, and how, is chosen by cost: descent over
one tensor at a time. Calls of one kernel whose tensors are folded differently get kernels of their
own. Declined for tensors that anything else reads, along all dimensions but the last two, and where
a window with padding other than 0 would meet phases.
"""

from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import FunctionType, ModuleOp, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from vtac.dialects.context import Array
from vtac.dialects.target import Memory, Target
from vtac.dialects.te import LANES, CallOp, ComputeOp, KernelOp, Read, Row, ViewOp, shaped
from vtac.passes.te.accelerated import is_accelerated, target_of
from vtac.passes.te.borders import results_of
from vtac.passes.te.computes import fresh_name, replace_compute
from vtac.passes.te.epilogue_costs import EpilogueCosts, record_choice
from vtac.passes.te.parameters import (
    kernels_with_calls,
    passed_constant,
    replace_constants,
    variants,
)
from vtac.passes.te.pixel_folds import NOT_FOLDED, FoldedSlide, PixelFold, Slide, folds_for
from vtac.passes.te.sliding_kernels import SlidingKernel, sliding_kernel

_DIMENSIONS = (1, 2)
"""Dimensions that are folded, counted from the last one before the lanes."""


@dataclass(frozen=True)
class FillLanesPass(ModulePass):
    """Let neighbouring pixels share elements that their channels do not fill."""

    name = "te-fill-lanes"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the kernels that accelerator functions call, one dimension after the other."""
        for back in _DIMENSIONS:
            _fold(ctx, op, back)


@dataclass(frozen=True)
class Wish:
    """What a call wants of its kernel.

    source, result: the folds of what it reads and of what it makes. lanes_in, lanes_out: how many
    lanes a pixel of each has where it is folded.
    """

    source: PixelFold
    result: PixelFold
    lanes_in: int
    lanes_out: int


def _fold(ctx: Context, module: ModuleOp, back: int) -> None:
    """Fold tensors along one dimension; the functions of a module choose one after the other."""
    called = kernels_with_calls(module)
    forms: dict[FuncOp, dict[CallOp, SlidingKernel]] = {}
    for kernel, calls in called:
        form = sliding_kernel(kernel, back)
        if form is None:
            continue
        for call in calls:
            function = call.parent_op()
            if is_accelerated(function) and _are_constants(ctx, form, call):
                forms.setdefault(function, {})[call] = form
    wishes: dict[CallOp, Wish] = {}
    prices: dict[CallOp, tuple[int, int]] = {}
    for function, own in forms.items():
        search = _Search(ctx, target_of(function), own)
        found = search.run()
        wishes |= found
        prices |= {call: search.prices(call) for call in found}
    for kernel, calls in called:
        wanted = [wishes.get(call) for call in calls]
        if any(wanted):
            for copy, members, wish in variants(module, kernel, calls, wanted):
                if wish is not None:
                    folded = sliding_kernel(copy, back)
                    assert folded is not None
                    _record(copy, folded, wish, prices[members[0]])
                    _Rewrite(ctx, folded, members, wish).run()


def _record(kernel: KernelOp, form: SlidingKernel, wish: Wish, prices: tuple[int, int]) -> None:
    """Write down what was chosen; prices: cycles with these folds, and without any.

    The folds are cheapest for all kernels together. One kernel alone may be dearer with them.
    """
    name = f"{wish.source.pixels} to {wish.result.pixels} pixels in an element"
    options = dict(zip((name, "1 pixel"), prices, strict=True))
    stage, axis = form.product.label.data, form.product.spatial.names[form.axis]
    record_choice(kernel, f"{stage} along {axis}", options, name)


def _are_constants(ctx: Context, form: SlidingKernel, call: CallOp) -> bool:
    """Whether a call passes constants for all parameters but the activations."""
    return all(
        passed_constant(ctx, call, parameter) is not None
        for parameter in (form.weights, *form.vectors)
    )


@dataclass(frozen=True)
class _Work:
    """What the cycles of a sliding kernel depend on; many kernels of a network have the same.

    others: results per pixel along the window, lanes left out. summed: products per result and tap.
    tiles: weight tiles per tap. steps: operations of the epilogue. is_padded: whether the window
    reads pixels outside.
    """

    slide: Slide
    others: int
    summed: int
    tiles: int
    steps: int
    is_padded: bool

    @staticmethod
    def of(form: SlidingKernel) -> "_Work":
        """The work of a kernel."""
        product = form.product
        extents = list(product.extents[:-1])  # without the lane that is summed
        rank = len(product.spatial)
        return _Work(
            form.slide,
            prod(n for v, n in enumerate(extents) if v < rank - 1 and v != form.axis),
            prod(n for v, n in enumerate(extents) if v >= rank and v != form.tap),
            prod(shaped(form.weights).get_shape()[:-LANES]) // form.slide.taps,
            form.steps,
            bool(product.reads[0].outside),
        )

    def cycles(self, source: PixelFold, result: PixelFold, costs: EpilogueCosts) -> int | None:
        """The cycles between two folds, None where these are not possible."""
        try:
            folded = FoldedSlide(self.slide, source, result)
        except ValueError:
            return None
        if folded.phases > 1 and self.is_padded:
            return None  # te-correct-borders needs one axis for each padded dimension
        elements = self.others * folded.elements * folded.phases
        return (
            costs.gemm(self.others * self.summed * folded.products() + elements)
            + costs.immediate(elements * self.steps)
            + costs.load(Memory.WGT, self.tiles * folded.taps * folded.phases)
        )


class _Search:
    """Chooses folds of the tensors between sliding kernels.

    lanes: for each tensor that may be folded, how many lanes of a pixel are read.
    """

    def __init__(self, ctx: Context, target: Target, kernels: Mapping[CallOp, SlidingKernel]):
        self.ctx, self.kernels = ctx, kernels
        self.block, self.costs = target.block, EpilogueCosts(target)
        self.lanes: dict[SSAValue, int] = {
            call.outputs[0]: lanes
            for call in kernels
            if (lanes := self._lanes_of(call.outputs[0])) and 2 * lanes <= self.block
        }
        self.folds: dict[SSAValue, PixelFold] = {}
        self.works = {call: _Work.of(form) for call, form in kernels.items()}
        self._known: dict[tuple[_Work, PixelFold, PixelFold], int | None] = {}

    def _lanes_of(self, value: SSAValue) -> int:
        """How many lanes are multiplied by anything but 0; 0 where something else reads them."""
        most = 0
        for use in value.uses:
            call = use.operation
            form = self.kernels.get(call) if isinstance(call, CallOp) else None
            if form is None or use.index != form.activations.index:
                return 0
            array = passed_constant(self.ctx, call, form.weights)
            assert array is not None
            used = np.flatnonzero(array.any(axis=tuple(range(array.ndim - 1))))
            most = max(most, int(used.max(initial=0)) + 1)
        return most

    def run(self) -> dict[CallOp, Wish]:
        """What the calls want whose kernels have to change."""
        plain: dict[SSAValue, PixelFold] = dict.fromkeys(self.lanes, NOT_FOLDED)
        starts = plain, self._all_folded()
        self.folds = min((self._descend(start) for start in starts), key=self._total)
        wishes = {}
        for call, form in self.kernels.items():
            source, result = call.operands[form.activations.index], call.outputs[0]
            folds = self.folds.get(source, NOT_FOLDED), self.folds.get(result, NOT_FOLDED)
            if folds != (NOT_FOLDED, NOT_FOLDED):
                lanes = self.lanes.get(source, self.block), self.lanes.get(result, self.block)
                wishes[call] = Wish(*folds, *lanes)
        return wishes

    def _all_folded(self) -> dict[SSAValue, PixelFold]:
        most = {value: folds_for(lanes, self.block) for value, lanes in self.lanes.items()}
        return {v: max(folds, key=lambda f: (f.pixels, -f.shift)) for v, folds in most.items()}

    def _descend(self, folds: dict[SSAValue, PixelFold]) -> dict[SSAValue, PixelFold]:
        """Change the fold of one tensor at a time until nothing is gained."""
        changed = True
        while changed:
            changed = False
            for value, lanes in self.lanes.items():
                calls = self._calls_at(value)

                def cost(
                    fold: PixelFold, value: SSAValue = value, calls: list[CallOp] = calls
                ) -> float:
                    return sum(self._cost(call, ChainMap({value: fold}, folds)) for call in calls)

                best = min(folds_for(lanes, self.block), key=cost)
                if cost(best) < cost(folds[value]):
                    folds[value], changed = best, True
        return folds

    @staticmethod
    def _calls_at(value: SSAValue) -> list[CallOp]:
        around = [value.owner, *(use.operation for use in value.uses)]
        return [op for op in around if isinstance(op, CallOp)]

    def _total(self, folds: Mapping[SSAValue, PixelFold]) -> float:
        return sum(self._cost(call, folds) for call in self.kernels)

    def _cost(self, call: CallOp, folds: Mapping[SSAValue, PixelFold]) -> float:
        """Cycles of a call; infinite where these folds are not possible."""
        work, form = self.works[call], self.kernels[call]
        source = folds.get(call.operands[form.activations.index], NOT_FOLDED)
        result = folds.get(call.outputs[0], NOT_FOLDED)
        key = work, source, result
        if key not in self._known:
            self._known[key] = work.cycles(source, result, self.costs)
        cycles = self._known[key]
        return float("inf") if cycles is None else cycles

    def prices(self, call: CallOp) -> tuple[int, int]:
        """Cycles of a call with the folds that were chosen, and without folds."""
        return int(self._cost(call, self.folds)), int(self._cost(call, {}))


@dataclass
class _Rewrite:
    """The rewrite of one kernel, and of the calls that want it."""

    ctx: Context
    form: SlidingKernel
    calls: Sequence[CallOp]
    wish: Wish

    def run(self) -> None:
        """Rewrite constants, computes and results."""
        form, kernel, wish = self.form, self.form.kernel, self.wish
        self.folded = FoldedSlide(form.slide, wish.source, wish.result)
        weights = partial(self._weights, form.window)
        for vector in form.vectors if wish.result.pixels > 1 else ():
            self._replace(vector, self.folded.vector(wish.lanes_out))
        self._replace(form.weights, weights)
        x = form.activations
        if wish.source.pixels > 1:
            shape = list(shaped(x).get_shape())
            shape[form.dimension] = wish.source.elements(form.slide.size)
            Rewriter.replace_value_with_new_type(x, TensorType(shaped(x).element_type, shape))
        for number, compute in enumerate(kernel.computes):
            reads = [self._read(number, place, read) for place, read in enumerate(compute.reads)]
            replace_compute(compute, self._compute(compute, reads))
        (result,) = results_of(kernel)
        kernel.properties["function_type"] = FunctionType.from_lists(
            kernel.body.block.arg_types, [result.type]
        )
        for call in self.calls:
            self._retype(call, result)

    def _weights(self, window: int, array: Array) -> Array:
        return self.folded.weights(array, window, (self.wish.lanes_out, self.wish.lanes_in))

    def _replace(self, parameter: BlockArgument, change: Callable[[Array], Array]) -> None:
        replace_constants(self.ctx, self.form.kernel, self.calls, parameter, change)

    def _renamed(self, variable: int) -> int:
        """The number of an axis behind a new axis of phases."""
        return variable + (self.folded.phases > 1 and variable > self.form.axis)

    def _read(self, number: int, place: int, read: Read) -> Read:
        """An operand of a compute, over the new axes."""
        form, folded = self.form, self.folded
        rows = [row.renamed(self._renamed) for row in read.rows]
        phase = [Row.of([(form.axis + 1, 1)])] if folded.phases > 1 else []
        if number:
            inner = not isinstance(read.value, BlockArgument)
            rows[form.axis + 1 : form.axis + 1] = phase if inner else []
            return Read(read.value, tuple(rows), read.outside)
        if place == 1:
            rows[form.window : form.window] = phase
            return Read(form.weights, tuple(rows), read.outside)
        terms = [(form.axis, folded.stride), (self._renamed(form.tap), 1)]
        terms += [(form.axis + 1, folded.skew)] if phase else []
        rows[form.dimension] = Row.of(terms, folded.offset)
        return Read(form.activations, tuple(rows), read.outside)

    def _compute(self, compute: ComputeOp, reads: Sequence[Read]) -> ComputeOp:
        folded, form = self.folded, self.form
        spatial = list(dict(compute.spatial).items())
        name = spatial[form.axis][0]
        spatial[form.axis] = name, folded.elements
        if folded.phases > 1:
            taken = (*compute.spatial.names, *compute.reduce.names)
            spatial.insert(form.axis + 1, (fresh_name(f"{name}_phase", taken), folded.phases))
        reduce = list(dict(compute.reduce).items())
        if compute.reduce.data:
            place = form.tap - len(compute.spatial)
            reduce[place] = reduce[place][0], folded.taps
        extents = [n for _, n in (*spatial, *reduce)]
        return ComputeOp(
            compute.label.data,
            dict(spatial),
            dict(reduce),
            [read.bordered(extents, 0) for read in reads],
            compute.body.clone(),
            compute.element_type,
            identity=None if compute.identity is None else compute.identity.value.data,
        )

    def _retype(self, call: CallOp, result: SSAValue) -> None:
        """Give a call's result its new type, behind a view where it only has phases."""
        old = call.outputs[0]
        before = old.type
        if before == result.type:
            return
        new = Rewriter.replace_value_with_new_type(old, result.type)
        if self.folded.phases > 1:
            view = ViewOp(new, before)
            view.result.name_hint = new.name_hint
            assert call.parent is not None
            call.parent.insert_op_after(view, call)
            new.replace_uses_with_if(view.result, lambda use: use.operation is not view)
