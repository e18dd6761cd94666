"""``verify-hazards``: the simulator's second opinion on every program.

Encodes each ``vta.program``, places it, and follows its tokens in `vtac.sim.check`: no order that
the machine may choose changes a result or blocks. Derived dependences are right by construction;
this does not believe it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from vtac.dialects.context import resources_of
from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.vta import ProgramOp
from vtac.dialects.vta.program import BinaryProgram
from vtac.lowering.vta_to_binary import encode_program
from vtac.sim import check

Array = np.ndarray[Any, np.dtype[Any]]


def hazards_of(program: BinaryProgram, resources: Mapping[str, Array]) -> list[Problem]:
    """What may go wrong with a program, instruction by instruction."""
    addresses = program.place()
    end = max((addresses[b.name] + b.size for b in program.buffers), default=0)
    image = np.zeros(end, np.uint8)
    for buffer in program.buffers:
        data = buffer.data
        if buffer.resource is not None:
            data = resources[buffer.resource[0]].tobytes()
        if data is not None:
            start = addresses[buffer.name]
            image[start : start + buffer.size] = np.frombuffer(data, np.uint8)
    report = check(program.target, program.relocate(addresses), image)
    where = f"program @{program.name}"
    return [Problem(where, str(hazard)) for hazard in report.hazards]


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
