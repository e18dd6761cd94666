"""Who decides: the rules of the paper, or the costs of this machine."""

import enum

from vtac.dialects.errors import CompileError, Problem


class Mode(enum.Enum):
    """How the passes of a plan choose."""

    COST = "cost"
    """By the analytic costs of the cluster."""
    PAPER = "paper"
    """As Zhao et al., "GraphTurbo" (OSDI 2023), say."""


def mode_named(where: str, name: str) -> Mode:
    """The mode of that name; where: the pass that has it as an option. Raises `CompileError`."""
    try:
        return Mode(name)
    except ValueError:
        modes = " and ".join(mode.value for mode in Mode)
        raise CompileError(
            Problem(where, f"there is no mode '{name}'", f"Modes: {modes}.")
        ) from None
