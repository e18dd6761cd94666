"""The rule of each kind of op that the quantiser knows. Each module has those of one family."""

from typing import Any

from xdsl.ir import Operation

from vtac.passes.graph.float_groups.rules import (
    activations,
    arithmetic,
    layers,
    moves,
    pooling,
    selections,
)
from vtac.passes.graph.float_groups.rules.rule import Rule, Rules

_FAMILIES = (activations, arithmetic, layers, moves, pooling, selections)

RULES: Rules = {kind: rule for family in _FAMILIES for kind, rule in family.RULES.items()}


def rule_of(op: Operation | None) -> Rule[Any] | None:
    """The rule for an op; None for an op that the quantiser does not know."""
    return None if op is None else RULES.get(type(op))


def computes(op: Operation) -> bool:
    """Whether an op computes with real numbers, so that it needs a reason if it stays on the
    host."""
    rule = rule_of(op)
    return rule is not None and rule.computes
