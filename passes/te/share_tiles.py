"""``te-share-tiles``: weights that are equal along a dimension are stored and loaded once.

The mean over a window multiplies each tap by the same diagonal matrix, a scale that all channels
share is the same diagonal matrix for each block of channels, and a box filter has equal taps. Where
every slice of a constant along a dimension is the same, that dimension goes: the constant becomes
one slice, and its readers' subscripts no longer depend on the axis. A load then brings one tile
instead of one for each step of the axis. (A broadcast operand, as in NumPy.)

Takes kernels of tensors in lanes; looks at weights of products for which all calls pass constants.
Calls whose constants are equal along different dimensions get kernels of their own. Declined where
a read may leave the constant, for what lies beyond depends on all subscripts, and for the lanes,
which are one element of the machine. Run it when constants are final, before schedules are chosen.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import BlockArgument
from xdsl.passes import ModulePass

from vtac.dialects.context import Array
from vtac.dialects.te import LANES, CallOp, ComputeOp, KernelOp, Read, shaped
from vtac.passes.te.computes import replace_compute, with_reads
from vtac.passes.te.legalize_casts import is_product
from vtac.passes.te.parameters import (
    kernels_with_calls,
    passed_constant,
    replace_constants,
    variants,
)


@dataclass(frozen=True)
class ShareTilesPass(ModulePass):
    """Drop the dimensions of weights along which all slices are equal."""

    name = "te-share-tiles"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the products of every kernel of tensors."""
        for kernel, calls in kernels_with_calls(op):
            equal = [tuple(_equal_dimensions(ctx, kernel, call)) for call in calls]
            for own, members, found in variants(op, kernel, calls, equal):
                for number, dimensions in found:
                    parameter = own.body.block.args[number]
                    changed = replace_constants(
                        ctx, own, members, parameter, partial(_slice, dimensions)
                    )
                    assert isinstance(changed, BlockArgument)
                    _drop_subscripts(changed, dimensions)


def _equal_dimensions(
    ctx: Context, kernel: KernelOp, call: CallOp
) -> Iterator[tuple[int, frozenset[int]]]:
    """The weights, by number, of which a call passes equal slices, with those dimensions."""
    for parameter in kernel.body.block.args:
        if not _is_only_weights(parameter):
            continue
        outer = shaped(parameter).get_shape()[:-LANES]
        if max(outer, default=1) == 1:
            continue
        array = passed_constant(ctx, call, parameter)
        if array is not None:
            found = frozenset(d for d, size in enumerate(outer) if size > 1 and _is_equal(array, d))
            if found:
                yield parameter.index, found


def _is_only_weights(parameter: BlockArgument) -> bool:
    """Whether products read a parameter, all of them inside its shape, and nothing else does."""
    users = [use.operation for use in parameter.uses]
    return bool(users) and all(
        isinstance(user, ComputeOp)
        and is_product(user)
        and all(r.outside is None for r in user.reads if r.value is parameter)
        for user in users
    )


def _is_equal(array: Array, dimension: int) -> bool:
    """Whether all slices along a dimension are the first one."""
    first = array.take([0], dimension)
    return bool((array == first).all())


def _slice(dimensions: frozenset[int], array: Array) -> Array:
    """The first slice along some dimensions, without them."""
    kept = tuple(0 if d in dimensions else slice(None) for d in range(array.ndim))
    return array[kept].copy()


def _drop_subscripts(parameter: BlockArgument, dimensions: frozenset[int]) -> None:
    """Let the readers of a parameter, which has lost these dimensions, subscript the others."""
    for compute in {use.operation: None for use in parameter.uses}:
        assert isinstance(compute, ComputeOp)
        reads = [
            Read(parameter, tuple(r for d, r in enumerate(read.rows) if d not in dimensions))
            if read.value is parameter
            else read
            for read in compute.reads
        ]
        replace_compute(compute, with_reads(compute, reads))
