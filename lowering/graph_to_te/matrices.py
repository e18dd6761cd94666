"""Products of matrices, and general contractions, as computes over logical tensors."""

from collections.abc import Mapping, Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import TensorType, i32
from xdsl.ir import SSAValue

from vtac.dialects.graph import BatchMatMulOp, GemmOp
from vtac.dialects.te import Read
from vtac.lowering.graph_to_te.kernel import KernelBuilder, axis, label_of, unsupported, widen
from vtac.lowering.graph_to_te.windows import logical_shape


def contraction(
    label: str,
    kernel: KernelBuilder,
    spatial: Mapping[str, int],
    reduce: Mapping[str, int],
    reads: Sequence[Read],
) -> SSAValue:
    """Append a sum of products of two int8 operands; without reduction axes, just products."""
    body = _multiply_accumulate if reduce else _multiply
    return kernel.compute(label, spatial, reads, body, i32, reduce=reduce, identity=0)


def _multiply_accumulate(acc: SSAValue, x: SSAValue, w: SSAValue) -> SSAValue:
    return arith.AddiOp(acc, _multiply(x, w)).result


def _multiply(x: SSAValue, w: SSAValue) -> SSAValue:
    return arith.MuliOp(widen(x), widen(w)).result


def matrix_product(op: GemmOp, kernel: KernelBuilder) -> list[SSAValue]:
    """The product of a matrix with constant weights."""
    if op.c is not None or op.trans_a.value.data:
        raise unsupported(op, "a gemm with a bias or a transposed input", "normalise it first")
    weights = kernel.constant(op.b, "weights")
    weights = weights if op.trans_b.value.data else weights.T
    w = kernel.parameter(weights, f"{label_of(op)}.weight")
    return [_product(op, kernel, w, (kernel.layout.channel,))]


def batch_product(op: BatchMatMulOp, kernel: KernelBuilder) -> list[SSAValue]:
    """The product of two activations, the second packed as weights; both have a batch axis."""
    layout, w = kernel.layout, kernel.values[op.b]
    target = layout.target
    if layout.entries != op.entries:
        raise unsupported(op, "batches of two sizes in one kernel", "compute them apart")
    (rows, _), (others, _) = map(logical_shape, (op.a, op.b))
    if op.entries > 1 and (
        rows % (op.entries * target.batch) or others % (op.entries * target.block)
    ):
        hint = f"pad them to {target.batch} and {target.block} rows"
        raise unsupported(op, "batch entries that fill no whole elements", hint)
    outer = (0, layout.channel) if op.entries > 1 else (layout.channel,)
    return [_product(op, kernel, w, outer)]


def _product(
    op: GemmOp | BatchMatMulOp, kernel: KernelBuilder, w: SSAValue, outer: Sequence[int]
) -> SSAValue:
    """A contraction over input channels. outer: axes of ``w`` before its input channels."""
    layout = kernel.layout
    spatial = layout.domain(logical_shape(op.result))
    rank, channel = len(spatial), layout.channel
    middle = [axis(i) for i in range(channel + 1, rank)]
    before = [axis(i) for i in range(channel)]
    assert isinstance(w.type, TensorType)
    shape = w.type.get_shape()
    # Activations that are used as weights have spatial extents of 1.
    between = middle if len(shape) == len(outer) + 1 + len(middle) else []
    reads = [
        Read(kernel.values[op.a], (*before, axis(rank), *middle)),
        Read(w, (*map(axis, outer), axis(rank), *between)),
    ]
    return contraction("gemm", kernel, spatial, {"ci": shape[len(outer)]}, reads)
