"""Options from a file, so that they need not be typed: ``vtac.toml``.

A table for each command has its options by their long names::

    [vta-compile]
    target = "chisel-pynq"
    calibrate = "samples.npz"
    keep-float = ["head", "softmax"]
    explain = true

The file is the one that the environment variable ``VTAC_CONFIG`` names (none if it is empty), else
``vtac.toml`` in the current folder, else ``vtac.toml`` in the user's folder of configurations
(``$XDG_CONFIG_HOME``, else ``~/.config``). One file counts. Options of the command line come after
those of the file. Paths are those of the current folder, as on the command line.
"""

import argparse
import os
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from vtac.dialects.errors import CompileError, Problem

VARIABLE, NAME = "VTAC_CONFIG", "vtac.toml"


def configuration_path() -> Path | None:
    """The file that counts; None if there is none."""
    named = os.environ.get(VARIABLE)
    if named is not None:
        return Path(named) if named else None
    user = Path(os.environ.get("XDG_CONFIG_HOME") or Path("~/.config").expanduser())
    return next((path for path in (Path(NAME), user / NAME) if path.is_file()), None)


def configured_options(command: str, actions: Iterable[argparse.Action]) -> list[str]:
    """The options of a command in the file, as on a command line.

    Raises `CompileError` if the file cannot be read, and with all of its options that the command
    does not have or whose values are of the wrong kind.
    """
    path = configuration_path()
    if path is None:
        return []
    table = _read(path).get(command, {})
    known = {option: action for action in actions for option in action.option_strings}
    found: list[str] = []
    problems: list[Problem] = []
    for key, value in table.items():
        where, option = f"{path}: [{command}] {key}", f"--{key}"
        action = known.get(option)
        if action is None:
            hint = f"See {command} --help."
            problems.append(Problem(where, "the command has no such option", hint))
        else:
            fault = _fault(action, value)
            problems += [Problem(where, fault)] if fault else []
            found += _arguments(option, action, value)
    if problems:
        raise CompileError(problems)
    return found


def _read(path: Path) -> dict[str, dict[str, Any]]:
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CompileError(Problem(str(path), f"cannot read it: {error.strerror}")) from None
    except ValueError as error:  # no UTF-8, or no TOML
        raise CompileError(Problem(str(path), f"is not TOML: {error}")) from None
    loose = [name for name, value in tables.items() if not isinstance(value, dict)]
    if loose:
        hint = "Options stand in a table for each command, such as [vta-compile]."
        raise CompileError(
            [Problem(f"{path}: {name}", "belongs to no command", hint) for name in loose]
        )
    return tables


def _fault(action: argparse.Action, value: object) -> str:
    """What is wrong with the value of an option; empty if nothing is."""
    if action.nargs == 0:
        return "" if isinstance(value, bool) else "is a flag: true or false"
    if isinstance(value, list):
        several = isinstance(action, argparse._AppendAction)
        if not several:
            return "takes one value"
        return "" if all(map(_is_value, value)) else "takes texts or numbers"
    if not _is_value(value):
        return "takes a text or a number"
    if action.choices is not None and value not in action.choices:
        return f"there is no {value!r}; choose {', '.join(map(str, action.choices))}"
    return ""


def _is_value(value: object) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def _arguments(option: str, action: argparse.Action, value: object) -> Iterator[str]:
    """An option and its value as on a command line."""
    if action.nargs == 0:
        if value is True:
            yield option
        return
    values: Sequence[object] = value if isinstance(value, list) else [value]
    for each in values:
        yield f"{option}={each}"
