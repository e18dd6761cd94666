"""Recorded points in place of the rule's: only where they hold for the kernel, and do not hurt.

Records come from elsewhere (`VtacContext.schedules`) and may be old. The point of a record is taken
if its template still has that version, the point lies in the space that the template declares for
the kernel, it fits the machine, and its cost by the template's cost model is at most `WORSE` times
that of the rule's point. Otherwise the rule's point stays, and the schedule says why.

Records name knobs as the canonical kernel does (`canonical_kernel`); the names of axes and stages
of the kernel at hand follow from their places.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, StringAttr, i64

from vtac.dialects.context import RecordedPoint
from vtac.dialects.errors import CompileError
from vtac.dialects.te import (
    KernelOp,
    Knob,
    KnobKind,
    Knobs,
    Point,
    Value,
    canonical_kernel,
)
from vtac.passes.te.schedule.structure import structure_of
from vtac.passes.te.templates.find import all_templates
from vtac.passes.te.templates.template import RulePoint, ScheduleSpace

RECORD = "record"
"""Attribute of a schedule for whose kernel there was a record: what it says, and why it was not
used where it was not.
"""

WORSE = 1.05
"""How many times the rule's cost the cost of a recorded point may be."""


@dataclass(frozen=True)
class Chosen:
    """A point of a space, its cost, and the attribute `RECORD` (None without a record)."""

    space: ScheduleSpace
    point: RulePoint
    record: DictionaryAttr | None = None


def chosen_point(
    kernel: KernelOp,
    space: ScheduleSpace,
    rule: RulePoint,
    records: Sequence[RecordedPoint],
) -> Chosen:
    """The first recorded point that can be used, else the rule's.

    space: of the rule. records: for this kernel and this machine, the best first.
    """
    reasons: list[str] = []
    for record in records:
        found = _usable(kernel, space, rule, record)
        if isinstance(found, Chosen):
            return found
        reasons.append(found)
    if not records:
        return Chosen(space, rule)
    return Chosen(space, rule, _attribute(records[0], reasons[0]))


def _usable(
    kernel: KernelOp, space: ScheduleSpace, rule: RulePoint, record: RecordedPoint
) -> Chosen | str:
    """The point of a record for a kernel, or why it cannot be used."""
    template = all_templates().get(record.template)
    if template is None:
        return f"there is no template '{record.template}'"
    if record.version != template.version:
        return (
            f"it is of version {record.version} of template '{template.name}', which has"
            f" {template.version}"
        )
    where = f"te.kernel @{kernel.sym_name.data}"
    try:
        structure = structure_of(canonical_kernel(kernel), where)
        reason = template.refuses(structure)
        if reason is not None:
            return f"template '{template.name}' does not apply: {reason}"
        canonical = template.declare(structure, space.target)
        own = template.declare(space.structure, space.target)
        if (fault := canonical.check(record.point)) is not None:
            return fault
        point = renamed_point(record.point, canonical, own)
        if (problem := own.problem(point)) is not None:
            return problem.what
        cost = own.cost(point)
    except CompileError as error:
        return error.problems[0].what
    if cost is None or rule.cycles is None:
        return f"template '{template.name}' has no cost model to check it by"
    if cost > WORSE * rule.cycles:
        return f"its cost of {cost:,} cycles exceeds the {rule.cycles:,} of the default by too much"
    return Chosen(own, RulePoint(point, cost), _attribute(record))


def renamed_point(point: Point, named: Knobs, wanted: Knobs) -> Point:
    """A point in the names of another space.

    The two spaces are of kernels that differ in nothing but the names of axes and stages, so knobs
    and their values have equal places in both. Raises KeyError on a point of neither.
    """
    both = zip(named.knobs.values(), wanted.knobs.values(), strict=True)
    pairs = {one.name: (one, other) for one, other in both}
    return {
        pairs[name][1].name: _renamed_value(value, *pairs[name]) for name, value in point.items()
    }


def _renamed_value(value: Value, named: Knob, wanted: Knob) -> Value:
    if named.kind is KnobKind.PERMUTATION:
        assert isinstance(value, tuple)
        assert isinstance(named.default, tuple) and isinstance(wanted.default, tuple)
        places = [named.default.index(entry) for entry in value]
        return tuple(str(wanted.default[place]) for place in places)
    for one, other in zip(named.values, wanted.values, strict=True):
        if value == one and type(value) is type(one):
            return other
    raise KeyError(value)


def _attribute(record: RecordedPoint, refused: str = "") -> DictionaryAttr:
    entries = {
        "name": StringAttr(record.name),
        "source": StringAttr(record.source),
        "template": StringAttr(f"{record.template}/{record.version}"),
        "cycles": IntegerAttr(record.cycles, i64),
    }
    if record.default_cycles is not None:
        entries["default"] = IntegerAttr(record.default_cycles, i64)
    if refused:
        entries["refused"] = StringAttr(refused)
    return DictionaryAttr(entries)
