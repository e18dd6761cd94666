"""Reading a machine's values from files and texts."""

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path

from .errors import TargetError

SUFFIXES = (".json", ".toml")
"""Extensions of files that describe a machine."""


def read_entries(path: Path) -> dict[str, object]:
    """The entries of a TOML or JSON file, by its extension (JSON unless it is ``.toml``).

    Raises `TargetError` where the file cannot be read or holds something else than one object.
    """
    is_toml = path.suffix == ".toml"
    try:
        text = path.read_text(encoding="utf-8")
        entries = tomllib.loads(text) if is_toml else json.loads(text, object_pairs_hook=_once)
    except OSError as error:
        raise TargetError(f"cannot read {path}: {error.strerror}") from None
    except RecursionError:
        raise TargetError(f"{path} is nested too deeply") from None
    except ValueError as error:
        raise TargetError(f"{path} is not {'TOML' if is_toml else 'JSON'}: {error}") from None
    if not isinstance(entries, dict):
        raise TargetError(f"{path} must contain one object")
    return entries


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """A JSON object, whose keys must differ as those of TOML must."""
    entries = dict(pairs)
    names = [name for name, _ in pairs]
    if twice := [name for name in entries if names.count(name) > 1]:
        raise ValueError(f"{', '.join(twice)} is given twice")
    return entries


def listed(names: Mapping[str, object]) -> str:
    """Names for an error message: ``a, b, c``."""
    return ", ".join(names)
