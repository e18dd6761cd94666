"""Small instructions, right as they stand, of which a test changes what it is about."""

from typing import Any

from vtac.dialects.target import Memory
from vtac.dialects.vta.encoding import Alu, AluOpcode, Gemm, Load, Store

ONE = {"sram_base": 0, "dram_base": 1024, "y_size": 1, "x_size": 1, "x_stride": 1}
"""A transfer of one element."""

ONCE = {"uop_bgn": 0, "uop_end": 1, "iter_out": 1, "iter_in": 1}
"""A kernel of one micro-op, run once."""


def load(memory: Memory = Memory.INP, **changes: Any) -> Load:
    return Load(memory=memory, **{**ONE, **changes})


def store(**changes: Any) -> Store:
    return Store(**{"memory": Memory.OUT, **ONE, **changes})


def alu(opcode: AluOpcode = AluOpcode.ADD, **changes: Any) -> Alu:
    return Alu(alu_opcode=opcode, **{**ONCE, "use_imm": True, "imm": 1, **changes})


def gemm(**changes: Any) -> Gemm:
    return Gemm(**{**ONCE, **changes})
