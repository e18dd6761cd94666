"""Which float ops compute together: sums that end in one requantisation.

A *sum* is a core (convolution, dense layer, average pooling: at most one), further linear forms
(``forms``), addends that come in as int8, constants a channel, and the relu and clip that follow.
Everything enters one accumulator, so that a residual block rounds once. Max pooling and reshape
pass int8 through.

Groups are grown from their last op upwards, so that each takes as much as it may; a value that
anybody else reads (or the network returns) ends its group.
"""

from collections.abc import Container, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from math import inf
from typing import ClassVar, Literal

import numpy as np
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation, SSAValue

from vtac.dialects.context import Array
from vtac.dialects.graph import (
    AddOp,
    AveragePoolOp,
    BatchNormOp,
    ClipOp,
    ConcatOp,
    ConvOp,
    DivOp,
    FakeQuantizeOp,
    GemmOp,
    HardSigmoidOp,
    HardSwishOp,
    HostOp,
    LeakyReluOp,
    MaxPoolOp,
    MulOp,
    NegOp,
    PadOp,
    PReluOp,
    ReluOp,
    ReshapeOp,
    SliceOp,
    SubOp,
    TakeChannelsOp,
    TransposeOp,
    UpsampleOp,
    is_static,
    shape_of,
)
from vtac.passes.graph.quantize.averages import averages, is_uneven
from vtac.passes.graph.quantize.contractions import Contraction, contraction_at, is_contraction
from vtac.passes.graph.quantize.eligibility import (
    COMPUTING,
    SELECTIONS,
    SUMS,
    is_product,
    normalisation_of,
    scaling_of,
    slope_of,
    why_not,
)
from vtac.passes.graph.quantize.forms import (
    Form,
    constant_part,
    diagonal,
    form_of,
    joined,
    selected,
    spread,
    taken_apart,
    takes_cut,
)
from vtac.passes.graph.quantize.network import (
    CoreOp,
    Network,
    PoolingOp,
    channels_of,
    is_channel_vector,
    is_dense,
    producer,
    products,
)

COMPARING_OPERATORS = frozenset({"ArgMax", "Softmax", "LogSoftmax"})
"""ONNX operators that compare the elements of their operand: ties between int8 would decide."""


HARD_SWISH = 1 / 6, 1 / 2
"""Slope and offset of the hard sigmoid in a hard swish."""

Join = Literal["add", "max", "min", "mul"]


@dataclass(frozen=True, eq=False)
class Sum:
    """Ops that become sums of integers and one requantisation.

    root: the last op, whose result the group computes. core: where products are summed.
    forms: addends with weights, that of the core first. skips: addends read as int8, as they are.
    bias: all constant addends, float64 with one number a channel. join: what becomes of the
    addends, which are added unless it is their largest, smallest or product that counts. gate:
    slope and offset of the second factor of a product, if that is a hard sigmoid.
    lo, hi: real bounds from relu and clip. covered: all ops it replaces, root first.
    leaves_int32: the accumulators themselves are the result (a last dense layer).
    """

    root: Operation
    core: CoreOp | None
    forms: Sequence[Form]
    skips: Sequence[SSAValue]
    bias: Array
    lo: float
    hi: float
    covered: Sequence[Operation]
    leaves_int32: bool = False
    join: Join = "add"
    gate: tuple[float, float] | None = None

    @property
    def inputs(self) -> list[SSAValue]:
        """The values read as int8."""
        pooled = [] if self.pooling is None else [self.pooling.x]
        return [*pooled, *(form.operand for form in self.forms), *self.skips]

    @property
    def pooling(self) -> PoolingOp | None:
        """The core, if it sums elements without weights."""
        return self.core if isinstance(self.core, PoolingOp) else None

    @property
    def only_clamps(self) -> bool:
        """Whether it merely bounds one int8 value: the scale stays."""
        alone = self.core is None and not self.forms and len(self.skips) == 1
        return alone and not self.bias.any() and not self.is_rounded

    @property
    def unclamped(self) -> SSAValue:
        """The value of the float network that the bounds clamp, and that is rounded."""
        ends = FakeQuantizeOp | ReluOp | ClipOp
        inner = (op.results[0] for op in self.covered if not isinstance(op, ends))
        return next(inner, None) or self.skips[0]

    @property
    def is_rounded(self) -> bool:
        """Whether the network itself rounds the result, at a scale of its own."""
        return isinstance(self.root, FakeQuantizeOp)

    @property
    def only_rounds(self) -> bool:
        """Whether it is nothing but the network's rounding of one value."""
        return self.is_rounded and len(self.covered) == 1


@dataclass(frozen=True, eq=False)
class PassThrough:
    """A max pooling, or what only moves or repeats elements: the scale of the operand stays."""

    leaves_int32: ClassVar[bool] = False

    root: MaxPoolOp | ReshapeOp | TransposeOp | UpsampleOp

    @property
    def inputs(self) -> list[SSAValue]:
        """The value read as int8."""
        return [self.root.x]

    @property
    def covered(self) -> Sequence[Operation]:
        """The op itself."""
        return [self.root]


Group = Sum | PassThrough | Contraction


@dataclass
class Grouping:
    """The groups in order of execution, and why the other computing ops stay float."""

    groups: list[Group] = field(default_factory=list)
    reasons: dict[Operation, str] = field(default_factory=dict)

    def int8_values(self) -> set[SSAValue]:
        """The float values that groups compute as int8."""
        return {group.root.results[0] for group in self.groups if not group.leaves_int32}


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
        if op in covered or not isinstance(op, (*COMPUTING, ReshapeOp)):
            continue
        group: Group | None = _contraction_at(op, network, grouping.reasons, declined)
        if group is not None:
            for other in group.covered:  # what is declined alone may go along
                grouping.reasons.pop(other, None)
        elif op in grouping.reasons:
            continue
        elif isinstance(op, (*SUMS, FakeQuantizeOp)):
            group = grower.sum_at(op)
        elif isinstance(op, MaxPoolOp | TransposeOp | UpsampleOp) or (
            isinstance(op, ReshapeOp) and _feeds(op, covered)
        ):
            group = PassThrough(op)
        if group is not None:
            grouping.groups.append(group)
            covered.update(group.covered)
    grouping.groups.reverse()
    return grouping


def _contraction_at(
    root: Operation,
    network: Network,
    reasons: Mapping[Operation, str],
    declined: Mapping[Operation, str],
) -> Contraction | None:
    """The product of activations that ends in ``root``, and whether int32 leaves it."""
    found = contraction_at(root, network, reasons, declined)
    if found is None:
        return None
    result = root.results[0]
    if found.is_rounded:
        return found
    # Without a multiplier the host rounds to a scale of the network's own.
    rounded = all(isinstance(use.operation, FakeQuantizeOp) for use in result.uses)
    return replace(found, leaves_int32=rounded or _is_compared(result, reasons))


def _feeds(op: ReshapeOp, covered: Set[Operation]) -> bool:
    return is_static(op.x) and any(use.operation in covered for use in op.result.uses)


@dataclass
class _Terms:
    """The addends under the root of a sum, as a walk finds them."""

    bias: Array
    covered: list[Operation]
    cores: list[tuple[CoreOp, Array]] = field(default_factory=list)
    forms: list[Form] = field(default_factory=list)
    skips: list[SSAValue] = field(default_factory=list)


@dataclass(frozen=True)
class _Walk:
    """Which ops a walk enters: convolutions and poolings, and what selects or scales."""

    cores: bool
    selections: bool


_WALKS = (_Walk(True, True), _Walk(True, False), _Walk(False, True))
"""In order of preference. A convolution and a selection make no sum: with the shift that a weight
of 1 allows, those of the convolution would be coarse."""


class _Grower:
    """Takes ops into a sum, from its root upwards."""

    def __init__(self, network: Network, reasons: Mapping[Operation, str], apart: Set[Operation]):
        self.network = network
        self.reasons = reasons
        self.apart = apart

    def sum_at(self, root: Operation) -> Sum:
        """The largest sum that ends in ``root``. Where the network rounds, a sum ends."""
        result, covered, lo, hi = root.results[0], [root], -inf, inf
        op = root
        while isinstance(op, FakeQuantizeOp | ReluOp | ClipOp | HardSigmoidOp):
            low, high = clamp_bounds(op)
            lo, hi = _clamped(low, lo, hi), _clamped(high, lo, hi)
            if isinstance(op, HardSigmoidOp):
                break
            inner = self._interior(op.x)
            if inner is None:
                bias = np.zeros(channels_of(result))
                return Sum(root, None, [], [op.x], bias, lo, hi, covered)
            covered.append(inner)
            op = inner
        if isinstance(op, LeakyReluOp | PReluOp):
            return self._sloped(root, op, lo, hi, covered)
        if isinstance(op, HardSwishOp) or (isinstance(op, MulOp) and is_product(op, self.network)):
            return self._product(root, op, lo, hi, covered)
        for walk in _WALKS:
            terms = _Terms(np.zeros(channels_of(result)), list(covered))
            self._enter(op, np.ones(1), terms, result, walk)
            core = self._choose_core(terms, result)
            if core is None or not terms.forms:
                break
        forms = terms.forms
        if isinstance(core, ConvOp | GemmOp):
            factor = next(factor for other, factor in terms.cores if other is core)
            forms = self._core_forms(core, form_of(core, result, factor), terms)
            terms.bias += factor * self.network.bias(core)
        bounded = (lo, hi) != (-inf, inf)
        int32 = is_dense(core) and not (bounded or terms.skips) and _is_compared(result)
        return Sum(root, core, forms, terms.skips, terms.bias, lo, hi, terms.covered, int32)

    def _core_forms(self, core: ConvOp | GemmOp, form: Form, terms: _Terms) -> list[Form]:
        """A core; several where it alone reads channels that are joined for it."""
        concat = self._interior(form.operand)
        if not isinstance(concat, ConcatOp) or concat.axis.value.data != 1 or form.group > 1:
            return [form]
        if is_dense(core):  # whose accumulators may be the result: they are those of one form
            return [form]
        terms.covered.append(concat)
        return list(taken_apart(form, concat, self.network.given_weights(core)))

    def _sloped(
        self,
        root: Operation,
        op: LeakyReluOp | PReluOp,
        lo: float,
        hi: float,
        covered: list[Operation],
    ) -> Sum:
        """``max(x, slope * x)``, or the minimum where slopes are above 1."""
        result, slope = root.results[0], slope_of(op, self.network)
        join: Join = "max" if (slope <= 1).all() else "min"
        forms = [diagonal(op, op.x, result, factor) for factor in (np.ones(1), slope)]
        bias = np.zeros(channels_of(result))
        return Sum(root, None, forms, [], bias, lo, hi, covered, join=join)

    def _product(
        self, root: Operation, op: HardSwishOp | MulOp, lo: float, hi: float,
        covered: list[Operation],
    ) -> Sum:  # fmt: skip
        """``a * b``, or ``x`` times its hard sigmoid."""
        result, one = root.results[0], np.ones(1)
        bias = np.zeros(channels_of(result))
        if isinstance(op, HardSwishOp):
            forms, gate = [diagonal(op, op.x, result, one)] * 2, HARD_SWISH
            return Sum(root, None, forms, [], bias, lo, hi, covered, join="mul", gate=gate)
        forms = [spread(op, value, result, one) for value in (op.a, op.b)]
        forms.sort(key=lambda form: form.group == 1)
        return Sum(root, None, forms, [], bias, lo, hi, covered, join="mul")

    def _choose_core(self, terms: _Terms, result: SSAValue) -> CoreOp | None:
        """One core shares its accumulators; the others, and what they cover, stay apart."""
        # The widest sum is the one that a rounding of its own would hurt most.
        core = max((core for core, _ in terms.cores), key=products, default=None)
        for other, factor in terms.cores:
            if other is not core:
                self._leaf(other.result, factor, terms, result, other)
            elif other not in terms.covered:
                terms.covered.append(other)
        return core

    def _enter(
        self, op: Operation, factor: Array, terms: _Terms, result: SSAValue, walk: _Walk
    ) -> None:
        """Take in ``factor`` times the result of an op that is part of the sum."""
        match op:
            case AddOp() | SubOp():
                self._operand(op.a, factor, terms, result, walk, op)
                sign = -1 if isinstance(op, SubOp) else 1
                self._operand(op.b, sign * factor, terms, result, walk, op)
            case NegOp():
                self._operand(op.x, -factor, terms, result, walk, op)
            case HardSigmoidOp():
                terms.bias += factor * op.beta.value.data
                self._operand(op.x, factor * op.alpha.value.data, terms, result, walk, op)
            case MulOp() | DivOp():
                value, numbers = scaling_of(op, self.network)
                self._operand(value, factor * numbers, terms, result, walk, op)
            case AveragePoolOp() if is_uneven(op):
                terms.forms += averages(op, result, factor)
            case BatchNormOp():
                scale, offset = normalisation_of(op, self.network)
                terms.bias += factor * offset
                self._operand(op.x, factor * scale, terms, result, walk, op)
            case ConcatOp():
                cuts = [self._cut(value, op) for value in op.inputs]
                terms.covered += [cut for cut in cuts if cut is not None]
                terms.forms += joined(op, cuts, result, factor)
            case SliceOp() | PadOp() | TakeChannelsOp():
                terms.forms.append(selected(op, result, factor))
                terms.bias += factor * constant_part(op)
            case _:
                assert isinstance(op, CoreOp)
                terms.cores.append((op, factor))

    def _operand(
        self,
        value: SSAValue,
        factor: Array,
        terms: _Terms,
        result: SSAValue,
        walk: _Walk,
        reader: Operation,
    ) -> None:
        """Take in ``factor`` times a value that ``reader`` reads."""
        inner = self._interior(value)
        if self._is_vector(value, result):
            terms.bias += factor * self.network.channel_vector(value, channels_of(result))
        elif isinstance(inner, CoreOp) and walk.cores and self._joins(inner, factor):
            terms.cores.append((inner, factor))
        elif isinstance(inner, AddOp) or (
            isinstance(inner, SELECTIONS)
            and walk.selections
            and not (isinstance(inner, MulOp) and is_product(inner, self.network))
        ):
            terms.covered.append(inner)
            self._enter(inner, factor, terms, result, walk)
        else:
            self._leaf(value, factor, terms, result, reader)

    def _cut(self, value: SSAValue, op: ConcatOp) -> SliceOp | None:
        """The slice that makes an operand of a concatenation, if it disappears into that."""
        inner = self._interior(value)
        return inner if isinstance(inner, SliceOp) and takes_cut(op, inner) else None

    def _joins(self, core: CoreOp, factor: Array) -> bool:
        """Whether a core may share its accumulators, multiplied by ``factor``."""
        if isinstance(core, AveragePoolOp) and is_uneven(core):
            return False
        return core not in self.apart and (
            isinstance(core, ConvOp | GemmOp) or bool((factor == 1).all())
        )

    def _leaf(
        self,
        value: SSAValue,
        factor: Array,
        terms: _Terms,
        result: SSAValue,
        reader: Operation,
    ) -> None:
        """Take in ``factor`` times a value that is read as int8."""
        if (factor == 1).all():
            terms.skips.append(value)
        else:
            terms.forms.append(diagonal(reader, value, result, factor))

    def _is_vector(self, value: SSAValue, result: SSAValue) -> bool:
        """Whether a value is a constant with one number a channel."""
        return self.network.constant(value) is not None and is_channel_vector(
            shape_of(value) or (), shape_of(result) or ()
        )

    def _interior(self, value: SSAValue) -> Operation | None:
        """The op that makes ``value``, if it may disappear into the group of its only reader."""
        op = producer(value)
        if not isinstance(op, SUMS) or op in self.reasons or not value.has_one_use():
            return None
        if is_contraction(op, self.network):
            return None
        return op


def clamp_bounds(op: FakeQuantizeOp | ReluOp | ClipOp | HardSigmoidOp) -> tuple[float, float]:
    """Between which bounds an op clamps; of those of stored integers, requantisation takes care."""
    if isinstance(op, FakeQuantizeOp):
        return -inf, inf
    if isinstance(op, ReluOp):
        return 0.0, inf
    if isinstance(op, HardSigmoidOp):
        return 0.0, 1.0
    hi = inf if op.max is None else op.max.value.data
    return (-inf if op.min is None else min(op.min.value.data, hi), hi)


def _clamped(x: float, lo: float, hi: float) -> float:
    return min(max(x, lo), hi)


def _is_compared(value: SSAValue, hosted: Container[Operation] = ()) -> bool:
    """Whether a value goes to results, argmax and softmax only, at most reshaped and rounded.

    hosted: ops that stay float: what is masked or moved by one of them there is compared, too.
    """
    users = [use.operation for use in value.uses]
    return bool(users) and all(_compares(user, hosted) for user in users)


def _compares(user: Operation, hosted: Container[Operation]) -> bool:
    if isinstance(user, HostOp) and user.op_type.data in COMPARING_OPERATORS:
        return True
    passes_on = isinstance(user, ReshapeOp | FakeQuantizeOp) or (
        isinstance(user, AddOp | SubOp | MulOp | DivOp) and user in hosted
    )
    return isinstance(user, ReturnOp) or (passes_on and _is_compared(user.results[0], hosted))
