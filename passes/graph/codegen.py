"""What a codegen is to the partitioner: a name and a table of patterns.

BYOC calls this a target; here a *codegen* is who compiles a region (``vta``, ...), and the target
is the machine. The drivers tell the context where to find the codegens.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context

from vtac.dialects.context import VtacContext
from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.target import Target
from vtac.passes.graph.patterns import OpPattern


@dataclass(frozen=True)
class NamedPattern:
    """A row of a pattern table. ``free``: costs nothing, so it makes no region on its own."""

    name: str
    pattern: OpPattern
    free: bool = False


class Codegen(ABC):
    """A compiler for regions of a network. Subclass it in ``vtac/lowering/codegens``."""

    name: ClassVar[str]

    @abstractmethod
    def patterns(self, target: Target | None) -> Sequence[NamedPattern]:
        """What it can take, larger patterns first."""

    def free_patterns(self, target: Target | None) -> set[str]:
        """Names of the patterns that cost nothing, with the codegen's name in front."""
        return {f"{self.name}.{p.name}" for p in self.patterns(target) if p.free}


def codegens_of(ctx: Context) -> list[Codegen]:
    """The codegens of a pass's context, by falling priority."""
    if not isinstance(ctx, VtacContext):
        raise CompileError(Problem("", "this pass needs a VtacContext, which knows the codegens"))
    return [codegen for codegen in ctx.codegens() if isinstance(codegen, Codegen)]
