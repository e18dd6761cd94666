"""The space of machines as users describe it: which fields vary, over which values, at what cost.

Without any field to vary, those vary that the usual cost counts: the others would be free, and only
their best values of interest.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.target import Target, TargetError
from vtac.tools.commands.diagnostics import close_matches
from vtac.tools.explore_machines.figures import figures_of
from vtac.tools.explore_machines.formulas import Formula
from vtac.tools.explore_machines.space import FieldValue, MachineSpace

AREA = "area"
"""The cost unless the user says another."""

BY_DEFAULT = ("log_block", "log_inp_buff_size", "log_wgt_buff_size", "log_acc_buff_size")
"""The fields that vary unless the user says which: those that `AREA` counts, but for the batch and
the micro-ops. A larger batch only serves who runs several images at one time."""

_AROUND = {
    "log_inp_buff_size": (-3, -2, -1, 0, 1),
    "log_wgt_buff_size": (-5, -4, -3, -2, -1, 0, 1),
    "log_acc_buff_size": (-4, -3, -2, -1, 0, 1),
    "log_uop_buff_size": (-2, -1, 0),
}
"""Usual values as differences from those of the base."""

_USUAL: Mapping[str, Sequence[FieldValue]] = {
    "log_block": (3, 4, 5),
    "log_batch": (0, 1, 2),
    "port_bytes": (4, 8, 16, 32),
    "burst_beats": (16, 64, 256),
    "latency": (8, 16, 32, 64, 128),
    "read_channels": (1, 2, 3),
    "outstanding": (4, 16, 64),
    "alu_immediate_cycles": (1, 2),
    "alu_register_cycles": (1, 2, 4),
    "alu_mul": (False, True),
    "fetch_ahead": (False, True),
}
"""Usual values, whatever the base."""

_NAMES_ONLY = ("preset", "name")
"""Fields that have no effect."""


@dataclass(frozen=True)
class Description:
    """What a user said about a space, not yet verified.

    base: a preset, a file or a Target. vary: values by field, None for the usual ones. fix: a value
    by field. cost, where: texts of formulas. limit: the largest cost.
    """

    base: str | Target = "chisel-pynq"
    vary: Mapping[str, Sequence[FieldValue] | None] | None = None
    fix: Mapping[str, FieldValue] = field(default_factory=dict)
    cost: str = AREA
    where: Sequence[str] = ()
    limit: float | None = None

    def space(self) -> MachineSpace:
        """The space. Raises `CompileError` with everything that is wrong."""
        base = Target.of(self.base)
        problems: list[Problem] = []
        fix, vary = self.fix, self.vary
        both = [name for name in fix if vary is not None and name in vary]
        problems += [Problem(f"field {name}", "cannot be fixed and vary") for name in both]
        fixed = _fixed(base, fix, problems)
        names = BY_DEFAULT if vary is None else tuple(vary)
        fields = {}
        for name in names:
            given = None if vary is None else vary[name]
            if name not in fix:
                fields[name] = _values(fixed, name, given, problems)
        if not fields and not problems:
            problems.append(Problem("the space", "no field varies", "Say --vary FIELD=A,B,C."))
        known = figures_of(fixed)
        formulas = []
        for place, text in (("cost", self.cost), *(("where", text) for text in self.where)):
            try:
                formulas.append(Formula.parse(text, known, place))
            except CompileError as error:
                problems += error.problems
        if problems:
            raise CompileError(problems)
        return MachineSpace(fixed, fields, formulas[0], formulas[1:], self.limit)


def _fixed(base: Target, fix: Mapping[str, FieldValue], problems: list[Problem]) -> Target:
    """The base with its changes; the base itself where they are wrong."""
    if faults := [fault for name in fix for fault in _name_faults(name)]:
        problems += faults
        return base
    try:
        return base.replace(**fix)
    except TargetError as error:
        problems += [replace(problem, where="fix") for problem in error.problems]
        return base


def _values(
    base: Target, name: str, given: Sequence[FieldValue] | None, problems: list[Problem]
) -> Sequence[FieldValue]:
    """The values of a field, verified one by one; whether they fit together is seen later."""
    where = f"field {name}"
    if faults := _name_faults(name):
        problems += faults
        return ()
    values = usual_values(base, name) if given is None else given
    if values is None:
        hint = f"Say --vary {name}=A,B,C."
        problems.append(Problem(where, "has no usual values", hint))
        return ()
    if not values:
        problems.append(Problem(where, "has no values"))
    twice = list(dict.fromkeys(repr(v) for v in values if list(values).count(v) > 1))
    problems += [Problem(where, f"has the value {value} twice") for value in twice]
    for value in values:
        try:
            base.data.replace(**{name: value})
        except TargetError as error:
            problems += [replace(problem, where=where) for problem in error.problems]
    return _ordered(values)


def _ordered(values: Sequence[FieldValue]) -> Sequence[FieldValue]:
    """The values with neighbours side by side: numbers by size, others as they are."""
    numbers = [value for value in values if isinstance(value, int | float)]
    return tuple(sorted(numbers) if len(numbers) == len(values) else values)


def _name_faults(name: str) -> list[Problem]:
    names = [each for each in Target.named("sim").fields() if each not in _NAMES_ONLY]
    if name in names:
        return []
    what = f"a machine has no such field{close_matches(name, names)}"
    return [Problem(f"field {name}", what, f"It has {', '.join(names)}.")]


def usual_values(base: Target, name: str) -> Sequence[FieldValue] | None:
    """The values that a field takes if the user gives none; None if there are no usual ones."""
    if name in _AROUND:
        own = getattr(base.data, name)
        return [own + step for step in _AROUND[name]]
    return _USUAL.get(name)


def usual_text(base: Target) -> str:
    """All fields with usual values, for a base, for the help."""
    fields = (*_USUAL, *_AROUND)
    lines = (f"{n}={','.join(map(text_of, usual_values(base, n) or ()))}" for n in fields)
    return "\n".join(f"  {line}" for line in lines)


def text_of(value: FieldValue) -> str:
    """A value as users write it."""
    return str(value).lower() if isinstance(value, bool) or value is None else str(value)
