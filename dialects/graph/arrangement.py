"""Ops that move elements and compute nothing: joining, cutting, padding, repeating, reordering.

Each has the meaning of an ONNX operator, with everything that ONNX lets a node leave out written
down: axes and starts are not negative, steps are positive.
"""

from collections.abc import Sequence
from math import prod

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    TensorType,
    f64,
    i64,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_op_definition,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from vtac.dialects.graph.network import I64Array, UnaryOp, integers, shape_of, verify_shape
from vtac.dialects.graph.traits import AxisAttributes, Linear, MovesElements, SelectsElements


@irdl_op_definition
class ConcatOp(IRDLOperation):
    """Tensors side by side along an axis (ONNX Concat)."""

    name = "graph.concat"
    inputs = var_operand_def(TensorType)
    axis = prop_def(IntegerAttr[IntegerType])
    result = result_def(TensorType)
    traits = traits_def(
        Pure(), MovesElements(), SelectsElements(), Linear(), AxisAttributes(index="axis")
    )
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$inputs attr-dict `:` functional-type(operands, results)"

    def __init__(self, inputs: Sequence[SSAValue], axis: int, result_type: Attribute):
        super().__init__(
            operands=[list(inputs)],
            result_types=[result_type],
            properties={"axis": IntegerAttr(axis, i64)},
        )

    def verify_(self) -> None:
        """Shapes agree but for the axis, whose extents add up."""
        axis, shapes = self.axis.value.data, [shape_of(value) or () for value in self.inputs]
        if not shapes:
            raise VerifyException("concat joins at least one tensor")
        if any(len(shape) != len(shapes[0]) for shape in shapes):
            raise VerifyException("concat joins tensors of one rank")
        if not 0 <= axis < len(shapes[0]):
            raise VerifyException(f"there is no axis {axis} in rank {len(shapes[0])}")
        joined = [shape[axis] for shape in shapes]
        total = DYNAMIC_INDEX if DYNAMIC_INDEX in joined else sum(joined)
        for shape in shapes:
            verify_shape(self.result, [*shape[:axis], total, *shape[axis + 1 :]])


@irdl_op_definition
class SliceOp(UnaryOp):
    """Every ``steps``-th element of each dimension, from ``starts`` on (ONNX Slice).

    The result's type says how many there are.
    """

    name = "graph.slice"
    traits = traits_def(
        MovesElements(), SelectsElements(), Linear(), AxisAttributes(entries=("starts", "steps"))
    )
    starts = prop_def(I64Array.constr(i64))
    steps = prop_def(I64Array.constr(i64))

    def __init__(
        self, x: SSAValue, starts: Sequence[int], steps: Sequence[int], result_type: Attribute
    ):
        super().__init__(x, result_type, starts=integers(starts), steps=integers(steps))

    def verify_(self) -> None:
        """Everything taken lies inside the operand."""
        before, after = shape_of(self.x) or (), shape_of(self.result) or ()
        starts, steps = self.starts.get_values(), self.steps.get_values()
        if not len(before) == len(after) == len(starts) == len(steps):
            raise VerifyException(f"rank {len(before)} needs as many starts, steps and extents")
        for size, count, start, step in zip(before, after, starts, steps, strict=True):
            if start < 0 or step < 1:
                raise VerifyException("starts must not be negative, steps must be positive")
            if DYNAMIC_INDEX not in (size, count) and count and start + (count - 1) * step >= size:
                raise VerifyException(
                    f"{count} elements from {start} on by {step} do not lie in {size}"
                )


@irdl_op_definition
class TakeChannelsOp(UnaryOp):
    """The channels (dimension 1) with these indices, in this order (ONNX Gather)."""

    name = "graph.take_channels"
    traits = traits_def(MovesElements(), SelectsElements(), Linear())
    indices = prop_def(I64Array.constr(i64))

    def __init__(self, x: SSAValue, indices: Sequence[int], result_type: Attribute):
        super().__init__(x, result_type, indices=integers(indices))

    def verify_(self) -> None:
        """Every index is that of a channel."""
        shape, indices = shape_of(self.x) or (), self.indices.get_values()
        if len(shape) < 2 or not indices:
            raise VerifyException("it takes channels: dimension 1 of a tensor")
        if shape[1] != DYNAMIC_INDEX and not 0 <= min(indices) <= max(indices) < shape[1]:
            raise VerifyException(f"there are {shape[1]} channels, indices start at 0")
        verify_shape(self.result, [shape[0], len(indices), *shape[2:]])


@irdl_op_definition
class PadOp(UnaryOp):
    """A constant around a tensor (ONNX Pad): ``pads`` are all begins, then all ends."""

    name = "graph.pad"
    traits = traits_def(MovesElements(), Linear(), AxisAttributes(ends=("pads",)))
    pads = prop_def(I64Array.constr(i64))
    value = prop_def(FloatAttr[AnyFloat])

    def __init__(self, x: SSAValue, pads: Sequence[int], value: float, result_type: Attribute):
        super().__init__(x, result_type, pads=integers(pads), value=FloatAttr(value, f64))

    def verify_(self) -> None:
        """There are two pads per dimension, none negative."""
        shape, pads = shape_of(self.x) or (), self.pads.get_values()
        rank = len(shape)
        if len(pads) != 2 * rank or min(pads, default=0) < 0:
            raise VerifyException(f"a tensor of rank {rank} needs {2 * rank} pads, none negative")
        verify_shape(
            self.result,
            [
                DYNAMIC_INDEX if extent == DYNAMIC_INDEX else pads[i] + extent + pads[rank + i]
                for i, extent in enumerate(shape)
            ],
        )


@irdl_op_definition
class UpsampleOp(UnaryOp):
    """Each element repeated ``factors`` times per dimension: nearest neighbours (ONNX Resize)."""

    name = "graph.upsample"
    traits = traits_def(
        MovesElements(), SelectsElements(), Linear(), AxisAttributes(entries=("factors",))
    )
    factors = prop_def(I64Array.constr(i64))

    def __init__(self, x: SSAValue, factors: Sequence[int], result_type: Attribute):
        super().__init__(x, result_type, factors=integers(factors))

    def verify_(self) -> None:
        """There is one positive factor per dimension."""
        shape, factors = shape_of(self.x) or (), self.factors.get_values()
        if len(factors) != len(shape) or min(factors, default=1) < 1:
            raise VerifyException(f"rank {len(shape)} needs as many positive factors")
        verify_shape(
            self.result,
            [
                DYNAMIC_INDEX if extent == DYNAMIC_INDEX else extent * factor
                for extent, factor in zip(shape, factors, strict=True)
            ],
        )


@irdl_op_definition
class DepthToSpaceOp(UnaryOp):
    """Channels spread over space in ``blocks`` (ONNX DepthToSpace, mode DCR, of any rank).

    [N, b... * C, s...] becomes [N, C, s * b...]: the C channels of one place within a block lie
    together, and places are in row-major order.
    """

    name = "graph.depth_to_space"
    traits = traits_def(MovesElements(), SelectsElements(), Linear())
    blocks = prop_def(I64Array.constr(i64))

    def __init__(self, x: SSAValue, blocks: Sequence[int], result_type: Attribute):
        super().__init__(x, result_type, blocks=integers(blocks))

    def verify_(self) -> None:
        """Blocks have one positive extent per spatial dimension; channels fill whole blocks."""
        shape, blocks = shape_of(self.x) or (), self.blocks.get_values()
        if len(shape) < 3 or len(blocks) != len(shape) - 2 or min(blocks) < 1:
            raise VerifyException(f"rank {len(shape)} needs as many positive extents as space has")
        if DYNAMIC_INDEX in shape[1:] or shape[1] % prod(blocks):
            raise VerifyException(f"{shape[1]} channels fill no blocks {list(blocks)}")
        spatial = [n * block for n, block in zip(shape[2:], blocks, strict=True)]
        verify_shape(self.result, [shape[0], shape[1] // prod(blocks), *spatial])


@irdl_op_definition
class TransposeOp(UnaryOp):
    """Dimension i of the result is dimension ``permutation[i]`` of the operand (ONNX Transpose)."""

    name = "graph.transpose"
    traits = traits_def(MovesElements(), SelectsElements(), Linear())
    permutation = prop_def(I64Array.constr(i64))

    def __init__(self, x: SSAValue, permutation: Sequence[int], result_type: Attribute):
        super().__init__(x, result_type, permutation=integers(permutation))

    def verify_(self) -> None:
        """A permutation of all dimensions."""
        shape, permutation = shape_of(self.x) or (), self.permutation.get_values()
        if sorted(permutation) != list(range(len(shape))):
            raise VerifyException(f"{list(permutation)} is no permutation of {len(shape)} axes")
        verify_shape(self.result, [shape[axis] for axis in permutation])
