"""Explorers by name: each lies in a file of `vtac.tools.tune.explorers`."""

import importlib
import pkgutil
from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import cache

from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.te import Knob, KnobKind, Knobs
from vtac.tools.tune import explorers
from vtac.tools.tune.ladder import Ladder
from vtac.tools.tune.protocol import Explorer, Options, Screen

DEFAULT_METHOD = "model"
"""What a search uses unless told otherwise."""


@cache
def methods() -> Mapping[str, type[Explorer]]:
    """The explorers by their names."""
    found: dict[str, type[Explorer]] = {}
    for info in pkgutil.iter_modules(explorers.__path__, f"{explorers.__name__}."):
        module = importlib.import_module(info.name)
        for value in vars(module).values():
            own = isinstance(value, type) and value.__module__ == module.__name__
            if own and isinstance(vars(value).get("name"), str):
                found[value.name] = value
    return dict(sorted(found.items()))


def method_named(name: str) -> type[Explorer]:
    """The explorer of a name. Raises `CompileError` with the choices."""
    found = methods().get(name)
    if found is None:
        raise CompileError(
            Problem("", f"there is no method {name!r}", f"Methods: {', '.join(methods())}.")
        )
    return found


def explorer(method: str, knobs: Knobs, options: Options, screen: Screen) -> Explorer:
    """An explorer as the options want it: of some knobs only, on the ladder or by the clock.

    Raises `CompileError` where there is no such method, or it is not possible here.
    """
    found = method_named(method)
    free = restricted(knobs, options, screen)
    if options.oracle == "simulation":
        return Ladder(found, free, options, screen)
    return found(free, options, screen)


def restricted(knobs: Knobs, options: Options, screen: Screen) -> Knobs:
    """The knobs, of which those that no pattern of ``options.knobs`` names have one value left.

    It is the value that they have at the default point.
    """
    if not options.knobs:
        return knobs

    def left(knob: Knob) -> Knob:
        if any(fnmatchcase(knob.name, pattern) for pattern in options.knobs):
            return knob
        value = knobs.value(screen.default, knob.name)
        return Knob(knob.name, KnobKind.CHOICE, (value,), knob.default)

    return Knobs(map(left, knobs.knobs.values()))
