"""Makes HTML pages of commands: their templates, and the scripts that draw their plots."""

from functools import cache
from pathlib import Path
from typing import Any

from vtac.dialects.errors import CompileError, Problem

_NO_SNIPPET: Any = None
"""The whole bundle, with Vega-Embed as a global, which the stubs of vl-convert do not know."""


@cache
def page_templates(folder: Path) -> Any:
    """The templates of a folder, which escape everything that they are given.

    Raises `CompileError` if jinja2 is not installed.
    """
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
    except ImportError:
        raise _missing("jinja2") from None
    return Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


@cache
def plot_library() -> str:
    """The scripts of Vega, Vega-Lite and Vega-Embed.

    Raises `CompileError` if vl-convert is not installed.
    """
    try:
        import vl_convert
    except ImportError:
        raise _missing("vl-convert-python") from None
    return str(vl_convert.javascript_bundle(_NO_SNIPPET))


def _missing(package: str) -> CompileError:
    hint = "Install it: pip install 'vtac[report]'."
    return CompileError(Problem("report", f"needs the package {package}", hint))
