"""Libraries of optimisation that a method needs and that are not installed with vtac itself."""

import importlib
from typing import Any

from vtac.dialects.errors import CompileError, Problem


def library(name: str, method: str) -> Any:
    """The module of that name, which is also the name of the extra that installs it.

    Raises `CompileError` that says so where it is missing.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise CompileError(
            Problem(
                f"method {method}", f"{name} is not installed", f"pip install 'vtac[{name}]' does."
            )
        ) from None
