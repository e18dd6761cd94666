"""``te-narrow-bands``: products with weights in a narrow band of blocks read no other blocks.

Weights of grouped and depthwise convolutions, of selections and of other sparse products are zero
wherever the block of input channels is far from the block of output channels. Where every nonzero
block [c, ci] has lo <= ci - c <= hi, the sum over ci becomes one over ci = lo .. hi that reads
``x[.., c + ci, ..]``; a band of one block needs no sum over blocks at all. (Diagonal storage of
sparse matrices; Saad, "Iterative Methods for Sparse Linear Systems", section 3.4.)

Takes kernels of tensors in lanes; looks at products by a constant. Leaves such products with fewer
micro-ops and smaller weights. Calls whose constants have different bands get kernels of their own.
Declined where all blocks lie in the band, and where a read beyond the ends of the tensor would
yield anything but 0.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import BlockArgument
from xdsl.passes import ModulePass

from vtac.dialects.context import Array
from vtac.dialects.te import CallOp, ComputeOp, KernelOp, Read, Row
from vtac.passes.te.computes import replace_compute
from vtac.passes.te.legalize_casts import is_product
from vtac.passes.te.parameters import (
    kernels_with_calls,
    passed_constant,
    replace_constants,
    variants,
)


@dataclass(frozen=True)
class NarrowBandsPass(ModulePass):
    """Sum over the blocks of input channels that have weights, and over no others."""

    name = "te-narrow-bands"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the products of every kernel of tensors."""
        for kernel, calls in kernels_with_calls(op):
            bands = [_bands_of_call(ctx, kernel, call) for call in calls]
            for own, members, found in variants(op, kernel, calls, bands):
                for compute, band in zip(own.computes, found, strict=True):
                    if band is not None:
                        _narrow(ctx, own, members, compute, band)


@dataclass(frozen=True)
class Band:
    """Where the nonzero blocks of some weights lie.

    weights: number of the operand. output: the spatial axis, and summed: the reduction axis, that
    number the blocks. low, high: the smallest and the largest difference summed - output.
    """

    weights: int
    output: int
    summed: int
    low: int
    high: int

    @property
    def width(self) -> int:
        """How many blocks of input channels each block of outputs needs."""
        return self.high - self.low + 1


def _bands_of_call(ctx: Context, kernel: KernelOp, call: CallOp) -> tuple[Band | None, ...]:
    """For each compute of a kernel the narrowest band in which the constants of a call lie."""
    return tuple(_band_of(ctx, compute, call) for compute in kernel.computes)


def _band_of(ctx: Context, compute: ComputeOp, call: CallOp) -> Band | None:
    if not is_product(compute):
        return None
    found: list[Band] = []
    for number, read in enumerate(compute.reads):
        value = read.value
        if not isinstance(value, BlockArgument) or not value.has_one_use() or read.outside:
            continue
        pairs = list(_pairs(compute, number))
        array = passed_constant(ctx, call, value) if pairs else None
        if array is not None:
            limits = ((pair, _limits(array, *_dimensions(read, pair))) for pair in pairs)
            found += [Band(number, *pair, *limit) for pair, limit in limits]
    narrow = [band for band in found if _is_worthwhile(compute, band)]
    return min(narrow, key=lambda band: band.width, default=None)


def _pairs(compute: ComputeOp, weights: int) -> Iterator[tuple[int, int]]:
    """Spatial and reduction axes that number blocks of the weights, and of the other operand."""
    rank, read, other = len(compute.spatial), compute.reads[weights], compute.reads[1 - weights]
    own = [row.variable for row in read.rows[:-2]]
    others = [row.variable for row in other.rows[:-2]]
    moving = {v for row in other.rows for v, _ in row.terms}
    for output, summed in itertools.product(own, own):
        if output is None or summed is None or not output < rank <= summed:
            continue
        is_sum_over_blocks = compute.extents[summed] > 1 and others.count(summed) == 1
        if is_sum_over_blocks and output not in moving and _is_alone(other, summed):
            yield output, summed


def _is_alone(read: Read, variable: int) -> bool:
    """Whether a variable is in one subscript only."""
    return sum(variable in dict(row.terms) for row in read.rows) == 1


def _dimensions(read: Read, pair: tuple[int, int]) -> tuple[int, int]:
    variables = [row.variable for row in read.rows]
    return variables.index(pair[0]), variables.index(pair[1])


def _limits(array: Array, output: int, summed: int) -> tuple[int, int]:
    """The smallest and the largest difference of the two indices at which a block is not 0."""
    blocks = np.moveaxis(array, (output, summed), (0, 1))
    outputs, inputs = blocks.shape[:2]
    if blocks[0, -1].any() and blocks[-1, 0].any():
        return 1 - outputs, inputs - 1
    rows, columns = np.nonzero(blocks.any(axis=tuple(range(2, blocks.ndim))))
    if not rows.size:
        return 0, 0
    return int((columns - rows).min()), int((columns - rows).max())


def _is_worthwhile(compute: ComputeOp, band: Band) -> bool:
    """Whether fewer blocks are read, and reads outside the tensor give 0."""
    if band.width >= compute.extents[band.summed]:
        return False
    leaves = band.low < 0 or compute.extents[band.output] + band.high > compute.extents[band.summed]
    return not leaves or not compute.reads[1 - band.weights].outside


def _narrow(
    ctx: Context, kernel: KernelOp, calls: Sequence[CallOp], compute: ComputeOp, band: Band
) -> None:
    """Rewrite one product, and the constants that the calls pass for its weights."""
    weights, other = compute.reads[band.weights], compute.reads[1 - band.weights]
    dimensions, parameter = _dimensions(weights, (band.output, band.summed)), weights.value
    assert isinstance(parameter, BlockArgument)
    narrowed = replace_constants(
        ctx, kernel, calls, parameter, lambda array: _stored(array, *dimensions, band)
    )
    axes = list(dict(compute.reduce).items())
    place = band.summed - len(compute.spatial)
    axes[place : place + 1] = [(axes[place][0], band.width)] if band.width > 1 else []
    variables = [Row.of([(v, 1)]) for v in range(band.summed)]
    inner = [(band.summed, 1)] if band.width > 1 else []
    after = range(band.summed + len(inner), len(compute.extents) + len(inner) - 1)
    rest = [Row.of([(v, 1)]) for v in after]
    moving = [*variables, Row.of([(band.output, 1), *inner], band.low), *rest]
    still = [*variables, Row.of(inner), *rest]
    kept = [row for d, row in enumerate(weights.rows) if inner or d != dimensions[1]]
    extents = (*compute.spatial.extents, *dict(axes).values())
    x = Read(other.value, tuple(row.substituted(moving) for row in other.rows), other.outside)
    reads = [
        x.bordered(extents, 0),
        Read(narrowed, tuple(row.substituted(still) for row in kept), weights.outside),
    ]
    new = ComputeOp(
        compute.label.data,
        dict(compute.spatial),
        dict(axes),
        reads if band.weights == 1 else reads[::-1],
        compute.body.clone(),
        compute.element_type,
        identity=None if compute.identity is None else compute.identity.value.data,
        init=compute.init,
    )
    replace_compute(compute, new)


def _stored(array: Array, output: int, summed: int, band: Band) -> Array:
    """Weights indexed by the place in the band instead of the input block; a single place has no
    index."""
    blocks = np.moveaxis(array, (output, summed), (0, 1))
    outputs, inputs = blocks.shape[:2]
    places = np.zeros((outputs, band.width, *blocks.shape[2:]), array.dtype)
    rows = np.arange(outputs)
    for place in range(band.width):
        columns = rows + band.low + place
        inside = (columns >= 0) & (columns < inputs)
        places[rows[inside], place] = blocks[rows[inside], columns[inside]]
    stored = np.moveaxis(places, (0, 1), (output, summed))
    return np.ascontiguousarray(stored.squeeze(summed) if band.width == 1 else stored)
