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
from .cluster import (
    ClusterOp,
    CopyOp,
    CoreOp,
    DmaOp,
    SignalOp,
    StepOp,
    WaitOp,
    semaphore_buffer,
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
from .ops import AllocOp, BufferOp, KernelOp, LaunchOp, ProgramOp, StreamOp
from .streams import streams_of, works_alone

Vta = Dialect(
    "vta",
    [
        LaunchOp,
        ProgramOp,
        ClusterOp,
        CoreOp,
        DmaOp,
        BufferOp,
        KernelOp,
        AllocOp,
        StepOp,
        LoadOp,
        StoreOp,
        GemmOp,
        AluOp,
        FinishOp,
        CopyOp,
        WaitOp,
        SignalOp,
    ],
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
    "ClusterOp",
    "ComputeOp",
    "CopyOp",
    "CoreOp",
    "DmaOp",
    "FinishOp",
    "GemmOp",
    "InstructionOp",
    "KernelOp",
    "LaunchOp",
    "LoadOp",
    "MemoryAttr",
    "MicroOps",
    "ProgramOp",
    "SignalOp",
    "SramType",
    "StepOp",
    "StoreOp",
    "StreamOp",
    "TransferOp",
    "Vta",
    "WaitOp",
    "integer",
    "integers",
    "memory_attr",
    "numbers",
    "semaphore_buffer",
    "sram_type",
    "streams_of",
    "symbol",
    "works_alone",
]
