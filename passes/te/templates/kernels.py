"""What passes that schedule kernels have in common: which kernels, their spaces, and messages."""

from xdsl.dialects.builtin import ModuleOp, NameLoc

from vtac.dialects.errors import CompileError, DoesNotFit, Problem
from vtac.dialects.target import Target, target_at
from vtac.dialects.te import CallOp, KernelOp, PointOp, ScheduleOp, SpaceOp
from vtac.passes.te.schedule.structure import structure_of
from vtac.passes.te.templates.find import template_named
from vtac.passes.te.templates.template import ScheduleSpace, Template


def target_of_module(module: ModuleOp) -> Target:
    """The machine that a module is for. Raises `CompileError` if it says none."""
    target = target_at(module)
    if target is not None:
        return target
    raise CompileError(
        Problem("", "there is no vtac.target on the module", "vta-opt --target sets one.")
    )


def unscheduled_kernels(module: ModuleOp, name: str = "") -> list[KernelOp]:
    """The kernels of tensors that have no schedule; name: only the one called so.

    Raises `CompileError` if there is no such kernel.
    """
    scheduled = {s.kernel.root_reference.data for s in module.ops if isinstance(s, ScheduleOp)}
    found = [
        op
        for op in module.ops
        if isinstance(op, KernelOp)
        and not op.is_lowered
        and op.sym_name.data not in scheduled
        and name in ("", op.sym_name.data)
    ]
    if name and not found:
        what = "there is no kernel of tensors of this name that has no schedule"
        raise CompileError(Problem(f"te.kernel @{name}", what))
    return found


def declared_spaces(module: ModuleOp, name: str = "") -> list[tuple[KernelOp, SpaceOp]]:
    """The kernels whose space is declared, with it; name: only the one called so.

    Raises `CompileError` if there is no such space.
    """
    spaces = {s.kernel.root_reference.data: s for s in module.ops if isinstance(s, SpaceOp)}
    found = [
        (kernel, spaces[kernel.sym_name.data])
        for kernel in unscheduled_kernels(module)
        if kernel.sym_name.data in spaces and name in ("", kernel.sym_name.data)
    ]
    if name and not found:
        hint = "te-declare-space writes one."
        raise CompileError(Problem(f"te.kernel @{name}", "it has no te.space", hint))
    return found


def point_beside(space: SpaceOp) -> PointOp | None:
    """The point of a declared space, if the module has one."""
    block = space.parent
    assert block is not None
    points = (op for op in block.ops if isinstance(op, PointOp))
    return next((point for point in points if point.kernel == space.kernel), None)


class Layers:
    """For each kernel, the layers that call it: what messages are about."""

    def __init__(self, module: ModuleOp):
        self._layers: dict[str, list[str]] = {}
        for call in module.walk():
            if isinstance(call, CallOp) and isinstance(call.location, NameLoc):
                callee = call.callee.root_reference.data
                self._layers.setdefault(callee, []).append(call.location.desc.data)

    def of(self, kernel: KernelOp) -> str:
        """Where a problem with a kernel is."""
        name = kernel.sym_name.data
        return ", ".join(self._layers.get(name, ())) or f"te.kernel @{name}"

    def problems(self, kernel: KernelOp, error: CompileError) -> list[Problem]:
        """The problems of a kernel, which its layers may leave to the host."""
        layers = tuple(self._layers.get(kernel.sym_name.data, ()))
        return [
            DoesNotFit(p.where or self.of(kernel), p.what, p.hint, layers) for p in error.problems
        ]


def space_of(kernel: KernelOp, template: Template, target: Target, layer: str) -> ScheduleSpace:
    """The space that a template declares for a kernel.

    layer: what errors name. Raises `CompileError` for stages that nothing is known about, and where
    the template refuses the kernel.
    """
    structure = structure_of(kernel, layer)
    reason = template.refuses(structure)
    if reason is not None:
        raise CompileError(Problem(layer, f"template '{template.name}' does not apply: {reason}"))
    return template.declare(structure, target)


def declaring(declared: SpaceOp, layer: str) -> Template:
    """The template that declared a space. Raises `CompileError` if its knobs mean others now."""
    template = template_named(declared.template.data)
    version = declared.version.value.data
    if version != template.version:
        what = f"its te.space is of version {version} of template '{template.name}'"
        hint = f"This is version {template.version}; te-declare-space writes the space again."
        raise CompileError(Problem(layer, what, hint))
    return template
