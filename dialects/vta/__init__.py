"""The ISA of VTA: one operation per instruction, its encoding and its assembly."""

from xdsl.ir import Dialect

from .attributes import (
    AluOpcodeAttr,
    BufferKind,
    BufferKindAttr,
    MemoryAttr,
    MicroOps,
    SramType,
    integer,
    integers,
    memory_attr,
    numbers,
    sram_type,
    symbol,
)
from .compute import AluOp, ComputeOp, GemmOp
from .instructions import (
    TOKENS,
    FinishOp,
    InstructionOp,
    LoadOp,
    StoreOp,
    TransferOp,
)
from .ops import AllocOp, BufferOp, KernelOp, LaunchOp, ProgramOp

Vta = Dialect(
    "vta",
    [LaunchOp, ProgramOp, BufferOp, KernelOp, AllocOp, LoadOp, StoreOp, GemmOp, AluOp, FinishOp],
    [MemoryAttr, AluOpcodeAttr, BufferKindAttr, SramType, MicroOps],
)

__all__ = [
    "TOKENS",
    "AllocOp",
    "AluOp",
    "AluOpcodeAttr",
    "BufferKind",
    "BufferKindAttr",
    "BufferOp",
    "ComputeOp",
    "FinishOp",
    "GemmOp",
    "InstructionOp",
    "KernelOp",
    "LaunchOp",
    "LoadOp",
    "MemoryAttr",
    "MicroOps",
    "ProgramOp",
    "SramType",
    "StoreOp",
    "TransferOp",
    "Vta",
    "integer",
    "integers",
    "memory_attr",
    "numbers",
    "sram_type",
    "symbol",
]
