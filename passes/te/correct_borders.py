"""``te-correct-borders``: padding that is not 0 is left out of products, whose results are
corrected.

A product whose operand has ``outside = z``, as the padding of a tensor with the zero point z,
cannot be computed as it is: the machine leaves taps in the padding out, or pads with 0. But where
the weights are known, so is the share of these taps: z times a sum of weights, which depends only
on the set of taps that lie outside. With ``in_d`` and ``out_d`` for "the subscript of dimension d
lies inside" and "outside",

    1 - in_h in_w  =  out_h + out_w - out_h out_w

so for each set of dimensions there is one correction, of the outputs at the border of all of them:
rows at the top and the bottom, columns at the left and the right, and, taken away again, corners
(and one more for strips of another width, outputs for which the same taps lie outside).
Each correction is a product of a constant element (the lanes 1, 127, 127, ... of te-place-biases)
with int8 digits, and the sum starts from it. So an element of the border costs a few micro-ops,
where its taps would cost one per tap and block of input channels. No tensor needs a halo of z in
memory, so makers and other readers of the tensor are not affected.

Takes kernels of tensors, after te-legalize-casts. Leaves no product that reads other than 0
outside. Raises `CompileError` where weights are not constant.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from math import prod

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, i8, i32
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from vtac.dialects.context import Array
from vtac.dialects.te import LANES, CallOp, ComputeOp, KernelOp, Read, Row, scalar_body
from vtac.passes.te.border_sums import PaddedProduct, Side, refusal
from vtac.passes.te.computes import fresh_label, fresh_name, replace_compute
from vtac.passes.te.legalize_casts import is_product, multiply_accumulate
from vtac.passes.te.parameters import append_parameter, kernels_with_calls, passed_constant
from vtac.passes.te.place_biases import (
    digits_of,
    inputs_needed,
    lane_digits,
    lanes_needed,
    lanes_of,
)


@dataclass(frozen=True)
class CorrectBordersPass(ModulePass):
    """Let products read 0 outside their operands, and correct the outputs at the border."""

    name = "te-correct-borders"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite every kernel of tensors that is called."""
        for kernel, calls in kernels_with_calls(op):
            for compute in kernel.computes if calls else ():
                if is_product(compute) and any(read.outside for read in compute.reads):
                    _Corrector(ctx, kernel, calls, PaddedProduct.of(kernel, compute)).run()


@dataclass(frozen=True)
class _Operands:
    """The two operands of a correction.

    shared: all strips have lanes of their own in one block of digits, [kept..., o, k], and the
    input elements, [strips..., k], choose among them. Else there is a block of digits for each
    strip, [kept..., strips..., pieces, o, k], and one input for all, [pieces, k].
    """

    ones: Array
    digits: Sequence[Array]
    shared: bool

    @staticmethod
    def of(values: Sequence[Array], kept: int, block: int) -> "_Operands":
        """values: what is added, [kept..., o, strips...], for each call."""
        strips = values[0].shape[kept:]
        lanes = max(map(lanes_needed, values))
        if prod(strips) * lanes <= block:
            return _Operands.of_lanes(values, kept, block, lanes)
        pieces = max(inputs_needed(each, block) for each in values)
        moved = [np.moveaxis(each, kept - 1, -1) for each in values]
        digits = [digits_of(each, pieces, block) for each in moved]
        return _Operands(lanes_of(pieces, block), digits, False)

    @staticmethod
    def of_lanes(values: Sequence[Array], kept: int, block: int, lanes: int) -> "_Operands":
        """With so many lanes for each strip."""
        strips = values[0].shape[kept:]
        count = prod(strips) * lanes
        ones = np.zeros((prod(strips), block), np.int8)
        for strip, element in enumerate(ones):
            element[strip * lanes : (strip + 1) * lanes] = lanes_of(1, lanes)[0]
        digits = []
        for each in values:
            found = lane_digits(each, lanes).reshape(*each.shape[:kept], count)
            digits.append(np.pad(found, [(0, 0)] * kept + [(0, block - count)]))
        return _Operands(ones.reshape(*strips, block), digits, True)


@dataclass(frozen=True)
class _Corrector:
    ctx: Context
    kernel: KernelOp
    calls: Sequence[CallOp]
    padded: PaddedProduct

    def run(self) -> None:
        """Add one correction for each set of dimensions; the product starts from the last."""
        compute, padded = self.padded.compute, self.padded
        sums = [padded.sums(self._weights(call)) for call in self.calls]
        start = compute.init
        for sides in _subsets(padded.sides):
            values = [padded.correction(each, sides) for each in sums]
            if any(each.any() for each in values):
                start = self._correct(sides, values, start)
        reads = [
            Read(read.value, read.rows, None if read.outside is None else 0)
            for read in compute.reads
        ]
        new = _product(compute.label.data, compute, dict(compute.reduce), reads, start)
        replace_compute(compute, new)

    def _weights(self, call: CallOp) -> Array:
        array = passed_constant(self.ctx, call, self.padded.weights.value)
        if array is None:
            raise refusal(self.padded.where, "a call passes weights that are not constant")
        return array

    def _correct(
        self, sides: Sequence[Side], values: Sequence[Array], start: SSAValue | None
    ) -> SSAValue:
        """Add ``values``, [kept..., o, loops of the sides...] for each call, at the border."""
        compute, kept = self.padded.compute, self.padded.kept
        batch, block = (compute.extents[v] for v in (len(compute.spatial) - LANES, -1))
        operands = _Operands.of(values, len(kept), block)
        names = [compute.spatial.names[side.axis] for side in sides if side.axis is not None]
        label = fresh_label(self.kernel, "_".join([compute.label.data, "border", *names]))
        reduce, turns = self._loops(sides, None if operands.shared else len(operands.ones))
        last = len(compute.spatial) + len(reduce) - 1
        rows = [
            side.row(*loops)
            for side, loops in zip(sides, zip(turns[::2], turns[1::2], strict=False), strict=True)
            if side.axis is not None
        ]
        strips = [side.length for side in sides if side.axis is not None]
        ones = operands.ones.reshape(*operands.ones.shape[:-1], *[1 for _ in strips], 1, block)
        ones = np.broadcast_to(ones, (*operands.ones.shape[:-1], *strips, batch, block)).copy()
        pieces = [] if operands.shared else [last - 1]
        chosen, found = (turns, []) if operands.shared else (pieces, [*turns, *pieces])
        x = self._parameter([ones] * len(values), f"{label}_ones")
        w = self._parameter(operands.digits, f"{label}_digits")
        lanes = [_axis(v) for v in (len(compute.spatial) - 2, len(compute.spatial) - 1, last)]
        reads = [
            Read(x, (*map(_axis, chosen), *rows, lanes[0], lanes[2]), 0 if rows else None),
            Read(w, (*map(_axis, [*kept[:-1], *found]), lanes[1], lanes[2])),
        ]
        new = _product(label, compute, reduce, reads, start)
        new.location = compute.location
        new.result.name_hint = label
        Rewriter.insert_op(new, InsertPoint.before(compute))
        return new.result

    def _loops(self, sides: Sequence[Side], pieces: int | None) -> tuple[dict[str, int], list[int]]:
        """The reduction axes, and which variables are the loops of the sides, two for each side."""
        compute = self.padded.compute
        reduce, taken = dict[str, int](), set(compute.spatial.names)
        for side in sides:
            axis = "" if side.axis is None else compute.spatial.names[side.axis]
            for hint, extent in zip((f"{axis}_end", f"{axis}_strip"), side.extents, strict=True):
                reduce[fresh_name(hint, {*taken, *reduce})] = extent
        turns = [len(compute.spatial) + number for number in range(len(reduce))]
        if pieces is not None:
            reduce[fresh_name("d", {*taken, *reduce})] = pieces
        reduce[fresh_name("k", {*taken, *reduce})] = compute.extents[-1]
        return reduce, turns

    def _parameter(self, arrays: Sequence[Array], hint: str) -> SSAValue:
        return append_parameter(self.ctx, self.kernel, self.calls, arrays, hint)


def _subsets(sides: Sequence[Sequence[Side]]) -> Iterator[tuple[Side, ...]]:
    """Strips of every set of dimensions but the empty one, small sets first."""
    for count in range(1, len(sides) + 1):
        for chosen in combinations(sides, count):
            yield from product(*chosen)


def _axis(variable: int) -> Row:
    return Row(((variable, 1),))


def _product(
    label: str,
    like: ComputeOp,
    reduce: dict[str, int],
    reads: Sequence[Read],
    start: SSAValue | None,
) -> ComputeOp:
    """A product over the same outputs that starts from another sum, or from 0."""
    return ComputeOp(
        label,
        like.spatial,
        reduce,
        reads,
        scalar_body([i32, i8, i8], multiply_accumulate),
        i32,
        identity=0 if start is None else None,
        init=start,
    )
