"""Where a stage goes in the body of a loop: before the first operation of a later stage.

Thousands of stages may move into one loop, one after the other. So the operations of a body are
numbered by their stages once, and a move updates the numbers.
"""

import bisect
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from math import inf
from typing import TYPE_CHECKING

from xdsl.ir import Block, Operation, SSAValue

from vtac.dialects import te

if TYPE_CHECKING:
    from .nest import NestStage


class _Body:
    """The operations of a block that belong to stages, each with a number.

    Operations of a number above the order of a stage come after that stage.
    """

    def __init__(self, numbered: Iterable[tuple[Operation, float]]):
        pairs = list(numbered)
        self.ops = [op for op, _ in pairs]
        self.numbers = [number for _, number in pairs]
        self.known = dict(pairs)
        self._rises = all(one <= other for one, other in pairwise(self.numbers))

    def place_after(self, order: float) -> int:
        """The place of the first operation of later stages."""
        if self._rises:
            return bisect.bisect_right(self.numbers, order)
        later = (place for place, number in enumerate(self.numbers) if number > order)
        return next(later, len(self.numbers))

    def place_of(self, op: Operation, order: float) -> int:
        """The place of an operation of a stage of this order."""
        place = bisect.bisect_left(self.numbers, order) if self._rises else 0
        while self.ops[place] is not op:
            place += 1
        return place

    def insert(self, place: int, op: Operation, order: float) -> None:
        """An operation of a stage comes to stand at a place."""
        self.ops.insert(place, op)
        self.numbers.insert(place, order)
        self.known[op] = order


class StageOrder:
    """The bodies of a kernel's loops that stages were moved to.

    Valid while stages are moved and nothing else changes the loops.
    """

    def __init__(self, stages: "Sequence[NestStage]") -> None:
        self._stages = stages
        self._bodies: dict[Block, _Body] = {}

    def move(self, stage: "NestStage", block: Block) -> None:
        """Move the nests of a stage to a block, before the first operation of later stages."""
        roots = [part.root for part in stage.parts]
        for root in roots:
            if root.parent is not None:
                self._forget(root.parent)
                root.parent.detach_op(root)
        body = self._bodies.get(block)
        if body is None:
            body = self._bodies[block] = _Body(self._numbered(block))
        place = body.place_after(stage.order)
        before = body.ops[place] if place < len(body.ops) else None
        for number, root in enumerate(roots):
            if before is None:
                block.add_op(root)
            else:
                block.insert_op_before(root, before)
            body.insert(place + number, root, stage.order)
        for inner, outer in _around(block):
            body = self._bodies.get(outer)
            if body is not None and body.known.get(inner, -inf) < stage.order:
                del self._bodies[outer]

    def replace_alloc(self, stage: "NestStage", new: te.AllocOp) -> None:
        """Insert the allocation that will take the place of a stage's own before its nests."""
        root, old = stage.parts[0].root, stage.alloc.parent
        assert root.parent is not None
        root.parent.insert_op_before(new, root)
        if old is not None:
            self._forget(old)
        self._writers[new.buffer] = self._writers.get(stage.buffer, stage.order)
        if root.parent in self._bodies:
            body = self._bodies[root.parent]
            body.insert(body.place_of(root, stage.order), new, stage.order)

    def _forget(self, block: Block) -> None:
        """Something leaves a block."""
        self._bodies.pop(block, None)
        for _, outer in _around(block):
            self._bodies.pop(outer, None)

    def _numbered(self, block: Block) -> Iterator[tuple[Operation, float]]:
        """The operations of a block that belong to stages.

        Each has the order of the last stage in it; an allocation that of the first stage that
        writes it.
        """
        for op in block.ops:
            if isinstance(op, te.AllocOp):
                if op.buffer in self._writers:
                    yield op, self._writers[op.buffer]
                continue
            orders = [self._orders[inner] for inner in op.walk() if inner in self._orders]
            if orders:
                yield op, max(orders)

    @cached_property
    def _orders(self) -> dict[Operation, float]:
        parts = [part for stage in self._stages for part in stage.parts]
        return {statement: part.order for part in parts for statement in part.statements}

    @cached_property
    def _writers(self) -> dict[SSAValue, float]:
        found: dict[SSAValue, float] = {}
        for stage in self._stages:
            found[stage.buffer] = min(stage.order, found.get(stage.buffer, stage.order))
        return found


def _around(block: Block) -> Iterator[tuple[Operation, Block]]:
    """The operations around a block, from the inside, and their blocks."""
    parent = block.parent_op()
    while parent is not None and parent.parent is not None:
        yield parent, parent.parent
        parent = parent.parent.parent_op()
