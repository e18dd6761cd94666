"""Converts frozen dataclasses to JSON and back; the dataclasses define the format.

Reading refuses missing fields, unknown fields and values of another type, with their place. Nothing
is converted silently, and the data do not decide which code runs.
"""

import dataclasses
import functools
import types
import typing
from collections.abc import Hashable, Mapping
from typing import Any, TypeVar, cast

from vtac.dialects.errors import CompileError, Problem

T = TypeVar("T")


_PLAIN = (str, int, float, bool, type(None))


@functools.cache
def _hints(cls: Hashable) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def to_json(value: object) -> Any:
    """A value with dataclasses as objects and tuples as lists, for the module ``json``."""
    if type(value) in _PLAIN:
        return value
    if dataclasses.is_dataclass(value):
        return {f.name: to_json(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, tuple | list):
        return [to_json(item) for item in value]
    if isinstance(value, Mapping):
        return {key: to_json(item) for key, item in value.items()}
    return value


def from_json(cls: type[T], data: object, where: str) -> T:
    """The dataclass ``cls`` from parsed JSON. Raises `CompileError` on anything unexpected."""
    if not isinstance(data, dict):
        raise _wrong(where, "must be an object")
    hints = _hints(cast(Hashable, cls))
    if unknown := sorted(set(data) - set(hints)):
        raise _wrong(where, f"has unknown fields: {', '.join(unknown)}")
    if missing := sorted(set(hints) - set(data)):
        raise _wrong(where, f"lacks the fields: {', '.join(missing)}")
    values = {
        key: data[key] if type(data[key]) is hint else _value(hint, data[key], f"{where}.{key}")
        for key, hint in hints.items()
    }
    return cls(**values)


def _value(hint: Any, data: object, where: str) -> Any:
    origin = typing.get_origin(hint)
    if origin in (types.UnionType, typing.Union):
        return _optional(hint, data, where)
    if origin is tuple:
        if not isinstance(data, list):
            raise _wrong(where, "must be a list")
        item = typing.get_args(hint)[0]
        if all(type(entry) is item for entry in data):
            return tuple(data)
        return tuple(_value(item, entry, f"{where}[{i}]") for i, entry in enumerate(data))
    if dataclasses.is_dataclass(hint):
        return from_json(cast(type[Any], hint), data, where)
    kind = dict if origin is not None else hint
    if type(data) is not kind:
        raise _wrong(where, f"must be of type {kind.__name__}")
    return data


def _optional(hint: Any, data: object, where: str) -> Any:
    if data is None:
        return None
    (inner,) = (arg for arg in typing.get_args(hint) if arg is not type(None))
    return _value(inner, data, where)


def _wrong(where: str, what: str) -> CompileError:
    return CompileError(Problem(where, what, "The package was not written by this vtac."))
