"""``integer-softmax``: a softmax between two products stays on the accelerator, in integers.

In attention the host has the scores of queries by keys, takes their softmax, and splits the shares
into planes. Where the target multiplies, this pass makes integers of it (`softmax`), so that
scores, shares, and their product with the values are one launch; the host packs keys and values
before it.

Takes quantised functions. Rewrites a softmax over the last dimension whose scores are a product of
activations, and whose shares only products read, where its error stays below `LARGEST_ERROR` steps
of their results, and where it costs less than the host and the crossing. Everything else stays as
it is; the reason is written on the op.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr, TensorType, i8
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from vtac.dialects.context import Array
from vtac.dialects.graph import ConcatOp, HostOp, RequantizePlanesOp, SliceOp, known_extents
from vtac.dialects.graph.ranges import range_of
from vtac.dialects.target import Target, target_at
from vtac.passes.graph.codegen import first_host_model, functions_of_host
from vtac.passes.graph.constants import constant_of
from vtac.passes.graph.cost import bytes_of, host_cycles
from vtac.passes.graph.host_model import HostModel, HostRates
from vtac.passes.graph.machine_work import alu_cycles, gemm_micro_ops
from vtac.passes.graph.quantize.emit_contraction import ARRANGES
from vtac.passes.graph.reasons import NOTE, Reason, ReasonKind, is_settled, keep_on_host
from vtac.passes.graph.softmax.attention import (
    Attention,
    AttentionProduct,
    attention_of,
    is_softmax,
)
from vtac.passes.graph.softmax.emit import Emitter, Head, matmul
from vtac.passes.graph.softmax.softmax import Ending, Softmax
from vtac.passes.graph.streams.fine import OpDraft, Part
from vtac.passes.te.schedule.cost import Rates

LARGEST_ERROR = 0.5
"""In steps of the int8 of the product with the values."""

MOST_HEADS = 64
"""The most softmaxes of one op: each has kernels of its own."""

TRIED_ROWS = 64
"""Rows of normally distributed scores on which the error is found."""

TRIED_VALUES = 16
DEVIATION = 32.0
"""Of the values on which the error is found, in their steps."""


@dataclass(frozen=True)
class IntegerSoftmaxPass(HostRates, ModulePass):
    """Give the softmax of attention an integer form.

    compare: whether a softmax stays on the host where that takes fewer cycles.
    """

    name = "integer-softmax"

    compare: bool = True

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite each function that has no codegen, on targets that multiply."""
        target = target_at(op)
        if target is None or not target.alu_mul or target.batch != 1:
            return
        host = first_host_model(ctx, target).with_options(self) if self.compare else None
        for function in functions_of_host(op):
            for each in list(function.walk()):
                if isinstance(each, HostOp) and is_softmax(each) and not is_settled(each):
                    reason = _take(ctx, target, host, each)
                    if reason is not None:
                        keep_on_host(each, reason)


@dataclass(frozen=True, eq=False)
class _Scores:
    """The scores of one head: int8 [rows, depth] by int8 [keys, depth], and a bias.

    source: the product that they are a part of.
    """

    queries: SSAValue
    keys: SSAValue
    bias: Array
    source: Operation

    def parts(self, draft: OpDraft) -> list[Part]:
        """Ops for the accumulators."""
        product = matmul(draft, self.queries, self.keys)
        product.owner.location = self.source.location  # type: ignore[union-attr]
        return [(draft.plus(product, self.bias), 0)]


def _take(ctx: Context, target: Target, host: HostModel | None, op: HostOp) -> Reason | None:
    """Give a softmax its integer form, or say why it has none."""
    found = attention_of(ctx, op)
    if isinstance(found, str):
        return Reason(found, ReasonKind.NUMBERS)
    if found.heads > MOST_HEADS:
        return Reason(f"more than {MOST_HEADS} softmaxes are one op", ReasonKind.COST)
    endings = [_ending(ctx, found, product) for product in found.products]
    known = [ending for ending in endings if ending is not None]
    limits = range_of(op.inputs[0]) or range_of(found.real.result)
    if limits is None or len(known) < len(endings):
        return Reason("the range of its scores is not known", ReasonKind.NUMBERS)
    numbers = _numbers(found, known, limits)
    if (text := numbers.refusal()) is not None:
        return Reason(text, ReasonKind.NUMBERS)
    error = error_of(numbers, limits)
    if error > LARGEST_ERROR:
        what = f"in integers it would be {error:.2f} steps of the product with values off"
        return Reason(what, ReasonKind.PRECISION)
    rewriter = _Rewriter(found, numbers, target, OpDraft(ctx, op, op))
    ends = rewriter.emit(known)
    reason = None if host is None else rewriter.objection(host)
    if reason is not None:
        rewriter.draft.drop()
        return reason
    rewriter.commit(
        ends, f"in integers, at most {error:.2f} steps of the product with the values off"
    )
    return None


@dataclass(frozen=True, eq=False)
class _Given:
    """How a product of shares by values was rounded: vectors [D], bounds."""

    bias: Array
    shift: Array
    lo: int
    hi: int


def _ending(ctx: Context, found: Attention, product: AttentionProduct) -> _Given | None:
    end = product.end
    bias, shift = constant_of(ctx, end.bias), constant_of(ctx, end.shift)
    if bias is None or shift is None:
        return None
    given = bias.astype(np.int64), shift.astype(np.int64)
    return _Given(*given, end.lo.value.data, end.hi.value.data)


def _numbers(found: Attention, endings: Sequence[_Given], limits: tuple[float, float]) -> Softmax:
    step = float(next(iter(found.real.scales.get_values())))
    depth = known_extents(found.scores.a)[1]
    least = min(int(ending.shift.min()) for ending in endings)
    return Softmax(
        found.keys,
        step,
        128 * 128 * depth + int(np.abs(found.bias).max(initial=0)),
        max(map(abs, limits)),
        1 / (found.step * 2.0**least),
    )


def error_of(numbers: Softmax, limits: tuple[float, float]) -> float:
    """The largest error on scores as they are expected, in steps of the result."""
    rng = np.random.default_rng(0)
    lo, hi = limits
    real = rng.normal((lo + hi) / 2, (hi - lo) / 6, (TRIED_ROWS, numbers.keys))
    scores = np.rint(real / numbers.step).astype(np.int64)
    scores = np.clip(scores, -numbers.reach, numbers.reach)
    real = np.exp(scores * numbers.step - (scores * numbers.step).max(axis=-1, keepdims=True))
    real /= real.sum(axis=-1, keepdims=True)
    values = rng.normal(0, DEVIATION, (numbers.keys, TRIED_VALUES))
    return float(np.abs((numbers.shares(scores) - real) @ values).max() * numbers.factor)


@dataclass(frozen=True, eq=False)
class _Rewriter:
    """The rewriting of one softmax."""

    found: Attention
    numbers: Softmax
    target: Target
    draft: OpDraft

    def emit(self, endings: Sequence[_Given]) -> list[SSAValue]:
        """Draft the ops; the new result of each product."""
        emitter = Emitter(self.numbers, self.target.block, self.draft)
        found = self.found
        a, b, count = found.scores.a, found.scores.b, found.heads
        scores = [
            _Scores(
                self._entry(a, n, count, found.rows, False),
                self._entry(b, n, count, found.keys, True),
                found.bias,
                found.scores,
            )
            for n in range(count)
        ]
        heads = emitter.heads(scores)
        least = min(int(ending.shift.min()) for ending in endings)
        ends = []
        for product, given in zip(self.found.products, endings, strict=True):
            more = self.numbers.shift - least
            shift = given.shift + more
            ending = Ending(given.bias << more if more >= 0 else given.bias >> -more, shift)
            ending = Ending(ending.bias, shift, given.lo, given.hi)
            with self.draft.before(product.end):
                ends.append(self._result(emitter, product, heads, ending))
        return ends

    def _result(
        self, emitter: Emitter, product: AttentionProduct, heads: Sequence[Head], ending: Ending
    ) -> SSAValue:
        """The int8 of one product, entry below entry."""
        made, scale = [], product.end.scale.value.data
        for place, head in enumerate(product.entries):
            count, columns = len(product.entries), known_extents(product.end.result)[1]
            values = self._entry(product.values, place, count, columns, True)
            op = emitter.result(heads[head], values, ending, scale)
            op.properties["zero_point"] = product.end.zero_point
            op.location = product.end.location
            made.append(op.result)
        if len(made) == 1:
            return made[0]
        joined = ConcatOp(made, 0, product.end.result.type)
        keep_on_host(joined, ARRANGES)
        return self.draft.insert(joined)

    def _entry(self, x: SSAValue, place: int, count: int, rows: int, on_host: bool) -> SSAValue:
        """The first rows of one of ``count`` entries of an operand; others only fill lanes."""
        whole, inner = known_extents(x)
        if (count, whole) == (1, rows):
            return x
        start = [whole // count * place, 0]
        part = SliceOp(x, start, [1, 1], TensorType(i8, [rows, inner]))
        if on_host:
            keep_on_host(part, ARRANGES)
        return self.draft.insert(part)

    def objection(self, host: HostModel) -> Reason | None:
        """Why the drafted ops are not worth it; None if they are."""
        found, draft = self.found, self.draft
        own = self._cycles(draft.made)
        ends = [product.end for product in found.products]
        integers = [op for product in found.products for op in product.ops]
        there = self._cycles([found.scores, *integers, *ends]) + host.cycles_a_launch
        there += sum(host_cycles(op, host) for op in found.replaced)
        crossing = [found.real.x, *(op.a for op in integers if hasattr(op, "a"))]
        there += bytes_of(crossing) / host.bytes_a_cycle
        if own > there:
            what = f"in integers it would take {own:,.0f} cycles, on the host {there:,.0f}"
            return Reason(what, ReasonKind.COST)
        return None

    def _cycles(self, ops: Sequence[Operation]) -> float:
        rates = Rates.of(self.target)
        return sum(
            alu_cycles(op, self.target, rates)
            + gemm_micro_ops(op, self.target) * self.target.timing.gemm_cycles
            for op in ops
        )

    def commit(self, ends: Sequence[SSAValue], note: str) -> None:
        """Insert the ops and erase what they replace."""
        found = self.found
        self.draft.commit()
        planes = [op for op in self.draft.made if isinstance(op, RequantizePlanesOp)]
        planes[-1].attributes[NOTE] = StringAttr(note)
        erased: list[Operation] = []
        for product, made in zip(found.products, ends, strict=True):
            made.name_hint = product.end.result.name_hint
            product.end.result.replace_all_uses_with(made)
            erased += [product.end, *reversed(product.ops)]
        bias = found.real.x.owner
        assert isinstance(bias, Operation), "what the host takes to floats was added to"
        erased += [*reversed(_in_order(found.replaced)), bias, found.scores]
        for op in erased:
            Rewriter.erase_op(op, safe_erase=False)


def _in_order(ops: Sequence[Operation]) -> list[Operation]:
    """Ops of one block as they stand there."""
    block = ops[0].parent
    assert block is not None
    wanted = set(ops)
    return [op for op in block.ops if op in wanted]
