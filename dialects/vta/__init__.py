"""The ISA of VTA: one operation an instruction, its encoding and its assembly."""

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
    sram_type,
)
from .instructions import (
    TOKENS,
    AluOp,
    ComputeOp,
    FinishOp,
    GemmOp,
    InstructionOp,
    LoadOp,
    StoreOp,
    TransferOp,
)
from .ops import AllocOp, BufferOp, KernelOp, ProgramOp, layer_of

Vta = Dialect(
    "vta",
    [ProgramOp, BufferOp, KernelOp, AllocOp, LoadOp, StoreOp, GemmOp, AluOp, FinishOp],
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
    "layer_of",
    "memory_attr",
    "sram_type",
]
