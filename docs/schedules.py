"""Writes schedules.md, and beside it the kernel and the schedule it is about, matrix_product.mlir.

``make docs``; a test holds the page against what this would write. After figure 13 of Moreau et
al., "VTA: An Open Hardware-Software Stack for Deep Learning" (2018): a matrix product on its way
from an expression to instructions, a few primitives at a time.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from vtac.dialects import te
from vtac.dialects.context import VtacContext
from vtac.dialects.errors import CompileError
from vtac.dialects.target import Target
from vtac.dialects.vta import InstructionOp, ProgramOp
from vtac.dialects.vta.attributes import BufferKind
from vtac.dialects.vta.program import BinaryProgram
from vtac.lowering.vta_to_binary import encode_program
from vtac.runtime.device import SimulatorDevice
from vtac.sim import estimate
from vtac.tools.driver.discovery import OurPasses, load_dialects
from vtac.tools.driver.pipelines import parse_passes
from vtac.tools.tensor_expressions.compiler import PREPARE, lowered

HERE = Path(__file__).parent
PAGE, KERNEL = HERE / "schedules.md", HERE / "matrix_product.mlir"

TARGET = "chisel-pynq"
ROWS, COLUMNS, INNER, SHIFT = 64, 64, 64, 7

EXPRESSION = f"""\
from vtac import te

x = te.placeholder(({ROWS}, {INNER}), "x")
w = te.placeholder(({COLUMNS}, {INNER}), "w")
k = te.reduce_axes(k={INNER})
y = te.compute(
    ({ROWS}, {COLUMNS}),
    lambda i, j: te.narrow(te.total(x[i, k] * w[j, k], k) >> {SHIFT}),
    "y",
)
"""

TO_TE = f"{PREPARE},te-split-bodies"
TO_LOOPS = "te-declare-intrinsics,te-to-loops"
SIMPLIFY = "te-simplify-loops"
TO_PROGRAM = (
    "te-to-vta,vta-allocate,vta-order-instructions,vta-plan-microops,vta-insert-dependences"
)


NEWLINE = "\n"
DOTS = "  …"
"""Stands for what is as before."""


@dataclass(frozen=True)
class Step:
    """Some primitives that belong together. code: their text; text: why."""

    title: str
    text: str
    code: str


STEPS = (
    Step(
        "Tiles of the result",
        """
A tile is what the accumulators hold at a time: here two blocks of columns, of all rows. `te.axes`
gives handles to the loops of a stage, `te.split` cuts a loop into one over tiles and one in a tile,
`te.reorder` puts the loop over tiles outside.
""",
        """
%i, %j, %b, %o = te.axes %y (i, j, b, o)
%jt, %ji = te.split %j factor 2
te.reorder %jt, %i, %ji
""",
    ),
    Step(
        "Explicit memories",
        """
The sum and the shifted sum are moved to the accumulators (`te.set_scope`), and are computed in the
loop over tiles, as much of them as is needed there (`te.compute_at`, from the reader to what it
reads). The shift works in place: both share a buffer, a window of two blocks of columns.
""",
        """
te.set_scope %y_add scope <acc> slots 1
te.set_scope %y_shrsi scope <acc> slots 1
te.compute_at %y_shrsi, %jt
te.compute_at %y_add, %jt
te.in_place %y_shrsi operand 0
""",
    ),
    Step(
        "A split sum, and operands in scratchpads",
        """
The sum over four blocks of input channels is cut in two. `te.cache_read` reads an operand through a
scratchpad; computed at the loop over the halves, each copy brings just what a half needs.
""",
        """
%i1, %j1, %b1, %o1, %k, %k1 = te.axes %y_add (i, j, b, o, k, k1)
%kt, %ki = te.split %k factor 2
te.reorder %kt, %ki, %j1, %i1
%x_inp = te.cache_read %y_add operand 0 scope <inp> slots 1
%w_wgt = te.cache_read %y_add operand 1 scope <wgt> slots 1
te.compute_at %x_inp, %kt
te.compute_at %w_wgt, %kt
""",
    ),
    Step(
        "Intrinsics",
        """
`te.tensorize` proves that a statement with its innermost loops is what an instruction does to one
element of each operand (a vector of 16, a block of 16 x 16), and puts that instruction there. The
loops from the named axis inward become the instruction's own loops (`hardware`). What a sum starts
from is a stage of its own, `te.init`. `te.dma` does the same for the store.
""",
        """
%start = te.init %y_add
%i2, %j2, %b2, %o2 = te.axes %start (i, j, b, o)
te.tensorize %start at %i2 by [@reset]
te.tensorize %y_add at %ki by [@gemm]
%i3, %j3, %b3, %o3 = te.axes %y_shrsi (i, j, b, o)
te.tensorize %y_shrsi at %i3 by [@shr_imm]
te.dma %y at %i
""",
    ),
    Step(
        "Virtual threads",
        """
Until here nothing overlaps: there is one buffer of each kind, so that a load must wait until the
product before it has read the last one. `te.vthread` makes a thread of each tile, with buffers of
its own; threads take turns, and the loop over the halves of the sum runs once, for both. While one
thread's product runs, the other one's operands are loaded.
""",
        """
te.vthread %jt
""",
    ),
)

TOO_EARLY = """
%i, %j, %b, %o, %k, %k1 = te.axes %y_add (i, j, b, o, k, k1)
te.tensorize %y_add at %j by [@gemm]
"""


def run_passes(module: ModuleOp, passes: str) -> ModuleOp:
    """The module itself, after some passes."""
    for found in parse_passes(passes, OurPasses()):
        found.apply(VtacContext(), module)
    return module


def kernel_module() -> ModuleOp:
    """The product in lanes, without a schedule."""
    return run_passes(expressions(), TO_TE)


def expressions() -> ModuleOp:
    """The product as it was written."""
    room: dict[str, Any] = {}
    exec(EXPRESSION, room)
    return lowered([room["y"]], Target.of(TARGET), "expressions")


def scheduled(code: str) -> ModuleOp:
    """The kernel with a schedule, from text."""
    module = str(kernel_module()).rstrip().removesuffix("}")
    stages = "%y_add: !te.stage, %y_shrsi: !te.stage, %y: !te.stage"
    lines = "\n".join(f"    {line}" for line in code.strip().splitlines())
    text = f"{module}  te.schedule @y {{\n  ^bb0({stages}):\n{lines}\n  }}\n}}\n"
    ctx = VtacContext()
    load_dialects(ctx)
    return Parser(ctx, text).parse_module()


def schedule_text(steps: Sequence[Step]) -> str:
    """The primitives of some steps."""
    return "\n".join(step.code.strip() for step in steps)


def loops_after(steps: Sequence[Step]) -> ModuleOp:
    """The loop form once these steps are done, without loops that run once."""
    passes = f"{TO_LOOPS},te-apply-schedule,{SIMPLIFY}"
    module = run_passes(scheduled(schedule_text(steps)), passes)
    module.verify()
    return module


def program_of(steps: Sequence[Step]) -> ProgramOp:
    """The instructions that a schedule leads to."""
    module = run_passes(loops_after(steps), TO_PROGRAM)
    (program,) = (op for op in module.ops if isinstance(op, ProgramOp))
    return program


@dataclass(frozen=True)
class Run:
    """What became of a program: its words, its cycles, and whether NumPy agrees."""

    binary: BinaryProgram
    cycles: int
    is_exact: bool


def run(program: ProgramOp) -> Run:
    """Encode a program, run it on random operands, time it."""
    binary = encode_program(program)
    random = np.random.default_rng(0)
    x = random.integers(-128, 128, (ROWS, INNER), np.int8)
    w = random.integers(-128, 128, (COLUMNS, INNER), np.int8)
    blocks = x.reshape(ROWS, -1, 1, 16), w.reshape(-1, 16, INNER // 16, 16).swapaxes(1, 2)
    device = SimulatorDevice(binary.target)
    addresses = {b.name: device.allocate(b.size, b.alignment) for b in binary.buffers}
    contents = [np.frombuffer(b.data, np.uint8) for b in binary.of_kind(BufferKind.MICRO_OPS)]
    contents += [np.ascontiguousarray(block).reshape(-1).view(np.uint8) for block in blocks]
    kinds = binary.of_kind(BufferKind.MICRO_OPS) + binary.of_kind(BufferKind.INPUT)
    for buffer, data in zip(kinds, contents, strict=True):
        device.write(addresses[buffer.name], data)
    code = binary.relocate(addresses)
    device.run([code])
    (output,) = binary.of_kind(BufferKind.OUTPUT)
    found = device.read(addresses[output.name], output.size).view(np.int8).reshape(ROWS, COLUMNS)
    expected = ((x.astype(np.int32) @ w.T.astype(np.int32)) >> SHIFT).astype(np.int8)
    return Run(binary, estimate(binary.target, code).cycles, np.array_equal(found, expected))


def block(language: str, text: str) -> str:
    """A fenced block."""
    return f"```{language}\n{text.strip(NEWLINE)}\n```"


def kernel_text(module: ModuleOp, *, whole: bool = False) -> str:
    """The kernel; bodies of scalar statements are left out unless asked for."""
    (kernel,) = (op for op in module.ops if isinstance(op, te.KernelOp))
    text = str(kernel)
    body = r"(te\.update [^\n]*)\{\n(?:(?!.*te\.yield).*\n)*.*te\.yield.*\n *\}"
    return text if whole else re.sub(body, r"\1{ … }", text)


def changes(after: str, before: str) -> str:
    """A kernel, with dots for the nests and buffers that are what they were before."""
    known = {_plain(part) for part in _parts(before)}
    lines: list[str] = []
    for part in _parts(after):
        if _plain(part) not in known:
            lines.append(part)
        elif lines[-1:] != [DOTS]:
            lines.append(DOTS)
    return "\n".join(lines)


def _parts(text: str) -> list[str]:
    """The first line of a kernel, its operations, and its last line."""
    first, *inner, _, last = text.splitlines()
    parts = [first]
    for line in inner:
        if line.startswith("    ") or line == "  }":
            parts[-1] += f"\n{line}"
        else:
            parts.append(line)
    return [*parts, last]


def _plain(part: str) -> str:
    """Without the numbers that tell names apart. Never a kernel's first or last line."""
    return re.sub(r"_\d+\b", "", part) if part.startswith("  ") else ""


def words_text(binary: BinaryProgram, names: Sequence[str]) -> str:
    """Each instruction as 128 bits, the higher half first, and what it is."""
    words = [f"{high:016x} {low:016x}" for low, high in binary.insns.tolist()]
    return "\n".join(f"{word}  {name}" for word, name in zip(words, names, strict=True))


def refusal(code: str) -> str:
    """What a schedule is refused with."""
    try:
        run_passes(scheduled(code), f"{TO_LOOPS},te-apply-schedule")
    except CompileError as error:
        return str(error)
    raise AssertionError("the schedule is legal")


def page() -> str:
    """The text of schedules.md."""
    module = expressions()
    parts = [
        "# Schedules: a matrix product from expression to instructions",
        f"""\
What is computed stays fixed; how, is a list of primitives over handles (`te.schedule`). Each is a
rewrite of a loop nest that checks whether it may be done. This page follows one kernel through all
of it, as figure 13 of the VTA report does; it is written by `make docs`, and the kernel with its
whole schedule is [matrix_product.mlir](matrix_product.mlir). The machine is `{TARGET}`.""",
        "## What is computed",
        f"""\
A product of int8 matrices, {ROWS} x {INNER} by {INNER} x {COLUMNS} (`w` is stored by columns),
shifted right by {SHIFT}, of which the low 8 bits are kept:""",
        block("python", EXPRESSION),
        "As IR, two tensor expressions: named axes, affine subscripts, a scalar body.",
        block("mlir", kernel_text(module, whole=True)),
        """\
The machine computes with vectors of 16 and blocks of 16 x 16. `te-pack-lanes` gives the tensors
that layout: the last two dimensions are one element of a scratchpad. `te-split-bodies` leaves one
operation per stage, for that is what an ALU instruction does.""",
        block("mlir", kernel_text(run_passes(module, TO_TE), whole=True)),
        "## Plain loops",
        """\
`te-to-loops` makes a nest of each stage, in main memory, element by element. Ranges are written
`start : length`. A sum has a second nest, for what it starts from. (On this page loops that run
once, as over `b` here, are left out: `te-simplify-loops`.)""",
        block("mlir", kernel_text(loops_after(()), whole=True)),
    ]
    nests = [kernel_text(loops_after(STEPS[:count])) for count in range(len(STEPS) + 1)]
    for count, step in enumerate(STEPS, start=1):
        primitives = len(schedule_text(STEPS[:count]).splitlines())
        command = f"te-apply-schedule{{steps={primitives}}}"
        parts += [
            f"## Step {count}: {step.title[0].lower()}{step.title[1:]}",
            step.text.strip(),
            block("mlir", step.code),
            f"After `{command}`:",
            block("mlir", changes(nests[count], nests[count - 1])),
        ]
    return "\n\n".join([*parts, *instructions(), *refusals()]) + "\n"


def instructions() -> list[str]:
    """The last part: programs, and what they cost."""
    program, alone = program_of(STEPS), program_of(STEPS[:-1])
    threads, single = run(program), run(alone)
    assert threads.is_exact and single.is_exact
    names = [op.name for op in program.body.block.ops if isinstance(op, InstructionOp)]
    return [
        "## Instructions",
        """\
`te-to-vta` runs the outer loops with known numbers: what is left is a flat program. `vta-allocate`
places its buffers, `vta-order-instructions` lets its instructions start when they can,
`vta-plan-microops` places its micro-ops, and `vta-insert-dependences` derives the
tokens (`push_next`, `pop_prev`, ...) from what the instructions read and write. All of it at
once:""",
        block(
            "sh",
            f"""\
vta-opt docs/matrix_product.mlir \\
    -p {TO_LOOPS},te-apply-schedule,{SIMPLIFY},{TO_PROGRAM}""",
        ),
        block("mlir", str(program)),
        "And as the words that the machine fetches:",
        block("text", words_text(threads.binary, names)),
        f"""\
On the simulator the product is what NumPy computes. The clock counts {single.cycles:,} cycles
without the last step, {threads.cycles:,} with it: buffers take further slots where there is room,
so threads are of use only where there is none.

Any schedule, whoever wrote it, can be asked for its cycles directly. `te-estimate` writes them on
it as the attribute `estimate`, and leaves kernel and schedule as they are:""",
        block("sh", "vta-opt docs/matrix_product.mlir -p te-estimate"),
        block(
            "mlir",
            f"{DOTS}\nte.schedule @y attributes {{estimate = {threads.cycles} : i64}} {{\n{DOTS}",
        ),
        """\
In Python, `vtac.tools.tensor_expressions.kernel_clock.KernelClock` prepares a kernel once and
times any number of schedules of it.""",
    ]


def refusals() -> list[str]:
    """How a wrong step ends."""
    return [
        "## What a schedule may not do",
        """\
A primitive that does not fit is refused; no step changes what is computed. Tensorizing before the
operands are where the GEMM core reads them:""",
        block("mlir", TOO_EARLY),
        block("text", refusal(TOO_EARLY)),
        """\
[te-schedule](../passes/te/schedule) writes such schedules by itself, chosen by cost (`vta-opt -p
te-schedule` shows them); a schedule written by hand is kept.""",
    ]


def kernel_file() -> str:
    """The text of matrix_product.mlir."""
    return str(scheduled(schedule_text(STEPS))) + NEWLINE


def main() -> None:
    """Write both files."""
    KERNEL.write_text(kernel_file())
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
