"""``vta-plan-microops``: moves micro-ops into kernels and gives them places in their buffer.

Equal lists become one ``vta.kernel``. All kernels stand in one DRAM buffer of constants, in the
order of first use, and one LOAD at the start of the program fetches them together: loads of
micro-ops starve behind streams of weights, so they come early. Where the target's micro-op memory
does not hold them all, the program is cut into as few stretches as possible whose kernels fit, and
each stretch starts with one LOAD of its kernels.

Takes placed instructions with inline micro-ops; leaves kernels, one buffer of kind ``micro_ops``,
and ``uops [begin, end]`` on each instruction.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from vtac.dialects.errors import CompileError, DoesNotFit, Problem
from vtac.dialects.target import Memory
from vtac.dialects.vta import (
    BufferKind,
    BufferOp,
    ComputeOp,
    InstructionOp,
    KernelOp,
    LoadOp,
    MicroOps,
    ProgramOp,
    integer,
    integers,
    layer_of,
    memory_attr,
    symbol,
)

_LARGEST_LOAD = 1 << 15
"""Micro-ops a LOAD fetches at most; x_size has 16 bits."""

_ALIGN = 256


@dataclass(frozen=True)
class PlanMicroOpsPass(ModulePass):
    """Move the micro-ops of every vta.program into kernels, and load them."""

    name = "vta-plan-microops"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """See the module's docstring."""
        for program in op.body.block.ops:
            if isinstance(program, ProgramOp):
                plan_micro_ops(program)


@dataclass
class _Stretch:
    """Instructions whose kernels are in the buffer together, and where each kernel begins."""

    ops: list[ComputeOp] = field(default_factory=list)
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


def plan_micro_ops(program: ProgramOp) -> None:
    """Plan the micro-ops of a program. Raises `CompileError` on a list longer than the memory."""
    stretches = _stretches(program)
    if not stretches:
        return
    taken = {*program.buffers(), *program.kernels()}
    names: dict[MicroOps, str] = {}
    for stretch in stretches:
        for kernel in stretch.begins:
            names.setdefault(kernel, _fresh(f"u{len(names)}", taken))
    buffer = _fresh("uops", taken)
    _declare(program, buffer, stretches, names)
    start = 0
    for number, stretch in enumerate(stretches):
        first = program.instructions()[0] if number == 0 else stretch.ops[0]
        _load(first, stretch.ops[0], buffer, start, stretch.used)
        start += stretch.used
        for op in stretch.ops:
            planned = op.properties.pop("micro_ops")
            assert isinstance(planned, MicroOps)
            begin = stretch.begins[planned]
            op.properties["kernel"] = symbol(names[planned])
            op.properties["uops"] = integers(begin, begin + planned.count)


def _stretches(program: ProgramOp) -> list[_Stretch]:
    entries = program.target.uop_entries
    stretches: list[_Stretch] = []
    for op in program.instructions():
        if not isinstance(op, ComputeOp) or op.micro_ops is None:
            continue
        if not op.placed:
            raise CompileError(
                Problem(layer_of(op), f"{op.name} is not placed yet", "Run vta-allocate first.")
            )
        if op.micro_ops.count > entries:
            raise CompileError(
                DoesNotFit(
                    layer_of(op),
                    f"one instruction has {op.micro_ops.count} micro-ops, the target holds"
                    f" {entries}",
                    layers=(layer_of(op),),
                )
            )
        if not stretches or not stretches[-1].takes(op.micro_ops, entries):
            stretches.append(_Stretch())
            stretches[-1].takes(op.micro_ops, entries)
        stretches[-1].ops.append(op)
    return stretches


def _fresh(name: str, taken: set[str]) -> str:
    """The name, or one made from it that is not taken yet; it is taken from now on."""
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def _declare(
    program: ProgramOp, buffer: str, stretches: Sequence[_Stretch], names: dict[MicroOps, str]
) -> None:
    listed = [names[kernel] for stretch in stretches for kernel in stretch.begins]
    total = sum(stretch.used for stretch in stretches)
    declarations: list[Operation] = [
        BufferOp(buffer, BufferKind.MICRO_OPS, 4 * total, _ALIGN, kernels=listed)
    ]
    declarations += [KernelOp(name, kernel) for kernel, name in names.items()]
    last = None
    for op in program.body.block.ops:
        if isinstance(op, BufferOp):
            last = op
    point = InsertPoint.at_start(program.body.block) if last is None else InsertPoint.after(last)
    Rewriter.insert_op(declarations, point)


def _load(before: InstructionOp, user: ComputeOp, buffer: str, start: int, count: int) -> None:
    for done in range(0, count, _LARGEST_LOAD):
        part = min(_LARGEST_LOAD, count - done)
        load = LoadOp.create(
            properties={
                "memory": memory_attr(Memory.UOP),
                "sram_base": integer(done),
                "buffer": symbol(buffer),
                "dram_base": integer(start + done),
                "size": integers(1, part),
                "stride": integer(part),
            },
            location=user.location,
        )
        Rewriter.insert_op(load, InsertPoint.before(before))
