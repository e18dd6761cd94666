"""``prune-regions``: a region that would compute nothing goes back to the host.

Some patterns cost nothing on the accelerator (a reshape that the layout makes void). A region of
nothing else would only carry data there and back.
"""

from collections import defaultdict
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, SSAValue
from xdsl.passes import ModulePass

from vtac.dialects.graph import CompositeOp, YieldOp
from vtac.dialects.target import TARGET_ATTRIBUTE, Target
from vtac.passes.graph.codegen import codegens_of
from vtac.passes.graph.match_patterns import CODEGEN, HOST_REASON
from vtac.passes.graph.merge_regions import REGION

REASON = "not worth a launch: nothing around it runs on the accelerator"


@dataclass(frozen=True)
class PruneRegionsPass(ModulePass):
    """Give regions that compute nothing back to the host."""

    name = "prune-regions"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Dissolve the composites of every region made of free patterns only."""
        attribute = op.attributes.get(TARGET_ATTRIBUTE)
        target = attribute if isinstance(attribute, Target) else None
        free = {name for codegen in codegens_of(ctx) for name in codegen.free_patterns(target)}
        for function in op.walk():
            if isinstance(function, FuncOp) and CODEGEN not in function.attributes:
                for block in function.body.blocks:
                    _prune(block, free)


def _prune(block: Block, free: set[str]) -> None:
    regions: defaultdict[int, list[CompositeOp]] = defaultdict(list)
    for op in block.ops:
        number = op.attributes.get(REGION)
        if isinstance(op, CompositeOp) and isinstance(number, IntegerAttr):
            regions[number.value.data].append(op)
    for members in regions.values():
        if all(member.pattern.data in free for member in members):
            for member in members:
                dissolve(member, REASON)


def dissolve(composite: CompositeOp, reason: str) -> None:
    """Put the ops of a composite back in its place, with the reason why they stay."""
    body, parent = composite.body.block, composite.parent
    assert parent is not None
    values: dict[SSAValue, SSAValue] = dict(zip(body.args, composite.inputs, strict=True))
    for inner in body.ops:
        if isinstance(inner, YieldOp):
            for old, new in zip(composite.outputs, inner.arguments, strict=True):
                old.replace_all_uses_with(values[new])
            continue
        copy = inner.clone(values)
        copy.location = inner.location
        copy.attributes[HOST_REASON] = StringAttr(reason)
        parent.insert_op_before(copy, composite)
    parent.erase_op(composite)
