"""Which boxes of a tensor the loads of a scheduled kernel visit, and in which order.

All sizes in a kernel are known, so the loops around the loads are executed. Nothing is rewritten.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.ir import Block, Operation, SSAValue

from vtac.dialects import te

Sources = Mapping[SSAValue, Sequence[te.Box]]


def visited_boxes(kernel: te.KernelOp, loads: Iterable[te.CopyOp]) -> Sources:
    """What these loads copy: for each of their sources the boxes in program order.

    A box that is loaded again counts once, where it is loaded first. Boxes lie within the tensor
    and are not empty.
    """
    walk = _Walk(set(loads))
    walk.run(kernel.body.block)
    return {source: list(boxes) for source, boxes in walk.visited.items()}


@dataclass
class _Walk:
    """Executes the loops that contain the loads, with known numbers."""

    loads: set[te.CopyOp]
    visited: dict[SSAValue, dict[te.Box, None]] = field(default_factory=dict)
    _numbers: dict[SSAValue, int] = field(default_factory=dict)
    _steps: dict[Block, list[tuple[Operation, list[te.Range]]]] = field(default_factory=dict)

    def run(self, block: Block) -> None:
        """Execute the relevant operations of a block once."""
        numbers = self._numbers
        for op, items in self._steps_of(block):
            ranges = [self._known(item) for item in items]
            match op:
                case te.ForOp():
                    body = op.body.block
                    start, length = body.args
                    for numbers[start], numbers[length] in op.tiles(*ranges[0]):
                        self.run(body)
                case te.SpanOp() | te.HullOp():
                    numbers[op.start], numbers[op.length] = op.evaluate(ranges)
                case te.UnfuseOp():
                    tiles = op.evaluate(*ranges[0])
                    numbers.update(zip(op.results, itertools.chain(*tiles), strict=True))
                case te.CopyOp():
                    self._visit(op.source, ranges)

    def _steps_of(self, block: Block) -> list[tuple[Operation, list[te.Range]]]:
        """The relevant operations of a block, with their ranges.

        These are loads, loops around loads, and arithmetic on ranges.
        """
        if block not in self._steps:
            self._steps[block] = [
                (op, _ranges_of(op))
                for op in block.ops
                if isinstance(op, te.SpanOp | te.HullOp | te.UnfuseOp)
                or op in self.loads
                or (isinstance(op, te.ForOp) and not self.loads.isdisjoint(op.walk()))
            ]
        return self._steps[block]

    def _visit(self, source: SSAValue, window: Sequence[tuple[int, int]]) -> None:
        box = []
        for (start, length), size in zip(window, te.shaped(source).get_shape(), strict=True):
            first, end = max(start, 0), min(start + length, size)
            if first >= end:
                return
            box.append((first, end - first))
        self.visited.setdefault(source, {})[tuple(box)] = None

    def _known(self, item: te.Range) -> tuple[int, int]:
        if item.values is None:
            return item.bounds or (0, 0)
        start, length = item.values
        return self._numbers[start], self._numbers[length]


def _ranges_of(op: Operation) -> list[te.Range]:
    """The ranges that an operation cuts, combines or copies."""
    match op:
        case te.ForOp():
            return [op.over]
        case te.SpanOp():
            return [te.Range(*term[1:]) for term in op.terms]
        case te.HullOp():
            return list(op.ranges)
        case te.UnfuseOp():
            return [op.pairs]
        case te.CopyOp():
            return list(op.window)
    return []
