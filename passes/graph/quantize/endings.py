"""How accumulators end: requantised by a shift or a multiplier, or left as int32."""

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
    shape_of,
)
from vtac.passes.graph.quantize.network import Network
from vtac.passes.graph.quantize.numbers import Rescaling
from vtac.passes.graph.quantize.scales import Scale


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
        """The first result of an op, once it is inserted."""
        op.location = source.location
        self.network.block.insert_op_before(op, self.root)
        return op.results[0]

    def requantised(
        self,
        acc: SSAValue,
        bias: Array,
        end: Array | Rescaling,
        scale: Scale,
        bounds: tuple[int, int],
        source: Operation,
    ) -> SSAValue:
        """Accumulators as int8. end: the shift of each channel, or a multiplier."""
        type = TensorType(i8, shape_of(acc) or ())
        lo, hi = bounds
        vectors = {"bias": bias}
        vectors |= end.vectors if isinstance(end, Rescaling) else {"shift": end}
        names = [self.constant(v.astype(np.int32), name) for name, v in vectors.items()]
        value, zero = scale.value, scale.zero_point
        if isinstance(end, Rescaling):
            op: Operation = RescaleOp(
                acc, names, type, shift=end.shift, lo=lo, hi=hi, scale=value, zero_point=zero
            )
        else:
            addend, shift = names
            op = RequantizeOp(acc, addend, shift, type, lo=lo, hi=hi, scale=value, zero_point=zero)
        return self.insert(op, source)

    def dequantised(
        self, acc: SSAValue, bias: Array, steps: Sequence[float], like: SSAValue, source: Operation
    ) -> SSAValue:
        """Accumulators as the real numbers that they stand for, with the element type of ``like``.

        steps: the real value of an accumulator's step, one number or one for each channel.
        """
        total = self.insert(
            AddBiasOp(acc, self.constant(bias.astype(np.int32), "bias"), acc.type), source
        )
        assert isinstance(like.type, TensorType)
        type = TensorType(like.type.element_type, shape_of(acc) or ())
        return self.insert(DequantizeOp(total, steps, 0, type), source)
