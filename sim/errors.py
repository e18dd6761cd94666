"""Errors of the simulators: each names one instruction and its fault."""

from ..dialects.vta.assembly import disassemble
from ..dialects.vta.encoding import Instruction


class SimulationError(ValueError):
    """A program that is wrong: its meaning is undefined, or differs between implementations.

    `index` is the instruction's place in the program, `disassembly` the instruction as text (empty
    where its bits have no meaning or the fault belongs to no instruction), `reason` what is wrong.
    """

    def __init__(self, index: int, instruction: Instruction | None, reason: str) -> None:
        self.index = index
        self.disassembly = disassemble(instruction) if instruction is not None else ""
        self.reason = reason
        place = f"instruction {index}" + (f" ({self.disassembly})" if self.disassembly else "")
        super().__init__(f"{place}: {reason}" if index >= 0 else reason)


class Fault(Exception):  # noqa: N818
    """A fault that does not know its instruction; the caller, which does, raises
    `SimulationError`."""


class TooLarge(Fault):
    """A plan would not fit into memory: the instruction has to run in pieces."""
