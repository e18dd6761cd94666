"""From a package to the files of the C project: host parts and launches in order, then memory."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from vtac.dialects.arguments import PATH, Kind, takes
from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.target import Target
from vtac.runtime.atomic import write_together
from vtac.runtime.c_project.body import Body, CStep
from vtac.runtime.c_project.device import DevicePlan, plan_device
from vtac.runtime.c_project.host_parts import add_host_part
from vtac.runtime.c_project.memory import MemoryPlan, plan_memory
from vtac.runtime.c_project.sources import Sources, launch_lines
from vtac.runtime.c_project.tensors import C_TYPES, IN_PYTHON, ProgramTensor
from vtac.runtime.engine import tensor_dtype
from vtac.runtime.package import HOST, Package, Step, Value

if TYPE_CHECKING:
    from vtac.runtime.executor import Module

_WITHOUT_VTA = "sim"
"""The machine of a project none of whose steps is a launch."""


@dataclass(frozen=True)
class CProject:
    """The files of a project, by name, and the plans of its memory."""

    files: Mapping[str, bytes]
    memory: MemoryPlan
    device: DevicePlan

    def write(self, folder: str | os.PathLike[str]) -> None:
        """Write all files or none into a folder that is made if it is missing.

        Raises `CompileError`.
        """
        write_together(folder, self.files)


def _has_package(value: object) -> bool:
    return isinstance(value, Package) or isinstance(getattr(value, "package", None), Package)


@takes(model=Kind("a Module or a Package", _has_package), folder=PATH)
def export_c(model: "Module | Package", folder: str | os.PathLike[str]) -> CProject:
    """Write a compiled model as a C99 project, and return what was written.

    ``make`` in the folder builds ``./model``, which ``./model --help`` describes. Raises
    `CompileError` with everything that cannot be exported.
    """
    project = c_project_of(model if isinstance(model, Package) else model.package)
    project.write(folder)
    return project


def c_project_of(package: Package) -> CProject:
    """The project of a package. Raises `CompileError` with everything that cannot be exported."""
    problems = [*_value_problems(package), *_function_problems(package)]
    if problems:
        raise CompileError(problems)
    target = package.target or Target.named(_WITHOUT_VTA)
    if not isinstance(target, Target):
        what = "programs for a cluster have no form in C"
        raise CompileError(Problem("package", what, "Compile for a single machine."))
    device = plan_device(package, target)
    body = Body()
    tensors = {name: _value(body, package.value(name)) for name in package.inputs}
    inputs = {name: tensors[name] for name in package.inputs}
    for step in package.steps:
        try:
            results = _run_step(step, package, tensors, body, device)
        except CompileError as error:
            problems += error.problems
            results = [_value(body, package.value(name)) for name in step.outputs]
        tensors.update(zip(step.outputs, results, strict=True))
    if problems:
        raise CompileError(problems)
    outputs = {o.name: _stored(tensors[o.value], o.name, body) for o in package.outputs}
    memory = plan_memory(
        body.sizes,
        body.titles,
        body.steps,
        [cast(str, tensor.value) for tensor in inputs.values()],
        [cast(str, tensor.value) for tensor in outputs.values()],
    )
    sources = Sources(target, body, memory, device, inputs, outputs)
    return CProject(sources.files(), memory, device)


def _value_problems(package: Package) -> Iterator[Problem]:
    """Values between steps that have no static tensor of C's types."""
    for value in package.values:
        dtype = tensor_dtype(value)
        place = f"value {value.name!r}"
        if dtype is None or dtype not in C_TYPES:
            yield Problem(place, f"is {value.type}, which C has not", IN_PYTHON)
        elif value.shape is None or None in value.shape:
            hint = "Fix the shapes of the inputs: vta-compile --shape NAME=1,3,32,32."
            yield Problem(place, "has a shape that is known at run time only", hint)
        elif 0 in value.shape:
            yield Problem(place, "has no elements", IN_PYTHON)


def _function_problems(package: Package) -> Iterator[Problem]:
    for name, function in package.functions.items():
        if function.codegen != "vta":
            what = f"is of codegen {function.codegen!r}, and only programs of VTA are exported"
            yield Problem(
                f"function {name}", what, "Compile without it: vta-compile --codegen vta."
            )


def _value(body: Body, value: Value) -> ProgramTensor:
    """A tensor for a value of the package."""
    dtype = tensor_dtype(value)
    assert dtype is not None and value.physical_shape is not None
    return body.value(value.name, dtype, cast(tuple[int, ...], tuple(value.physical_shape)))


def _run_step(
    step: Step,
    package: Package,
    tensors: Mapping[str, ProgramTensor],
    body: Body,
    device: DevicePlan,
) -> list[ProgramTensor]:
    """Append a step of the package; its results. Raises `CompileError`."""
    inputs = [tensors[name] for name in step.inputs]
    if step.kind == HOST:
        data = package.host_parts[step.part]
        return add_host_part(step.part, data, package.blobs, inputs, body)
    outputs = [_value(body, package.value(name)) for name in step.outputs]
    pointers = ([body.pointer(tensor) for tensor in ends] for ends in (inputs, outputs))
    lines = launch_lines(device.programs[step.part], device.base, *pointers)
    reads = tuple(tensor.value for tensor in inputs if tensor.value is not None)
    writes = tuple(tensor.value for tensor in outputs if tensor.value is not None)
    body.steps.append(CStep(f"Launch {step.part}", tuple(lines), reads, writes, can_fail=True))
    return outputs


def _stored(tensor: ProgramTensor, name: str, body: Body) -> ProgramTensor:
    """An output in the memory of the network; a constant one is copied there in each run."""
    if tensor.array is None:
        return tensor
    y = body.value(name, tensor.dtype, tensor.shape)
    copied = f"memcpy(y, x, {tensor.bytes});"
    body.step(f"Constant '{name}'", [], [y], [*body.operands(x=tensor, y=y), copied])
    return y
