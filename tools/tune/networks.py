"""What is tuned: the kernels of a model, of a module, or of tensor expressions, as tasks.

Axes and stages get the names of the canonical kernel, so that points mean the same for all kernels
of one text, whatever their axes are called in a network.
"""

import os
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TypeAlias, TypeGuard

from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from vtac.dialects.arguments import MODEL, instance, several
from vtac.dialects.context import VtacContext
from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.target import TARGET_ATTRIBUTE, Target
from vtac.dialects.te import KernelOp, ScheduleOp, use_canonical_names
from vtac.lowering.onnx_to_graph import ModelSource
from vtac.lowering.python_to_te.expressions import Tensor
from vtac.runtime.atomic import read_whole
from vtac.runtime.executor import Module
from vtac.runtime.samples import Source
from vtac.tools.driver.compiler import compile_model
from vtac.tools.driver.discovery import load_dialects
from vtac.tools.driver.options import CompileOptions
from vtac.tools.tensor_expressions.compiler import lowered
from vtac.tools.tune.protocol import Task
from vtac.tools.tune.tasks import tasks_of

LEVEL = "te"
"""The level at which kernels are scheduled."""

Tunable: TypeAlias = ModelSource | Module | ModuleOp | Tensor | Sequence[Tensor]
"""A model; a module that keeps its IR of the level te, or that IR; or tensors."""


class _Reached(Exception):  # noqa: N818
    """The level is reached: nothing below it is needed."""


def kernels_of(
    source: Tunable,
    target: Target,
    calibration: Source | None = None,
    options: CompileOptions | None = None,
) -> ModuleOp:
    """The kernels of what is to be tuned, at the level te. It is for ``target``.

    calibration, options: of a model, as for `vtac.compile`. Raises `CompileError` where nothing of
    it runs on the accelerator.
    """
    if isinstance(source, ModuleOp):
        module = source.clone()
    elif isinstance(source, Module):
        module = _module_in(source)
    elif isinstance(source, Tensor):
        module = lowered((source,), target, LEVEL)
    elif is_model(source):
        module = _network(source, target, calibration, options or CompileOptions())
    else:
        assert isinstance(source, Sequence) and not isinstance(source, str | bytes)
        module = lowered(source, target, LEVEL)
    module.attributes[TARGET_ATTRIBUTE] = target
    for op in list(module.ops):
        if isinstance(op, ScheduleOp):
            module.body.block.erase_op(op)
        elif isinstance(op, KernelOp):
            use_canonical_names(op)
    if not any(isinstance(op, KernelOp) and not op.is_lowered for op in module.ops):
        what = "there is no kernel of tensors: nothing to tune"
        raise CompileError(Problem("", what, f"Kernels are there at the level {LEVEL}."))
    return module


TUNABLE = (
    MODEL
    | instance("a Module, a module of IR or a tensor", Module, ModuleOp, Tensor)
    | several(instance("a tensor", Tensor), 1)
)
"""What `kernels_of` takes."""


def is_model(source: Tunable) -> TypeGuard[ModelSource]:
    """Whether something to tune is an ONNX model."""
    if isinstance(source, ModuleOp | Module | Tensor):
        return False
    return isinstance(source, str | bytes) or not isinstance(source, Sequence)


def read_kernels(path: str | os.PathLike[str]) -> ModuleOp:
    """The module of a file of IR. Raises what `vtac.tools.commands.diagnostics` reports."""
    ctx = VtacContext()
    load_dialects(ctx)
    text = read_whole(path).decode("utf-8", "replace")
    module = Parser(ctx, text, os.fspath(path)).parse_module()
    module.verify()
    return module


def tasks(
    module: ModuleOp, layers: Iterable[str] = (), note: Callable[[str], None] = lambda _: None
) -> list[Task]:
    """The kernels of a module as tasks, those whose layers or name match any of the patterns.

    Raises `CompileError` where none does.
    """
    patterns = tuple(layers)
    found = tasks_of(module)
    if not patterns:
        return found
    wanted = [
        task
        for task in found
        if any(fnmatchcase(name, p) for name in (task.name, *task.layers) for p in patterns)
    ]
    if not wanted:
        names = ", ".join(name for task in found for name in task.layers or (task.name,))
        what = f"no layer is called like {' or '.join(patterns)}"
        raise CompileError(Problem("--layers", what, f"Layers: {names}."))
    return wanted


def _module_in(module: Module) -> ModuleOp:
    """The IR of the level te that a compiled module keeps."""
    text = module.package.ir.get(LEVEL)
    if text is None:
        what = f"the module does not keep its IR of the level {LEVEL}"
        raise CompileError(Problem("", what, f"Compile it with keep_ir=['{LEVEL}']."))
    ctx = VtacContext()
    load_dialects(ctx)
    return Parser(ctx, text).parse_module()


def _network(
    model: ModelSource, target: Target, calibration: Source | None, options: CompileOptions
) -> ModuleOp:
    """The level te of a model, without what comes after it."""
    levels: list[ModuleOp] = []

    def observe(level: str, module: ModuleOp, ctx: VtacContext) -> None:
        if options.observe is not None:
            options.observe(level, module, ctx)
        if level == LEVEL:
            levels.append(module.clone())
            raise _Reached

    settings = replace(options, observe=observe, tuning=False)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they are problems here
            compiled = compile_model(model, target, calibration, settings)
    except _Reached:
        return levels[0]
    raise CompileError([Problem("", warning) for warning in compiled.report.warnings])
