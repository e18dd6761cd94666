"""Buffer assignment: which buffer holds each value of an accelerator function, and where in it.

Results of calls, arguments and constants have buffers. A view or a window has the buffer of its
operand, with other strides. The parts of an assembled tensor share its buffer, so that the calls
that compute them write there. A walk over the function, from its end, assigns each part of an
assembled tensor its rectangle, unless a later op has assigned it another place. A value that would
need two places must be copied (`Conflict`), which ``te-insert-copies`` does. XLA's buffer
assignment solves the same problem; One-Shot Bufferize of MLIR also analyses functions from their
ends.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

from xdsl.ir import Block, Operation, SSAValue

from .attributes import shaped
from .compute import CallOp
from .view import ViewOp
from .windows import AssembleOp, WindowOp


@dataclass(frozen=True, slots=True)
class StridedView:
    """A part of a buffer: the element at index i is at ``offset + sum(i * strides)``, in elements.

    buffer: the value whose buffer it is.
    """

    buffer: SSAValue
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @staticmethod
    def whole(value: SSAValue) -> "StridedView":
        """All of the buffer of a value, in row-major order."""
        shape = _shape_of(value)
        return StridedView(value, 0, shape, row_major(shape))

    def window(self, starts: Sequence[int], shape: Sequence[int]) -> "StridedView":
        """The rectangle of that shape that starts at an index."""
        offset = sum(start * by for start, by in zip(starts, self.strides, strict=True))
        return StridedView(self.buffer, self.offset + offset, tuple(shape), self.strides)

    def around(self, starts: Sequence[int], shape: Sequence[int]) -> "StridedView":
        """The tensor of that shape of which this is the rectangle that starts at an index."""
        offset = sum(start * by for start, by in zip(starts, self.strides, strict=True))
        return StridedView(self.buffer, self.offset - offset, tuple(shape), self.strides)

    def reshaped(self, shape: Sequence[int]) -> "StridedView | None":
        """A place of the same elements in another shape; None if no strides express that shape."""
        strides = _reshape_strides(self.shape, self.strides, shape)
        if strides is None:
            return None
        return StridedView(self.buffer, self.offset, tuple(shape), strides)

    def is_same(self, other: "StridedView") -> bool:
        """Whether both have the same elements at the same indices."""
        return (
            (self.buffer, self.offset, self.shape) == (other.buffer, other.offset, other.shape)
            and all(
                a == b or extent == 1
                for a, b, extent in zip(self.strides, other.strides, self.shape, strict=True)
            )
        )  # fmt: skip


class Conflict(NamedTuple):
    """An operand that must be copied first, because its value cannot lie where the op needs it."""

    op: Operation
    operand: int
    reason: str


class BufferAssignment:
    """The buffers of all values in the block of a function. conflicts: operands to be copied."""

    def __init__(self, block: Block):
        self._views: dict[SSAValue, StridedView] = {}
        self.conflicts: list[Conflict] = []
        ops = list(block.ops)
        last = block.last_op
        results = () if last is None else tuple(last.operands)
        for value in map(_behind_views, results):
            if isinstance(value.owner, CallOp | AssembleOp):
                self._views.setdefault(value, StridedView.whole(value))
        for op in reversed(ops):
            if isinstance(op, AssembleOp):
                self._assemble(op)
        for op in ops:
            self._check(op)
        if last is not None:
            self._check_results(last, results)

    def __getitem__(self, value: SSAValue) -> StridedView:
        """The place of a value. Raises `KeyError` for a view whose operand must be copied."""
        found = self._find(value)
        if found is None:
            raise KeyError(value)
        return found

    def _find(self, value: SSAValue) -> StridedView | None:
        if value in self._views:
            return self._views[value]
        match value.owner:
            case ViewOp(x=x, result=result):
                operand = self._find(x)
                found = None if operand is None else operand.reshaped(_shape_of(result))
            case WindowOp(x=x, box=box):
                operand = self._find(x)
                starts, shape = [start for start, _ in box], [length for _, length in box]
                found = None if operand is None else operand.window(starts, shape)
            case _:
                found = StridedView.whole(value)
        if found is not None:
            self._views[value] = found
        return found

    def _assemble(self, op: AssembleOp) -> None:
        """Assign the parts their places in the assembled tensor, unless they have others."""
        starts = [[start for start, _ in box] for box in op.boxes]
        whole = self._views.get(op.result) or self._assembled_already(op, starts)
        whole = whole or StridedView.whole(op.result)
        self._views[op.result] = whole
        for part, at in zip(op.parts, starts, strict=True):
            self._ask(part, whole.window(at, _shape_of(part)))

    def _assembled_already(
        self, op: AssembleOp, starts: Iterable[Sequence[int]]
    ) -> StridedView | None:
        """The place of the tensor, if its parts already lie side by side in a larger tensor."""
        found: StridedView | None = None
        for part, at in zip(op.parts, starts, strict=True):
            known = self._known(part)
            if known is None:
                return None
            if found is None:
                found = known.around(at, _shape_of(op.result))
            if not found.window(at, _shape_of(part)).is_same(known):
                return None
        return found

    def _known(self, value: SSAValue) -> StridedView | None:
        """The place of a value, if it has been decided."""
        if isinstance(value.owner, ViewOp):
            operand = self._known(value.owner.x)
            return None if operand is None else operand.reshaped(_shape_of(value))
        return self._views.get(value)

    def _ask(self, value: SSAValue, place: StridedView) -> None:
        """Assign a value a place, unless it has one. `_check` compares the two."""
        while isinstance(value.owner, ViewOp):
            value = value.owner.x
            inner = place.reshaped(_shape_of(value))
            if inner is None:
                return
            place = inner
        if isinstance(value.owner, CallOp | AssembleOp):
            self._views.setdefault(value, place)

    def _check(self, op: Operation) -> None:
        if isinstance(op, ViewOp):
            if self._find(op.x) is not None and self._find(op.result) is None:
                reason = f"the elements of {op.x.type} lie apart, so they are no {op.result.type}"
                self.conflicts.append(Conflict(op, 0, reason))
        elif isinstance(op, AssembleOp):
            for number, (part, box) in enumerate(zip(op.parts, op.boxes, strict=True)):
                found = self._find(part)
                wanted = self[op.result].window([start for start, _ in box], _shape_of(part))
                if found is not None and not found.is_same(wanted):
                    reason = f"part {number} of an assembled tensor has to lie elsewhere, too"
                    self.conflicts.append(Conflict(op, number, reason))

    def _check_results(self, last: Operation, results: Sequence[SSAValue]) -> None:
        """Find results that are not computed, or that have no buffer of their own."""
        seen = set[SSAValue]()
        for number, value in enumerate(map(_behind_views, results)):
            if not isinstance(value.owner, CallOp | AssembleOp) or value in seen:
                reason = f"result {number} has no buffer of its own"
                self.conflicts.append(Conflict(last, number, reason))
            seen.add(value)


def _behind_views(value: SSAValue) -> SSAValue:
    while isinstance(value.owner, ViewOp):
        value = value.owner.x
    return value


def _shape_of(value: SSAValue) -> tuple[int, ...]:
    return tuple(shaped(value).get_shape())


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of a dense array."""
    return tuple(prod(shape[dim + 1 :]) for dim in range(len(shape)))


def _reshape_strides(
    before: Sequence[int], strides: Sequence[int], after: Sequence[int]
) -> tuple[int, ...] | None:
    """Strides of the same elements in another shape; None if no strides express it.

    Both shapes have the same number of elements, at least one. From the last dimension on,
    contiguous dimensions are merged until an extent of the new shape divides them, then split.
    """
    rest = [(size, by) for size, by in zip(before, strides, strict=True) if size > 1]
    found: list[int] = []
    step = 1
    for size in reversed(after):
        if size == 1:
            found.append(step)
            continue
        if not rest:
            return None
        extent, by = rest.pop()
        while extent % size:
            if not rest or rest[-1][1] != extent * by:
                return None
            extent *= rest.pop()[0]
        found.append(by)
        step = size * by
        if extent > size:
            rest.append((extent // size, step))
    return tuple(reversed(found))
