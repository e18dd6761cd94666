"""Errors about machines that do not exist or that nobody could build."""

from vtac.dialects.errors import CompileError, Problem


class TargetError(CompileError, ValueError):
    """A machine that does not exist or that nobody could build; the message names the choices."""

    def __init__(self, *messages: str) -> None:
        super().__init__([Problem("", message) for message in messages])


class PresetError(TargetError):
    """A timing preset that does not exist or makes no sense; the message names the choices."""
