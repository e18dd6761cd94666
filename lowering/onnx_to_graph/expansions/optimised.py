"""What onnxruntime's optimiser makes of transformers, written by the operators it was made from.

A model that onnxruntime saved after optimising it has these in the domain ``com.microsoft``
(onnxruntime, ContribOperators.md).
"""

import numpy as np

from vtac.dialects.context import Array
from vtac.lowering.onnx_to_graph.expansions.activations import gelu
from vtac.lowering.onnx_to_graph.expansions.site import Site

MICROSOFT = "com.microsoft"

_EPSILON = 1e-12
"""Of SkipLayerNormalization, where the node names none."""

_NORMALISES = 17
"""The opset that brought LayerNormalization."""


def fused_product(site: Site) -> bool:
    """A product of matrices, transposed before it, and times a constant."""
    ranks = [len(shape) if (shape := site.shape(index)) else 0 for index in (0, 1)]
    flags = [bool(site.attributes.get(name, 0)) for name in ("transA", "transB")]
    if 0 in ranks or any(flag and rank < 2 for flag, rank in zip(flags, ranks, strict=True)):
        return False
    if site.attributes.get("transBatchA", 0) or site.attributes.get("transBatchB", 0):
        return False
    factor = np.float32(site.attributes.get("alpha", 1.0))
    operands, left = [], factor
    for index, (rank, flag) in enumerate(zip(ranks, flags, strict=True)):
        array = site.constant(index)
        if array is not None and array.dtype == np.float32:
            operands.append(site.weight((array.swapaxes(-1, -2) if flag else array) * left))
            left = np.float32(1)
        elif flag:
            order = [*range(rank - 2), rank - 1, rank - 2]
            operands.append(site.add("Transpose", [site.node.input[index]], perm=order))
        else:
            operands.append(site.node.input[index])
    result = site.node.output[0]
    if left == 1:
        site.add("MatMul", operands, result)
    else:
        site.add("Mul", [site.add("MatMul", operands), site.weight(np.array(left))], result)
    return True


def biased_gelu(site: Site) -> bool:
    """Gelu of a tensor, to which a bias vector is added first if the node has one."""
    x = site.node.input[0]
    if site.float_shape(x) is None:
        return False
    if site.has(1):
        x = site.add("Add", [x, site.node.input[1]])
    gelu(site, x, site.node.output[0], by_tanh=site.node.op_type == "FastGelu")
    return True


def skip_normalization(site: Site) -> bool:
    """LayerNormalization of a sum, which may be a result, too."""
    x, scale = site.float_shape(site.node.input[0]), _vector(site, 2)
    if x is None or scale is None or site.shape(1) != x or site.opset < _NORMALISES:
        return False
    if site.wanted(1) or site.wanted(2):
        return False
    total = site.wanted(3)
    if site.has(4):
        partial = site.add("Add", [site.node.input[0], site.node.input[1]])
        total = site.add("Add", [partial, site.node.input[4]], total)
    else:
        total = site.add("Add", [site.node.input[0], site.node.input[1]], total)
    given = [total, *(site.node.input[index] for index in (2, 3) if site.has(index))]
    epsilon = site.attributes.get("epsilon", _EPSILON)
    site.add("LayerNormalization", given, site.node.output[0], axis=-1, epsilon=epsilon)
    return True


def _vector(site: Site, index: int) -> Array | None:
    """A constant vector."""
    array = site.constant(index)
    return array if array is not None and array.ndim == 1 else None
