"""``verify-hazards``: the simulator's second opinion on every program.

Encodes each ``vta.program``, places it in memory, and follows its tokens in `vtac.sim.check`, which
proves that no order the machine may choose changes a result or blocks. The compiler derives
dependences; this checks them independently.
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from vtac.dialects.context import resources_of
from vtac.dialects.errors import CompileError
from vtac.dialects.vta import ProgramOp
from vtac.lowering.vta_to_binary import encode_program
from vtac.runtime.hazards import hazards_of


@dataclass(frozen=True)
class VerifyHazardsPass(ModulePass):
    """Prove that no order the hardware may choose changes a result of a program or blocks it."""

    name = "verify-hazards"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Raise `CompileError` with the hazards of every program."""
        resources = resources_of(ctx)
        problems = [
            problem
            for program in op.walk()
            if isinstance(program, ProgramOp)
            for problem in hazards_of(encode_program(program), resources)
        ]
        if problems:
            raise CompileError(problems)
