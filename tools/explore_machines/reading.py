"""Reads what users say about a space of machines: options of the command, or a file.

``--vary log_block=3,4,5`` gives values, ``--vary port_bytes`` takes the usual ones, ``--fix
latency=40`` changes the base. A file (TOML, or JSON) says the same::

    base = "chisel-pynq"
    cost = "sram_bytes"
    where = ["multipliers <= 1024"]
    limit_cost = 500000
    fix = { latency = 40 }
    [vary]
    log_block = [3, 4, 5]
    port_bytes = "usual"

What the command line says comes after what the file says.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.target.entries import read_entries
from vtac.tools.explore_machines.description import Description
from vtac.tools.explore_machines.space import FieldValue

USUAL = "usual"
"""What stands for the usual values of a field in a file."""

MOST_VALUES = 1000
"""The most values that ``A..B`` stands for."""

Values = Sequence[FieldValue] | None
"""The values of a field; None for the usual ones."""


@dataclass(frozen=True)
class Texts:
    """The options of the command that describe a space, as texts; None where one was not given."""

    file: str | None = None
    target: str | None = None
    vary: Sequence[str] = ()
    fix: Sequence[str] = ()
    cost: str | None = None
    where: Sequence[str] = ()
    limit: float | None = None


def described(texts: Texts) -> Description:
    """What a file and the options say together.

    Raises `CompileError` with everything that cannot be read.
    """
    problems: list[Problem] = []
    found = Description()
    try:
        found = found if texts.file is None else described_in(texts.file)
    except CompileError as error:
        problems += error.problems
    vary = _pairs("--vary", texts.vary, _varied, "FIELD=A,B,C, FIELD=A..B or FIELD", problems)
    fix = _pairs("--fix", texts.fix, _fixed, "FIELD=VALUE", problems)
    if problems:
        raise CompileError(problems)
    return replace(
        found,
        base=found.base if texts.target is None else texts.target,
        vary={**(found.vary or {}), **vary} or None,
        fix={**found.fix, **fix},
        cost=found.cost if texts.cost is None else texts.cost,
        where=(*found.where, *texts.where),
        limit=found.limit if texts.limit is None else texts.limit,
    )


def _pairs(
    option: str,
    texts: Sequence[str],
    read: Callable[[str], tuple[str, Any]],
    form: str,
    problems: list[Problem],
) -> dict[str, Any]:
    """What several texts of an option say, by field."""
    found: dict[str, Any] = {}
    for text in texts:
        try:
            name, value = read(text)
        except ValueError:
            problems.append(Problem(f"{option} {text}", f"is not {form}"))
            continue
        if name in found:
            problems.append(Problem(f"{option} {text}", f"{name} is given twice"))
        found[name] = value
    return found


def _varied(text: str) -> tuple[str, Values]:
    """A field and its values. Raises ValueError."""
    name, equals, values = text.partition("=")
    parsed = values_of(values) if equals else None
    if not name.strip() or (equals and not parsed):
        raise ValueError
    return name.strip(), parsed


def _fixed(text: str) -> tuple[str, FieldValue]:
    """A field and its value. Raises ValueError."""
    name, _, value = text.partition("=")
    if not name.strip() or not value.strip():
        raise ValueError
    return name.strip(), value_of(value.strip())


def values_of(text: str) -> list[FieldValue]:
    """The values of ``1,2,4`` or ``3..5``."""
    found: list[FieldValue] = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        low, dots, high = part.partition("..")
        if dots and low.isdecimal() and high.isdecimal():
            found += range(int(low), min(int(high), int(low) + MOST_VALUES) + 1)
        else:
            found.append(value_of(part))
    return found


def value_of(text: str) -> FieldValue:
    """A value: a number, true, false, none, else the text itself."""
    words: Mapping[str, FieldValue] = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def described_in(file: str) -> Description:
    """The description in a file. Raises `CompileError` with everything that is wrong with it."""
    return _File(file).description()


class _File:
    """A file of a space, its entries taken one by one, with what is wrong with them."""

    def __init__(self, file: str) -> None:
        self.file, self.entries = file, read_entries(Path(file))
        self.problems: list[Problem] = []

    def description(self) -> Description:
        own = Description()
        found = Description(
            self._take("base", str, "a text", own.base),
            {name: self._values(name, v) for name, v in self._table("vary").items()} or None,
            {name: self._value(name, v) for name, v in self._table("fix").items()},
            self._take("cost", str, "a text", own.cost),
            self._take("where", list, "a list", list(own.where)),
            self._take("limit_cost", int | float, "a number", None),
        )
        if not all(isinstance(text, str) for text in found.where):
            self._fault("where", "must be a list of formulas")
        for key in self.entries:
            self._fault(key, "there is no such key")
        if self.problems:
            raise CompileError(self.problems)
        return found

    def _take(self, key: str, kind: Any, form: str, default: Any) -> Any:
        """The entry of a key, which is taken out."""
        value = self.entries.pop(key, default)
        if value is not default and (not isinstance(value, kind) or isinstance(value, bool)):
            self._fault(key, f"must be {form}")
            return default
        return value

    def _table(self, key: str) -> dict[str, Any]:
        found: dict[str, Any] = self._take(key, dict, "a table", {})
        return found

    def _values(self, name: str, values: object) -> Values:
        if values == USUAL:
            return None
        if isinstance(values, list) and all(map(_is_value, values)):
            return values
        self._fault(f"vary.{name}", f'must be a list of values, or "{USUAL}"')
        return None

    def _value(self, name: str, value: FieldValue) -> FieldValue:
        if not _is_value(value):
            self._fault(f"fix.{name}", "must be a value")
        return value

    def _fault(self, key: str, what: str) -> None:
        self.problems.append(Problem(f"{self.file}: {key}", what))


def _is_value(value: object) -> bool:
    return isinstance(value, int | float | bool | str)
