"""Which float ops compute together: sums that end in one requantisation.

A *sum* is a core (convolution, dense layer, average pooling: at most one), addends that come in as
int8, constants a channel, and the relu and clip that follow. Everything enters one accumulator, so
that a residual block rounds once. Max pooling and reshape pass int8 through.

Groups are grown from their last op upwards, so that each takes as much as it may; a value that
anybody else reads (or the network returns) ends its group.
"""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from math import inf, prod

from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation, SSAValue

from vtac.dialects.graph import (
    AddOp,
    AveragePoolOp,
    ClipOp,
    ConvOp,
    GemmOp,
    GlobalAveragePoolOp,
    HostOp,
    MaxPoolOp,
    ReluOp,
    ReshapeOp,
    is_static,
    shape_of,
)
from vtac.passes.graph.quantize.eligibility import COMPUTING, SUMS, why_not
from vtac.passes.graph.quantize.network import CoreOp, Network, data_operand, producer

COMPARING_OPERATORS = frozenset({"ArgMax", "Softmax", "LogSoftmax"})
"""ONNX operators that compare the elements of their operand: ties between int8 would decide."""


@dataclass(frozen=True, eq=False)
class Sum:
    """Ops that become sums of integers and one requantisation.

    root: the last op, whose result the group computes. core: where products are summed.
    skips: addends read as int8. biases: constants with one number a channel.
    lo, hi: real bounds from relu and clip. covered: all ops it replaces, root first.
    leaves_int32: the accumulators themselves are the result (a last dense layer).
    """

    root: Operation
    core: CoreOp | None
    skips: Sequence[SSAValue]
    biases: Sequence[SSAValue]
    lo: float
    hi: float
    covered: Sequence[Operation]
    leaves_int32: bool = False

    @property
    def inputs(self) -> list[SSAValue]:
        """The values read as int8."""
        return [*([] if self.core is None else [data_operand(self.core)]), *self.skips]

    @property
    def only_clamps(self) -> bool:
        """Whether it merely bounds one int8 value: the scale stays."""
        return self.core is None and len(self.skips) == 1 and not self.biases


@dataclass(frozen=True, eq=False)
class PassThrough:
    """A max pooling or a reshape, which keeps the scale of its operand."""

    root: MaxPoolOp | ReshapeOp

    @property
    def inputs(self) -> list[SSAValue]:
        """The value read as int8."""
        return [self.root.x]

    @property
    def covered(self) -> Sequence[Operation]:
        """The op itself."""
        return [self.root]


Group = Sum | PassThrough


@dataclass
class Grouping:
    """The groups in order of execution, and why the other computing ops stay float."""

    groups: list[Group] = field(default_factory=list)
    reasons: dict[Operation, str] = field(default_factory=dict)

    def int8_values(self) -> set[SSAValue]:
        """The float values that groups compute as int8."""
        return {
            group.root.results[0]
            for group in self.groups
            if not (isinstance(group, Sum) and group.leaves_int32)
        }


def find_groups(
    network: Network, declined: Mapping[Operation, str], apart: Set[Operation]
) -> Grouping:
    """Group the ops of a function.

    declined: ops to leave float, with their reasons. apart: cores that may not share their
    accumulators with other addends (their scales do not allow it).
    """
    grouping = Grouping(reasons=dict(declined))
    for op in network.block.ops:
        if isinstance(op, COMPUTING) and op not in declined:
            reason = why_not(op, network)
            if reason is not None:
                grouping.reasons[op] = reason
    grower = _Grower(network, grouping.reasons, apart)
    covered: set[Operation] = set()
    for op in reversed(list(network.block.ops)):
        if op in covered or op in grouping.reasons:
            continue
        group: Group | None = None
        if isinstance(op, SUMS):
            group = grower.sum_at(op)
        elif isinstance(op, MaxPoolOp) or (isinstance(op, ReshapeOp) and _feeds(op, covered)):
            group = PassThrough(op)
        if group is not None:
            grouping.groups.append(group)
            covered.update(group.covered)
    grouping.groups.reverse()
    return grouping


def _feeds(op: ReshapeOp, covered: Set[Operation]) -> bool:
    return is_static(op.x) and any(use.operation in covered for use in op.result.uses)


class _Grower:
    """Takes ops into a sum, from its root upwards."""

    def __init__(self, network: Network, reasons: Mapping[Operation, str], apart: Set[Operation]):
        self.network = network
        self.reasons = reasons
        self.apart = apart

    def sum_at(self, root: Operation) -> Sum:
        """The largest sum that ends in ``root``."""
        covered, lo, hi = [root], -inf, inf
        op: Operation | None = root
        while isinstance(op, ReluOp | ClipOp):
            low, high = _bounds(op)
            lo, hi = _clamped(low, lo, hi), _clamped(high, lo, hi)
            inner = self._interior(op.x)
            if inner is None:
                return Sum(root, None, [op.x], [], lo, hi, covered)
            covered.append(inner)
            op = inner
        if isinstance(op, AddOp):
            return self._addition(root, op, covered, lo, hi)
        assert isinstance(op, CoreOp)
        int32 = op is root and is_dense(op) and _is_compared(op.result)
        return Sum(root, op, [], [], lo, hi, covered, int32)

    def _addition(
        self, root: Operation, add: AddOp, covered: list[Operation], lo: float, hi: float
    ) -> Sum:
        """A sum of several addends: one core shares its accumulators, the others stay apart."""
        cores: list[CoreOp] = []
        skips: list[SSAValue] = []
        biases: list[SSAValue] = []
        for value in self._addends(add, covered):
            inner = self._interior(value)
            if self._is_bias(value, add.result):
                biases.append(value)
            elif isinstance(inner, CoreOp) and inner not in self.apart:
                cores.append(inner)
            else:
                skips.append(value)
        # The widest sum is the one that a rounding of its own would hurt most.
        core = max(cores, key=products, default=None)
        skips += [other.result for other in cores if other is not core]
        if core is not None:
            covered.append(core)
        constant_only = core is not None and not skips and add is root
        int32 = constant_only and is_dense(core) and _is_compared(add.result)
        return Sum(root, core, skips, biases, lo, hi, covered, int32)

    def _addends(self, add: AddOp, covered: list[Operation]) -> Iterator[SSAValue]:
        """The operands of a tree of additions."""
        for value in (add.a, add.b):
            inner = self._interior(value)
            if isinstance(inner, AddOp):
                covered.append(inner)
                yield from self._addends(inner, covered)
            else:
                yield value

    def _is_bias(self, value: SSAValue, result: SSAValue) -> bool:
        return self.network.constant(value) is not None and shape_of(value) != shape_of(result)

    def _interior(self, value: SSAValue) -> Operation | None:
        """The op that makes ``value``, if it may disappear into the group of its only reader."""
        op = producer(value)
        if not isinstance(op, SUMS) or op in self.reasons or not value.has_one_use():
            return None
        return op


def _bounds(op: ReluOp | ClipOp) -> tuple[float, float]:
    if isinstance(op, ReluOp):
        return 0.0, inf
    hi = inf if op.max is None else op.max.value.data
    return (-inf if op.min is None else min(op.min.value.data, hi), hi)


def _clamped(x: float, lo: float, hi: float) -> float:
    return min(max(x, lo), hi)


def products(core: CoreOp) -> int:
    """How many products (or elements) a core sums into each accumulator."""
    match core:
        case ConvOp():
            return prod((shape_of(core.w) or ())[1:])
        case GemmOp():
            return (shape_of(core.a) or ())[1]
        case AveragePoolOp():
            return prod(core.kernel.get_values())
        case GlobalAveragePoolOp():
            return prod((shape_of(core.x) or ())[2:])


def is_dense(op: Operation | None) -> bool:
    """Whether an op is a dense layer: a gemm, or a convolution whose kernel covers its input."""
    if isinstance(op, ConvOp):
        return (shape_of(op.x) or ())[2:] == op.kernel_shape() and not any(op.pads.get_values())
    return isinstance(op, GemmOp)


def _is_compared(value: SSAValue) -> bool:
    """Whether a value goes to results, argmax and softmax only, through nothing but reshapes."""
    users = [use.operation for use in value.uses]
    return bool(users) and all(
        isinstance(user, ReturnOp)
        or (isinstance(user, HostOp) and user.op_type.data in COMPARING_OPERATORS)
        or (isinstance(user, ReshapeOp) and _is_compared(user.result))
        for user in users
    )
