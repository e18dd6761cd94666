"""Costs of ops and regions, from their shapes alone, on which partitioning decides.

Multiply-accumulates are those of the logical op: a codegen adds what its machine does besides
(spare lanes, packing). The comparison with the host is section 3.1.3 of BYOC.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil, prod

from xdsl.dialects.builtin import AnyFloat, IntegerType, TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from vtac.dialects.graph import (
    CompositeOp,
    ConstantOp,
    YieldOp,
    known_extents,
    macs_of,
    shape_of,
    total_macs,
)
from vtac.dialects.target import Target
from vtac.passes.graph.codegen import Codegen
from vtac.passes.graph.host_model import HostModel


def elements(value: SSAValue) -> int:
    """How many elements a tensor has, a dimension that is not known counted as 1."""
    return 0 if shape_of(value) is None else prod(known_extents(value))


def bytes_of(values: Iterable[SSAValue]) -> int:
    """The bytes of some tensors, each counted once; other values have 0 bytes."""
    return sum(ceil(elements(v) * _element_bytes(v.type)) for v in dict.fromkeys(values))


def _element_bytes(type: Attribute) -> float:
    element = type.get_element_type() if isinstance(type, TensorType) else None
    if isinstance(element, IntegerType):
        return max(int(element.width.data), 8) / 8
    return float(element.bitwidth) / 8 if isinstance(element, AnyFloat) else 0.0


def computing_ops(composite: CompositeOp) -> list[Operation]:
    """The ops of a composite without its constants and the end of its body."""
    return [op for op in composite.body.block.ops if not isinstance(op, ConstantOp | YieldOp)]


@dataclass(frozen=True)
class RegionCost:
    """What a region costs on its accelerator, and what it would cost on the host.

    macs: its multiply-accumulates. border: bytes that enter and leave it. cycles: an estimate of
    its time on the accelerator, with the launch and the transfers of its border, or None where the
    codegen gives no estimate. host_cycles: an estimate of the time of its ops on the host. Both
    times are in cycles of the codegen's clock.
    """

    macs: int
    border: int
    cycles: float | None
    host_cycles: float

    @classmethod
    def of(
        cls, ops: Sequence[Operation], border: int, own: float | None, host: HostModel
    ) -> "RegionCost":
        """The cost of a region of these ops. own: its codegen's estimate of its cycles alone."""
        cycles = None if own is None else own + host.cycles_a_launch + border / host.bytes_a_cycle
        return cls(total_macs(ops).least, border, cycles, sum(host_cycles(op, host) for op in ops))

    @property
    def is_slower(self) -> bool:
        """Whether the host would be faster."""
        return self.cycles is not None and self.cycles > self.host_cycles


def cost_of(
    members: Sequence[CompositeOp], codegen: Codegen, target: Target | None, host: HostModel
) -> RegionCost:
    """The cost of the composites of one region."""
    ops = [op for member in members for op in computing_ops(member)]
    return RegionCost.of(ops, border_bytes(members), codegen.cycles(members, target), host)


def host_cycles(op: Operation, host: HostModel) -> float:
    """What the host takes for one op: its products, or else its bytes, and a fixed part."""
    if macs := macs_of(op).least:
        return host.cycles_an_op + macs / host.macs_a_cycle
    return host.cycles_an_op + bytes_of((*op.operands, *op.results)) / host.bytes_a_cycle


def border_bytes(members: Sequence[CompositeOp]) -> int:
    """Bytes of the distinct values that enter a region and of those that leave it."""
    inside = set(members)
    entering = [v for member in members for v in member.operands if v.owner not in inside]
    leaving = [
        v
        for member in members
        for v in member.outputs
        if any(use.operation not in inside for use in v.uses)
    ]
    return bytes_of(entering) + bytes_of(leaving)
