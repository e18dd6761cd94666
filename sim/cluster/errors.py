"""Errors of a cluster's programs: each names a unit, one instruction or command, and its fault."""

from ...dialects.target import ClusterTarget
from ...dialects.vta.assembly import disassemble
from ...dialects.vta.dma import DmaCommand, disassemble_dma
from ...dialects.vta.encoding import Instruction
from ..errors import SimulationError

ClusterInstruction = Instruction | DmaCommand
"""What a unit runs: an instruction of a core or a command of the DMA."""


class ClusterError(SimulationError):
    """A cluster's program that is wrong.

    `unit` is the number of the unit, -1 where the fault belongs to none; `index` is the place in
    the unit's stream.
    """

    def __init__(
        self,
        cluster: ClusterTarget,
        unit: int,
        index: int,
        step: ClusterInstruction | None,
        reason: str,
    ) -> None:
        self.unit, self.index, self.reason = unit, index, reason
        self.disassembly = "" if step is None else disassemble_step(step)
        ValueError.__init__(self, f"{place_of(cluster, unit, index, step)}{reason}")


def disassemble_step(step: ClusterInstruction) -> str:
    """One line that says all about an instruction or a command."""
    return disassemble(step) if isinstance(step, Instruction) else disassemble_dma(step)


def name_of(cluster: ClusterTarget, unit: int, index: int, step: ClusterInstruction) -> str:
    """``core1 instruction 5 (LOAD INP ...)``: how messages call a step."""
    what = "command" if unit == cluster.cores else "instruction"
    return f"{cluster.unit_name(unit)} {what} {index} ({disassemble_step(step)})"


def place_of(cluster: ClusterTarget, unit: int, index: int, step: ClusterInstruction | None) -> str:
    """The start of a message: the unit and the instruction, as far as they are known."""
    if unit < 0:
        return ""
    if index < 0:
        return f"{cluster.unit_name(unit)}: "
    if step is not None:
        return f"{name_of(cluster, unit, index, step)}: "
    return f"{cluster.unit_name(unit)} instruction {index}: "
