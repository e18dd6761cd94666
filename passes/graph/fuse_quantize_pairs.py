"""``fuse-quantize-pairs``: QuantizeLinear and DequantizeLinear in pairs are one float op.

Takes a quantised model as imported: between float ops there are ``graph.quantize`` and
``graph.dequantize``, with ops between them that only move integers. Leaves a float network in which
``graph.fake_quantize`` says where the model rounds (the idea of fake quantisation, Jacob et al.,
section 3), one for each value and scale. What integers still need (results of the network, readers
on the host) is quantised from there; what enters as integers is dequantised. No value changes. No
options.
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType, f32
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import (
    GreedyRewritePatternApplier,
    PatternRewriter,
    PatternRewriteWalker,
    RewritePattern,
    op_type_rewrite_pattern,
)
from xdsl.rewriter import InsertPoint

from vtac.dialects.graph import (
    ConstantOp,
    DequantizeOp,
    FakeQuantizeOp,
    HostOp,
    QuantizeOp,
    SelectsElements,
    least_byte,
    moved,
)


@dataclass(frozen=True)
class _Steps:
    """Scale, zero point and the least integer: what a pair must agree on."""

    scale: float
    zero_point: int
    low: int


def _steps_of(op: Operation | None) -> _Steps | None:
    """The steps of an op that rounds, or that undoes it; None if it has not one scale."""
    match op:
        case QuantizeOp():
            low, scale = least_byte(op.result.type), op.scale.value.data
        case FakeQuantizeOp():
            low, scale = op.low.value.data, op.scale.value.data
        case DequantizeOp() if len(op.scales) == 1:
            low, scale = least_byte(op.x.type), op.scales.get_values()[0]
        case _:
            return None
    return None if low is None else _Steps(scale, op.zero_point.value.data, low)


def _maker(value: SSAValue) -> Operation | None:
    return value.owner if isinstance(value.owner, Operation) else None


def _moves(op: Operation | None) -> bool:
    """Whether an op's elements are elements of its operands, so that rounding commutes with it."""
    return op is not None and op.has_trait(SelectsElements, value_if_unregistered=False)


def _sources(value: SSAValue) -> list[Operation | None]:
    """The ops whose results a value's elements are, behind all that only moves them."""
    sources, seen, behind = [], {value}, [value]
    while behind:
        op = _maker(behind.pop())
        if op is None or not _moves(op):
            sources.append(op)
            continue
        behind += [operand for operand in op.operands if operand not in seen]
        seen.update(op.operands)
    return sources


def _is_on_grid(value: SSAValue, steps: _Steps) -> bool:
    """Whether all elements are what some integers at these steps stand for."""
    return all(
        isinstance(op, FakeQuantizeOp | DequantizeOp) and _steps_of(op) == steps
        for op in _sources(value)
    )


def _comes_from_quantize(value: SSAValue) -> bool:
    """Whether integers were floats, and have only been moved since."""
    return all(isinstance(op, QuantizeOp) and _steps_of(op) is not None for op in _sources(value))


class _DequantizeFirst(RewritePattern):
    """``dequantize(move(q))`` is ``move(dequantize(q))``, where q was quantised before."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: DequantizeOp, rewriter: PatternRewriter) -> None:
        """Match a dequantisation of integers that were moved."""
        move = _maker(op.x)
        if move is None or not _moves(move) or _steps_of(op) is None:
            return
        if not _comes_from_quantize(op.x):
            return
        scales, zero_point = op.scales.get_values(), op.zero_point.value.data
        reals: list[Operation] = []
        for operand in move.operands:
            assert isinstance(operand.type, TensorType)
            type = TensorType(f32, operand.type.get_shape())
            reals.append(DequantizeOp(operand, scales, zero_point, type))
            reals[-1].location = op.location
        again = moved(move, [real.results[0] for real in reals], f32)
        rewriter.replace(op, [*reals, again])


class _FusePair(RewritePattern):
    """``dequantize(quantize(x))`` is ``fake_quantize(x)``; a quantisation reads that too.

    What is only quantised, as a result of the network, is rounded before: integers may compute it.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: QuantizeOp, rewriter: PatternRewriter) -> None:
        """Match a quantisation of floats with all the dequantisations that undo it."""
        steps = _steps_of(op)
        if steps is None or not isinstance(op.x.type, TensorType) or op.x.type.element_type != f32:
            return
        undone = [use.operation for use in op.result.uses if _steps_of(use.operation) == steps]
        pairs = [user for user in undone if isinstance(user, DequantizeOp)]
        if not pairs and (_is_on_grid(op.x, steps) or not _may_be_integer(op.x)):
            return
        real: SSAValue = op.x
        if not _is_on_grid(op.x, steps):
            fake = _fake_quantize(op.x, steps)
            if fake is None:
                made = FakeQuantizeOp(op.x, steps.scale, steps.zero_point, op.x.type, low=steps.low)
                made.location = op.location
                rewriter.insert(made, InsertPoint.before(op))
                fake = made
            real = fake.result
        for pair in pairs:
            rewriter.replace(pair, [], [real])
        if not op.result.uses:
            rewriter.erase(op)
        elif real is not op.x:
            rewriter.replace(op, QuantizeOp(real, steps.scale, steps.zero_point, op.result.type))


def _may_be_integer(value: SSAValue) -> bool:
    """Whether a graph op makes a value, not an operator that the host alone knows."""
    op = _maker(value)
    return op is not None and not isinstance(op, HostOp | ConstantOp | DequantizeOp)


def _fake_quantize(value: SSAValue, steps: _Steps) -> FakeQuantizeOp | None:
    """The op that rounds a value so already."""
    for use in value.uses:
        if isinstance(use.operation, FakeQuantizeOp) and _steps_of(use.operation) == steps:
            return use.operation
    return None


class _RoundBeforeMoving(RewritePattern):
    """``fake_quantize(move(x))`` is ``move(fake_quantize(x))``: the layer before x rounds there."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: FakeQuantizeOp, rewriter: PatternRewriter) -> None:
        """Match a rounding of what was only moved, and that nobody else reads."""
        move, steps = _maker(op.x), _steps_of(op)
        assert steps is not None
        if _is_on_grid(op.x, steps):
            rewriter.replace(op, [], [op.x])
            return
        if move is None or not _moves(move) or not op.x.has_one_use():
            return
        rounded: list[Operation] = [
            FakeQuantizeOp(value, steps.scale, steps.zero_point, value.type, low=steps.low)
            for value in move.operands
        ]
        for fake in rounded:
            fake.location = op.location
        again = moved(move, [fake.results[0] for fake in rounded], f32)
        rewriter.replace(op, [*rounded, again])
        rewriter.erase(move)


class _DropUnused(RewritePattern):
    """Integers that nobody reads any more."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Match a quantisation, dequantisation or move without readers."""
        rounds = isinstance(op, QuantizeOp | DequantizeOp | FakeQuantizeOp)
        if (rounds or _moves(op)) and not op.results[0].uses:
            rewriter.erase(op)


@dataclass(frozen=True)
class FuseQuantizePairsPass(ModulePass):
    """QuantizeLinear and DequantizeLinear in pairs become fake_quantize."""

    name = "fuse-quantize-pairs"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite every function until nothing changes."""
        pattern = GreedyRewritePatternApplier(
            [_DropUnused(), _DequantizeFirst(), _FusePair(), _RoundBeforeMoving()]
        )
        PatternRewriteWalker(pattern).rewrite_module(op)
