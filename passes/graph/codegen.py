"""What a codegen is: one class whose hooks say what it takes, what that costs, and what it makes.

BYOC (Chen et al., "Bring Your Own Codegen to Deep Learning Compiler", section 3) calls this a
target; here a *codegen* is who compiles a region (``vta``, ``json``, ``c``), and the target is the
machine. The drivers tell the context which codegens there are, by falling priority; the passes from
``match-patterns`` to ``outline-regions`` ask them, and are the same for all of them.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from vtac.dialects.context import VtacContext
from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.graph import CompositeOp
from vtac.dialects.target import TARGET_ATTRIBUTE, Target
from vtac.passes.graph.patterns import OpPattern, Predicate, any_operands
from vtac.passes.pipeline import Pipeline

CODEGEN = "codegen"
"""Attribute of a function that a codegen compiles: its name."""


@dataclass(frozen=True)
class QuantiseOptions:
    """How the user wants floats to become integers; the options of the pass ``quantize``.

    shift: what shares one shift, ``channel``, ``block`` or ``auto``. requantise: how sums return to
    int8, ``shift``, ``multiply``, ``exact`` or ``auto``.
    """

    shift: str = "auto"
    requantise: str = "auto"


@dataclass(frozen=True)
class NamedPattern:
    """A row of a pattern table. ``free``: costs nothing, so it makes no region on its own."""

    name: str
    pattern: OpPattern
    free: bool = False


@dataclass(frozen=True)
class HostModel:
    """How fast the host would do a region itself, in cycles of the codegen's own clock.

    macs_a_cycle: multiply-accumulates. bytes_a_cycle: bytes that it reads and writes, in ops
    without products and across the border of a region. cycles_an_op: what an op costs besides.
    cycles_a_launch: what a launch costs besides the region's own cycles.
    The defaults are those of the board of the VTA paper (docs/partitioning.md says whence).
    """

    macs_a_cycle: float = 4.0
    bytes_a_cycle: float = 4.0
    cycles_an_op: float = 2000.0
    cycles_a_launch: float = 1000.0


class Codegen(ABC):
    """A compiler for regions of a network.

    Ours lie in ``vtac/lowering/codegens``; other packages offer theirs by the entry-point group
    ``vtac.codegens``, or a user passes one along as an object.

    name: in ``codegen`` attributes and names of functions. priority: who is asked first where the
    user does not say. default: whether it is asked unless the user says who is.
    uses_target: whether what it makes depends on the target. quantises: whether its preparation
    quantises the network for it.
    engine: the run half (`vtac.runtime.engine.Engine`), where it is not ``runtime/engines/NAME``.
    """

    name: ClassVar[str]
    priority: ClassVar[int] = 0
    default: ClassVar[bool] = False
    uses_target: ClassVar[bool] = False
    quantises: ClassVar[bool] = False
    engine: ClassVar[object | None] = None

    # What it takes.

    def patterns(self, target: Target | None) -> Sequence[NamedPattern]:
        """Groups of ops that it takes together, larger patterns first (section 3.1.1)."""
        return ()

    def predicates(self, target: Target | None) -> Mapping[type[Operation], Predicate]:
        """Ops that it takes one by one where the predicate finds no fault (section 3.1.2)."""
        return {}

    def refusal(self, composite: CompositeOp, target: Target | None) -> str | None:
        """Why it does not take a group that matched a pattern; None if it does."""
        return None

    def outer_values(self, composite: CompositeOp) -> Sequence[SSAValue]:
        """Operands of a composite that must enter its region, not be made there."""
        return ()

    def why_not(self, op: Operation, target: Target | None) -> str | None:
        """Why it cannot take an op that matched nothing, in its own words; None for the usual."""
        return None

    def refuses_in_integers(self, op: Operation, target: Target | None) -> str | None:
        """Why it could not take a float op if that computed in integers; None if it could.

        The quantiser asks codegens that prepare the network by it (`quantises`), so that no op is
        rounded for a codegen that does not take it then.
        """
        return None

    # What happens on the way. The passes of a `Pipeline` see the whole module.

    def wants_samples(self, network: Sequence[Operation], ctx: VtacContext) -> bool:
        """Whether samples of the inputs would let it take ops of a network that it cannot now.

        network: the ops of ``@main`` in their normal form, none of which is calibrated.
        """
        return False

    def preparation(self, options: QuantiseOptions) -> Pipeline:
        """What the network needs before the patterns are matched (partial quantisation)."""
        return Pipeline()

    def passes(self) -> Sequence[ModulePass]:
        """What runs on its functions, in a module of their own; signatures stay (section 3.2)."""
        return ()

    def layout(self) -> Pipeline:
        """Passes after that, which may change what calls pass on."""
        return Pipeline()

    def lowering(self) -> Pipeline:
        """What turns its functions into what `build` takes, once the network is cut into steps.

        Its levels are its own: no two codegens have a level of the same name.
        """
        return Pipeline()

    # What it costs.

    def cycles(self, composites: Sequence[CompositeOp], target: Target | None) -> float | None:
        """An estimate of a region's cycles, None if there is none: then none is ever too slow."""
        return None

    def host_model(self, target: Target | None) -> HostModel:
        """What those cycles are compared with."""
        return HostModel()

    # What it makes.

    @abstractmethod
    def build(self, function: Operation, ctx: VtacContext) -> object:
        """What its function, a ``func.func`` or what its lowering left, is in a package.

        A `vtac.dialects.payload.Payload`, or what its engine stores otherwise.
        """

    # What follows.

    def table(self, target: Target | None) -> list[NamedPattern]:
        """The patterns, then the predicates as patterns of one op, named as this codegen's."""
        single = [
            NamedPattern(kind.name.rpartition(".")[2], any_operands(kind).where(predicate))
            for kind, predicate in self.predicates(target).items()
        ]
        return [
            NamedPattern(f"{self.name}.{row.name}", row.pattern, row.free)
            for row in (*self.patterns(target), *single)
        ]

    def free_patterns(self, target: Target | None) -> set[str]:
        """Names of the patterns that cost nothing, with the codegen's name in front."""
        return {row.name for row in self.table(target) if row.free}


def codegens_of(ctx: Context) -> list[Codegen]:
    """The codegens of a pass's context, by falling priority."""
    if not isinstance(ctx, VtacContext):
        raise CompileError(Problem("", "this pass needs a VtacContext, which knows the codegens"))
    return known_codegens(ctx)


def known_codegens(ctx: Context) -> list[Codegen]:
    """The codegens of a context, by falling priority; none where it knows of none."""
    known = ctx.codegens() if isinstance(ctx, VtacContext) else ()
    return [codegen for codegen in known if isinstance(codegen, Codegen)]


def codegens_named(ctx: Context, name: str | None) -> list[Codegen]:
    """The codegen of that name; all of them for None. Raises `CompileError` if there is none."""
    known = codegens_of(ctx)
    found = [codegen for codegen in known if name in (None, codegen.name)]
    if name is not None and not found:
        names = ", ".join(codegen.name for codegen in known) or "none"
        raise CompileError(Problem("", f"there is no codegen '{name}'", f"Known: {names}."))
    return found


def target_of_module(module: ModuleOp) -> Target | None:
    """The target of a module, if it has one."""
    target = module.attributes.get(TARGET_ATTRIBUTE)
    return target if isinstance(target, Target) else None
