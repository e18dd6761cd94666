"""What the compiler did, for people: levels with op counts, seconds, notes."""

from collections import Counter
from dataclasses import dataclass, field

from xdsl.dialects.builtin import ModuleOp

from vtac.runtime.package import Placement


@dataclass(frozen=True)
class Level:
    """The module at one level: how many ops of each kind."""

    name: str
    ops: Counter[str]

    @property
    def total(self) -> int:
        """All of them."""
        return self.ops.total()


def count_ops(name: str, module: ModuleOp) -> Level:
    """The ops of a module by name."""
    return Level(name, Counter(op.name for op in module.walk() if op is not module))


@dataclass
class CompileReport:
    """What happened on the way.

    seconds: by pass or step, in order; notes, warnings: what a user should know; ir: the text of
    the levels that were asked for; instructions: of each program.
    """

    levels: list[Level] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    placements: tuple[Placement, ...] = ()
    ir: dict[str, str] = field(default_factory=dict)
    instructions: dict[str, int] = field(default_factory=dict)

    @property
    def total_seconds(self) -> float:
        """From the model to the package."""
        return sum(self.seconds.values())

    def spend(self, step: str, seconds: float) -> None:
        """Add time to a step."""
        self.seconds[step] = self.seconds.get(step, 0.0) + seconds
