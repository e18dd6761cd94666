"""Which boxes of a tensor the loads of a scheduled kernel visit, and in which order.

All sizes in a kernel are known, so the loops around the loads simply run. Nothing is rewritten.
"""

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
    """Runs loops with known numbers, as far as there are loads in them."""

    loads: set[te.CopyOp]
    visited: dict[SSAValue, dict[te.Box, None]] = field(default_factory=dict)
    _numbers: dict[SSAValue, int] = field(default_factory=dict)
    _steps: dict[Block, list[Operation]] = field(default_factory=dict)
    _windows: dict[te.CopyOp, list[te.Range]] = field(default_factory=dict)

    def run(self, block: Block) -> None:
        """Run what matters of a block once."""
        for op in self._steps_of(block):
            match op:
                case te.ForOp():
                    for tile in op.tiles(*self._known(op.over)):
                        self._numbers.update(zip(op.body.block.args, tile, strict=True))
                        self.run(op.body.block)
                case te.SpanOp():
                    ranges = [self._known(te.Range(*term[1:])) for term in op.terms]
                    self._numbers[op.start], self._numbers[op.length] = op.evaluate(ranges)
                case te.HullOp():
                    ranges = [self._known(item) for item in op.ranges]
                    self._numbers[op.start], self._numbers[op.length] = op.evaluate(ranges)
                case te.UnfuseOp():
                    tiles = op.evaluate(*self._known(op.pairs))
                    numbers = [part for tile in tiles for part in tile]
                    self._numbers.update(zip(op.results, numbers, strict=True))
                case te.CopyOp():
                    self._visit(op)

    def _steps_of(self, block: Block) -> list[Operation]:
        """The operations that matter: loads, loops around loads, and arithmetic on ranges."""
        if block not in self._steps:
            self._steps[block] = [
                op
                for op in block.ops
                if isinstance(op, te.SpanOp | te.HullOp | te.UnfuseOp)
                or op in self.loads
                or (isinstance(op, te.ForOp) and not self.loads.isdisjoint(op.walk()))
            ]
        return self._steps[block]

    def _visit(self, load: te.CopyOp) -> None:
        if load not in self._windows:
            self._windows[load] = load.window
        box = []
        shape = te.shaped(load.source).get_shape()
        for item, size in zip(self._windows[load], shape, strict=True):
            start, length = self._known(item)
            first, end = max(start, 0), min(start + length, size)
            if first >= end:
                return
            box.append((first, end - first))
        self.visited.setdefault(load.source, {})[tuple(box)] = None

    def _known(self, item: te.Range) -> tuple[int, int]:
        if item.values is None:
            return item.bounds or (0, 0)
        start, length = item.values
        return self._numbers[start], self._numbers[length]
