"""Costs in cycles of the forms that an epilogue can have on a target, and the choice of one.

Only what differs between the forms is counted: cycles of the compute module for each element,
cycles of the memory port for the load of a vector, and additional instructions (docs/vta.md,
sections 4 and 6).
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr

from vtac.dialects.target import Memory, Target
from vtac.dialects.te import CallOp, ComputeOp, KernelOp
from vtac.passes.te.parameters import variants
from vtac.passes.te.schedule.cost import Rates

CHOICES = "te.choices"
"""Attribute of a kernel: the choices that were made by cost, one line per choice."""

FORMS = "te.forms"
"""Attribute of a kernel: forms by the names of stages, which are taken whatever they cost
(te-prefer-forms).
"""


@dataclass(frozen=True)
class EpilogueCosts:
    """The cycles that parts of an epilogue take on one target."""

    target: Target

    def immediate(self, elements: int) -> int:
        """Cycles of an ALU operation with an immediate on each element."""
        return elements * self._rates.alu[0]

    def register(self, elements: int) -> int:
        """Cycles of an ALU operation with two operands on each element."""
        return elements * self._rates.alu[1]

    def copy(self, elements: int) -> int:
        """Cycles to copy each element to another accumulator."""
        return elements * self._rates.copy[0]

    def gemm(self, elements: int) -> int:
        """Cycles of one GEMM micro-op for each element."""
        return elements * self.target.timing.gemm_cycles

    def load(self, memory: Memory, elements: int) -> int:
        """Cycles to load a constant of so many elements into a memory."""
        return -(-elements * self.target.element_bytes(memory) // self._rates.beat)

    def instructions(self, elements: int, pieces: int) -> int:
        """Cycles of the additional instructions where a tile takes ``pieces`` of them, not one.

        A tile is assumed to fill half of the accumulators.
        """
        tiles = -(-elements // max(self.target.depth(Memory.ACC) // 2, 1))
        return (pieces - 1) * tiles * self._rates.instruction

    @property
    def _rates(self) -> Rates:
        return Rates.of(self.target)


def cheapest(options: Mapping[str, int]) -> str:
    """The option that costs least; the first of several."""
    return min(options, key=lambda name: options[name])


def chosen_form(kernel: KernelOp, stage: str, options: Mapping[str, int]) -> str:
    """The form that `FORMS` names for a stage, if it is possible here; else the cheapest."""
    forms = cast(DictionaryAttr | None, kernel.attributes.get(FORMS))
    named = None if forms is None else forms.data.get(stage)
    if isinstance(named, StringAttr) and named.data in options:
        return named.data
    return cheapest(options)


def choose(
    module: ModuleOp,
    kernel: KernelOp,
    calls: list[CallOp],
    stage: ComputeOp,
    options: Callable[[CallOp], Mapping[str, int]],
    again: Callable[[KernelOp, list[CallOp]], None],
) -> tuple[list[CallOp], str]:
    """The option for a stage (see `chosen_form`), and the calls for which it is taken.

    These calls keep the kernel. Calls for which another option is cheapest get copies of it.
    options: the options of a call, with their costs in cycles. again: rewrites each copy.
    """
    priced = {call: options(call) for call in calls}
    wishes = [chosen_form(kernel, stage.label.data, priced[call]) for call in calls]
    (_, members, wish), *others = variants(module, kernel, calls, wishes)
    for copy, rest, _ in others:
        again(copy, rest)
    record_choice(kernel, stage.label.data, priced[members[0]], wish)
    return members, wish


def record_choice(
    kernel: KernelOp, stage: str, options: Mapping[str, int], chosen: str | None = None
) -> None:
    """Record on the kernel the form that was chosen for a stage, and the costs of the others.

    chosen: the option that was taken. None stands for the cheapest; a choice that weighs several
    kernels together may take another. A single option is not recorded.
    """
    if len(options) < 2:
        return
    chosen = cheapest(options) if chosen is None else chosen
    others = ", ".join(f"{name} {cost:,}" for name, cost in options.items() if name != chosen)
    line = f"{stage}: {chosen}, {options[chosen]:,} cycles ({others})"
    known = cast(ArrayAttr[StringAttr] | None, kernel.attributes.get(CHOICES))
    lines = {each.data.partition(":")[0]: each.data for each in known} if known else {}
    lines[stage] = line
    kernel.attributes[CHOICES] = ArrayAttr(StringAttr(each) for each in lines.values())


def recorded_forms(kernel: KernelOp) -> Mapping[str, Sequence[str]]:
    """The forms that stages could have, by the names of stages, the one that was taken first.

    Choices that `record_choice` did not make for a single stage are left out.
    """
    known = cast(ArrayAttr[StringAttr] | None, kernel.attributes.get(CHOICES))
    found: dict[str, Sequence[str]] = {}
    for line in known or ():
        stage, _, rest = line.data.partition(": ")
        taken, _, others = rest.partition(" cycles (")
        priced = [taken, *re.split(r"(?<=\d), (?=\D)", others.rstrip(")"))]
        if stage.isidentifier():
            found[stage] = [re.sub(r",? [\d,]+$", "", each) for each in priced]
    return found
