"""Which float ops compute together: sums that end in one requantisation.

A *sum* is a core (convolution, dense layer, average pooling: at most one), further linear forms
(``forms``), addends that are read as int8, constants per channel, and the relu and clip that
follow. Everything enters one accumulator, so that a residual block rounds once. Max pooling and
reshape pass int8 through. The rule of each op (``rules``) says how it takes part.

Groups are grown from their last op upwards, each as large as possible; a value with readers outside
its group (or that the network returns) ends its group.
"""

from collections.abc import Callable, Collection, Container, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation, SSAValue

from vtac.dialects.context import Array
from vtac.dialects.graph import (
    ActivationOp,
    ConcatOp,
    ElementWise,
    FakeQuantizeOp,
    HardSwishOp,
    HostOp,
    MulOp,
    ReshapeOp,
    WeightedOp,
    is_static,
    shape_of,
)
from vtac.passes.graph.float_groups.contractions import Contraction, contraction_at
from vtac.passes.graph.float_groups.float_sums import FLOATS_BESIDE, float_sums
from vtac.passes.graph.float_groups.forms import Form, diagonal, taken_apart
from vtac.passes.graph.float_groups.network import (
    Network,
    channels_of,
    is_channel_vector,
    is_dense,
    is_float32,
    is_matrix_product,
    producer,
)
from vtac.passes.graph.float_groups.one_variable import OneVariable, function_at
from vtac.passes.graph.float_groups.rules import computes, rule_of
from vtac.passes.graph.float_groups.rules.rule import (
    ClampRule,
    CoreRule,
    Join,
    JoinRule,
    LinearRule,
    PassingRule,
    SumRule,
    Terms,
)
from vtac.passes.graph.reasons import Reason, ReasonKind, unusable_shape

NOT_READ = Reason(
    "what reads its result is on the host, where int8 would only lose precision",
    ReasonKind.NUMBERS,
    "None needed: the host computes it of the integers that the accelerator leaves.",
)

COMPARING_OPERATORS = frozenset({"ArgMax", "Softmax", "LogSoftmax"})
"""ONNX operators that compare the elements of their operand; rounding to int8 would make ties."""


@dataclass(frozen=True, eq=False)
class Sum:
    """Ops that become sums of integers and one requantisation.

    root: the last op, whose result the group computes. core: where products are summed.
    forms: its addends, that of the core first, then those with weights, then plain ones.
    bias: all constant addends, float64 with one number per channel. join: how the addends are
    combined: added, or compared or multiplied. gate: slope and offset of the second factor of a
    product, if that is a hard sigmoid. curve: the function that is taken of the only form. lo, hi:
    real bounds from relu and clip. covered: all ops it replaces, root first. leaves_int32: the
    accumulators themselves are the result (a last dense layer).
    """

    root: Operation
    core: Operation | None
    forms: Sequence[Form]
    bias: Array
    lo: float
    hi: float
    covered: Collection[Operation]
    leaves_int32: bool = False
    join: Join = "add"
    gate: tuple[float, float] | None = None
    curve: Callable[[Array], Array] | None = None

    @property
    def inputs(self) -> list[SSAValue]:
        """The values read as int8."""
        return [form.operand for form in self.forms]

    @property
    def shares_core(self) -> bool:
        """Whether a core shares its accumulators with plain addends."""
        return self.core is not None and any(form.plain for form in self.forms[1:])

    @property
    def is_homogeneous(self) -> bool:
        """Whether the addends, all times a positive factor, are combined to that times as much."""
        return self.join not in ("mul", "curve")

    @property
    def keeps_scale(self) -> bool:
        """Whether the result has the scale of the operand.

        It has if one int8 value is merely bounded, or some of its elements are selected: a finer
        scale than the operand's would represent the same numbers.
        """
        if self.core is not None or self.join != "add" or self.bias.any() or self.is_rounded:
            return False
        return len(self.forms) == 1 and self.forms[0].only_selects

    @property
    def unclamped(self) -> SSAValue:
        """The value of the float network before the bounds clamp it and before it is rounded."""
        rules = ((op, rule_of(op)) for op in self.covered)
        for op, rule in rules:
            if not isinstance(rule, ClampRule) or isinstance(rule, LinearRule):
                return op.results[0]
        return self.forms[0].operand

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

    root: Operation

    @property
    def inputs(self) -> list[SSAValue]:
        """The value read as int8."""
        return [self.root.operands[0]]

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
        if computes(op) and op not in declined and (reason := why_not(op, network)) is not None:
            grouping.reasons[op] = reason
    grouping.reasons |= dict.fromkeys(float_sums(network, grouping.reasons), FLOATS_BESIDE)
    grower = _Grower(network, grouping.reasons, apart)
    order = {op: place for place, op in enumerate(network.block.ops)}
    covered: set[Operation] = set()
    for op in reversed(list(network.block.ops)):
        rule = rule_of(op)
        if op in covered or rule is None:
            continue
        group: Group | None = _contraction_at(op, network, grouping.reasons, declined)
        if group is None:
            function = function_at(op, network, declined, order)
            if function is not None and _is_wanted(op, function, covered, network):
                group = _curve(op, function)
        if group is not None:
            for other in group.covered:  # a group may contain ops that are declined by themselves
                grouping.reasons.pop(other, None)
        elif op in grouping.reasons:
            continue
        elif isinstance(rule, SumRule):
            group = grower.sum_at(op)
        elif isinstance(rule, PassingRule) and (rule.computes or _feeds(op, covered)):
            group = PassThrough(op)
        elif isinstance(op, ActivationOp):
            grouping.reasons[op] = NOT_READ
        if group is not None:
            grouping.groups.append(group)
            covered.update(group.covered)
    grouping.groups.reverse()
    return grouping


def why_not(op: Operation, network: Network) -> str | None:
    """Why an op that computes has no integer form, as far as it can be told from the op alone."""
    if (unfit := _unfit(op)) is not None:
        return unfit
    if (reason := network.refusal(op)) is not None:
        return reason
    rule = rule_of(op)
    return None if rule is None else rule.why_not(op, network)


def _unfit(op: Operation) -> Reason | None:
    """Why the types and shapes of an op keep it float, whatever it computes."""
    for value in (*op.operands, *op.results):
        if (unusable := unusable_shape(value)) is not None:
            return unusable
        if not is_float32(value):
            return Reason(f"it computes with {value.type}, only f32 is quantised", ReasonKind.TYPE)
    if len(shape_of(op.results[0]) or ()) < 2:
        return Reason("its result has no channels: rank below 2", ReasonKind.SHAPE)
    return None


def _is_wanted(
    root: Operation, function: OneVariable, covered: Set[Operation], network: Network
) -> bool:
    """Whether lines for a function win anything: a group reads its result.

    Not if it only gates another tensor of its shape, as in an LSTM, whose state stays float then. A
    hard swish bends so little that it leaves the network as int8, too.
    """
    if any(_unfit(op) is not None for op in function.ops):
        return False
    readers = [use.operation for use in root.results[0].uses]
    is_read = any(op in covered and not _is_gate(op, network) for op in readers)
    return is_read or any(isinstance(op, HardSwishOp) for op in function.ops)


def _is_gate(op: Operation, network: Network) -> bool:
    """Whether an op multiplies two variable tensors of one shape."""
    if not isinstance(op, MulOp) or shape_of(op.a) != shape_of(op.b):
        return False
    return all(network.constant(value) is None for value in op.operands)


def _curve(root: Operation, function: OneVariable) -> Sum:
    """A function of one variable as a group."""
    form = diagonal(function.ops[-1], function.variable, root.results[0], np.ones(1))
    bias = np.zeros(channels_of(root.results[0]))
    return Sum(
        root, None, [form], bias, function.lo, function.hi, function.covered,
        join="curve", curve=function,
    )  # fmt: skip


def _contraction_at(
    root: Operation,
    network: Network,
    reasons: Mapping[Operation, str],
    declined: Mapping[Operation, str],
) -> Contraction | None:
    """The product of activations that ends in ``root``, and whether int32 leaves it."""
    found = contraction_at(root, network, reasons, declined)
    if found is None or found.is_rounded:
        return found
    result = root.results[0]
    # Without a multiplier the host rounds to a scale of the network's own.
    rounded = all(isinstance(use.operation, FakeQuantizeOp) for use in result.uses)
    return replace(found, leaves_int32=rounded or is_compared(result, reasons))


def _feeds(op: Operation, covered: Set[Operation]) -> bool:
    """Whether the result of an op that passes int8 through is read by a group."""
    uses = op.results[0].uses
    return is_static(op.operands[0]) and any(use.operation in covered for use in uses)


@dataclass(frozen=True)
class _Walk:
    """The kinds of ops that a walk enters: convolutions and poolings, selections and scalings."""

    cores: bool
    selections: bool


_WALKS = (_Walk(True, True), _Walk(True, False), _Walk(False, True))
"""In order of preference.

A convolution and a selection make no sum: with the shift that a weight of 1 allows, those of the
convolution would be coarse.
"""


class _Grower:
    """Collects the ops of a sum, from its root upwards."""

    def __init__(self, network: Network, reasons: Mapping[Operation, str], apart: Set[Operation]):
        self.network = network
        self.reasons = reasons
        self.apart = apart

    def sum_at(self, root: Operation) -> Sum:
        """The largest sum that ends in ``root``.

        A sum does not reach beyond a rounding of the network's own.
        """
        result, covered, lo, hi = root.results[0], {root: None}, -inf, inf
        op = root
        while isinstance(rule := rule_of(op), ClampRule):
            low, high = rule.bounds(op)
            lo, hi = min(max(low, lo), hi), min(max(high, lo), hi)
            if isinstance(rule, LinearRule):
                break
            inner = self._interior(op.operands[0])
            if inner is None:
                terms = self._terms(root, covered)
                terms.read_stored(op.operands[0], np.ones(1))
                return Sum(root, None, terms.forms, terms.bias, lo, hi, covered)
            covered[inner] = None
            op = inner
        terms = self._terms(root, covered)
        if isinstance(rule, JoinRule) and (found := rule.joined(op, self.network, result)):
            return Sum(
                root, None, found.forms, terms.bias, lo, hi, covered,
                join=found.join, gate=found.gate,
            )  # fmt: skip
        assert isinstance(rule, LinearRule), "what neither clamps nor joins is linear"
        for walk in _WALKS:
            terms = self._terms(root, covered)
            rule.enter(op, np.ones(1), terms)
            self._collect(terms, walk)
            core, factor = self._choose_core(terms)
            if core is None or all(form.plain for form in terms.forms):
                break
        forms = sorted(terms.forms, key=lambda form: form.plain)
        alone = (lo, hi) == (-inf, inf) and not forms
        int32 = alone and is_dense(core) and is_compared(result)
        if core is not None:
            rule = rule_of(core)
            assert isinstance(rule, CoreRule)
            whole = rule.form(core, result, factor)
            # The accumulators of a dense layer that are the result are those of one form.
            forms = [*([whole] if int32 else self._core_forms(whole, terms)), *forms]
            terms.bias += factor * rule.bias(core, self.network)
        return Sum(root, core, forms, terms.bias, lo, hi, terms.covered, int32)

    def _terms(self, root: Operation, covered: dict[Operation, None]) -> Terms:
        """A sum without addends yet."""
        bias = np.zeros(channels_of(root.results[0]))
        return Terms(self.network, root, self._interior, bias, dict(covered))

    def _core_forms(self, form: Form, terms: Terms) -> list[Form]:
        """The forms of a core: one, or several where it alone reads a concatenation of channels."""
        concat, core = self._interior(form.operand), form.source
        if not isinstance(concat, ConcatOp) or concat.axis.value.data != 1 or form.group > 1:
            return [form]
        if not isinstance(core, WeightedOp) or (is_dense(core) and not self._fills_blocks(concat)):
            return [form]
        terms.covered[concat] = None
        return list(taken_apart(form, concat, self.network.given_weights(core)))

    def _fills_blocks(self, concat: ConcatOp) -> bool:
        """Whether the operands of a concatenation are whole blocks of channels of the target."""
        target = self.network.target
        if target is None:
            return False
        return not any((shape_of(value) or ())[1] % target.block for value in concat.inputs)

    def _choose_core(self, terms: Terms) -> tuple[Operation | None, Array]:
        """Let one core share its accumulators; the others, and the ops that they cover, become
        groups of their own."""
        # A rounding of its own would cost the widest sum most.
        none: tuple[Operation | None, Array] = (None, np.ones(1))
        core = max(terms.cores, key=lambda one: _width(one[0]), default=none)
        for other, factor in terms.cores:
            if other is not core[0]:
                terms.read_stored(other.results[0], factor)
            else:
                terms.covered[other] = None
        return core

    def _collect(self, terms: Terms, walk: _Walk) -> None:
        """Add all pending values to the sum, depth first and from left to right."""
        behind: list[tuple[SSAValue, Array]] = []
        while terms.pending or behind:
            behind += reversed(terms.pending)
            terms.pending.clear()
            value, factor = behind.pop()
            inner = self._interior(value)
            if self._is_vector(value, terms.result):
                channels = channels_of(terms.result)
                terms.bias += factor * self.network.channel_vector(value, channels)
            elif inner is None or not self._enters(inner, factor, walk):
                terms.read_stored(value, factor)
            elif isinstance(rule := rule_of(inner), CoreRule):
                terms.cores.append((inner, factor))
            else:
                assert isinstance(rule, LinearRule)
                terms.covered[inner] = None
                rule.enter(inner, factor, terms)

    def _enters(self, op: Operation, factor: Array, walk: _Walk) -> bool:
        """Whether an op becomes part of the sum, instead of leaving int8 for it."""
        rule = rule_of(op)
        if isinstance(rule, CoreRule):
            return walk.cores and op not in self.apart and rule.shares(op, factor)
        if not isinstance(rule, LinearRule) or (rule.selects and not walk.selections):
            return False
        return not self._ends_sum(op, rule)

    def _ends_sum(self, op: Operation, rule: SumRule[Any]) -> bool:
        """Whether an op rounds before others may add to it: it clamps, compares or multiplies."""
        if isinstance(rule, JoinRule):
            return rule.joined(op, self.network, op.results[0]) is not None
        return isinstance(rule, ClampRule)

    def _is_vector(self, value: SSAValue, result: SSAValue) -> bool:
        """Whether a value is a constant with one number per channel."""
        return self.network.constant(value) is not None and is_channel_vector(
            shape_of(value) or (), shape_of(result) or ()
        )

    def _interior(self, value: SSAValue) -> Operation | None:
        """The op that makes ``value``, if it may disappear into the group of its only reader."""
        op = producer(value)
        rule = rule_of(op)
        if op is None or not isinstance(rule, SumRule) or not rule.interior:
            return None
        if op in self.reasons or not value.has_one_use() or is_matrix_product(op, self.network):
            return None
        return op


def _width(core: Operation) -> int:
    rule = rule_of(core)
    assert isinstance(rule, CoreRule)
    return rule.width(core)


def is_compared(value: SSAValue, hosted: Container[Operation] = ()) -> bool:
    """Whether a value reaches only results, argmax and softmax, at most reshaped and rounded.

    hosted: ops that stay float. Element-wise arithmetic of two operands among these may lie
    between, as a mask in front of a softmax does.
    """
    behind, seen = [value], {value}
    while behind:
        uses = list(behind.pop().uses)
        if not uses:
            return False
        for user in (use.operation for use in uses):
            if _compares(user) or isinstance(user, ReturnOp):
                continue
            arithmetic = user.has_trait(ElementWise) and len(user.operands) == 2
            rounds = isinstance(user, ReshapeOp | FakeQuantizeOp)
            if not rounds and not (arithmetic and user in hosted):
                return False
            if user.results[0] not in seen:
                seen.add(user.results[0])
                behind.append(user.results[0])
    return True


def _compares(user: Operation) -> bool:
    return isinstance(user, HostOp) and user.op_type.data in COMPARING_OPERATORS
