"""Files of IR: the text, and beside it the arrays that belong to it.

``FILE.mlir.npz`` has the large constants. ``FILE.mlir.observations.npz`` has what the network did
on samples, if the IR is that of a calibrated network (`vtac.tools.driver.observations`).
"""

import io
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.printer import Printer

from vtac.dialects.context import Array, VtacContext
from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.vtac import ResourceAttr
from vtac.runtime.atomic import is_file, whole_file, write_whole


def resources_file(path: str | os.PathLike[str]) -> Path:
    """The file of the large constants of an IR file."""
    return Path(f"{os.fspath(path)}.npz")


def observations_file(path: str | os.PathLike[str]) -> Path:
    """The file of the observations of a calibrated network."""
    return Path(f"{os.fspath(path)}.observations.npz")


def load_observations_beside(
    ctx: VtacContext, path: str | os.PathLike[str], module: ModuleOp
) -> None:
    """Put the observations beside an IR file, if there are any, into the context."""
    file = observations_file(path)
    if file.exists():
        from vtac.tools.driver.observations import Observed  # imports onnxruntime
        from vtac.tools.driver.planner import main_function

        ctx.observations = Observed.load(file, module, main_function(module), ctx)


def load_resources_beside(ctx: VtacContext, path: str | os.PathLike[str]) -> None:
    """Add the constants of the ``.npz`` beside an IR file, if there is one."""
    file = resources_file(path)
    if not file.exists():
        return
    try:
        ctx.resources.load(file)
    except OSError as error:
        raise CompileError(Problem(str(file), f"cannot read it: {error.strerror}")) from None


def write_ir(path: str | os.PathLike[str], text: str, module: ModuleOp, ctx: VtacContext) -> None:
    """Write text, and beside it the constants and the observations that belong to ``module``.

    Where there are none there is no file of them; one that an earlier module left is removed.
    Nothing is written beside a device or a pipe.
    """
    if is_file(path):
        used = used_constants(module, ctx)
        if used:
            # NumPy takes longer to import than most passes run.
            from vtac.dialects.array_files import write_npz

            with whole_file(resources_file(path)) as temporary, temporary.open("wb") as stream:
                write_npz(stream, used, compress=True)
        _write_observations(observations_file(path), ctx)
    write_whole(path, text.encode())


def remove_ir(path: str | os.PathLike[str]) -> None:
    """Remove what `write_ir` wrote."""
    for file in (Path(path), resources_file(path), observations_file(path)):
        file.unlink(missing_ok=True)


def print_ir(text: str, module: ModuleOp, ctx: VtacContext, command: str) -> None:
    """Print text, and note on standard error that its large constants are not in it."""
    sys.stdout.write(text)
    note_constants(len(used_constants(module, ctx)), command)
    note_lost_constants(module, ctx, command)


_BESIDE = "-o FILE.mlir writes them beside it"


def note_constants(count: int, command: str, way: str = _BESIDE) -> None:
    """Note on standard error that printed text refers to constants. way: how to get them."""
    if count:
        print(
            f"{command}: note: the text refers to {count} large constants, which are not in it:"
            f" {way}",
            file=sys.stderr,
        )


def note_lost_constants(module: ModuleOp, ctx: VtacContext, command: str) -> None:
    """Note on standard error that constants of a module were not beside the text that was read."""
    if lost := sorted(referenced(module) - set(ctx.resources)):
        named = ", ".join(lost[:3]) + (", ..." if len(lost) > 3 else "")
        print(
            f"{command}: warning: {len(lost)} large constants are not at hand ({named}), and will"
            " be missing wherever they are needed: they lie in the .npz beside the file that they"
            " were written with",
            file=sys.stderr,
        )


def used_constants(module: ModuleOp, ctx: VtacContext) -> dict[str, Array]:
    """The large constants that a module refers to, by name, as far as they are known."""
    return {key: ctx.resources[key] for key in sorted(referenced(module)) if key in ctx.resources}


def _write_observations(file: Path, ctx: VtacContext) -> None:
    """Save the observations of the context, unless the network has been quantised since."""
    if ctx.observations is not None:
        from vtac.tools.driver.observations import Observed

        if isinstance(ctx.observations, Observed) and not ctx.observations.is_used:
            ctx.observations.save(file)
            return
    file.unlink(missing_ok=True)


def module_text(module: ModuleOp, *, locations: bool = False) -> str:
    """The module as text in custom form. locations: whether with the layer of each op."""
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
