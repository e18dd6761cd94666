"""Records of tuning, and their form as JSON lines: one record per line, self-contained.

A line says for which kernel, machine, clock and template a point was found, and how many cycles it
takes. Files of them are merged by `Record.rank`, so the order of merging does not matter. Lines are
data: what is in them is compared, counted and parsed, never run, and never used as a path.
"""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn, TypeAlias

from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.te import Point, Value
from vtac.runtime.atomic import read_whole
from vtac.tools.tune.keys import DIGITS, Key, digest_of_kernel_text, digest_of_text, target_of
from vtac.tools.tune.protocol import Trial

VERSION = 1
"""The version of the lines that are written and read."""

MOST_CYCLES = 1 << 62
"""More cycles than any program takes; a database holds them."""


@dataclass(frozen=True)
class RunRow:
    """One search for one kernel, as it is stored.

    uuid: its name everywhere. key, text, target_text: what is tuned. options: how, as JSON text;
    stops are no part of it. seed: of the method. started, ended: times in ISO 8601; a run that has
    not come to its end has none.
    """

    uuid: str
    key: Key
    text: str
    target_text: str
    method: str
    options: str
    seed: int
    compiler: str
    started: str
    ended: str = ""


@dataclass(frozen=True)
class TrialRow:
    """One trial of a run. number: its place in the run, counted from 0."""

    run: RunRow
    number: int
    trial: Trial


@dataclass(frozen=True)
class Record:
    """The best point that is known for a key.

    text, target_text: what the digests of the key stand for. default: cycles of the default
    schedule. bound: a lower bound of cycles for its program. proved: whether its program was run
    and compared with the reference. compiler: the version that found it.
    """

    key: Key
    text: str
    target_text: str
    point: Point
    cycles: int
    default: int | None = None
    bound: int | None = None
    proved: bool = False
    compiler: str = ""

    @cached_property
    def rank(self) -> tuple[int, bool, str]:
        """Records of one key by quality, the best first: a total order of their contents."""
        return self.cycles, not self.proved, self.line

    @cached_property
    def line(self) -> str:
        """The record as a line of JSON, without the newline."""
        return _dumps(
            {
                "v": VERSION,
                **_key_values(self.key, self.text, self.target_text),
                "point": point_values(self.point),
                "cycles": self.cycles,
                "default": self.default,
                "bound": self.bound,
                "proved": self.proved,
                "compiler": self.compiler,
            }
        )

    @cached_property
    def name(self) -> str:
        """What messages and packages call it: the first digits of the digest of its line."""
        return digest_of_text(self.line)[:DIGITS]

    @property
    def gain(self) -> float | None:
        """How many times fewer cycles it takes than the default schedule."""
        return None if self.default is None else self.default / self.cycles


Line: TypeAlias = Record | TrialRow
"""What a line may hold: a best point, or one trial of a run."""


def better(one: Record | None, other: Record) -> Record:
    """The better of two records of one key."""
    return other if one is None or other.rank < one.rank else one


def merged(records: Iterable[Record]) -> dict[Key, Record]:
    """The best record of each key."""
    found: dict[Key, Record] = {}
    for record in records:
        found[record.key] = better(found.get(record.key), record)
    return found


def trial_line(row: TrialRow) -> str:
    """A trial as a line of JSON, without the newline."""
    run, trial = row.run, row.trial
    return _dumps(
        {
            "v": VERSION,
            **_key_values(run.key, run.text, run.target_text),
            "run": {name: getattr(run, name) for name in _RUN_FIELDS},
            "number": row.number,
            "point": point_values(trial.point),
            "cycles": trial.cycles,
            "why": trial.why,
            "millis": trial.millis,
        }
    )


def read_lines(
    path: str | os.PathLike[str],
    note: Callable[[str], None] = lambda _: None,
    *,
    skip_bad: bool = False,
    verify: Callable[[Line], None] = lambda _: None,
) -> Iterator[tuple[int, Line]]:
    """The lines of a file with their numbers.

    A last line that is not finished is dropped with a note: its writer was interrupted. skip_bad:
    notes other bad lines and goes on. Otherwise raises `CompileError` with all bad lines. verify:
    raises ValueError on further lines that are bad.
    """
    problems: list[Problem] = []
    lines = read_whole(path).split(b"\n")
    if lines[-1]:
        note(f"{os.fspath(path)}: line {len(lines)} is not finished, and left out")
    for number, line in enumerate(lines[:-1], 1):
        if not line.strip():
            continue
        try:
            found = line_of(line)
            verify(found)
            yield number, found
        except ValueError as error:
            where = f"{os.fspath(path)}: line {number}"
            if skip_bad:
                note(f"{where}: {error}; left out")
            else:
                problems.append(Problem(where, str(error)))
    if problems:
        raise CompileError(problems)


def line_of(line: str | bytes) -> Line:
    """What a line holds. Raises ValueError with what is wrong."""
    try:
        values = json.loads(line, parse_constant=_no_number)
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    except UnicodeDecodeError:
        raise ValueError("is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"is not JSON: {error}") from None
    if not isinstance(values, dict):
        raise ValueError("is no JSON object")
    if values.get("v") != VERSION:
        raise ValueError(f"has version {values.get('v')!r}; this vtac reads version {VERSION}")
    return _trial_of(values) if "run" in values else _record_of(values)


def verify_texts(record: Record | RunRow) -> None:
    """Raise ValueError unless the texts of kernel and machine are those of the digests."""
    if digest_of_kernel_text(record.text) != record.key.kernel:
        raise ValueError("the kernel's text has another digest than the record says")
    target_of(record.target_text)


def point_values(point: Point) -> dict[str, Any]:
    """A point as plain values for JSON."""
    return {
        name: list(value) if isinstance(value, tuple) else value for name, value in point.items()
    }


def point_json(point: Point) -> str:
    """A point as JSON text; equal points have equal texts."""
    return _dumps(point_values(point))


def point_of(values: object) -> Point:
    """The point of plain values. Raises ValueError on what no knob can have."""
    if not isinstance(values, dict):
        raise ValueError("point is no table of knobs")
    return {name: _value(name, value) for name, value in values.items()}


def _value(name: str, value: object) -> Value:
    if value is None or isinstance(value, int | bool | str):
        return value
    if isinstance(value, list):
        words = tuple(entry for entry in value if type(entry) is str)
        if len(words) == len(value):
            return words
        numbers = tuple(entry for entry in value if type(entry) is int)
        if len(numbers) == len(value):
            return numbers
    raise ValueError(f"knob {name!r} cannot have the value {value!r}")


_RUN_FIELDS = ("uuid", "method", "options", "seed", "compiler", "started", "ended")

_COMMON = ("v", "kernel", "text", "target", "oracle", "template", "point", "cycles")
_OF_RECORD = frozenset((*_COMMON, "default", "bound", "proved", "compiler"))
_OF_TRIAL = frozenset((*_COMMON, "run", "number", "why", "millis"))


def _key_values(key: Key, text: str, target_text: str) -> dict[str, Any]:
    return {
        "kernel": key.kernel,
        "text": text,
        "target": json.loads(target_text),
        "oracle": key.oracle,
        "template": f"{key.template}/{key.version}",
    }


def _record_of(values: dict[str, Any]) -> Record:
    _verify_fields(values, _OF_RECORD)
    key, text, target = _key_of(values)
    return Record(
        key,
        text,
        target,
        point_of(values["point"]),
        _whole(values, "cycles", 1),
        None if values["default"] is None else _whole(values, "default", 1),
        None if values["bound"] is None else _whole(values, "bound", 0),
        _typed(values, "proved", bool),
        _typed(values, "compiler", str),
    )


def _trial_of(values: dict[str, Any]) -> TrialRow:
    _verify_fields(values, _OF_TRIAL)
    key, text, target = _key_of(values)
    fields = values["run"]
    if not isinstance(fields, dict) or set(fields) != set(_RUN_FIELDS):
        raise ValueError(f"run must have {', '.join(_RUN_FIELDS)}")
    for name in _RUN_FIELDS:
        if name != "seed":
            _typed(fields, name, str)
    run = RunRow(
        key=key, text=text, target_text=target, **{**fields, "seed": _whole(fields, "seed")}
    )
    cycles = None if values["cycles"] is None else _whole(values, "cycles", 1)
    trial = Trial(
        point_of(values["point"]), cycles, _typed(values, "why", str), _whole(values, "millis")
    )
    return TrialRow(run, _whole(values, "number"), trial)


def _key_of(values: dict[str, Any]) -> tuple[Key, str, str]:
    kernel, text = _typed(values, "kernel", str), _typed(values, "text", str)
    oracle = _typed(values, "oracle", str)
    for name in ("kernel", "oracle"):
        if len(values[name]) != 64 or set(values[name]) - set("0123456789abcdef"):
            raise ValueError(f"{name} is no SHA-256 digest")
    if not isinstance(values["target"], dict):
        raise ValueError("target is no table of fields")
    target = json.dumps(values["target"], sort_keys=True)
    template, _, version = _typed(values, "template", str).rpartition("/")
    if not template or not version.isascii() or not version.isdigit() or len(version) > 9:
        raise ValueError(f"template must be NAME/VERSION, not {values['template']!r}")
    return Key(kernel, digest_of_text(target), oracle, template, int(version)), text, target


def _verify_fields(values: Mapping[str, Any], wanted: frozenset[str]) -> None:
    if missing := wanted - set(values):
        raise ValueError(f"lacks {', '.join(sorted(missing))}")
    if unknown := set(values) - wanted:
        raise ValueError(f"has the unknown {', '.join(sorted(map(repr, unknown)))}")


def _whole(values: Mapping[str, Any], name: str, least: int = 0) -> int:
    value = values[name]
    if type(value) is not int or not least <= value < MOST_CYCLES:
        raise ValueError(f"{name} must be a whole number of at least {least}, not {value!r}")
    return value


def _typed(values: Mapping[str, Any], name: str, type_: type) -> Any:
    value = values[name]
    if type(value) is not type_:
        raise ValueError(f"{name} must be {type_.__name__}, not {value!r}")
    return value


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number of JSON")


def _dumps(values: Mapping[str, Any]) -> str:
    return json.dumps(values, sort_keys=True, allow_nan=False, separators=(",", ":"))
