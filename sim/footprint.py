"""Computes what each instruction of a program touches: elements of buffers and bytes of DRAM.

Which elements a GEMM or an ALU touches depends on its micro-ops, and those on the LOAD UOP before
it, so the micro-op buffer is followed through the program. That buffer and ACC belong to the
compute module alone; three spaces remain that modules share on chip, and DRAM.
"""

import enum
from collections.abc import Iterator, Sequence
from functools import lru_cache

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


class Space(enum.IntEnum):
    """Memory that more than one module reaches."""

    INP = 0
    WGT = 1
    OUT = 2
    DRAM = 3

    def __str__(self) -> str:
        return "DRAM bytes" if self is Space.DRAM else f"{self.name} elements"


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
        granule = min(self._units[m] for m in (Memory.OUT, Memory.INP, Memory.WGT, Memory.ACC))
        self._place(stores, granule)
        micro_ops = [x for x in program if isinstance(x, Load) and x.memory is Memory.UOP]
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
        self._uop = np.zeros(target.uop_entries, np.uint32)
        self._loaded = bytearray(target.uop_entries)
        self.undefined: list[int] = []

    def touches(self, instruction: Instruction) -> Iterator[Touch]:
        """The elements that an instruction touches. Raises `Fault` on micro-ops that are wrong."""
        match instruction:
            case Store():
                yield from self._transfer(instruction, Space.OUT, writes_dram=True)
            case Load(memory=Memory.UOP):
                self.follow(instruction)
                yield from self._transfer(instruction, None, writes_dram=False)
            case Load():
                space = {Memory.INP: Space.INP, Memory.WGT: Space.WGT}.get(instruction.memory)
                yield from self._transfer(instruction, space, writes_dram=False)
            case Compute():
                yield from self._compute(instruction)

    def _transfer(
        self, transfer: Transfer, space: Space | None, writes_dram: bool
    ) -> Iterator[Touch]:
        if space is not None and transfer.sram_size:
            span = slice(transfer.sram_base, transfer.sram_base + transfer.sram_size)
            yield space, span, not writes_dram
        if (elements := self._places.elements(transfer)) is not None:
            yield Space.DRAM, elements, writes_dram

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
        if compute.micro_ops == 0:
            return
        if self._dram is None:
            target = self._target
            yield Space.OUT, slice(0, target.acc_depth), True
            yield Space.INP, slice(0, target.inp_depth), False
            yield Space.WGT, slice(0, target.wgt_depth), False
            return
        elements = self.operands(compute)
        if compute.reset:
            return
        yield Space.OUT, elements[0], True
        if not isinstance(compute, Alu):
            yield Space.INP, elements[1], False
            yield Space.WGT, elements[2], False

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
