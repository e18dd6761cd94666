"""The rule of each kind of op that the quantiser knows: one line a kind."""

from collections.abc import Mapping
from typing import Any

from xdsl.ir import Operation

from vtac.dialects import graph
from vtac.passes.graph.quantize.rules import (
    activations,
    arithmetic,
    layers,
    moves,
    pooling,
    selections,
)
from vtac.passes.graph.quantize.rules.rule import Rule

RULES: Mapping[type[Operation], Rule[Any]] = {
    graph.AddOp: arithmetic.Add(),
    graph.AveragePoolOp: pooling.AveragePool(),
    graph.BatchNormOp: arithmetic.BatchNorm(),
    graph.ClipOp: activations.Clip(),
    graph.ConcatOp: selections.Concat(),
    graph.ConvOp: layers.Conv(),
    graph.DivOp: arithmetic.Div(),
    graph.FakeQuantizeOp: activations.FakeQuantize(),
    graph.GemmOp: layers.Gemm(),
    graph.GlobalAveragePoolOp: pooling.GlobalAveragePool(),
    graph.HardSigmoidOp: activations.HardSigmoid(),
    graph.HardSwishOp: activations.HardSwish(),
    graph.LeakyReluOp: activations.LeakyRelu(),
    graph.MatMulOp: layers.MatMul(),
    graph.MaxPoolOp: moves.MaxPool(),
    graph.MulOp: arithmetic.Mul(),
    graph.NegOp: arithmetic.Neg(),
    graph.PReluOp: activations.PRelu(),
    graph.PadOp: selections.Pad(),
    graph.ReluOp: activations.Relu(),
    graph.ReshapeOp: moves.Reshape(),
    graph.SliceOp: selections.Slice(),
    graph.SubOp: arithmetic.Sub(),
    graph.SumPoolOp: pooling.SumPool(),
    graph.TakeChannelsOp: selections.TakeChannels(),
    graph.TransposeOp: moves.Transpose(),
    graph.UpsampleOp: moves.Upsample(),
}


def rule_of(op: Operation | None) -> Rule[Any] | None:
    """The rule for an op; None for what the quantiser does not know."""
    return RULES.get(type(op)) if op is not None else None


def computes(op: Operation) -> bool:
    """Whether an op computes with real numbers, so that its staying on the host needs a reason."""
    rule = rule_of(op)
    return rule is not None and rule.computes
