"""Endings of sums: accumulators are requantised by a shift or a multiplier, or left as int32."""

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import TensorType, i8
from xdsl.ir import Operation, SSAValue

from vtac.dialects.context import Array, constant_attr, tensor_type
from vtac.dialects.graph import (
    AddBiasOp,
    ConstantOp,
    DequantizeOp,
    RequantizeOp,
    RescaleOp,
    ReshapeOp,
    shape_of,
)
from vtac.passes.graph.float_groups.network import Network
from vtac.passes.graph.quantize.layer import Layer
from vtac.passes.graph.reasons import Reason, keep_on_host
from vtac.passes.graph.sort_channels import CHANNEL_BLOCKS, blocks_attribute


class Inserter:
    """Inserts ops before ``root``, at the location of the float op that they come from."""

    def __init__(self, network: Network, root: Operation):
        self.network = network
        self.root = root

    def constant(self, array: Array, hint: str) -> SSAValue:
        """A new constant."""
        op = ConstantOp(constant_attr(self.network.ctx, array, hint), tensor_type(array))
        self.network.block.insert_op_before(op, self.root)
        return op.result

    def insert(self, op: Operation, source: Operation) -> SSAValue:
        """Insert an op with the location of ``source``; returns its first result."""
        op.location = source.location
        self.network.block.insert_op_before(op, self.root)
        return op.results[0]

    def reshaped(
        self, x: SSAValue, shape: Sequence[int], source: Operation, reason: Reason | None = None
    ) -> SSAValue:
        """The value with another shape; chains of reshapes become one. reason: why that reshape
        stays on the host, if it does."""
        while isinstance(x.owner, ReshapeOp):
            x = x.owner.x
        if tuple(shape) == shape_of(x):
            return x
        assert isinstance(x.type, TensorType)
        op = ReshapeOp(x, TensorType(x.type.element_type, shape))
        if reason is not None:
            keep_on_host(op, reason)
        return self.insert(op, source)

    def ended(self, acc: SSAValue, layer: Layer, like: SSAValue, source: Operation) -> SSAValue:
        """Insert the ops that turn the accumulators of a layer into its result: int8, or where the
        layer has no scale, reals of the element type of ``like``."""
        shape = shape_of(acc) or ()
        vectors = {"bias": layer.bias}
        if layer.rescaling is not None:
            vectors |= layer.rescaling.vectors
        elif layer.scale is not None:
            vectors["shift"] = layer.shift
        names = [self.constant(v.astype(np.int32), name) for name, v in vectors.items()]
        if layer.scale is None:
            total = self.insert(AddBiasOp(acc, names[0], acc.type), source)
            assert isinstance(like.type, TensorType)
            real = TensorType(like.type.element_type, shape)
            return self.insert(DequantizeOp(total, layer.steps.tolist(), 0, real), source)
        type, value, zero = TensorType(i8, shape), layer.scale.value, layer.scale.zero_point
        lo, hi = layer.lo, layer.hi
        if layer.rescaling is not None:
            shift = layer.rescaling.shift
            op: Operation = RescaleOp(
                acc, names, type, shift=shift, lo=lo, hi=hi, scale=value, zero_point=zero
            )
        else:
            addend, amounts = names
            op = RequantizeOp(
                acc, addend, amounts, type, lo=lo, hi=hi, scale=value, zero_point=zero
            )
            blocks = self.network.blocks.get(layer.group.root)
            if blocks is not None and len(np.unique(blocks)) < len(blocks):
                op.attributes[CHANNEL_BLOCKS] = blocks_attribute(blocks)
        return self.insert(op, source)
