"""The kernels of a module as tasks of a search: equal ones together, with how often they run."""

from collections.abc import Sequence

from xdsl.dialects.builtin import ModuleOp, NameLoc, StringAttr

from vtac.dialects import te
from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.target import TARGET_ATTRIBUTE, Target, target_at
from vtac.dialects.te import Point, digest_of_kernel
from vtac.passes.te.accelerated import CODEGEN
from vtac.sim import estimate
from vtac.tools.tune.kernel import prepared
from vtac.tools.tune.keys import caller_of, kernel_summary
from vtac.tools.tune.protocol import Task

TEMPLATE = "tiles"
"""The template whose points are searched unless another is named."""


def tasks_of(module: ModuleOp, template: str = TEMPLATE) -> list[Task]:
    """A task for each kernel of tensors that differs from those before, in their order.

    module: at the level ``te``, with a `vtac.target`; schedules in it are not looked at. Raises
    `CompileError` where it has no target, or a kernel has no schedule that fits.
    """
    target = target_at(module)
    if target is None:
        raise CompileError(Problem("", f"there is no {TARGET_ATTRIBUTE} on the module"))
    kernels = {
        op.sym_name.data: op
        for op in module.ops
        if isinstance(op, te.KernelOp) and not op.is_lowered
    }
    calls: dict[str, list[te.CallOp]] = {}
    for op in module.walk():
        if isinstance(op, te.CallOp):
            calls.setdefault(op.callee.root_reference.data, []).append(op)
    groups: dict[str, list[str]] = {}
    for name, kernel in kernels.items():
        groups.setdefault(digest_of_kernel(kernel), []).append(name)
    return [
        _task(digest, kernels[names[0]], [c for n in names for c in calls.get(n, ())], template)
        for digest, names in groups.items()
    ]


def _task(digest: str, kernel: te.KernelOp, calls: Sequence[te.CallOp], template: str) -> Task:
    text = module_text(kernel, calls[0] if calls else None)
    name = kernel.sym_name.data
    layers = [call.location.desc.data for call in calls if isinstance(call.location, NameLoc)]
    ready = prepared(text, template)
    default = ready.space.rule(", ".join(layers) or f"te.kernel @{name}").point
    cycles, bound = clocked(text, template, default)
    return Task(
        name=name,
        layers=tuple(dict.fromkeys(layers)),
        digest=digest,
        summary=kernel_summary(kernel),
        module=text,
        target=ready.target,
        multiplicity=max(len(calls), 1),
        default=default,
        default_cycles=cycles,
        bound=bound,
        template=template,
        version=ready.version,
    )


def clocked(module: str, template: str, point: Point) -> tuple[int, int]:
    """Cycles and lower bound of a point's program. Raises `CompileError` where it is refused."""
    ready = prepared(module, template)
    report = estimate(ready.target, ready.clock.words(ready.schedule(point)))
    return report.cycles, report.total.lower_bound


def module_text(kernel: te.KernelOp, call: te.CallOp | None) -> str:
    """A module with the kernel and one call of it, whose constants are names without numbers.

    call: says which arguments are constants; none are if there is no call.
    """
    arguments = () if call is None else call.arguments
    constants = [n for n, value in enumerate(arguments) if isinstance(value.owner, te.ConstantOp)]
    function = caller_of(kernel, kernel.sym_name.data, constants, "caller")
    target = _target_of(kernel)
    function.attributes |= {"codegen": StringAttr(CODEGEN), TARGET_ATTRIBUTE: target}
    return str(ModuleOp([kernel.clone(), function], {TARGET_ATTRIBUTE: target}))


def _target_of(kernel: te.KernelOp) -> Target:
    target = target_at(kernel)
    assert target is not None
    return target
