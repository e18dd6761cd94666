"""The driver of tensor expressions: compiles tensors to a program that runs.

Its pipeline is that of networks from the level te on, after passes that bring logical tensors into
the machine's form.
"""

from collections.abc import Callable, Sequence

import numpy as np
from xdsl.dialects.builtin import ModuleOp, i8
from xdsl.dialects.func import FuncOp, ReturnOp

from vtac.dialects.context import Schedules, VtacContext
from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.target import Target
from vtac.dialects.te import Layout, shaped
from vtac.dialects.vta import ProgramOp
from vtac.lowering.codegens.vta import LOWERING
from vtac.lowering.python_to_te.expressions import INT8, INT32, Tensor
from vtac.lowering.python_to_te.module import module_of
from vtac.lowering.vta_to_binary import encode_program
from vtac.passes.te.borders import layouts_of
from vtac.runtime.device import Device, SimulatorDevice
from vtac.runtime.hazards import hazards_of
from vtac.runtime.tensor_program import TensorProgram, TensorSignature
from vtac.tools.driver.discovery import OurPasses
from vtac.tools.driver.options import TuningFiles
from vtac.tools.driver.pipelines import built_passes
from vtac.tools.files.ir_files import module_text
from vtac.tools.tune.lookup import recorded_schedules

EXPRESSIONS = "expressions"
"""The level of logical tensors, before any pass."""

PREPARE = "te-split-phases,te-byte-planes,te-pack-lanes"
"""From logical tensors to the form that graph-to-te makes."""


PIPELINE = LOWERING.replace("graph-to-te", PREPARE)
"""From logical tensors to instructions."""


def build(
    outputs: Tensor | Sequence[Tensor],
    target: str | Target = "pynq",
    device: Device | None = None,
    tuning: TuningFiles | None = None,
) -> TensorProgram:
    """Compile tensors into one program of an accelerator.

    outputs: what the program returns; its inputs are the placeholders behind them, the oldest
    first. target: the name of a preset, or a Target. device: where it runs, a simulator of its own
    if None. tuning: as for `vtac.compile`. Raises `CompileError` with everything that is wrong.
    """
    wanted = (outputs,) if isinstance(outputs, Tensor) else tuple(outputs)
    machine, recorded = Target.of(target), recorded_schedules(tuning)
    ctx = VtacContext(schedules=recorded)
    module = module_of(wanted, machine, ctx)
    found: list[TensorSignature] = []
    lower(
        module,
        ctx,
        "vta",
        lambda level: found.append(_signature(module)) if level == "te" else None,
    )
    (program,) = (op for op in module.ops if isinstance(op, ProgramOp))
    binary = encode_program(program)
    problems = hazards_of(binary, ctx.resources)
    if problems:
        raise CompileError(problems)

    def text(level: str) -> str:
        return module_text(lowered(wanted, machine, level, recorded))

    device = SimulatorDevice(machine) if device is None else device
    return TensorProgram(binary, found[0], ctx.resources, device, text)


def lowered(
    outputs: Sequence[Tensor], target: Target, level: str, schedules: Schedules | None = None
) -> ModuleOp:
    """The module of some tensors at a level: ``expressions``, ``te``, ``loops`` or ``vta``.

    schedules: finds recorded ones.
    """
    ctx = VtacContext(schedules=schedules)
    module = module_of(outputs, target, ctx)
    if level != EXPRESSIONS:
        lower(module, ctx, level, lambda _: None)
    return module


def lower(module: ModuleOp, ctx: VtacContext, level: str, reached: Callable[[str], None]) -> None:
    """Lower a module of logical tensors to a level; call ``reached`` at each level on the way."""
    if level not in PIPELINE.levels:
        names = ", ".join((EXPRESSIONS, *PIPELINE.levels))
        raise CompileError(Problem("", f"there is no level {level!r}", f"Levels: {names}."))
    for segment in PIPELINE.until(level).segments:
        for found in built_passes(segment.passes, OurPasses()):
            found.apply(ctx, module)
        reached(segment.level)


def _signature(module: ModuleOp) -> TensorSignature:
    """The signature of the function, whose parameters have been put into lanes."""
    (function,) = (op for op in module.ops if isinstance(op, FuncOp))
    block = function.body.block
    last = block.last_op
    assert isinstance(last, ReturnOp)
    dtypes = [INT8 if shaped(value).element_type == i8 else INT32 for value in block.args]
    parameters = list(zip(layouts_of(function.arg_attrs, block.args, "arg"), dtypes, strict=True))
    results = layouts_of(function.res_attrs, last.arguments, "result")
    return TensorSignature(
        {layout.name: (layout.shape, dtype) for layout, dtype in parameters},
        {layout.name: (layout.shape, _dtype(layout)) for layout in results},
        parameters,
        results,
    )


def _dtype(result: Layout) -> "np.dtype[np.int8] | np.dtype[np.int32]":
    """The dtype of a result: int32 if it comes as one plane per byte, else int8."""
    return INT8 if result.byte is None else INT32
