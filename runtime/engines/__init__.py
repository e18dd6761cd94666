"""The run halves of codegens: ``runtime/engines/NAME.py`` runs what codegen NAME made.

Each module offers ``ENGINE``. An engine is found by the name in the package, among those that the
caller gives and the modules of this folder and nowhere else, so that a package cannot choose what
is imported.
"""

import importlib
import pkgutil
from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from vtac.dialects.errors import CompileError, Problem

if TYPE_CHECKING:
    from vtac.runtime.engine import Engine


def engine_named(name: str, where: str, given: "Mapping[str, Engine] | None" = None) -> "Engine":
    """The engine of a codegen. Raises `CompileError` on a name that is none."""
    if given is not None and name in given:
        return given[name]
    known = sorted(info.name for info in pkgutil.iter_modules(__path__))
    if name not in known:
        names = ", ".join(sorted({*known, *(given or ())}))
        raise CompileError(Problem(where, f"needs the engine {name!r}; there are {names}"))
    return cast("Engine", importlib.import_module(f"{__name__}.{name}").ENGINE)
