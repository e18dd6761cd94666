"""``vta-drop-loads``: removes the loads of a cluster whose elements nothing reads.

A part of a layer may need fewer weights than its tile has: where the rows of a kernel lie in the
padding, no GEMM reads their weights. Such loads take time. On a cluster they are also unsafe: a
signal behind the stores of a step says that what the step has loaded may be overwritten, and that
holds only for loads on which a store depends.

Takes ``vta.cluster`` with placed instructions and inline micro-ops, behind ``vta-split-loads``;
leaves those loads of INP and WGT of which some element is read before it is loaded again, and all
waits. Programs for one core are left as they are.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from vtac.dialects.target import Memory
from vtac.dialects.vta import BufferKind, ClusterOp, ComputeOp, CoreOp, LoadOp

from .accesses import compute_accesses


@dataclass(frozen=True)
class DropLoadsPass(ModulePass):
    """Remove the loads of every vta.cluster that nothing reads."""

    name = "vta-drop-loads"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """See the module's docstring."""
        for program in op.body.block.ops:
            if isinstance(program, ClusterOp):
                kinds = {name: b.kind.data for name, b in program.buffers().items()}
                waits = {name for name, kind in kinds.items() if kind is BufferKind.SEMAPHORE}
                for core in program.cores().values():
                    for load in [load for load in unread(core) if load.buffer_name not in waits]:
                        Rewriter.erase_op(load)


def unread(core: CoreOp) -> Iterator[LoadOp]:
    """The loads of modules that only load, of which no element is read."""
    target, loads = core.target, list[LoadOp]()
    # For each element the load that filled it last, by number from 1.
    loaded = [m for m, module in target.system.moves.items() if module in target.system.loaders]
    filled = {memory: np.zeros(target.depth(memory), np.int32) for memory in loaded}
    read = np.zeros(len(core.instructions()) + 1, np.bool_)
    for op in core.instructions():
        if isinstance(op, LoadOp) and op.memory_id in filled:
            loads.append(op)
            base = op.sram_base.value.data
            filled[op.memory_id][base : base + op.sram_size] = len(loads)
        elif isinstance(op, ComputeOp) and op.micro_ops is not None:
            for access in compute_accesses(op, op.micro_ops, target.system):
                if isinstance(access.space, Memory) and access.space in filled:
                    read[filled[access.space][access.elements]] = True
    return (load for number, load in enumerate(loads, start=1) if not read[number])
