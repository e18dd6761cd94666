"""What the ways to write an epilogue cost on a target, in cycles; how one is chosen and recorded.

Only what differs between the ways is counted: cycles of the compute module an element, what a
vector's load costs on the memory port, and further instructions. (docs/vta.md, sections 4 and 6.)
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr

from vtac.dialects.target import Memory, Target
from vtac.dialects.te import CallOp, ComputeOp, KernelOp
from vtac.passes.te.parameters import variants
from vtac.passes.te.schedule.cost import Rates

CHOICES = "te.choices"
"""Attribute of a kernel: what was chosen by cost, a line a choice."""


@dataclass(frozen=True)
class EpilogueCosts:
    """Cycles on one target."""

    target: Target

    def immediate(self, elements: int) -> int:
        """ALU operations with an immediate, an element each."""
        return elements * self._rates.alu[0]

    def register(self, elements: int) -> int:
        """ALU operations with two operands."""
        return elements * self._rates.alu[1]

    def copy(self, elements: int) -> int:
        """Accumulators copied to others."""
        return elements * self._rates.copy[0]

    def gemm(self, elements: int) -> int:
        """Micro-ops of the GEMM core."""
        return elements * self.target.timing.gemm_cycles

    def load(self, memory: Memory, elements: int) -> int:
        """A constant, loaded once."""
        return -(-elements * self.target.element_bytes(memory) // self._rates.beat)

    def instructions(self, elements: int, pieces: int) -> int:
        """Further instructions where one a tile becomes so many pieces.

        Tiles are thought to fill half of the accumulators.
        """
        tiles = -(-elements // max(self.target.depth(Memory.ACC) // 2, 1))
        return (pieces - 1) * tiles * self._rates.instruction

    @property
    def _rates(self) -> Rates:
        return Rates.of(self.target)


def cheapest(options: Mapping[str, int]) -> str:
    """The option that costs least; of equals the first."""
    return min(options, key=lambda name: options[name])


def choose(
    module: ModuleOp,
    kernel: KernelOp,
    calls: list[CallOp],
    stage: ComputeOp,
    options: Callable[[CallOp], Mapping[str, int]],
    again: Callable[[KernelOp, list[CallOp]], None],
) -> tuple[list[CallOp], str]:
    """What is cheapest for a stage, and the calls that want it: the kernel's from now on.

    options: the ways open to a call, with their costs. again: rewrites the copies of the kernel
    that calls get which want something else.
    """
    priced = {call: options(call) for call in calls}
    wishes = [cheapest(priced[call]) for call in calls]
    (_, members, wish), *others = variants(module, kernel, calls, wishes)
    for copy, rest, _ in others:
        again(copy, rest)
    record_choice(kernel, stage.label.data, priced[members[0]])
    return members, wish


def record_choice(
    kernel: KernelOp, stage: str, options: Mapping[str, int], chosen: str | None = None
) -> None:
    """Write down on the kernel what was chosen for a stage, and what the others would cost.

    chosen: the option that was taken. None stands for the cheapest; a choice that weighs several
    kernels together may take another. Where there was only one option, nothing is written.
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
