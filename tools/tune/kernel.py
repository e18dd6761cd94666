"""A kernel prepared for a search: its space, its clock, and its judgements without the clock."""

import math
from collections.abc import Hashable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Attribute
from xdsl.parser import Parser

from vtac.dialects import te
from vtac.dialects.context import VtacContext, constant_attr, element_dtype
from vtac.dialects.target import TARGET_ATTRIBUTE, Target
from vtac.dialects.te import Point, point_text
from vtac.passes.te.schedule.structure import is_table, structure_of
from vtac.passes.te.templates.find import template_named
from vtac.tools.driver.discovery import load_dialects
from vtac.tools.tensor_expressions.kernel_clock import KernelClock

KEPT = 64
"""Kernels that a process keeps prepared."""


class TaskKernel:
    """The one kernel of a task's module, with everything that its points have in common.

    module: text as in `Task.module`. template: the name of a template. Raises `CompileError` where
    the template does not know the kernel.
    """

    def __init__(self, module: str, template: str) -> None:
        self.ctx = VtacContext()
        load_dialects(self.ctx)
        self.module: ModuleOp = Parser(self.ctx, module).parse_module()
        (self.kernel,) = (op for op in self.module.ops if isinstance(op, te.KernelOp))
        target = self.module.attributes[TARGET_ATTRIBUTE]
        assert isinstance(target, Target)
        self.target: Target = target
        self.name = self.kernel.sym_name.data
        structure = structure_of(self.kernel, f"te.kernel @{self.name}")
        found = template_named(template)
        self.version = found.version
        self.space = found.declare(structure, target)
        self._fill_tables()
        self.clock = KernelClock(self.module, self.name, self.ctx)

    def _fill_tables(self) -> None:
        """Give numbers to constants that become immediates, which lie in instructions."""
        tables = {
            read.value
            for compute in self.kernel.computes
            for read in compute.reads
            if is_table(compute, read)
        }
        for call in self.module.walk():
            if isinstance(call, te.CallOp):
                for parameter, value in zip(
                    self.kernel.body.block.args, call.arguments, strict=True
                ):
                    if parameter in tables and isinstance(value.owner, te.ConstantOp):
                        value.owner.value = constant_attr(self.ctx, _any_numbers(value.type))

    def schedule(self, point: Point) -> te.ScheduleOp:
        """The schedule of a point."""
        return self.space.schedule(self.kernel, point, 0)

    def cycles(self, point: Point) -> int:
        """Its cycles by the clock. Raises `CompileError` where it is refused."""
        return self.clock.cycles(self.schedule(point))


def _any_numbers(type: Attribute) -> NDArray[np.generic]:
    """Numbers of a tensor type, neighbours different, small enough to shift by, and none that would
    leave an instruction out."""
    assert isinstance(type, TensorType)
    count = math.prod(type.get_shape())
    numbers = (np.arange(count) % 7 + 1).astype(element_dtype(type.element_type))
    return numbers.reshape(type.get_shape())


@lru_cache(maxsize=KEPT)
def prepared(module: str, template: str) -> TaskKernel:
    """The kernel of a module, prepared once in a process."""
    return TaskKernel(module, template)


class KernelScreen:
    """Judgements of a kernel's points by what buffers need and by the simulated cost.

    They are remembered by canonical points, so that a point is looked at once.
    """

    def __init__(self, kernel: TaskKernel, default: Point) -> None:
        self.default = default
        self.judged = self.simulated = 0
        self._space = kernel.space
        self._fits: dict[Hashable, bool] = {}
        self._keys: dict[Hashable, Hashable] = {}

    def key(self, point: Point) -> Hashable:
        """The text of the canonical point."""
        text = point_text(point)
        key = self._keys.get(text)
        if key is None:
            key = self._keys[text] = point_text(self._space.canonical(point))
        return key

    def fits(self, point: Point) -> bool:
        """Whether the machine has room for it."""
        self.judged += 1
        key = self.key(point)
        found = self._fits.get(key)
        if found is None:
            found = self._fits[key] = self._space.problem(point) is None
        return found

    def cost(self, point: Point, limit: int | None = None) -> int:
        """The cycles of the template's cost model; 0 if it has none."""
        self.simulated += 1
        return self._space.cost(point, limit) or 0
