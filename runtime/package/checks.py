"""Checks of a package beyond its format: every value of the plan is made before it is read.

Engines check the functions of their codegens (``runtime/engines``).
"""

from collections.abc import Iterator

from vtac.dialects.errors import CompileError, Problem
from vtac.runtime.package.contents import HOST, LAUNCH, Package, lifetimes


def verify_plan(package: Package, where: str) -> None:
    """Raise `CompileError` with all faults of the plan of a package."""
    problems = [Problem(where, what) for what in _faults(package)]
    if problems:
        raise CompileError(problems)


def _faults(package: Package) -> Iterator[str]:
    names = [value.name for value in package.values]
    if len(set(names)) != len(names):
        yield "two values have one name"
    faults = list(_step_faults(package, set(names)))
    yield from faults
    used = {step.part for step in package.steps}
    for part in sorted({*package.host_parts, *package.functions} - used):
        yield f"part {part!r} is in no step"
    for function in package.functions.values():
        for digest in function.blobs:
            if digest not in package.blobs:
                yield f"function {function.name!r} needs the constant {digest[:16]}, not there"
    if faults:
        return
    outputs = [output.value for output in package.outputs]
    spans = lifetimes(package.inputs, outputs, package.steps)
    for value in package.values:
        if spans.get(value.name) != (value.first, value.last):
            yield f"value {value.name!r} lives from step {value.first} to {value.last}, not so"
        if value.layout is not None and _unpackable(value.shape):
            yield f"value {value.name!r} cannot have a packed layout"


def _unpackable(shape: tuple[int | None, ...] | None) -> bool:
    return shape is None or len(shape) < 2 or any(extent is None or extent < 1 for extent in shape)


def _step_faults(package: Package, names: set[str]) -> Iterator[str]:
    parts = {HOST: package.host_parts, LAUNCH: package.functions}
    known = set(package.inputs)
    if len(known) != len(package.inputs):
        yield "two inputs have one name"
    for name in sorted(known - names):
        yield f"input {name!r} is not a value"
    for index, step in enumerate(package.steps):
        if step.kind not in parts:
            yield f"step {index} is of unknown kind {step.kind!r}"
        elif step.part not in parts[step.kind]:
            yield f"step {index} runs {step.part!r}, which is not there"
        for name in step.inputs:
            if name not in known:
                yield f"step {index} reads {name!r} before it is made"
        for name in step.outputs:
            if name in known or name not in names:
                yield f"step {index} makes {name!r}, which is there already or no value"
        known.update(step.outputs)
    for output in package.outputs:
        if output.value not in known:
            yield f"output {output.name!r} is never made"
