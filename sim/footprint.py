"""Computes what each instruction of a program touches: elements of buffers and bytes of DRAM.

Which elements a GEMM or an ALU touches depends on its micro-ops, and those on the LOAD UOP before
it, so the micro-op buffer is followed through the program. What a single module reaches is in
order, as that buffer and ACC are in VTA; what remains are the memories that modules share on chip
(`System.shared`), and DRAM.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from ..dialects.target import Memory, Target
from ..dialects.vta.encoding import (
    Alu,
    Compute,
    Instruction,
    Load,
    Store,
    Transfer,
)
from .elements import (
    Elements,
    Indices,
    Loop,
    Loops,
    columns_of,
    decode_kernel,
    loops_of,
    touched,
    verify_ranges,
)
from .errors import Fault
from .large import adjacent

DRAM: Final = "DRAM"

Space = Memory | Literal["DRAM"]
"""Memory that more than one module reaches."""


def units_of(space: Space) -> str:
    """What a range of a space counts, for messages."""
    return f"{space.name} elements" if isinstance(space, Memory) else "DRAM bytes"


Touch = tuple[Space, Elements, bool]
"""The space, the elements (of DRAM: granules of the map), and whether they are written."""

_BLOCK_BITS = 12


class DramMap:
    """The part of DRAM that stores reach, as a dense range of granules.

    Only a store writes DRAM, so only bytes that some store reaches can be raced for. Blocks of
    granules that no store reaches are left out; a granule is the largest size that all accesses
    are multiples of.
    """

    def __init__(self, target: Target, program: Sequence[Instruction]) -> None:
        self._units = {memory: target.element_bytes(memory) for memory in Memory}
        stores = [x for x in program if isinstance(x, Store) and x.x_size and x.y_size]
        system = target.system
        granule = min(self._units[m] for m in (*system.buffered, system.results))
        self._place(stores, granule)
        micro_ops = [x for x in program if isinstance(x, Load) and x.memory is system.micro_ops]
        reached = any(self._reached(*self._blocks(load)) for load in micro_ops)
        if self.granule > 4 and (reached or not all(map(self._is_whole, stores))):
            self._place(stores, 4)

    def _place(self, stores: Sequence[Store], granule: int) -> None:
        self.granule = granule
        blocks = [self._blocks(store) for store in stores]
        end = 1 + max((last for _, last in blocks), default=0)
        stored = np.zeros(end, bool)
        for first, last in blocks:
            stored[first : last + 1] = True
        before = np.concatenate([[0], np.cumsum(stored)])
        self._before: list[int] = before.tolist()
        self._starts: Indices = before << _BLOCK_BITS
        self._stored = stored
        self._where = np.flatnonzero(stored)

    def _is_whole(self, store: Store) -> bool:
        """Whether a store covers whole granules."""
        unit = self._units[store.memory]
        sizes = (store.dram_base, store.x_size, store.x_stride if store.y_size > 1 else 0)
        return not any(size * unit % self.granule for size in sizes)

    @property
    def size(self) -> int:
        """Granules of the map."""
        return len(self._where) << _BLOCK_BITS

    def _rows(self, transfer: Transfer) -> tuple[int, int, int, int]:
        """First granule, rows, granules per row, granules from row to row."""
        unit = self._units[transfer.memory]
        rows, width, stride = transfer.y_size, transfer.x_size, transfer.x_stride
        if stride == width or rows == 1:
            rows, width, stride = 1, rows * width, 0
        start, granule = transfer.dram_base * unit, self.granule
        covered = -(-(start % granule + width * unit) // granule)
        return start // granule, rows, covered, stride * unit // granule

    def _blocks(self, transfer: Transfer) -> tuple[int, int]:
        first, rows, width, stride = self._rows(transfer)
        return first >> _BLOCK_BITS, (first + (rows - 1) * stride + width - 1) >> _BLOCK_BITS

    def _reached(self, first: int, last: int) -> int:
        """How many of these blocks stores reach."""
        end = len(self._stored)
        return self._before[min(last + 1, end)] - self._before[min(first, end)]

    def elements(self, transfer: Transfer) -> Elements | None:
        """The granules of a transfer that stores reach too, or None if there are none."""
        if not transfer.x_size or not transfer.y_size:
            return None
        low, high = self._blocks(transfer)
        reached = self._reached(low, high)
        if not reached:
            return None
        first, rows, width, stride = self._rows(transfer)
        if reached == high + 1 - low and rows == 1:
            start = int(self._starts[low]) + (first & ((1 << _BLOCK_BITS) - 1))
            return slice(start, start + width)
        granules = (first + np.arange(rows)[:, None] * stride + np.arange(width)).reshape(-1)
        blocks = granules >> _BLOCK_BITS
        kept = blocks < len(self._stored)
        kept[kept] = self._stored[blocks[kept]]
        granules, blocks = granules[kept], blocks[kept]
        places: Indices = self._starts[blocks] + (granules & ((1 << _BLOCK_BITS) - 1))
        return places

    def address(self, granule: int) -> int:
        """The first byte of a granule of the map."""
        block = int(self._where[granule >> _BLOCK_BITS])
        return ((block << _BLOCK_BITS) + (granule & ((1 << _BLOCK_BITS) - 1))) * self.granule


class Footprints:
    """Follows the micro-op buffer through a program and says what each instruction touches.

    Instructions of compute must be asked about in their order. Without a DRAM image the micro-ops
    are unknown: a GEMM or ALU then counts as touching whole buffers. `undefined` collects micro-ops
    that run although no LOAD has written them; they count as zeros.
    """

    def __init__(self, target: Target, dram: NDArray[np.uint8] | None, places: DramMap) -> None:
        self._target, self._dram, self._places = target, dram, places
        self._system = target.system
        self._uop = np.zeros(target.uop_entries, np.uint32)
        self._loaded = bytearray(target.uop_entries)
        self.undefined: list[int] = []

    def touches(self, instruction: Instruction) -> Iterator[Touch]:
        """The elements that an instruction touches. Raises `Fault` on micro-ops that are wrong."""
        if isinstance(instruction, Load) and instruction.memory is self._system.micro_ops:
            self.follow(instruction)
        if isinstance(instruction, Transfer):
            yield from self._transfer(instruction, isinstance(instruction, Store))
        elif isinstance(instruction, Compute) and instruction.micro_ops:
            shared = self._system.shared
            yield from (touch for touch in self._compute(instruction) if touch[0] in shared)

    def _transfer(self, transfer: Transfer, stores: bool) -> Iterator[Touch]:
        space = self._system.place_of(transfer.memory)
        if space in self._system.shared and transfer.sram_size:
            span = slice(transfer.sram_base, transfer.sram_base + transfer.sram_size)
            yield space, span, not stores
        if (elements := self._places.elements(transfer)) is not None:
            yield DRAM, elements, stores

    def follow(self, load: Load) -> None:
        """Put the micro-ops of a LOAD UOP into the buffer."""
        if self._dram is None or load.sram_size == 0 or load.y_size == 0:
            return
        rectangle = np.zeros(
            (load.y_pad_0 + load.y_size + load.y_pad_1, load.sram_width), np.uint32
        )
        for row in range(load.y_size):
            first = (load.dram_base + row * load.x_stride) * 4
            words = self._dram[first : first + load.x_size * 4].view(np.uint32)
            rectangle[load.y_pad_0 + row, load.x_pad_0 : load.x_pad_0 + load.x_size] = words
        span = slice(load.sram_base, load.sram_base + rectangle.size)
        self._uop[span] = rectangle.reshape(-1)
        self._loaded[span] = b"\1" * rectangle.size

    def _compute(self, compute: Compute) -> Iterator[Touch]:
        if self._dram is None:
            for memory in (Memory.ACC, Memory.OUT, Memory.INP, Memory.WGT):
                everything = slice(0, self._target.depth(memory))
                yield memory, everything, memory in (Memory.ACC, Memory.OUT)
            return
        yield Memory.UOP, slice(compute.uop_bgn, compute.uop_end), False
        elements = self.operands(compute)
        yield Memory.ACC, elements[0], True
        if not compute.reset:
            yield Memory.OUT, elements[0], True
            read = (Memory.ACC,) if isinstance(compute, Alu) else (Memory.INP, Memory.WGT)
            for memory, found in zip(read, elements[1:], strict=False):
                yield memory, found, False

    def operands(self, compute: Compute) -> tuple[Elements, ...]:
        """The elements of each index of the micro-ops that an instruction runs, dst first.

        Raises `Fault` on micro-ops that are wrong.
        """
        target, alu = self._target, isinstance(compute, Alu)
        first, last = compute.uop_bgn, compute.uop_end
        if (missing := self._loaded.find(b"\0", first, last)) >= 0:
            self.undefined.append(missing)
        kernel, loops = self._uop[first:last].tobytes(), loops_of(compute)
        elements = _elements(target, kernel, loops, columns_of(target, compute), alu)
        if isinstance(compute, Alu) and not target.alu_bypass:
            _verify_apart(target, kernel, loops, compute.use_imm)
        return elements


@lru_cache(maxsize=4096)
def _elements(
    target: Target, kernel: bytes, loops: Loops, columns: tuple[int, ...], alu: bool
) -> tuple[Elements, ...]:
    """The elements of each index that a kernel uses, all of them inside the buffers."""
    micro_ops, nest = decode_kernel(target, kernel), [Loop(*loop) for loop in loops]
    verify_ranges(target, micro_ops, nest, columns, alu)
    return tuple(
        _column(micro_ops[:, column], tuple((loop.count, loop.factors[column]) for loop in nest))
        for column in columns
    )


def _column(indices: Indices, steps: tuple[tuple[int, int], ...]) -> Elements:
    """The elements that one index of a kernel uses, computed once for kernels that differ by an
    offset."""
    first = int(indices[0])
    elements = _from_zero((indices - first).tobytes(), steps)
    if isinstance(elements, slice):
        return slice(elements.start + first, elements.stop + first)
    return elements + first


@lru_cache(maxsize=4096)
def _from_zero(indices: bytes, steps: tuple[tuple[int, int], ...]) -> Elements:
    """The elements of indices that begin with 0; those before it are negative."""
    micro_ops = np.frombuffer(indices, np.intp)[:, None]
    return touched(micro_ops, [Loop(count, by, 0, 0) for count, by in steps], 0)


@lru_cache(maxsize=4096)
def _verify_apart(target: Target, kernel: bytes, loops: Loops, use_imm: bool) -> None:
    """Raise `Fault` where an ALU micro-op depends on the one just before it."""
    reads_src = target.alu_imm_src or not use_imm
    micro_ops = decode_kernel(target, kernel)[:, : 1 + reads_src]
    if adjacent(micro_ops, [Loop(*loop) for loop in loops], immediate=use_imm):
        raise Fault("a micro-op depends on the one before it (no alu_bypass)")
