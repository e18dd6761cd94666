"""``vta-plan-microops``: moves micro-ops into kernels and gives them places in their buffer.

Equal lists become one ``vta.kernel``. All kernels stand in one DRAM buffer of constants, in the
order of first use, and one LOAD at the start of the program fetches them together: loads of
micro-ops starve behind streams of weights, so they come early. Where the target's micro-op memory
does not hold them all, the program is cut into as few stretches as possible whose kernels fit, and
each stretch starts with one LOAD of its kernels.

Takes placed instructions with inline micro-ops; leaves kernels, one buffer of kind ``micro_ops``,
and ``uops [begin, end]`` on each instruction.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from vtac.dialects.errors import CompileError, DoesNotFit, Problem
from vtac.dialects.locations import layer_of
from vtac.dialects.target import Memory
from vtac.dialects.vta import (
    BufferKind,
    BufferOp,
    ComputeOp,
    InstructionOp,
    KernelOp,
    LoadOp,
    MicroOps,
    StreamOp,
    integer,
    integers,
    memory_attr,
    streams_of,
    symbol,
)

_LARGEST_LOAD = 1 << 15
"""Micro-ops a LOAD fetches at most; x_size has 16 bits."""

MICRO_OP_BYTES = 4

MICRO_OPS_ALIGN = 256
"""The buffer of micro-ops begins at a multiple of so many bytes."""


@dataclass(frozen=True)
class PlanMicroOpsPass(ModulePass):
    """Move the micro-ops of every vta.program into kernels, and load them."""

    name = "vta-plan-microops"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """See the module's docstring."""
        for program in streams_of(op):
            plan_micro_ops(program)


_T = TypeVar("_T")


@dataclass
class Stretch(Generic[_T]):
    """Instructions whose kernels are in the buffer together, and where each kernel begins."""

    ops: list[_T] = field(default_factory=list)
    begins: dict[MicroOps, int] = field(default_factory=dict)
    used: int = 0

    def takes(self, kernel: MicroOps, entries: int) -> bool:
        """Make room for a kernel; False if there is none."""
        if kernel not in self.begins:
            if self.used + kernel.count > entries:
                return False
            self.begins[kernel] = self.used
            self.used += kernel.count
        return True


def plan_micro_ops(program: StreamOp) -> None:
    """Plan the micro-ops of a program. Raises `CompileError` on a list longer than the memory."""
    stretches = stretches_of(_planned(program), program.target.uop_entries)
    if not stretches:
        return
    taken = {*program.buffers(), *program.kernels()}
    names: dict[MicroOps, str] = {}
    for stretch in stretches:
        for kernel in stretch.begins:
            names.setdefault(kernel, fresh(f"u{len(names)}", taken))
    buffer, memory = fresh(program.micro_op_buffer, taken), program.target.system.micro_ops
    _declare(program, buffer, stretches, names)
    start = 0
    for number, stretch in enumerate(stretches):
        first = program.instructions()[0] if number == 0 else stretch.ops[0]
        _load(first, memory, stretch.ops[0], buffer, start, stretch.used)
        start += stretch.used
        for op in stretch.ops:
            planned = op.properties.pop("micro_ops")
            assert isinstance(planned, MicroOps)
            begin = stretch.begins[planned]
            op.properties["kernel"] = symbol(names[planned])
            op.properties["uops"] = integers(begin, begin + planned.count)


def _planned(program: StreamOp) -> Iterator[tuple[ComputeOp, MicroOps]]:
    """The instructions that have micro-ops, with these."""
    entries = program.target.uop_entries
    for op in program.instructions():
        if not isinstance(op, ComputeOp) or op.micro_ops is None:
            continue
        if not op.placed:
            raise CompileError(
                Problem(layer_of(op), f"{op.name} is not placed yet", "Run vta-allocate first.")
            )
        if op.micro_ops.count > entries:
            raise too_many(op.micro_ops, entries, layer_of(op))
        yield op, op.micro_ops


_HINT = "Choose smaller tiles, or a target with a larger micro-op buffer."


def too_many(micro_ops: MicroOps, entries: int, where: str) -> CompileError:
    """The error about one instruction with more micro-ops than the memory holds."""
    what = f"one instruction has {micro_ops.count} micro-ops, the target holds {entries}"
    return CompileError(DoesNotFit(where, what, _HINT, (where,)))


def stretches_of(used: Iterable[tuple[_T, MicroOps]], entries: int) -> list[Stretch[_T]]:
    """The stretches of instructions with their micro-ops, in program order.

    entries: micro-ops that the memory holds; no instruction has more.
    """
    stretches: list[Stretch[_T]] = []
    for op, micro_ops in used:
        if not stretches or not stretches[-1].takes(micro_ops, entries):
            stretches.append(Stretch())
            stretches[-1].takes(micro_ops, entries)
        stretches[-1].ops.append(op)
    return stretches


def load_parts(start: int, count: int) -> Iterator[tuple[int, int, int]]:
    """The LOADs that bring micro-ops [start, start + count) of the buffer to place 0 of the memory.

    Each is its place in the memory, its place in the buffer, and how many it brings.
    """
    for done in range(0, count, _LARGEST_LOAD):
        yield done, start + done, min(_LARGEST_LOAD, count - done)


def fresh(name: str, taken: set[str]) -> str:
    """The name, or one made from it that is not taken yet; it is taken from now on."""
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def _declare(
    program: StreamOp,
    buffer: str,
    stretches: Sequence[Stretch[ComputeOp]],
    names: dict[MicroOps, str],
) -> None:
    listed = [names[kernel] for stretch in stretches for kernel in stretch.begins]
    total = sum(stretch.used for stretch in stretches)
    declarations: list[Operation] = [
        BufferOp(
            buffer, BufferKind.MICRO_OPS, MICRO_OP_BYTES * total, MICRO_OPS_ALIGN, kernels=listed
        )
    ]
    declarations += [KernelOp(name, kernel) for kernel, name in names.items()]
    last = None
    for op in program.body.block.ops:
        if isinstance(op, BufferOp):
            last = op
    point = InsertPoint.at_start(program.body.block) if last is None else InsertPoint.after(last)
    Rewriter.insert_op(declarations, point)


def _load(
    before: InstructionOp, memory: Memory, user: ComputeOp, buffer: str, start: int, count: int
) -> None:
    for sram, dram, part in load_parts(start, count):
        load = LoadOp.create(
            properties={
                "memory": memory_attr(memory),
                "sram_base": integer(sram),
                "buffer": symbol(buffer),
                "dram_base": integer(dram),
                "size": integers(1, part),
                "stride": integer(part),
            },
            location=user.location,
        )
        Rewriter.insert_op(load, InsertPoint.before(before))
