"""Which fields of a machine were read: what a result that was computed for it depends on.

A deterministic function of a machine gives the same result for every machine that has the same
values in the fields that it read. So its result can be kept with these values and used again
("verifying traces": Mokhov, Mitchell and Peyton Jones, "Build Systems à la Carte", ICFP 2018).

`watched` returns a copy of a machine that notes each field when it is read. Comparing, hashing and
printing the copy read all fields of the machine.
"""

import dataclasses
from typing import Any, TypeAlias

from .attribute import Target
from .configuration import Configuration
from .timing import TIMING_FIELDS, TimingPreset

Value: TypeAlias = int | float | bool | str | None

_ALL = dataclasses.fields(Configuration)
_FIELDS = frozenset(field.name for field in _ALL) - {"timing"}


class FieldReads:
    """Fields of a machine that were read, with the values that they had."""

    def __init__(self) -> None:
        self.values: dict[str, Value] = {}

    def hold_for(self, target: Target) -> bool:
        """Whether another machine has the same values in the fields that were read."""
        return all(_value(target, name) == value for name, value in self.values.items())


class _WatchedConfiguration(Configuration):
    """A configuration that notes what is read of it."""

    def __getattribute__(self, name: str) -> Any:
        value = super().__getattribute__(name)
        if name in _FIELDS:
            _note(self, name, value)
        return value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Configuration) and self.fields() == other.fields()

    def __hash__(self) -> int:
        return hash(Configuration(**{f.name: getattr(self, f.name) for f in _ALL}))


class _WatchedRates(TimingPreset):
    """Rates that note what is read of them."""

    def __getattribute__(self, name: str) -> Any:
        value = super().__getattribute__(name)
        if name in TIMING_FIELDS:
            _note(self, name, value)
        return value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TimingPreset) and _rates(self) == _rates(other)

    def __hash__(self) -> int:
        return hash(TimingPreset(**_rates(self)))


def watched(target: Target) -> tuple[Target, FieldReads]:
    """A copy of a machine, and the fields that are read of this copy from now on."""
    rates = _WatchedRates(**_rates(target.timing))
    fields = {name: getattr(target.data, name) for name in _FIELDS}
    configuration = _WatchedConfiguration(**fields, timing=rates)
    copy, reads = Target(configuration), FieldReads()
    for part in (configuration, rates):
        object.__setattr__(part, "reads", reads)
    return copy, reads


def _rates(timing: TimingPreset) -> dict[str, Any]:
    return {name: getattr(timing, name) for name in TIMING_FIELDS}


def _note(part: object, name: str, value: Value) -> None:
    """Note a field that was read, unless nobody watches yet, or this is a copy of the copy."""
    reads = object.__getattribute__(part, "__dict__").get("reads")
    if reads is not None:
        reads.values[name] = value


def _value(target: Target, name: str) -> Value:
    found: Value = getattr(target.timing if name in TIMING_FIELDS else target.data, name)
    return found
