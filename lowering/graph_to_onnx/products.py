"""Batched products as ONNX nodes."""

from vtac.dialects.graph import BatchMatMulOp, shape_of
from vtac.lowering.graph_to_onnx.builder import OnnxBuilder
from vtac.lowering.graph_to_onnx.float_ops import is_float


def batch_matmul(b: OnnxBuilder, op: BatchMatMulOp) -> None:
    """MatMul, or MatMulInteger of int8 tensors, between reshapes."""
    if not is_float(op.a):
        b.require(op, 10)
    batch, output = op.entries, b.name_for(op.result)
    rows, columns = shape_of(op.result) or (0, 0)
    others, inner = shape_of(op.b) or (0, 0)
    left = b.reshape(b.name(op.a), (batch, rows // batch, inner))
    right = b.reshape(b.name(op.b), (batch, others // batch, inner))
    if columns * batch != others:
        right = b.slice(right, [0], [columns], [1])
    right = b.add("Transpose", [right], perm=[0, 2, 1])
    product = b.add("MatMul" if is_float(op.a) else "MatMulInteger", [left, right])
    b.define(op.result, b.reshape(product, (rows, columns), output))
