"""Kernels that are a product by constants with a sliding window, and an epilogue.

The analysis of ``te-fill-lanes``: it reads the form from subscripts, not from the layer's kind.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.ir import BlockArgument

from vtac.dialects.te import LANES, ComputeOp, KernelOp, Read, shaped
from vtac.passes.te.borders import results_of
from vtac.passes.te.legalize_casts import is_product
from vtac.passes.te.pixel_folds import Slide


@dataclass(frozen=True)
class SlidingKernel:
    """A kernel that is a product with a window that slides along one dimension, and an epilogue.

    axis: the spatial axis along which the window slides. tap: the reduction axis of the window.
    dimension: the dimension of the activations along which it slides. window: the dimension of the
    weights that has the taps.
    """

    kernel: KernelOp
    axis: int
    tap: int
    dimension: int
    window: int
    slide: Slide

    @property
    def product(self) -> ComputeOp:
        """The product."""
        return self.kernel.computes[0]

    @property
    def activations(self) -> BlockArgument:
        """The parameter that is read through the window."""
        return _parameter(self.product.reads[0])

    @property
    def weights(self) -> BlockArgument:
        """The parameter with the constants of the product."""
        return _parameter(self.product.reads[1])

    @property
    def steps(self) -> int:
        """Operations of the epilogue on each element."""
        kept = arith.AddiOp | arith.ShRSIOp | arith.MaxSIOp | arith.MinSIOp | arith.ShLIOp
        epilogue = self.kernel.computes[1:]
        return sum(isinstance(op, kept) for c in epilogue for op in c.body.block.ops)

    @property
    def vectors(self) -> list[BlockArgument]:
        """The parameters of the epilogue."""
        reads = [read.value for compute in self.kernel.computes[1:] for read in compute.reads]
        return list(dict.fromkeys(v for v in reads if isinstance(v, BlockArgument)))


def _parameter(read: Read) -> BlockArgument:
    assert isinstance(read.value, BlockArgument)
    return read.value


def sliding_kernel(kernel: KernelOp, back: int) -> SlidingKernel | None:
    """The kernel as one that slides along the dimension ``back`` before the lanes, if it is one."""
    computes = kernel.computes
    if not computes or not is_product(computes[0]) or results_of(kernel) != [computes[-1].result]:
        return None
    product, rank = computes[0], len(computes[0].spatial)
    axis = rank - LANES - back
    x, w = product.reads
    dimension = len(x.rows) - LANES - back
    operands = (x.value, w.value)
    if not all(isinstance(v, BlockArgument) and v.has_one_use() for v in operands):
        return None
    if axis < 0 or dimension < 0 or w.outside is not None or product.init is not None:
        return None
    row = x.rows[dimension]
    terms = dict(row.terms)
    stride, taps = terms.pop(axis, 0), [variable for variable in terms if variable >= rank]
    if stride <= 0 or row.divisor != 1 or len(terms) != 1 or len(taps) != 1:
        return None
    (tap,) = taps
    windows = [d for d, r in enumerate(w.rows[:-LANES]) if r.variable == tap]
    if len(windows) != 1 or _uses([x, w], tap) != 2 or _uses([x, w], axis) != 1:
        return None
    lanes = [row.variable for read in (x, w) for row in read.rows[-LANES:]]
    k = len(product.extents) - 1
    if lanes != [rank - 2, k, rank - 1, k] or terms[tap] <= 0:
        return None
    if not all(_is_elementwise(compute, axis, product) for compute in computes[1:]):
        return None
    slide = Slide(
        shaped(x.value).get_shape()[dimension],
        product.extents[axis],
        product.extents[tap],
        stride,
        terms[tap],
        row.constant,
    )
    return SlidingKernel(kernel, axis, tap, dimension, windows[0], slide)


def _uses(reads: Sequence[Read], variable: int) -> int:
    """How many subscripts depend on a variable."""
    return sum(variable in dict(row.terms) for read in reads for row in read.rows)


def _is_elementwise(compute: ComputeOp, axis: int, product: ComputeOp) -> bool:
    """Whether a compute reads results of the kernel in place, and vectors of the last lane."""
    rank = len(compute.spatial)
    if len(compute.reduce) or compute.spatial.extents != product.spatial.extents:
        return False
    for read in compute.reads:
        if not isinstance(read.value, BlockArgument):
            if [row.variable for row in read.rows] != list(range(rank)):
                return False
        elif not read.rows or read.rows[-1].variable != rank - 1 or _uses([read], axis):
            return False
    return True
