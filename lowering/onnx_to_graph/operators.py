"""The ONNX operators that become graph ops, each a small function from a node to an op.

A converter raises StaysOnHostError for a form that the graph dialect does not have; the node is
then carried whole, as is every operator not in ``CONVERTERS``.
"""

from math import prod

from xdsl.dialects.builtin import DYNAMIC_INDEX, AnyFloat, FloatAttr, TensorType, f64
from xdsl.ir import Operation, SSAValue

from vtac.dialects.context import element_dtype
from vtac.dialects.graph import (
    BatchNormOp,
    ClipOp,
    GemmOp,
    MatMulOp,
    ReshapeOp,
    shape_of,
)
from vtac.lowering.onnx_to_graph import (
    arithmetic,
    arrangements,
    integers,
    quantisation,
    windows,
)
from vtac.lowering.onnx_to_graph.named import named_operators
from vtac.lowering.onnx_to_graph.node import (
    ConstantResult,
    Converter,
    Node,
    StaysOnHostError,
    known_shape,
    scalar,
)
from vtac.passes.graph.reasons import ReasonKind


def gemm(node: Node) -> Operation:
    """Gemm."""
    node.floats(0, 1, 2)
    return GemmOp(
        node.operand(0),
        node.operand(1),
        node.optional(2),
        node.result_type(),
        alpha=node.attributes.get("alpha", 1.0),
        beta=node.attributes.get("beta", 1.0),
        trans_a=bool(node.attributes.get("transA", 0)),
        trans_b=bool(node.attributes.get("transB", 0)),
    )


def matmul(node: Node) -> Operation:
    """MatMul."""
    node.floats(0, 1)
    return MatMulOp(node.operand(0), node.operand(1), node.result_type())


def cast(node: Node) -> ConstantResult | SSAValue:
    """Cast of a constant to a float type, and of any tensor to the type that it has."""
    array, type = node.widened(0), node.result_type()
    if array is None and node.operand(0).type == type:
        return node.operand(0)
    if array is None or not isinstance(type.element_type, AnyFloat):
        raise StaysOnHostError(
            "it casts what is not constant, or to other than floats", ReasonKind.TYPE
        )
    return ConstantResult(array.astype(element_dtype(type.element_type)))


def cast_like(node: Node) -> SSAValue:
    """CastLike of a tensor to the type that it has."""
    if node.operand(0).type != node.result_type():
        raise StaysOnHostError("it casts to another type", ReasonKind.TYPE)
    return node.operand(0)


def clip(node: Node) -> Operation:
    """Clip: bounds are attributes before opset 11, constant inputs since."""
    node.floats(0)
    bounds = {}
    for index, name in ((1, "min"), (2, "max")):
        if node.opset < 11 and name in node.attributes:
            bounds[name] = float(node.attributes[name])
        elif node.opset >= 11 and node.has(index):
            bounds[name] = scalar(node.constant(index), name)
    return ClipOp(
        node.operand(0), node.result_type(), **{k: FloatAttr(v, f64) for k, v in bounds.items()}
    )


def batch_norm(node: Node) -> Operation:
    """BatchNormalization in inference."""
    node.floats(0, 1, 2, 3, 4)
    if node.attributes.get("training_mode", 0) or not node.attributes.get("spatial", 1):
        raise StaysOnHostError("it trains, or normalises each element by itself")
    if any(node.is_used(index) for index in range(1, 5)):
        raise StaysOnHostError("the running statistics are used")
    operands = [node.operand(index) for index in range(5)]
    return BatchNormOp(operands, node.attributes.get("epsilon", 1e-5), node.result_type())


def identity(node: Node) -> SSAValue:
    """Identity."""
    return node.operand(0)


def dropout(node: Node) -> SSAValue:
    """Dropout in inference, whose mask nothing reads."""
    training = node.constant(2)
    if node.has(2) and (training is None or bool(training.reshape(-1)[0])):
        raise StaysOnHostError("it trains")
    if node.is_used(1):
        raise StaysOnHostError("its mask is used")
    return node.operand(0)


def reshape(node: Node) -> Operation:
    """Reshape to a shape with at most one unknown dimension."""
    return _reshape(node, list(node.result_type().get_shape()))


def flatten(node: Node) -> Operation:
    """Flatten: everything before ``axis`` is one dimension, everything from there on the other."""
    shape = known_shape(node.operand(0))
    axis = node.attributes.get("axis", 1)
    if not -len(shape) <= axis <= len(shape):
        raise StaysOnHostError(f"axis {axis} is none of its input, whose rank is {len(shape)}")
    if axis < 0:
        axis += len(shape)
    return _reshape(
        node,
        [
            DYNAMIC_INDEX if DYNAMIC_INDEX in part else prod(part)
            for part in (shape[:axis], shape[axis:])
        ],
    )


def _reshape(node: Node, target: list[int]) -> Operation:
    x = node.operand(0)
    if not isinstance(x.type, TensorType):
        raise StaysOnHostError("input 0 is no tensor of known rank", ReasonKind.SHAPE)
    if target.count(DYNAMIC_INDEX) > 1 or 0 in target or 0 in (shape_of(x) or ()):
        raise StaysOnHostError("two unknown dimensions, or an empty tensor", ReasonKind.SHAPE)
    return ReshapeOp(x, TensorType(x.type.element_type, target))


CONVERTERS: dict[str, Converter] = {
    **named_operators(),
    "AveragePool": windows.average_pool,
    "BatchNormalization": batch_norm,
    "Cast": cast,
    "CastLike": cast_like,
    "Clip": clip,
    "Concat": arrangements.concat,
    "Conv": windows.conv,
    "ConvInteger": integers.conv_integer,
    "DepthToSpace": arrangements.depth_to_space,
    "DequantizeLinear": quantisation.dequantize_linear,
    "Dropout": dropout,
    "Expand": arrangements.expand,
    "Flatten": flatten,
    "Gather": arrangements.gather,
    "Gemm": gemm,
    "GlobalAveragePool": windows.global_average_pool,
    "GlobalMaxPool": windows.global_max_pool,
    "HardSwish": arithmetic.hard_swish,
    "Identity": identity,
    "MatMul": matmul,
    "MatMulInteger": integers.matmul_integer,
    "Max": arithmetic.extreme,
    "MaxPool": windows.max_pool,
    "Mean": arithmetic.mean,
    "Min": arithmetic.extreme,
    "Pow": arithmetic.power,
    "Pad": arrangements.pad,
    "QuantizeLinear": quantisation.quantize_linear,
    "ReduceMax": arithmetic.reduce_max,
    "ReduceMean": arithmetic.reduce_mean,
    "ReduceSum": arithmetic.reduce_sum,
    "Reshape": reshape,
    "Resize": arrangements.resize,
    "Slice": arrangements.slice_,
    "SpaceToDepth": arrangements.space_to_depth,
    "Split": arrangements.split,
    "Sum": arithmetic.sum_,
    "Tile": arrangements.tile,
    "Transpose": arrangements.transpose,
    "Upsample": arrangements.resize,
}
"""By operator of the default domain. Constant is not here: the importer treats it as a weight."""
