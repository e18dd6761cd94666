"""``outline-regions``: each region becomes a function with a codegen, called where it stood.

The last step of BYOC's partitioning (section 3.1.3). Regions form no cycle (``merge-regions``), so
the block can be sorted such that the ops of one region stand together.
"""

from collections import defaultdict
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, StringAttr, UnitAttr
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass

from vtac.dialects.graph import CompositeOp
from vtac.dialects.target import TARGET_ATTRIBUTE
from vtac.passes.graph.codegen import CODEGEN, functions_of_host
from vtac.passes.graph.merge_regions import APART, REGION


def _region(op: Operation) -> int | None:
    number = op.attributes.get(REGION)
    return number.value.data if isinstance(number, IntegerAttr) else None


def _groups_in_order(block: Block) -> list[list[Operation]]:
    """The ops in an order that respects uses and keeps each region together, else the old one."""
    ops = list(block.ops)
    group_of: dict[Operation, int] = {}
    groups: list[list[Operation]] = []
    first: dict[int, int] = {}
    for op in ops:
        number = _region(op)
        if number is not None and number in first:
            group_of[op] = first[number]
            groups[group_of[op]].append(op)
            continue
        if number is not None:
            first[number] = len(groups)
        group_of[op] = len(groups)
        groups.append([op])
    before: list[set[int]] = [set() for _ in groups]
    after: defaultdict[int, set[int]] = defaultdict(set)
    for op in ops:
        for inner in op.walk():
            for operand in inner.operands:
                producer = operand.owner
                if isinstance(producer, Operation) and producer in group_of:
                    source, sink = group_of[producer], group_of[op]
                    if source != sink:
                        before[sink].add(source)
                        after[source].add(sink)
    ready = [i for i, needed in enumerate(before) if not needed]
    heapify(ready)
    order = []
    while ready:
        group = heappop(ready)
        order.append(groups[group])
        for sink in after[group]:
            before[sink].discard(group)
            if not before[sink]:
                heappush(ready, sink)
    assert len(order) == len(groups), "regions form a cycle"
    return order


def _outline(members: list[Operation], name: str, function: FuncOp, module: ModuleOp) -> CallOp:
    """Move ops into a new private function and return the call that replaces them."""
    inside = set(members)
    inputs = list(dict.fromkeys(v for op in members for v in op.operands if v.owner not in inside))
    outputs = [
        result
        for op in members
        for result in op.results
        if any(use.operation not in inside for use in result.uses)
    ]
    block = Block(arg_types=[value.type for value in inputs])
    values: dict[SSAValue, SSAValue] = dict(zip(inputs, block.args, strict=True))
    for argument, value in zip(block.args, inputs, strict=True):
        argument.name_hint = value.name_hint
    for op in members:
        copy = op.clone(values)
        for inner, original in zip(copy.walk(), op.walk(), strict=True):
            inner.location = original.location
        copy.attributes.pop(REGION, None)
        copy.attributes.pop(APART, None)
        block.add_op(copy)
    block.add_op(ReturnOp(*(values[value] for value in outputs)))
    types = [v.type for v in inputs], [v.type for v in outputs]
    outlined = FuncOp(name, types, Region(block), visibility="private")
    first = members[0]
    assert isinstance(first, CompositeOp) and first.codegen is not None
    outlined.attributes[CODEGEN] = first.codegen
    if any(APART in op.attributes for op in members):
        outlined.attributes[APART] = UnitAttr()
    target = module.attributes.get(TARGET_ATTRIBUTE)
    if target is not None:
        outlined.attributes[TARGET_ATTRIBUTE] = target
    module.body.block.insert_op_after(outlined, module.body.block.last_op or function)
    call = CallOp(name, inputs, types[1])
    for old, new in zip(outputs, call.results, strict=True):
        new.name_hint = old.name_hint
        old.replace_uses_with_if(new, lambda use: use.operation not in inside)
    return call


@dataclass(frozen=True)
class OutlineRegionsPass(ModulePass):
    """Move each region into a function of its own (``codegen``, ``vtac.target``) and call it."""

    name = "outline-regions"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Outline the regions of every function that no codegen has taken."""
        taken = {f.sym_name.data for f in op.walk() if isinstance(f, FuncOp)}
        for function in functions_of_host(op):
            for block in function.body.blocks:
                self._outline_block(block, function, op, taken)

    def _outline_block(
        self, block: Block, function: FuncOp, module: ModuleOp, taken: set[str]
    ) -> None:
        if not any(_region(op) is not None for op in block.ops):
            return
        order = _groups_in_order(block)
        for members in order:
            for op in members:
                block.detach_op(op)
        for members in order:
            if _region(members[0]) is None:
                block.add_ops(members)
                continue
            first = members[0]
            assert isinstance(first, CompositeOp) and isinstance(first.codegen, StringAttr)
            number = 0
            while (name := f"{first.codegen.data}_{number}") in taken:
                number += 1
            taken.add(name)
            block.add_op(_outline(members, name, function, module))
            for op in reversed(members):
                op.erase()
