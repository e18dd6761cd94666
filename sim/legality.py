"""Checks of an instruction before it runs.

The checks that need neither the contents of the buffers nor other instructions: features that the
target lacks, ranges of transfers, counts of zero (docs/vta.md, section 3). Both functional
simulators and the hazard checker use them; what depends on micro-ops is checked where they run.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ..dialects.target import Memory, Target
from ..dialects.vta.encoding import (
    Alu,
    AluOpcode,
    Compute,
    EncodingError,
    Finish,
    Instruction,
    Load,
    Store,
    Transfer,
    decode,
)
from .errors import SimulationError
from .tokens import module_of

FIRST_BYTE = 4096
"""DRAM below this address is never addressed."""

MAX_SHIFT = 31

Column = NDArray[np.int64]


def decode_program(target: Target, insns: NDArray[np.uint64]) -> list[Instruction]:
    """The instructions of a program; `SimulationError` instead of `EncodingError`."""
    try:
        return decode(target, insns)
    except EncodingError as error:
        reason = str(error).removeprefix(f"instruction {error.index} ")
        raise SimulationError(error.index, None, reason) from None


def verify_program(
    target: Target, program: list[Instruction], dram_bytes: int | None, strict: bool
) -> None:
    """Raise `SimulationError` on the first instruction that is wrong in itself.

    ``dram_bytes`` is the size of the image (None where unknown). Strict mode also refuses
    instructions that implementations run differently, and a FINISH that is not the last
    instruction.
    """
    for index, instruction in enumerate(program):
        if (reason := objection(target, instruction, dram_bytes, strict)) is not None:
            raise SimulationError(index, instruction, reason)
        if strict and isinstance(instruction, Finish) and index != len(program) - 1:
            raise SimulationError(index, instruction, "instructions follow FINISH")
    if not any(isinstance(instruction, Finish) for instruction in program):
        raise SimulationError(-1, None, "the program has no FINISH and never ends")


def objection(
    target: Target, instruction: Instruction, dram_bytes: int | None, strict: bool
) -> str | None:
    """What is wrong with an instruction by itself, or None."""
    if strict and (reason := _token_objection(target, instruction)) is not None:
        return reason
    if isinstance(instruction, Transfer):
        return _transfer_objection(target, instruction, dram_bytes, strict)
    if isinstance(instruction, Compute):
        return _compute_objection(target, instruction, strict)
    return None


def _token_objection(target: Target, instruction: Instruction) -> str | None:
    previous = instruction.pop_prev or instruction.push_prev
    following = instruction.pop_next or instruction.push_next
    if not (previous or following):
        return None
    modules, module = target.system.modules, module_of(instruction, target.system)
    for side, flag, end in (("previous", previous, modules[0]), ("next", following, modules[-1])):
        if flag and module == end:
            return f"the {end} module has no {side} module to exchange tokens with"
    return None


@lru_cache(maxsize=64)
def _sizes(target: Target) -> Mapping[Memory, tuple[int, int]]:
    """For each memory its depth in elements, and the bytes of an element."""
    return {memory: (target.depth(memory), target.element_bytes(memory)) for memory in Memory}


def _transfer_objection(
    target: Target, transfer: Transfer, dram_bytes: int | None, strict: bool
) -> str | None:
    memory, width, height = transfer.memory, transfer.x_size, transfer.y_size
    if isinstance(transfer, Store):
        if memory is not Memory.OUT:
            return f"STORE writes OUT only, not {memory.name}"
        if transfer.y_pad_0 or transfer.y_pad_1 or transfer.x_pad_0 or transfer.x_pad_1:
            return "STORE has no pads"
    elif memory is Memory.OUT:
        return "LOAD cannot fill OUT"
    elif memory is Memory.ACC_8BIT and not target.acc_load_int8:
        return "the target does not load int8 into ACC (acc_load_int8)"
    if width == 0:
        return None
    if height == 0:
        return "y_size 0 with x_size > 0 never ends on hardware" if strict else None
    depth, size = _sizes(target)[memory]
    end = transfer.sram_base + transfer.sram_size
    if end > depth:
        return (
            f"{memory.name} elements {transfer.sram_base} to {end - 1}, but the buffer has {depth}"
        )
    first = transfer.dram_base * size
    if first < FIRST_BYTE:
        return f"DRAM byte {first} lies in the first {FIRST_BYTE} bytes, which nobody may address"
    end = first + ((height - 1) * transfer.x_stride + width) * size
    if dram_bytes is not None and end > dram_bytes:
        return f"DRAM bytes {first} to {end - 1}, but the image has {dram_bytes}"
    return None


def doubtful_transfers(
    target: Target, stores: NDArray[np.bool_], fields: Mapping[str, Column]
) -> NDArray[np.bool_]:
    """Whether `objection` is not None, for many LOADs and STOREs (those of ``stores``) at once.

    fields: one column per field of `Load`, by name; memories are known ones. It checks as without
    an image and not in strict mode, so that correct programs need no check of single instructions.
    """
    memory, width, height = fields["memory"], fields["x_size"], fields["y_size"]
    sizes = _sizes(target)
    depth, size = np.array([sizes[memory] for memory in Memory], np.int64)[memory].T
    columns = fields["x_pad_0"] + width + fields["x_pad_1"]
    rows = fields["y_pad_0"] + height + fields["y_pad_1"]
    pads = (columns != width) | (rows != height)
    wrong: NDArray[np.bool_] = (stores != (memory == Memory.OUT)) | (stores & pads)
    if not target.acc_load_int8:
        wrong |= memory == Memory.ACC_8BIT
    outside = fields["sram_base"] + rows * columns > depth
    outside |= fields["dram_base"] * size < FIRST_BYTE
    wrong |= outside & (width > 0) & (height > 0)
    return wrong


def _compute_objection(target: Target, instruction: Compute, strict: bool) -> str | None:
    if instruction.micro_ops == 0:
        what = f"{instruction.iter_out} x {instruction.iter_in} iterations of micro-ops"
        span = f"[{instruction.uop_bgn}, {instruction.uop_end})"
        return f"{what} {span} run 16384 times or never on hardware" if strict else None
    if instruction.uop_end > target.uop_entries:
        return f"micro-ops up to {instruction.uop_end - 1}, but the target has {target.uop_entries}"
    if isinstance(instruction, Alu):
        return _alu_objection(target, instruction, strict)
    return None


def _alu_objection(target: Target, alu: Alu, strict: bool) -> str | None:
    if alu.alu_opcode is AluOpcode.MUL and not target.alu_mul:
        return "the target's ALU does not multiply (alu_mul)"
    if strict and alu.reset:
        return "reset has no meaning for the ALU"
    if alu.alu_opcode is AluOpcode.SHR:
        if alu.use_imm and abs(alu.imm) > MAX_SHIFT:
            return f"shift by {alu.imm}, but amounts go from -{MAX_SHIFT} to {MAX_SHIFT}"
        if strict and not alu.use_imm and alu.imm < 0 and target.shr_sign_of_imm:
            return "a negative immediate turns the register shift round on the Chisel design"
    return None


def whole_inp_loads(target: Target, program: Sequence[Instruction]) -> list[int]:
    """The LOADs of INP that are larger than the machine is sure to complete.

    See `Target.largest_load`.
    """
    return [
        index
        for index, instruction in enumerate(program)
        if isinstance(instruction, Load)
        and instruction.memory is Memory.INP
        and instruction.x_size * instruction.y_size > target.largest_load(Memory.INP)
    ]
