"""Explorers by name: each lies in a file of `vtac.tools.tune.explorers`."""

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache

from vtac.dialects.errors import CompileError, Problem
from vtac.tools.tune import explorers
from vtac.tools.tune.protocol import Explorer

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
