"""The run halves of codegens: ``runtime/engines/NAME.py`` runs functions of codegen NAME.

Each module has an ``ENGINE``. Engines of other packages join by the entry-point group
``vtac.engines``. An engine is found by the name that a compiled package has for it, among those
that the caller passes along, the modules of this folder and the engines that are installed, and
nowhere else, so that a compiled package cannot choose what is imported.
"""

import importlib
import pkgutil
from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, cast

from vtac.dialects.errors import CompileError, Problem

if TYPE_CHECKING:
    from vtac.runtime.engine import Engine

ENTRY_POINTS = "vtac.engines"
"""The group of entry points by which other packages offer engines."""


def engine_named(name: str, where: str, given: "Mapping[str, Engine] | None" = None) -> "Engine":
    """The engine of a codegen. Raises `CompileError` if there is none of that name."""
    if given is not None and name in given:
        return given[name]
    ours = {info.name for info in pkgutil.iter_modules(__path__)}
    if name in ours:
        return cast("Engine", importlib.import_module(f"{__name__}.{name}").ENGINE)
    installed = {entry.name: entry for entry in entry_points(group=ENTRY_POINTS)}
    if name not in installed:
        names = ", ".join(sorted({*ours, *installed, *(given or ())}))
        hint = "Install the package that has it, or pass it along: vtac.load(path, engines={...})."
        raise CompileError(Problem(where, f"needs the engine {name!r}; there are {names}", hint))
    try:
        return cast("Engine", installed[name].load())
    except (ImportError, AttributeError) as error:
        what = f"the engine {name!r} of {installed[name].value} cannot be imported: {error}"
        raise CompileError(Problem(where, what)) from error
