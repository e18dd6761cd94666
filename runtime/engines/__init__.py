"""The run halves of codegens: ``runtime/engines/NAME.py`` runs functions of codegen NAME.

Each module defines ``ENGINE``. The name in a package is looked up among the engines that the caller
passes and the modules of this folder only, so that a package cannot choose what is imported.
"""

import importlib
import pkgutil
from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from vtac.dialects.errors import CompileError, Problem

if TYPE_CHECKING:
    from vtac.runtime.engine import Engine


def engine_named(name: str, where: str, given: "Mapping[str, Engine] | None" = None) -> "Engine":
    """The engine of a codegen. Raises `CompileError` on an unknown name."""
    if given is not None and name in given:
        return given[name]
    known = sorted(info.name for info in pkgutil.iter_modules(__path__))
    if name not in known:
        names = ", ".join(sorted({*known, *(given or ())}))
        raise CompileError(Problem(where, f"needs the engine {name!r}; there are {names}"))
    return cast("Engine", importlib.import_module(f"{__name__}.{name}").ENGINE)
