"""The interface of codegens: which ops one takes, what they cost, and what it makes of them.

A *codegen* compiles regions of a network. BYOC (Chen et al., "Bring Your Own Codegen to Deep
Learning Compiler", section 3) calls it a target; here the target is the machine. The drivers put
the codegens into the context, by falling priority. The passes from ``match-patterns`` to
``outline-regions`` ask the codegens and are the same for all of them.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from vtac.dialects.context import VtacContext
from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.graph import CompositeOp
from vtac.dialects.target import Target, target_at
from vtac.passes.graph.host_model import HostModel
from vtac.passes.graph.patterns import OpPattern, Predicate, any_operands
from vtac.passes.graph.quantise_options import QuantiseOptions
from vtac.passes.pipeline import Pipeline

CODEGEN = "codegen"
"""Attribute of a function: the name of the codegen that compiles it."""


def functions_of_host(module: ModuleOp) -> list[FuncOp]:
    """The functions of a module that no codegen has taken."""
    functions = (op for op in module.body.block.ops if isinstance(op, FuncOp))
    return [function for function in functions if CODEGEN not in function.attributes]


@dataclass(frozen=True)
class NamedPattern:
    """A row of a pattern table.

    free: whether its ops cost nothing, so that alone they make no region.
    """

    name: str
    pattern: OpPattern
    free: bool = False


class Codegen(ABC):
    """A compiler for regions of a network.

    Ours lie in ``vtac/lowering/codegens``. Other packages offer theirs in the entry-point group
    ``vtac.codegens``, and a user may pass one along as an object.

    name: its name, in ``codegen`` attributes and in names of functions. priority: codegens of
    higher priority are asked first unless the user gives an order. default: whether it is asked
    unless the user chooses codegens. uses_target: whether its functions depend on the target.
    quantises: whether its preparation quantises the network. engine: its run half
    (`vtac.runtime.engine.Engine`), unless that is ``runtime/engines/NAME``.
    """

    name: ClassVar[str]
    priority: ClassVar[int] = 0
    default: ClassVar[bool] = False
    uses_target: ClassVar[bool] = False
    quantises: ClassVar[bool] = False
    engine: ClassVar[object | None] = None

    # Which ops it takes.

    def patterns(self, target: Target | None) -> Sequence[NamedPattern]:
        """Patterns of groups of ops that it takes together, larger ones first (section 3.1.1)."""
        return ()

    def predicates(self, target: Target | None) -> Mapping[type[Operation], Predicate]:
        """Ops that it takes one by one if the predicate has no objection (section 3.1.2)."""
        return {}

    def refusal(self, composite: CompositeOp, target: Target | None) -> str | None:
        """Why it does not take a group that matched a pattern; None if it does."""
        return None

    def outer_values(self, composite: CompositeOp) -> Sequence[SSAValue]:
        """Operands of a composite that must not be computed in its region."""
        return ()

    def why_not(self, op: Operation, target: Target | None) -> str | None:
        """Why it cannot take an op that matched no pattern; None for the general reason."""
        return None

    def refuses_in_integers(self, op: Operation, target: Target | None) -> str | None:
        """Why it could not take a float op if that computed in integers; None if it could.

        The quantiser asks codegens that prepare the network by it (`quantises`), so that no op is
        rounded for a codegen that does not take it then.
        """
        return None

    # Passes that it adds to the compilation. The passes of a `Pipeline` see the whole module.

    def wants_samples(self, network: Sequence[Operation], ctx: VtacContext) -> bool:
        """Whether samples of the inputs would let it take ops of a network that it cannot now.

        network: the ops of ``@main`` in their normal form, none of which is calibrated.
        """
        return False

    def preparation(self, options: QuantiseOptions) -> Pipeline:
        """Passes over the network before patterns are matched, such as its quantisation."""
        return Pipeline()

    def passes(self) -> Sequence[ModulePass]:
        """Passes over each of its functions alone, which keep its signature (section 3.2)."""
        return ()

    def layout(self) -> Pipeline:
        """Passes over the module after that, which may change signatures of functions."""
        return Pipeline()

    def lowering(self) -> Pipeline:
        """Passes that lower its functions to the form that `build` takes.

        They run after the network is cut into steps. No two codegens have levels of the same name.
        """
        return Pipeline()

    # Costs.

    def cycles(self, composites: Sequence[CompositeOp], target: Target | None) -> float | None:
        """An estimate of a region's cycles; None keeps regions however slow they are."""
        return None

    def host_model(self, target: Target | None) -> HostModel:
        """The host that these cycles are compared with."""
        return HostModel()

    # Results.

    @abstractmethod
    def build(self, function: Operation, ctx: VtacContext) -> object:
        """The compiled form of a function, for a package.

        function: a ``func.func``, or the op that `lowering` has made of it. Returns a
        `vtac.dialects.payload.Payload`, or another object that the codegen's engine can store.
        """

    # What follows from the methods above.

    def table(self, target: Target | None) -> list[NamedPattern]:
        """The patterns, then the predicates as patterns of one op; names begin with its own."""
        single = [
            NamedPattern(kind.name.rpartition(".")[2], any_operands(kind).where(predicate))
            for kind, predicate in self.predicates(target).items()
        ]
        return [
            NamedPattern(f"{self.name}.{row.name}", row.pattern, row.free)
            for row in (*self.patterns(target), *single)
        ]

    def free_patterns(self, target: Target | None) -> set[str]:
        """The names in `table` of the patterns that cost nothing."""
        return {row.name for row in self.table(target) if row.free}


def codegens_of(ctx: Context) -> list[Codegen]:
    """The codegens of a pass's context, by falling priority."""
    if not isinstance(ctx, VtacContext):
        raise CompileError(Problem("", "this pass needs a VtacContext, which knows the codegens"))
    return known_codegens(ctx)


def known_codegens(ctx: Context) -> list[Codegen]:
    """The codegens of a context, by falling priority; empty if the context has none."""
    known = ctx.codegens() if isinstance(ctx, VtacContext) else ()
    return [codegen for codegen in known if isinstance(codegen, Codegen)]


def codegens_named(ctx: Context, name: str | None) -> list[Codegen]:
    """The codegen of that name, or all for None. Raises `CompileError` if there is none."""
    known = codegens_of(ctx)
    found = [codegen for codegen in known if name in (None, codegen.name)]
    if name is not None and not found:
        names = ", ".join(codegen.name for codegen in known) or "none"
        raise CompileError(Problem("", f"there is no codegen '{name}'", f"Known: {names}."))
    return found


def first_host_model(ctx: Context, target: Target | None) -> HostModel:
    """How fast the host is, as the codegen of the highest priority assumes."""
    models = [codegen.host_model(target) for codegen in codegens_of(ctx)]
    return models[0] if models else HostModel()


def target_of_module(module: ModuleOp) -> Target | None:
    """The target of a module, if it has one."""
    return target_at(module)
