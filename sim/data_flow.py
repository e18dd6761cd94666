"""Which instructions of a program read what which others have written (flow dependences).

Whatever order instructions take, and wherever their data lies, who reads a value follows who made
it. Orders that come from places (a place is written anew only when its readers are done) are left
out, as are those of the modules' queues.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..dialects.target import Memory, Target
from ..dialects.vta.encoding import Alu, Compute, Instruction, Load, Store, Transfer
from .elements import Elements
from .footprint import DRAM, DramMap, Footprints, Space

_NOBODY: Final = -1


def producers(
    target: Target, program: Sequence[Instruction], dram: NDArray[np.uint8]
) -> list[tuple[int, ...]]:
    """For each instruction those that wrote last what it reads, by number, in order.

    dram: the image before the program runs, with its micro-ops. The program has no hazards, so the
    last write in program order is the one that is read. Raises `Fault` on micro-ops that are wrong.
    """
    places = DramMap(target, program)
    footprints = Footprints(target, dram, places)
    writer: dict[Space, NDArray[np.int64]] = {
        memory: np.full(target.depth(memory), _NOBODY, np.int64) for memory in Memory
    }
    writer[DRAM] = np.full(places.size, _NOBODY, np.int64)
    found = []
    for index, instruction in enumerate(program):
        reads, writes = _accesses(target, instruction, footprints, places)
        sources = [np.unique(writer[space][elements]) for space, elements in reads]
        every = np.unique(np.concatenate(sources)) if sources else np.zeros(0, np.int64)
        found.append(tuple(every[every != _NOBODY].tolist()))
        for space, elements in writes:
            writer[space][elements] = index
    return found


Accesses = list[tuple[Space, Elements]]


def _accesses(
    target: Target, instruction: Instruction, footprints: Footprints, places: DramMap
) -> tuple[Accesses, Accesses]:
    """What an instruction reads and what it writes."""
    if isinstance(instruction, Transfer) and instruction.x_size and instruction.y_size:
        span = slice(instruction.sram_base, instruction.sram_base + instruction.sram_size)
        here: Accesses = [(target.system.place_of(instruction.memory), span)]
        elements = places.elements(instruction)
        there: Accesses = [] if elements is None else [(DRAM, elements)]
        if isinstance(instruction, Store):
            return here, there
        assert isinstance(instruction, Load)
        if instruction.memory is target.system.micro_ops:
            footprints.follow(instruction)
        return there, here
    if isinstance(instruction, Compute) and instruction.micro_ops:
        reads: Accesses = [(Memory.UOP, slice(instruction.uop_bgn, instruction.uop_end))]
        results, *operands = footprints.operands(instruction)
        reads += _operands(instruction, results, operands)
        # A reset does not reach OUT.
        memories = (Memory.ACC,) if instruction.reset else (Memory.ACC, Memory.OUT)
        return reads, [(memory, results) for memory in memories]
    return [], []


def _operands(
    compute: Compute, results: Elements, operands: Sequence[Elements]
) -> Iterator[tuple[Memory, Elements]]:
    """The elements that a GEMM or an ALU reads. An immediate with a source reads that alone."""
    if isinstance(compute, Alu):
        yield from ((Memory.ACC, elements) for elements in operands)
        if not (compute.use_imm and operands):
            yield Memory.ACC, results
    elif not compute.reset:
        yield Memory.ACC, results
        yield from zip((Memory.INP, Memory.WGT), operands, strict=True)
