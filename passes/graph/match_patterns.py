"""``match-patterns``: groups of ops that a codegen can take become composites.

The first step of BYOC's partitioning (section 3.1 of the paper). Roots are tried from the end of
the network, so that the largest group around a result is found before its parts.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, UnknownLoc
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from vtac.dialects.graph import (
    RANGES_ATTRIBUTE,
    CompositeOp,
    Contracts,
    YieldOp,
)
from vtac.passes.graph.codegen import (
    NamedPattern,
    codegens_named,
    functions_of_host,
    target_of_module,
)
from vtac.passes.graph.patterns import Match, match_root
from vtac.passes.graph.reasons import HOST_REASON, forget_reason, keep_on_host


@dataclass(frozen=True)
class MatchPatternsPass(ModulePass):
    """Wrap what the patterns of codegens match into ``graph.composite`` ops.

    codegen: the only codegen to ask; by default those of the context that are asked by default, or
    else all. The drivers run this pass once per codegen, by falling priority, each after the
    codegen's own preparation of the ops that are left.
    """

    name = "match-patterns"

    codegen: str | None = None

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Match in every function that no codegen has taken yet."""
        target = target_of_module(op)
        codegens = codegens_named(ctx, self.codegen)
        if self.codegen is None:
            codegens = [codegen for codegen in codegens if codegen.default] or codegens
        table = [row for codegen in codegens for row in codegen.table(target)]
        for function in functions_of_host(op):
            for block in function.body.blocks:
                for root in reversed(list(block.ops)):
                    if root.parent is block and not isinstance(root, CompositeOp):
                        _match_at(root, table)


def _match_at(root: Operation, table: Sequence[NamedPattern]) -> None:
    """Replace the first match at ``root`` by a composite, or record why there was none."""
    reasons: list[str] = []
    for row in table:
        match, refused = match_root(row.pattern, root)
        if match is not None:
            _wrap(row.name, match)
            return
        reasons += refused
    if reasons and HOST_REASON not in root.attributes:
        keep_on_host(root, reasons[0])


def _wrap(name: str, match: Match) -> None:
    """Move the matched ops, and copies of their constants, into a composite."""
    root = match.ops[-1]
    block = Block(arg_types=[value.type for value in match.inputs])
    copies: dict[SSAValue, SSAValue] = dict(zip(match.inputs, block.args, strict=True))
    for inner in [*match.constants, *match.ops]:
        copy = inner.clone(copies)
        copy.location = inner.location
        forget_reason(copy)
        block.add_op(copy)
    block.add_op(YieldOp(*(copies[result] for result in root.results)))
    composite = CompositeOp(name, match.inputs, [r.type for r in root.results], block)
    composite.location = _anchor(match).location
    if RANGES_ATTRIBUTE in root.attributes:  # another codegen may still quantise what follows
        composite.attributes[RANGES_ATTRIBUTE] = root.attributes[RANGES_ATTRIBUTE]
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
    products = [inner for inner in named if inner.has_trait(Contracts)]
    return (products or named[-1:] or match.ops[-1:])[0]
