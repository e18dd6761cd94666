"""What a user did wrong, or what we do not support: every problem of an input, told at once."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong.

    where: the ONNX node, file, line or layer it concerns; may be empty.
    what: what is wrong, with the shapes or values at hand.
    hint: the way out, if there is one.
    """

    where: str
    what: str
    hint: str = ""

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        return place + self.what + (f"\n  {self.hint}" if self.hint else "")


@dataclass(frozen=True)
class DoesNotFit(Problem):
    """Layers that the machine has no room for, however they are scheduled.

    layers: the nodes; empty if they are not known. A driver may leave these on the host instead.
    """

    layers: tuple[str, ...] = ()


class CompileError(Exception):
    """All problems of one input. Tools print it without a traceback and exit with status 1."""

    def __init__(self, problems: Sequence[Problem] | Problem):
        self.problems = [problems] if isinstance(problems, Problem) else list(problems)
        super().__init__("\n".join(map(str, self.problems)))


class InputError(CompileError, ValueError):
    """Inputs of a run, or names of its outputs, that do not fit the model."""
