"""Storage of an accelerator function's tensors: DRAM buffers, and windows in SRAM."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from xdsl.dialects.builtin import IntegerType, MemRefType, TensorType
from xdsl.ir import Attribute, SSAValue

from vtac.dialects import te, vta
from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.intervals import Interval
from vtac.dialects.target import Memory, Target

from .sink import Buffer
from .transfers import Box, row_major

MEMORIES = {te.Scope.INP: Memory.INP, te.Scope.WGT: Memory.WGT, te.Scope.ACC: Memory.ACC}


class Dram(NamedTuple):
    """A tensor in a buffer of the program; shape without lanes.

    offset, strides: the place of its elements, in elements of the hardware. packed: for a tensor
    that is stored box by box instead, the boxes and their places.
    """

    name: str
    shape: tuple[int, ...]
    offset: int
    strides: tuple[int, ...]
    packed: Mapping[te.Box, int] | None = None

    @staticmethod
    def dense(name: str, shape: tuple[int, ...]) -> "Dram":
        """A tensor that fills its buffer in row-major order."""
        return Dram(name, shape, 0, row_major(shape))


class Sram(NamedTuple):
    """A buffer in a scratchpad that holds a window of a tensor.

    buffer: what the sink calls it. shape, window: of the tensor and of what is held, without lanes.
    order: the dimensions from the outermost to the innermost; None where that is their own order.
    """

    buffer: Buffer
    memory: Memory
    shape: tuple[int, ...]
    window: Box
    order: tuple[int, ...] | None = None

    @property
    def elements(self) -> int:
        """Hardware elements in the window."""
        return math.prod([length for _, length in self.window])


def shape_of(type: Attribute) -> tuple[int, ...]:
    """The shape of a tensor or buffer."""
    assert isinstance(type, TensorType | MemRefType)
    return tuple(type.get_shape())


def bytes_of(type: Attribute) -> int:
    """Bytes of a dense tensor."""
    assert isinstance(type, TensorType | MemRefType)
    assert isinstance(type.element_type, IntegerType)
    width: int = type.element_type.width.data
    return math.prod(type.get_shape()) * (width // 8)


@dataclass
class _Declared:
    kind: vta.BufferKind
    size: int
    index: int | None = None
    value: Attribute | None = None
    live: tuple[int, int] | None = None
    place: tuple[str, int] | None = None


@dataclass
class DramBuffers:
    """The DRAM buffers of one program, by name; ``vta-place-scratch`` lets scratch share bytes."""

    target: Target
    _declared: dict[str, _Declared] = field(default_factory=dict)
    _constants: dict[Attribute, str] = field(default_factory=dict)

    @property
    def align(self) -> int:
        """The alignment of buffers in bytes, a multiple of every element size that transfers count
        in."""
        return max(256, *(self.target.element_bytes(memory) for memory in Memory))

    def _align(self, declared: _Declared) -> int:
        """The alignment of a buffer; where it has a place, that of its offset if this is less."""
        offset = 0 if declared.place is None else declared.place[1]
        return min(self.align, offset & -offset) if offset else self.align

    def add(self, hint: str, kind: vta.BufferKind, size: int, index: int | None = None) -> str:
        """Declare a buffer under a name made from a hint."""
        return self._add(hint, _Declared(kind, size, index))

    def constant(self, hint: str, value: Attribute, size: int) -> str:
        """The buffer of a constant; equal ones share it."""
        if value not in self._constants:
            declared = _Declared(vta.BufferKind.CONSTANT, size, value=value)
            self._constants[value] = self._add(hint, declared)
        return self._constants[value]

    def scratch(
        self, size: int, live: tuple[int, int], place: tuple[str, int] | None = None
    ) -> str:
        """A buffer for an intermediate. live: the first and the last step at which it is used.

        place: its memory and offset there in bytes, if they are decided.
        """
        declared = _Declared(vta.BufferKind.SCRATCH, size, live=live, place=place)
        return self._add("scratch", declared)

    def _add(self, hint: str, declared: _Declared) -> str:
        base = "".join(c if c.isalnum() else "_" for c in hint) or "buffer"
        name, number = base, 0
        while name in self._declared:
            number += 1
            name = f"{base}_{number}"
        self._declared[name] = declared
        return name

    def spill(self, room: int) -> None:
        """Take their places from buffers that leave `room` bytes, or meet another one there.

        A plan is made before kernels are formed and rewritten. A kernel may read an operand while
        it writes a result that the plan puts in its place, and copies may be inserted.
        """
        kept: list[Interval] = []
        for declared in self._declared.values():
            if declared.place is None or declared.live is None:
                continue
            start = declared.place[1]
            taken = Interval(start, start + declared.size, *declared.live)
            if taken.end > room or any(taken.meets(other) for other in kept):
                declared.place = None
            else:
                kept.append(taken)

    def declarations(self) -> list[vta.BufferOp]:
        """The operations: inputs, outputs, constants, scratch."""
        order = list(vta.BufferKind)
        items = sorted(self._declared.items(), key=lambda item: order.index(item[1].kind))
        return [
            vta.BufferOp(
                name, d.kind, d.size, self._align(d), d.index, d.value, place=d.place, live=d.live
            )
            for name, d in items
        ]


def outer_shape(type: Attribute, where: str) -> tuple[int, ...]:
    """The shape before the lanes."""
    shape = shape_of(type)
    if len(shape) < te.LANES:
        raise CompileError(
            Problem(where, f"{type} has no lanes: expected at least {te.LANES} dims")
        )
    return shape[: -te.LANES]


def packed_boxes(type: Attribute, where: str) -> dict[te.Box, int] | None:
    """The boxes of a packed buffer and their places, without lanes, which each must hold whole."""
    layout = te.packing_of(type)
    if layout is None:
        return None
    shape = shape_of(type)
    lanes = shape[-te.LANES :]
    whole = tuple((0, size) for size in lanes)
    boxes = layout.offsets(shape)
    if any(box[-te.LANES :] != whole for box in boxes):
        raise CompileError(Problem(where, f"the boxes of {type} cut the lanes {list(lanes)}"))
    return {box[: -te.LANES]: place // math.prod(lanes) for box, place in boxes.items()}


def lanes_of(memory: Memory, target: Target) -> tuple[int, int]:
    """The shape of one element of a memory."""
    return (target.block if memory is Memory.WGT else target.batch), target.block


def clamp(window: Iterable[tuple[int, int]], shape: Sequence[int]) -> Box:
    """The part of a window inside the tensor."""
    parts = []
    for (start, length), size in zip(window, shape, strict=True):
        if start < 0 or start + length > size:
            first, end = max(start, 0), min(start + length, size)
            start, length = first, end - first
        parts.append((start, length if length > 0 else 0))
    return tuple(parts)


def name_of(value: SSAValue, otherwise: str) -> str:
    """A name for a value's buffer."""
    return value.name_hint or otherwise
