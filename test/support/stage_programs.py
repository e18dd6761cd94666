"""Random programs of the dialect vta: stages of tiles that load, multiply and store."""

import random
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import NameLoc, NoneAttr, StringAttr, SymbolRefAttr, UnitAttr
from xdsl.ir import Block, Operation, Region

from vtac.dialects.target import Memory, Target
from vtac.dialects.vta import (
    AllocOp,
    AluOp,
    AluOpcodeAttr,
    BufferKind,
    BufferOp,
    FinishOp,
    GemmOp,
    LoadOp,
    MicroOps,
    ProgramOp,
    StoreOp,
    integer,
    integers,
    memory_attr,
)
from vtac.dialects.vta.encoding import AluOpcode
from vtac.dialects.vta.program import BinaryProgram

DRAM_ELEMENTS = 40
"""Accumulator elements that each DRAM buffer of a random program could hold."""


class Programs:
    """Random programs: stages that load, multiply, and store tiles from buffer to buffer."""

    def __init__(self, rng: random.Random, target: Target):
        self.rng = rng
        self.target = target
        self.sites = 0
        kinds = [BufferKind.INPUT, BufferKind.SCRATCH, BufferKind.SCRATCH, BufferKind.OUTPUT]
        self.bytes = DRAM_ELEMENTS * target.element_bytes(Memory.ACC)
        align = max(256, *(target.element_bytes(memory) for memory in Memory))
        self.size = -(-self.bytes // align) * align
        self.buffers = [
            BufferOp(f"d{i}", kind, self.size, align, None if kind is BufferKind.SCRATCH else 0)
            for i, kind in enumerate(kinds)
        ]

    def program(self) -> ProgramOp:
        ops: list[Operation] = []
        for stage in range(self.rng.randint(1, 4)):
            ops += self.stage(stage)
        body = Region(Block([*self.buffers, *ops, FinishOp.create()]))
        return ProgramOp("p", self.target, body)

    def stage(self, number: int) -> list[Operation]:
        rng = self.rng
        slots = rng.randint(1, 2)
        sizes = {
            Memory.INP: rng.randint(1, 9),
            Memory.WGT: rng.randint(1, 4),
            Memory.ACC: rng.randint(1, 9),
        }
        sites = {memory: self.sites + i for i, memory in enumerate(sizes)}
        self.sites += len(sites)
        location = NameLoc(StringAttr(f"stage{number}"), NoneAttr())

        def alloc(memory: Memory) -> AllocOp:
            return AllocOp.of(memory, sites[memory], slots, sizes[memory])

        tiles = [self.tile(alloc) for _ in range(rng.randint(1, 5))]
        ops: list[Operation] = []
        while tiles:
            pair = [tiles.pop(0) for _ in range(min(slots, len(tiles)))]
            while any(pair):
                ops.append(rng.choice([tile for tile in pair if tile]).pop(0))
        for op in ops:
            op.location = location
        return ops

    def tile(self, alloc) -> list[Operation]:  # type: ignore[no-untyped-def]
        rng = self.rng
        acc, inp, wgt = (alloc(memory) for memory in (Memory.ACC, Memory.INP, Memory.WGT))
        ops: list[Operation] = [acc, self.compute(GemmOp, [acc], {"reset": UnitAttr()}, every=True)]
        if rng.random() < 0.3:
            ops.append(self.load(Memory.ACC, acc))
        ops += [inp, self.load(Memory.INP, inp), wgt, self.load(Memory.WGT, wgt)]
        for _ in range(rng.randint(1, 2)):
            ops.append(self.compute(GemmOp, [acc, inp, wgt], {}))
        properties = {"operation": AluOpcodeAttr(AluOpcode.SHR), "imm": integer(rng.randint(0, 8))}
        ops.append(self.compute(AluOp, [acc], properties, every=True))
        ops += [self.store(acc) for _ in range(rng.randint(1, 2))]
        return ops

    def compute(  # type: ignore[no-untyped-def]
        self, kind, allocs: list[AllocOp], properties, every: bool = False
    ) -> Operation:
        """Micro-ops and loops that stay inside the buffers; all accumulators if `every`."""
        rng = self.rng
        sizes = [op.size.value.data for op in allocs]
        loops = (rng.randint(1, 3), rng.randint(1, 3))
        steps = [tuple(rng.randint(0, 1) for _ in loops) for _ in sizes]
        reach = [sum((n - 1) * by for n, by in zip(loops, step, strict=True)) for step in steps]
        if every or any(r >= size for r, size in zip(reach, sizes, strict=True)):
            loops, steps, reach = (1, 1), [(0, 0)] * len(sizes), [0] * len(sizes)
        count = sizes[0] if every else rng.randint(1, 5)
        rows = np.zeros((count, 3), int)
        for column, (size, over) in enumerate(zip(sizes, reach, strict=True)):
            rows[:, column] = [rng.randrange(size - over) for _ in range(count)]
        if every:
            rows[:, 0] = np.arange(count)
        if kind is AluOp:
            rows[:, 1] = rows[:, 0]
        factors = {
            name: integers(*step) for name, step in zip(("dst", "src", "wgt"), steps, strict=False)
        }
        return kind.create(
            operands=[op.buffer for op in allocs],
            properties={
                **properties,
                **factors,
                "micro_ops": MicroOps.of(rows),
                "loops": integers(*loops),
            },
        )

    def load(self, memory: Memory, alloc: AllocOp) -> Operation:
        properties = self.transfer(memory, alloc, self.rng.choice(self.buffers), whole=True)
        return LoadOp.create(
            operands=[alloc.buffer], properties={**properties, "memory": memory_attr(memory)}
        )

    def store(self, alloc: AllocOp) -> Operation:
        properties = self.transfer(Memory.OUT, alloc, self.rng.choice(self.buffers[1:]), False)
        return StoreOp.create(operands=[alloc.buffer], properties=properties)

    def transfer(self, memory, alloc, buffer, whole: bool):  # type: ignore[no-untyped-def]
        rng = self.rng
        size = alloc.size.value.data
        held = self.size // self.target.element_bytes(memory)
        y = rng.choice([n for n in range(1, size + 1) if size % n == 0])
        x = size // y
        if not whole:
            x = rng.randint(1, x)
            y = rng.randint(1, y)
        stride = x + rng.randint(0, 2)
        if (y - 1) * stride + x > held:
            y, x, stride = 1, min(x * y, held), min(x * y, held)
        assert not whole or x * y == size
        return {
            "sram_base": integer(0 if whole else rng.randint(0, size - x * y)),
            "buffer": SymbolRefAttr(buffer.sym_name),
            "dram_base": integer(rng.randint(0, held - ((y - 1) * stride + x))),
            "size": integers(y, x),
            "stride": integer(stride),
        }


Bytes = NDArray[np.uint8]


def placed(
    binary: BinaryProgram, dram: Mapping[str, Bytes]
) -> tuple[Mapping[str, int], NDArray[np.uint64], Bytes]:
    """The address of each buffer, the words with these, and the image that they run on."""
    addresses = binary.place()
    image = np.zeros(max(addresses[b.name] + b.size for b in binary.buffers), np.uint8)
    for buffer in binary.buffers:
        data = dram.get(buffer.name, np.frombuffer(buffer.data or bytes(buffer.size), np.uint8))
        image[addresses[buffer.name] :][: buffer.size] = data
    return addresses, binary.relocate(addresses), image
