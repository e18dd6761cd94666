"""What a vta program before allocation means: its instructions in the order of the text.

Every SRAM buffer is an array of its own, tokens do not exist, DRAM buffers are arrays of bytes.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import SSAValue

from vtac.dialects.target import Memory, Target
from vtac.dialects.vta import (
    AllocOp,
    AluOp,
    ComputeOp,
    GemmOp,
    LoadOp,
    ProgramOp,
    StoreOp,
    TransferOp,
)
from vtac.dialects.vta.encoding import AluOpcode

Bytes = NDArray[np.uint8]
Array = NDArray[np.generic]


def evaluate(program: ProgramOp, dram: Mapping[str, Bytes]) -> dict[str, Bytes]:
    """The DRAM buffers after the program."""
    run = _Run(program.target, {name: data.copy() for name, data in dram.items()})
    for op in program.body.block.ops:
        if isinstance(op, AllocOp):
            run.allocate(op)
        elif isinstance(op, LoadOp):
            run.load(op)
        elif isinstance(op, StoreOp):
            run.store(op)
        elif isinstance(op, ComputeOp):
            run.compute(op)
    return run.dram


class _Run:
    def __init__(self, target: Target, dram: dict[str, Bytes]):
        self.target = target
        self.dram = dram
        self.sram: dict[SSAValue, Array] = {}

    def allocate(self, op: AllocOp) -> None:
        memory = op.buffer.type.memory.data  # type: ignore[attr-defined]
        lanes = self.target.block if memory is Memory.WGT else self.target.batch
        dtype = np.int32 if memory is Memory.ACC else np.int8
        self.sram[op.buffer] = np.zeros((op.size.value.data, lanes, self.target.block), dtype)

    def rows(self, op: TransferOp) -> NDArray[np.int64]:
        """The DRAM elements of a transfer, in the order in which SRAM holds them."""
        y, x = op.sizes
        start, stride = op.dram_base.value.data, op.stride.value.data
        return (start + np.arange(y)[:, None] * stride + np.arange(x)).ravel()

    def elements(self, op: TransferOp) -> Array:
        """The DRAM buffer of a transfer, an element per row."""
        assert op.buffer_name is not None
        size = self.target.element_bytes(op.memory_id)
        return self.dram[op.buffer_name].reshape(-1, size)

    def load(self, op: LoadOp) -> None:
        memory = self.sram[op.operands[0]]
        rows = self.elements(op)[self.rows(op)]
        start = op.sram_base.value.data
        memory[start : start + len(rows)] = (
            np.ascontiguousarray(rows).view(memory.dtype).reshape(-1, *memory.shape[1:])
        )

    def store(self, op: StoreOp) -> None:
        memory = self.sram[op.operands[0]].astype(np.int8)
        at = self.rows(op)
        start = op.sram_base.value.data
        part = memory[start : start + len(at)].reshape(len(at), -1)
        self.elements(op)[at] = part.view(np.uint8)

    def compute(self, op: ComputeOp) -> None:
        assert op.micro_ops is not None
        outer, inner = op.iterations
        factors = np.array(op.factors())
        for i in range(outer):
            for j in range(inner):
                for row in op.micro_ops.rows + factors[:, 0] * i + factors[:, 1] * j:
                    self.step(op, *row.tolist())

    def step(self, op: ComputeOp, dst: int, src: int, wgt: int) -> None:
        acc = self.sram[op.operands[0]]
        if isinstance(op, GemmOp):
            if op.reset is not None:
                acc[dst] = 0
                return
            left = self.sram[op.operands[1]][src].astype(np.int32)
            acc[dst] += left @ self.sram[op.operands[2]][wgt].astype(np.int32).T
            return
        assert isinstance(op, AluOp)
        other: Array | np.int32
        if op.imm is not None:
            other = np.int32(op.imm.value.data)
        else:
            other = self.sram[op.operands[-1]][src]
        acc[dst] = alu(op.operation.data, acc[dst], other)


def alu(operation: AluOpcode, a: Array, b: Array | np.int32) -> Array:
    """One ALU operation on one element."""
    if operation is AluOpcode.SHR:
        return np.where(b < 0, a << np.maximum(-b, 0), a >> np.maximum(b, 0))
    functions = {
        AluOpcode.MIN: np.minimum,
        AluOpcode.MAX: np.maximum,
        AluOpcode.ADD: np.add,
        AluOpcode.MUL: np.multiply,
    }
    return functions[operation](a, b)
