"""``com.microsoft.MatMulNBits``, a product with weights of few bits, as MatMul with float weights.

The weights [N, blocks, bytes] hold K numbers of ``bits`` bits per output channel, the lower bits of
a byte first, with one scale and one zero point per block of ``block_size`` numbers (onnxruntime,
ContribOperators.md). The accelerator's weights have 8 bits, so the quantiser treats these like any
other float weights. Shape inference knows MatMul, which it does not know of the contrib operator.
"""

from collections.abc import Mapping
from typing import cast

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from vtac.dialects.context import Array
from vtac.lowering.onnx_to_graph.rewriting import replace_nodes
from vtac.lowering.onnx_to_graph.types import dense_dtype

MICROSOFT, OPERATOR = "com.microsoft", "MatMulNBits"
_A, _B, _SCALES, _ZERO_POINTS, _GROUPS, _BIAS = range(6)


def widen_products(
    model: ModelProto, constants: Mapping[str, TensorProto]
) -> dict[str, TensorProto]:
    """Replace each such node whose weights are constant by MatMul, and Add for a bias, in place.

    Returns the float weights [K, N] by name, which become mere inputs of the model as its other
    large constants are. A node with weights that are not constant, or that do not have the sizes
    that its attributes ask for, stays as it is.
    """
    made: dict[str, TensorProto] = {}

    def parts(node: NodeProto) -> list[NodeProto] | None:
        if (node.domain, node.op_type) != (MICROSOFT, OPERATOR):
            return None
        weights = _float_weights(node, constants)
        if weights is None:
            return None
        name = f"{node.output[0]}.weights"
        made[name] = numpy_helper.from_array(weights, name)
        return _product(node, name)

    replace_nodes(model.graph, parts)
    model.graph.input.extend(
        helper.make_tensor_value_info(name, tensor.data_type, tensor.dims)
        for name, tensor in made.items()
    )
    return made


def _product(node: NodeProto, weights: str) -> list[NodeProto]:
    if not _has(node, _BIAS):
        return [helper.make_node("MatMul", [node.input[_A], weights], node.output, node.name)]
    sums = f"{node.output[0]}.product"
    return [
        helper.make_node("MatMul", [node.input[_A], weights], [sums], node.name),
        helper.make_node("Add", [sums, node.input[_BIAS]], node.output),
    ]


def _has(node: NodeProto, index: int) -> bool:
    return index < len(node.input) and bool(node.input[index])


def _float_weights(node: NodeProto, constants: Mapping[str, TensorProto]) -> Array | None:
    """The weights [K, N] as floats of the type of the scales; None where they are not known."""
    arrays: list[Array | None] = []
    for index in (_B, _SCALES, _ZERO_POINTS, _GROUPS):
        tensor = constants.get(node.input[index]) if _has(node, index) else None
        if _has(node, index) and (tensor is None or dense_dtype(tensor.data_type) is None):
            return None
        arrays.append(None if tensor is None else numpy_helper.to_array(tensor))
    packed, scales, zero_points, groups = arrays
    values = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    inner, outer, block = (int(values[name]) for name in ("K", "N", "block_size"))
    bits, blocks = int(values.get("bits", 4)), -(-inner // block)
    if (
        packed is None
        or scales is None
        or 8 % bits
        or packed.size != outer * blocks * (block * bits // 8)
    ):
        return None
    stored = _unpack(packed.reshape(outer, -1), bits).reshape(outer, blocks * block)[:, :inner]
    if zero_points is None:
        offsets: Array = np.full((outer, blocks), 1 << (bits - 1))
    elif zero_points.dtype == np.uint8:
        offsets = _unpack(zero_points.reshape(outer, -1), bits)[:, :blocks]
    else:
        offsets = zero_points.reshape(outer, blocks)
    group = np.arange(inner) // block if groups is None else groups[:inner]
    steps = scales.reshape(outer, blocks).astype(np.float32)[:, group]
    weights = (stored - offsets.astype(np.float32)[:, group]) * steps
    return cast(Array, np.ascontiguousarray(weights.T.astype(scales.dtype)))


def _unpack(packed: Array, bits: int) -> Array:
    """Bytes [N, B] as the numbers [N, B * 8 / bits] in them, the lower bits first."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    numbers = (packed[..., None] >> shifts) & ((1 << bits) - 1)
    return cast(Array, numbers.reshape(len(packed), -1))
