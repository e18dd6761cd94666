"""``te-choose-point``: writes a point for each declared schedule space that has none.

Takes kernels with a `te.space`. Leaves a `te.point` behind each. Options: ``kernel``, only this
one; ``method``: ``default``, the point of the template's rule, or ``random``, a point that fits,
drawn with ``seed``.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.te import PointOp, canonical_text
from vtac.passes.te.templates.kernels import (
    Layers,
    declared_spaces,
    declaring,
    point_beside,
    space_of,
    target_of_module,
)
from vtac.passes.te.templates.template import RulePoint, ScheduleSpace

DRAWS = 10_000
"""Points drawn until one fits."""


@dataclass(frozen=True)
class TeChoosePointPass(ModulePass):
    """Write a point of each schedule space."""

    name = "te-choose-point"

    kernel: str = ""
    method: str = "default"
    seed: int = 0

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Choose the points; report all problems together."""
        chosen = self._methods.get(self.method)
        if chosen is None:
            hint = f"There are {', '.join(self._methods)}."
            raise CompileError(Problem("", f"there is no method '{self.method}'", hint))
        target, layers, problems = target_of_module(op), Layers(op), list[Problem]()
        found: dict[tuple[str, str], RulePoint] = {}
        for kernel, declared in declared_spaces(op, self.kernel):
            if point_beside(declared) is not None:
                continue
            layer = layers.of(kernel)
            key = declared.template.data, canonical_text(kernel)
            try:
                if key not in found:
                    space = space_of(kernel, declaring(declared, layer), target, layer)
                    found[key] = chosen(space, layer)
                _check(found[key], declared.knobs.check(found[key].point), layer)
            except CompileError as error:
                problems += layers.problems(kernel, error)
                continue
            point = PointOp(kernel.sym_name.data, *found[key])
            op.body.block.insert_op_after(point, declared)
        if problems:
            raise CompileError(problems)

    @property
    def _methods(self) -> Mapping[str, Callable[[ScheduleSpace, str], RulePoint]]:
        return {"default": lambda space, layer: space.rule(layer), "random": self._drawn}

    def _drawn(self, space: ScheduleSpace, layer: str) -> RulePoint:
        random = Random(self.seed)
        for _ in range(DRAWS):
            point = space.draw(random)
            if space.problem(point) is None:
                return RulePoint(space.canonical(point), space.cost(point))
        raise CompileError(Problem(layer, f"none of {DRAWS} random points fits"))


def _check(chosen: RulePoint, wrong: str | None, layer: str) -> None:
    if wrong is not None:
        what = f"the point that was chosen is not in the te.space: {wrong}"
        raise CompileError(Problem(layer, what))
