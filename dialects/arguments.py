"""What the arguments of public functions must be, and one answer where they are something else.

A function that users call is decorated with `takes`, which names the `Kind` of each parameter; an
object of options calls `verify_arguments` with the kinds of its fields. Both raise `ArgumentError`
with all arguments that make no sense: the parameter, the value, and what to give instead. Without
them a wrong value would be found deep inside, by an error that names neither, or not at all.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from inspect import signature
from math import isfinite
from numbers import Integral, Real
from typing import ParamSpec, TypeVar

from vtac.dialects.errors import CompileError, Problem

P = ParamSpec("P")
R = TypeVar("R")

_SHOWN = 60
"""The most characters of a wrong value that a message shows."""


class ArgumentError(CompileError, TypeError):
    """Arguments of a public function that make no sense, all of one call."""


@dataclass(frozen=True)
class Kind:
    """What an argument may be. text: in words, with its article. holds: whether a value is one."""

    text: str
    holds: Callable[[object], bool]

    def __or__(self, other: "Kind") -> "Kind":
        """What is either of two kinds."""
        return Kind(
            f"{self.text} or {other.text}", lambda value: self.holds(value) or other.holds(value)
        )


def _is_path(value: object) -> bool:
    if not isinstance(value, str | os.PathLike):
        return False
    text = os.fspath(value)
    return isinstance(text, str) and text != "" and "\0" not in text


def _is_samples(value: object) -> bool:
    if isinstance(value, Mapping):
        return all(isinstance(name, str) for name in value)
    if isinstance(value, bytes | bytearray | set | frozenset | type):
        return False
    return _is_path(value) or (
        not isinstance(value, str) and (hasattr(value, "__array__") or isinstance(value, Iterable))
    )


# Classes of NumPy and ONNX are known by their names: commands that need neither do not import them.
ANYTHING = Kind("anything", lambda value: True)
NONE = Kind("None", lambda value: value is None)
PATH = Kind("a path", _is_path)
TEXT = Kind("a text", lambda value: isinstance(value, str))
FLAG = Kind("True or False", lambda value: type(value).__name__ in ("bool", "bool_"))
FUNCTION = Kind("a function", callable)
MODEL = PATH | Kind(
    "an ONNX model (bytes or a ModelProto)",
    lambda value: isinstance(value, bytes) or type(value).__name__ == "ModelProto",
)
SAMPLES = Kind(
    "samples (arrays by the names of inputs, an array, or the path of them)", _is_samples
)


def whole(least: int) -> Kind:
    """A whole number of at least ``least``."""
    return Kind(
        f"a whole number of at least {least}",
        lambda value: (
            isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= least
        ),
    )


def number(above: float | None = None, most: float | None = None) -> Kind:
    """A finite number, above ``above`` and at most ``most``."""
    bounds = ([f"above {above:g}"] if above is not None else []) + (
        [f"at most {most:g}"] if most is not None else []
    )

    def holds(value: object) -> bool:
        if not isinstance(value, Real) or isinstance(value, bool) or not isfinite(value):
            return False
        size = float(value)
        return (above is None or size > above) and (most is None or size <= most)

    return Kind(" ".join(["a finite number", " and ".join(bounds)]).strip(), holds)


def one_of(names: Sequence[str]) -> Kind:
    """One of some names."""
    return Kind(
        f"one of {', '.join(names)}", lambda value: isinstance(value, str) and value in names
    )


def instance(text: str, *types: type) -> Kind:
    """An object of one of some classes."""
    return Kind(text, lambda value: isinstance(value, types))


def several(kind: Kind, least: int = 0) -> Kind:
    """A list (or another collection that is no text) of at least ``least`` values of a kind."""

    def holds(value: object) -> bool:
        if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
            return False
        if not hasattr(value, "__len__"):
            return False
        values = list(value)
        return len(values) >= least and all(map(kind.holds, values))

    return Kind(f"a list, each of which is {kind.text}", holds)


def by_name(kind: Kind) -> Kind:
    """A dictionary of values of a kind, by names."""

    def holds(value: object) -> bool:
        return isinstance(value, Mapping) and all(
            isinstance(name, str) and kind.holds(each) for name, each in value.items()
        )

    return Kind(f"a dictionary from names to what is {kind.text} each", holds)


def verify_arguments(where: str, kinds: Mapping[str, Kind], values: Mapping[str, object]) -> None:
    """Raise one `ArgumentError` that names all values which are not of their kind."""
    problems = [
        Problem(f"{where} {name}", f"{_shown(value)} makes no sense", f"Give {kinds[name].text}.")
        for name, value in values.items()
        if name in kinds and not kinds[name].holds(value)
    ]
    if problems:
        raise ArgumentError(problems)


def _shown(value: object) -> str:
    """A value in a message: its text if that is short, and its class where that is not plain."""
    text = repr(value)
    if len(text) > _SHOWN or "\n" in text or " object at 0x" in text:
        return f"something of the class {type(value).__qualname__}"
    return text


def takes(**kinds: Kind) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A decorator: the function is called only with arguments of these kinds, by parameter.

    Parameters that are not named take anything.
    """

    def decorated(function: Callable[P, R]) -> Callable[P, R]:
        names = tuple(signature(function).parameters)

        @wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            given = {**dict(zip(names, args, strict=False)), **kwargs}
            verify_arguments("argument", kinds, given)
            return function(*args, **kwargs)

        return checked

    return decorated
