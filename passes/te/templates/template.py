"""What a template of schedules is: it declares the schedule space of a kernel, and fills it in.

FlexTensor (Zheng et al., ASPLOS 2020) generates a space for every computation; AutoTVM takes one
template per operator, written by hand. Here both are templates: `tiles` covers every kernel whose
stages are understood, `conv2d-threads` is TVM's. Other packages add theirs by entry points
(`find`).
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import ClassVar, NamedTuple

from vtac.dialects.errors import Problem
from vtac.dialects.target import Target
from vtac.dialects.te import KernelOp, Knob, Knobs, Point, ScheduleOp
from vtac.passes.te.schedule.structure import Structure


class RulePoint(NamedTuple):
    """The point that a template's rule takes, and its cycles by the template's cost model.

    cycles: None where the template has no cost model.
    """

    point: Point
    cycles: int | None


class ScheduleSpace(Knobs, ABC):
    """The schedule space of one kernel on one machine: its knobs, and what a point of them means.

    It keeps what judgements of points have in common, so one space serves many points.
    """

    def __init__(self, structure: Structure, target: Target, knobs: Iterable[Knob]):
        super().__init__(knobs)
        self.structure, self.target = structure, target

    @abstractmethod
    def canonical(self, point: Point) -> Point:
        """The one point that stands for all whose programs are equal to this one's.

        Two points are the same trial if the `point_text` of their canonical points is equal.
        """

    @abstractmethod
    def problem(self, point: Point) -> Problem | None:
        """Why a point does not fit the machine, with needs and depths; None if it fits.

        It is exact: no pass after it refuses a point that fits.
        """

    @abstractmethod
    def cost(self, point: Point, limit: int | None = None) -> int | None:
        """Cycles of a point by the template's cost model; None if it has none.

        limit: a cost of at least so much may stand for any that is larger.
        """

    @abstractmethod
    def rule(self, layer: str = "") -> RulePoint:
        """The point of the template's rule. Raises `CompileError` where nothing fits.

        layer: what errors name.
        """

    @abstractmethod
    def schedule(self, kernel: KernelOp, point: Point, cycles: int | None = None) -> ScheduleOp:
        """The schedule that a point stands for.

        kernel: the one whose structure this is. cycles: the cost of the point, if it is known.
        """


class Template(ABC):
    """A way to schedule kernels. name, version: what records of points are kept under."""

    name: ClassVar[str]
    version: ClassVar[int]
    """A new one where knobs change their meaning: points recorded under others are not used."""

    @abstractmethod
    def refuses(self, structure: Structure) -> str | None:
        """Why the template does not apply to a kernel; None if it does."""

    @abstractmethod
    def declare(self, structure: Structure, target: Target) -> ScheduleSpace:
        """The space of a kernel that it does not refuse."""
