"""``integer-streams``: what a host would add and normalise between layers stays on the accelerator.

A transformer adds each branch to a stream of rows and normalises it. The quantiser leaves both to
the host, in floats (`float_sums`). Where the target multiplies, this pass gives them an integer
form (`sums`, `layer_norms`): the stream is kept in 16 bits, as two int8 planes, so nothing is
rounded that would not be rounded on its way to a dense layer anyway. Two launches with a host part
between them become one.

Takes quantised functions. Rewrites a layer normalisation over the last dimension whose operand is a
sum with an addend from the accelerator, where the accelerator reads its result as int8, where its
error stays below `LARGEST_ERROR` steps of that int8, and where it costs less than the host and the
crossing. Its operand's other readers get real numbers. Everything else stays as it is; the reason
is written on the op.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, ModuleOp, StringAttr, TensorType, i8
from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from vtac.dialects.context import Array, VtacContext
from vtac.dialects.graph import (
    AddOp,
    ConstantOp,
    DequantizeOp,
    HostOp,
    MulOp,
    QuantizeOp,
    RequantizeOp,
    RescaleOp,
    ReshapeOp,
    SubOp,
    is_static,
    least_byte,
    shape_of,
)
from vtac.dialects.graph.ranges import range_of
from vtac.dialects.graph.wide import MOST_FINE
from vtac.dialects.target import Target, target_at
from vtac.passes.graph.codegen import first_host_model, functions_of_host
from vtac.passes.graph.constants import constant_of
from vtac.passes.graph.cost import bytes_of, host_cycles
from vtac.passes.graph.float_groups.float_sums import is_layer_norm
from vtac.passes.graph.host_model import HostModel, HostRates
from vtac.passes.graph.machine_work import alu_cycles, gemm_micro_ops
from vtac.passes.graph.reasons import (
    NOTE,
    Reason,
    ReasonKind,
    is_settled,
    keep_on_host,
)
from vtac.passes.graph.streams.fine import FineValue, OpDraft, rows_of
from vtac.passes.graph.streams.layer_norms import LayerNorm
from vtac.passes.graph.streams.sums import LARGEST, emit_sum, fine_step
from vtac.passes.te.schedule.cost import Rates

LARGEST_ERROR = 0.5
"""In steps of the int8 that a layer reads."""

TRIED_ROWS = 64
"""Rows of normally distributed numbers on which the error of a normalisation is found."""

PLANED = Reason("the host splits it into two planes of integers", ReasonKind.LAYOUT)


@dataclass(frozen=True)
class IntegerStreamsPass(HostRates, ModulePass):
    """Add to streams and normalise them on the accelerator.

    compare: whether a normalisation stays on the host where that takes fewer cycles.
    """

    name = "integer-streams"

    compare: bool = True

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite each function that has no codegen, on targets that multiply."""
        target = target_at(op)
        if target is None or not target.alu_mul:
            return
        for function in functions_of_host(op):
            if len(function.body.blocks) == 1:
                host = first_host_model(ctx, target).with_options(self)
                _Streams(ctx, function, target, host if self.compare else None).run()


@dataclass(frozen=True, eq=False)
class _Rounding:
    """A conversion of a stream to the int8 that layers read.

    ops: the conversions, which are equal. factors: what channels are multiplied by before, float64
    [channels] or [1].
    """

    ops: Sequence[QuantizeOp]
    scale: float
    factors: Array


@dataclass
class _Streams:
    """The streams of one function.

    host: how fast the host is; None where costs do not count. fine: the integers of values that
    have them by now.
    """

    ctx: Context
    function: FuncOp
    target: Target
    host: HostModel | None
    fine: dict[SSAValue, FineValue] = field(default_factory=dict)

    def run(self) -> None:
        """Rewrite normalisations from the front."""
        block, taken = self.function.body.block, 0
        for op in list(block.ops):
            if isinstance(op, HostOp) and _normalises_rows(op):
                reason = self._take(op)
                taken += reason is None
                if reason is not None and not is_settled(op):
                    keep_on_host(op, reason)
        if taken:
            for value, planes in self.fine.items():
                self._leave(value, planes)
            _erase_unread(list(block.ops))

    def _take(self, op: HostOp) -> Reason | None:
        """Give a normalisation its integer form, or say why it has none."""
        rounding, power = _rounding_of(op.outputs[0], self.ctx), self._power(op.inputs[0])
        operand = _base(op.inputs[0])
        if is_settled(op):
            return Reason("the user keeps it on the host", ReasonKind.USER)
        if rounding is None:
            return Reason("no layer on the accelerator reads its result", ReasonKind.COST)
        if not self._is_made_here(operand):
            return Reason("the host makes its operand", ReasonKind.COST)
        draft, before = OpDraft(self.ctx, op, op), dict(self.fine)
        x = self._planes(operand, draft)
        numbers = None if x is None or power is None else self._numbers(op, x, rounding, power)
        reason: Reason | None = None
        if numbers is None or x is None:
            reason = Reason("its operand has no form in two planes", ReasonKind.NUMBERS)
        elif (text := numbers.refusal()) is not None:
            reason = Reason(text, ReasonKind.NUMBERS)
        else:
            error = _error(numbers)
            wide = any(use not in rounding.ops for use in _readers(op.outputs[0]))
            result = numbers.emit(draft, x, wide)
            reason = self._objection(draft, op, rounding, error)
        if reason is not None:
            draft.drop()
            self.fine = before
            return reason
        draft.commit()
        steps = result.steps / rounding.factors
        self.fine[op.outputs[0]] = FineValue(result.high, result.low, steps)
        note = f"normalised in integers, at most {error:.2f} steps of its result off"
        result.high.owner.attributes[NOTE] = StringAttr(note)  # type: ignore[union-attr]
        for quantise in rounding.ops:
            _replace(quantise.result, result.high)
        return None

    def _objection(
        self, draft: OpDraft, op: HostOp, rounding: _Rounding, error: float
    ) -> Reason | None:
        """Why a drafted normalisation is not worth it; None if it is."""
        if error > LARGEST_ERROR:
            what = f"in integers it would be {error:.2f} steps of its result off"
            return Reason(what, ReasonKind.PRECISION)
        if (host := self.host) is None:
            return None
        rates = Rates.of(self.target)
        own: float = sum(
            alu_cycles(made, self.target, rates)
            + gemm_micro_ops(made, self.target) * self.target.timing.gemm_cycles
            for made in draft.made
        )
        split = [made for made in draft.made if isinstance(made, QuantizeOp)]
        own += bytes_of(made.result for made in split) / host.bytes_a_cycle
        replaced = [op, *rounding.ops, *_float_addends(op)]
        # What the accelerator leaves for the host, and what it takes from it.
        crossing = [v for each in replaced for v in _integers(each)]
        there = sum(host_cycles(each, host) for each in replaced) + host.cycles_a_launch
        there += bytes_of(crossing) / host.bytes_a_cycle
        if own > there:
            what = f"in integers it would take {own:,.0f} cycles, on the host {there:,.0f}"
            return Reason(what, ReasonKind.COST)
        return None

    def _numbers(
        self, op: HostOp, x: FineValue, rounding: _Rounding, power: float
    ) -> LayerNorm | None:
        channels = rows_of(op.inputs[0])[1]
        vectors = [constant_of(self.ctx, value) for value in op.inputs[1:]]
        if x.step is None or any(v is None or v.shape != (channels,) for v in vectors):
            return None
        scale, bias = (
            np.zeros(channels) if v is None else v.astype(np.float64) * rounding.factors
            for v in (*vectors, None)[:2]
        )
        multiplier = 1 if x.low is not None else LARGEST // 128
        epsilon = op.onnx_attributes.data.get("epsilon")
        return LayerNorm(
            channels,
            self.target.block,
            multiplier,
            x.step / multiplier,
            scale,
            bias,
            epsilon.value.data if isinstance(epsilon, FloatAttr) else 1e-5,
            power,
            rounding.scale / 256,
        )

    def _power(self, value: SSAValue) -> float | None:
        """The mean square of a value, or a guess from its range."""
        observed = self.ctx.observations if isinstance(self.ctx, VtacContext) else None
        found = None if observed is None else observed.power(_base(value))
        if found is not None:
            return float(np.mean(found))
        limits = range_of(_base(value)) or range_of(value)
        return None if limits is None else max(map(abs, limits)) ** 2 / 12

    def _is_made_here(self, value: SSAValue) -> bool:
        """Whether the accelerator makes a value, or an addend of it."""
        value = _base(value)
        if value in self.fine:
            return True
        if isinstance(value.owner, AddOp):
            return any(self._is_made_here(operand) for operand in value.owner.operands)
        stored = _stored(value)
        return stored is not None and isinstance(_base(stored.x).owner, RequantizeOp | RescaleOp)

    def _planes(self, value: SSAValue, draft: OpDraft) -> FineValue | None:
        """The integers of a value's rows; the ops that make them are added to the draft."""
        value = _base(value)
        if value in self.fine:
            return self.fine[value]
        stored, limits = _stored(value), range_of(value)
        if stored is not None:
            return FineValue(draft.as_rows(stored.x), None, np.array(stored.scales.get_values()))
        if limits is None or not is_static(value):
            return None
        made: FineValue | None
        if self._is_made_here(value):
            add = value.owner
            assert isinstance(add, AddOp), "what is neither stored nor a sum is made by the host"
            if shape_of(add.a) != shape_of(add.b):
                return None
            with draft.before(add):
                addends = [self._planes(operand, draft) for operand in add.operands]
                known = [addend for addend in addends if addend is not None]
                made = emit_sum(draft, known, fine_step(*limits)) if len(known) == 2 else None
        else:
            with draft.before(_behind(value)):
                made = _split(draft, value, fine_step(*limits))
        if made is not None:
            self.fine[value] = made
        return made

    def _leave(self, value: SSAValue, planes: FineValue) -> None:
        """Real numbers for the readers that remain, if the accelerator made the integers."""
        remain = [reader for reader in _readers(value) if not self._is_replaced(reader)]
        if not remain or isinstance(planes.high.owner, ReshapeOp | QuantizeOp):
            return
        place = value.owner
        assert isinstance(place, Operation)
        draft, shape = OpDraft(self.ctx, place, place), shape_of(value) or ()
        parts = [(planes.high, 1 if planes.low is None else 256), (planes.low, 1)]
        reals = []
        for plane, weight in parts:
            if plane is not None:
                type = TensorType(value.type.element_type, rows_of(value))  # type: ignore[attr-defined]
                steps = [float(step) * weight for step in planes.steps]
                reals.append(draft.insert(DequantizeOp(plane, steps, 0, type)))
        real = draft.reshaped(draft.total(reals), shape)
        for made in draft.made:
            if isinstance(made, AddOp):
                keep_on_host(made, PLANED)
        draft.commit()
        value.replace_all_uses_with(real)

    def _is_replaced(self, reader: Operation) -> bool:
        """Whether a reader has integers of its own, so that it is not read itself."""
        return any(result in self.fine for result in reader.results)


def _normalises_rows(op: HostOp) -> bool:
    """Whether an op normalises the last dimension of static rows."""
    if not is_layer_norm(op) or len(op.outputs) != 1 or not is_static(op.outputs[0]):
        return False
    axis, rank = op.onnx_attributes.data.get("axis"), len(shape_of(op.inputs[0]) or ())
    last = not isinstance(axis, IntegerAttr) or axis.value.data in (-1, rank - 1)
    return last and rank > 1 and len(op.inputs) >= 2


def _base(value: SSAValue) -> SSAValue:
    """The value without reshapes that keep its rows."""
    while isinstance(value.owner, ReshapeOp) and _keeps_rows(value.owner):
        value = value.owner.x
    return value


def _keeps_rows(op: ReshapeOp) -> bool:
    before, after = shape_of(op.x) or (), shape_of(op.result) or ()
    return before[-1:] == after[-1:] and is_static(op.x)


def _readers(value: SSAValue) -> Iterator[Operation]:
    """The ops that read the rows of a value."""
    for user in (use.operation for use in value.uses):
        if isinstance(user, ReshapeOp) and _keeps_rows(user):
            yield from _readers(user.result)
        else:
            yield user


def _stored(value: SSAValue) -> DequantizeOp | None:
    """The conversion of int8 that makes a value; its scales are those of columns."""
    op = _base(value).owner
    if not isinstance(op, DequantizeOp) or op.zero_point.value.data:
        return None
    if least_byte(op.x.type) != -128:
        return None
    return op if len(shape_of(op.x) or ()) == 2 or len(op.scales) == 1 else None


def _rounding_of(value: SSAValue, ctx: Context) -> _Rounding | None:
    """How a value is rounded to the int8 of its readers: that of most of them."""
    found: dict[tuple[float, bytes], _Rounding] = {}
    for reader in _readers(value):
        factors, users = np.ones(1), [reader]
        if isinstance(reader, MulOp):
            number = constant_of(ctx, reader.b)
            if number is None or shape_of(reader.a) != shape_of(reader.result):
                continue
            factors = number.astype(np.float64).reshape(-1)
            users = list(_readers(reader.result))
        for op in users:
            if isinstance(op, QuantizeOp) and not op.zero_point.value.data:
                if least_byte(op.result.type) != -128:
                    continue
                scale = op.scale.value.data
                known = found.setdefault((scale, factors.tobytes()), _Rounding([], scale, factors))
                known.ops.append(op)  # type: ignore[attr-defined]
    if not found:
        return None
    return max(found.values(), key=lambda one: len(one.ops))


def _split(draft: OpDraft, value: SSAValue, step: float) -> FineValue:
    """Planes of a value that the host makes."""
    type = TensorType(i8, shape_of(value) or ())
    high = draft.insert(QuantizeOp(value, 256 * step, 0, type))
    real = draft.insert(DequantizeOp(high, [256 * step], 0, value.type))
    rest = SubOp(value, real, value.type)
    keep_on_host(rest, PLANED)
    low = draft.insert(QuantizeOp(draft.insert(rest), step, 0, type))
    planes = [draft.reshaped(plane, rows_of(value)) for plane in (high, low)]
    return FineValue(planes[0], planes[1], np.array([step]))


def _float_addends(op: HostOp) -> list[Operation]:
    """The addition that a normalisation reads, if the host adds, and conversions of its addends."""
    add = _base(op.inputs[0]).owner
    if not isinstance(add, AddOp):
        return []
    conversions = [_stored(value) for value in add.operands]
    return [add, *(found for found in conversions if found is not None)]


def _integers(op: Operation) -> list[SSAValue]:
    """The integers that a conversion reads or makes."""
    if isinstance(op, QuantizeOp):
        return [op.result]
    return [op.x] if isinstance(op, DequantizeOp) else []


def _behind(value: SSAValue) -> Operation:
    """The op before which whatever reads the value first may stand."""
    place = value.block.first_op if isinstance(value, BlockArgument) else value.owner.next_op  # type: ignore[union-attr]
    assert place is not None, "a block ends with an op that returns"
    return place


def _error(numbers: LayerNorm) -> float:
    """The largest error on rows as they are expected, in steps of the int8 result."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((TRIED_ROWS, numbers.channels)) * np.sqrt(numbers.power)
    most = LARGEST // numbers.multiplier
    t = np.clip(np.rint(x / (numbers.step * numbers.multiplier)), -most, most)
    t = t * numbers.multiplier
    x = t * numbers.step
    centred = x - x.mean(axis=-1, keepdims=True)
    deviation = np.sqrt(np.square(centred).mean(axis=-1, keepdims=True) + numbers.epsilon)
    real = centred / deviation * numbers.scale + numbers.bias
    bound = MOST_FINE * numbers.result
    wrong = np.abs(numbers.at(t) * numbers.result - np.clip(real, -bound, bound))
    return float(wrong.max() / (256 * numbers.result))


def _replace(value: SSAValue, rows: SSAValue) -> None:
    """Let the readers of int8 read rows instead, under their shapes."""
    for use in list(value.uses):
        user = use.operation
        if isinstance(user, ReshapeOp) and shape_of(user.result) == shape_of(rows):
            user.result.replace_all_uses_with(rows)
    if not value.uses:
        return
    if shape_of(value) != shape_of(rows):
        reshape = ReshapeOp(rows, value.type)
        owner = value.owner
        assert isinstance(owner, Operation) and owner.parent is not None
        owner.parent.insert_op_before(reshape, owner)
        rows = reshape.result
    value.replace_all_uses_with(rows)


def _erase_unread(ops: Sequence[Operation]) -> None:
    """Erase what only served the float form."""
    kinds = (AddOp, ConstantOp, DequantizeOp, HostOp, MulOp, QuantizeOp, ReshapeOp)
    for op in reversed(ops):
        if isinstance(op, kinds) and not any(result.uses for result in op.results):
            Rewriter.erase_op(op)
