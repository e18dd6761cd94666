"""Files of IR: the text, and beside it ``NAME.npz`` with the large constants it refers to."""

import io
import os
from collections.abc import Iterator
from pathlib import Path

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.printer import Printer

from vtac.dialects.context import VtacContext
from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.vtac import ResourceAttr
from vtac.runtime.atomic import whole_file, write_whole


def resources_file(path: str | os.PathLike[str]) -> Path:
    """Where the large constants of an IR file lie."""
    return Path(f"{os.fspath(path)}.npz")


def load_resources_beside(ctx: VtacContext, path: str | os.PathLike[str]) -> None:
    """Add the constants of the ``.npz`` beside an IR file, if there is one."""
    file = resources_file(path)
    if not file.exists():
        return
    try:
        ctx.resources.load(file)
    except (OSError, ValueError, EOFError, KeyError) as error:
        raise CompileError(Problem(str(file), f"cannot be read as an .npz: {error}")) from None


def write_ir(path: str | os.PathLike[str], text: str, module: ModuleOp, ctx: VtacContext) -> None:
    """Write text, and the constants that ``module`` refers to beside it (none, no file)."""
    used = {key: ctx.resources[key] for key in sorted(referenced(module)) if key in ctx.resources}
    if used:
        import numpy as np  # takes longer to import than most passes run

        with whole_file(resources_file(path)) as temporary, temporary.open("wb") as stream:
            np.savez_compressed(stream, **used)  # type: ignore[arg-type]
    write_whole(path, text.encode())


def module_text(module: ModuleOp, *, locations: bool = False) -> str:
    """The module as text, in custom form; with the layer that each op came from, if wished for."""
    stream = io.StringIO()
    Printer(stream, print_debuginfo=locations).print_op(module)
    return f"{stream.getvalue()}\n"


def referenced(module: ModuleOp) -> set[str]:
    """The names of the resources that occur in the attributes of a module."""
    found: set[str] = set()
    for op in module.walk():
        for attribute in (*op.attributes.values(), *op.properties.values()):
            found.update(_keys(attribute))
    return found


def _keys(attribute: Attribute) -> Iterator[str]:
    if isinstance(attribute, ResourceAttr):
        yield attribute.key.data
    elif isinstance(attribute, ParametrizedAttribute):
        for parameter in attribute.parameters:
            yield from _keys(parameter)
    elif isinstance(attribute, ArrayAttr):
        for item in attribute.data:
            yield from _keys(item)
    elif isinstance(attribute, DictionaryAttr):
        for item in attribute.data.values():
            yield from _keys(item)
