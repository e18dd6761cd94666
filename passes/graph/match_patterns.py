"""``match-patterns``: groups of ops that a codegen can take become composites.

The first step of BYOC's partitioning (section 3.1 of the paper). Roots are tried from the end of
the network, so that the largest group around a result is found before its parts.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr, UnknownLoc
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from vtac.dialects.graph import CompositeOp, ConvOp, GemmOp, YieldOp
from vtac.dialects.target import TARGET_ATTRIBUTE, Target
from vtac.passes.graph.codegen import codegens_of
from vtac.passes.graph.patterns import Match, match_root

HOST_REASON = "graph.host_reason"
"""Why an op stays on the host, in words for the user."""

CODEGEN = "codegen"
"""Attribute of a function that an accelerator's codegen compiles."""


@dataclass(frozen=True)
class MatchPatternsPass(ModulePass):
    """Wrap what a codegen's patterns match into ``graph.composite`` ops."""

    name = "match-patterns"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Match in every function that no codegen has taken yet."""
        target = op.attributes.get(TARGET_ATTRIBUTE)
        table = [
            (f"{codegen.name}.{row.name}", row.pattern)
            for codegen in codegens_of(ctx)
            for row in codegen.patterns(target if isinstance(target, Target) else None)
        ]
        for function in op.walk():
            if isinstance(function, FuncOp) and CODEGEN not in function.attributes:
                for block in function.body.blocks:
                    for root in reversed(list(block.ops)):
                        if root.parent is block:
                            _match_at(root, table)


def _match_at(root: Operation, table: Sequence[tuple[str, object]]) -> None:
    """Replace the first match at ``root`` by a composite, or record why there was none."""
    reasons: list[str] = []
    for name, pattern in table:
        match, refused = match_root(pattern, root)  # type: ignore[arg-type]
        if match is not None:
            _wrap(name, match)
            return
        reasons += refused
    if reasons and HOST_REASON not in root.attributes:
        root.attributes[HOST_REASON] = StringAttr(reasons[0])


def _wrap(name: str, match: Match) -> None:
    """Move the matched ops, and copies of their constants, into a composite."""
    root = match.ops[-1]
    block = Block(arg_types=[value.type for value in match.inputs])
    copies: dict[SSAValue, SSAValue] = dict(zip(match.inputs, block.args, strict=True))
    for inner in [*match.constants, *match.ops]:
        copy = inner.clone(copies)
        copy.location = inner.location
        block.add_op(copy)
    block.add_op(YieldOp(*(copies[result] for result in root.results)))
    composite = CompositeOp(name, match.inputs, [r.type for r in root.results], block)
    composite.location = _anchor(match).location
    parent = root.parent
    assert parent is not None
    parent.insert_op_before(composite, root)
    for old, new in zip(root.results, composite.outputs, strict=True):
        new.name_hint = old.name_hint
        old.replace_all_uses_with(new)
    for inner in reversed(match.ops):
        parent.erase_op(inner)
    for constant in match.constants:
        if not any(result.uses for result in constant.results) and constant.parent is not None:
            constant.parent.erase_op(constant)


def _anchor(match: Match) -> Operation:
    """The op after which the group is called: its first product, else the last op with a name."""
    named = [inner for inner in match.ops if not isinstance(inner.location, UnknownLoc)]
    products = [inner for inner in named if isinstance(inner, ConvOp | GemmOp)]
    return (products or named[-1:] or match.ops[-1:])[0]
