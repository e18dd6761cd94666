"""Instructions as one line of text, for diagnostics and listings.

``LOAD INP sram 0 dram 4096 size 14x16 stride 58 pads (1, 1, 1, 1) pop_next push_next``: the opcode
and its memory or operation, what it works on, then the tokens. What has its neutral value is left
out. Meant to be read, not parsed: the text that parses is that of the vta dialect.
"""

from .encoding import Alu, Compute, Finish, Gemm, Instruction, Store, Transfer


def disassemble(instruction: Instruction) -> str:
    """One line that says all about an instruction."""
    parts = [_operation(instruction)]
    parts += [
        flag
        for flag in ("pop_prev", "pop_next", "push_prev", "push_next")
        if getattr(instruction, flag)
    ]
    return " ".join(parts)


def _operation(instruction: Instruction) -> str:
    match instruction:
        case Transfer():
            return _transfer(instruction)
        case Gemm():
            name = "GEMM reset" if instruction.reset else "GEMM"
            return f"{name} {_loops(instruction)}"
        case Alu():
            operand = f"imm {instruction.imm}" if instruction.use_imm else "acc"
            reset = " reset" if instruction.reset else ""
            name = f"ALU {instruction.alu_opcode.name} {operand}{reset}"
            return f"{name} {_loops(instruction)}"
        case Finish():
            return "FINISH"
        case _:
            return type(instruction).__name__.upper()


def _transfer(instruction: Transfer) -> str:
    name = "STORE" if isinstance(instruction, Store) else "LOAD"
    text = (
        f"{name} {instruction.memory.name} sram {instruction.sram_base}"
        f" dram {instruction.dram_base} size {instruction.y_size}x{instruction.x_size}"
        f" stride {instruction.x_stride}"
    )
    pads = (instruction.y_pad_0, instruction.y_pad_1, instruction.x_pad_0, instruction.x_pad_1)
    return f"{text} pads {pads}" if any(pads) else text


def _loops(instruction: Compute) -> str:
    text = (
        f"uops [{instruction.uop_bgn}, {instruction.uop_end})"
        f" loops {instruction.iter_out}x{instruction.iter_in}"
    )
    for index in ("dst", "src", "wgt"):
        outer = getattr(instruction, f"{index}_factor_out", 0)
        inner = getattr(instruction, f"{index}_factor_in", 0)
        if outer or inner:
            text += f" {index} +({outer}, {inner})"
    return text
