"""Writes the tables of vta.md, which describes the machine, its instructions and its clock.

``make docs``; a test compares the page with what this would write. The sentences stand in the page
itself. Each table stands between comments with its name, and its numbers come from the code:
parameters, features and rates from `dialects.target`, fields from `dialects.vta.encoding`,
durations from the clock.
"""

import ast
import dataclasses
import inspect
from collections.abc import Iterable, Sequence
from pathlib import Path

from vtac.dialects.target import PRESETS, Memory, Target
from vtac.dialects.target import configuration as machine
from vtac.dialects.target import timing as rates
from vtac.dialects.vta.encoding import (
    Alu,
    AluOpcode,
    Field,
    Finish,
    Gemm,
    Instruction,
    Load,
    Opcode,
    Store,
    encode,
    instruction_fields,
    micro_op_fields,
)
from vtac.sim import TimingPreset, estimate

HERE = Path(__file__).parent
PAGE = HERE / "vta.md"

CLOCKS = ("chisel-de10", "chisel-pynq")
"""The presets that agree with the RTL in every cycle: bursts of 16 and of 256 beats."""

PARAMETERS = {
    "log_inp_width": "bits of an input value; output values have as many",
    "log_wgt_width": "bits of a weight",
    "log_acc_width": "bits of an accumulator",
    "log_batch": "BATCH, the rows of an input element",
    "log_block": "BLOCK, the lanes of an element, inputs and outputs alike",
    "log_uop_buff_size": "bytes of the micro-op buffer",
    "log_inp_buff_size": "bytes of the input buffer",
    "log_wgt_buff_size": "bytes of the weight buffer",
    "log_acc_buff_size": "bytes of the accumulator buffer",
}
ELEMENTS = {
    Memory.UOP: "one micro-op of 32 bits",
    Memory.WGT: "BLOCK x BLOCK int8, one row for each output lane",
    Memory.INP: "BATCH x BLOCK int8",
    Memory.ACC: "BATCH x BLOCK int32",
    Memory.OUT: "BATCH x BLOCK int8, at the indices of ACC",
    Memory.ACC_8BIT: "BATCH x BLOCK int8 in DRAM, widened into ACC",
}


def page() -> str:
    """The text of vta.md with all its tables as they are now."""
    text = PAGE.read_text(encoding="utf-8")
    for name, inline, content in (
        ("parameters", False, parameters()),
        ("memories", False, memories()),
        ("presets", False, presets()),
        ("fields", False, fields()),
        ("opcodes", True, ", ".join(f"{o.name} {o.value}" for o in Opcode)),
        ("alu_opcodes", True, ", ".join(f"{o.name} {o.value}" for o in AluOpcode)),
        ("micro_op", True, bits(micro_op_fields(Target.named("sim")))),
        ("durations", False, durations()),
        ("rates", False, timing_fields()),
    ):
        first, last = f"<!-- {name} -->", f"<!-- end of {name} -->"
        before, rest = text.split(first)
        after = rest.split(last)[1]
        between = content if inline else f"\n\n{content}\n\n"
        text = before + first + between + last + after
    return text


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def parameters() -> str:
    """The nine parameters with the values of ``sim``."""
    assert tuple(PARAMETERS) == machine.PARAMETERS
    rows = [
        (f"`{name.upper()}`", getattr(PRESETS["sim"], name), meaning)
        for name, meaning in PARAMETERS.items()
    ]
    return table(["log2 parameter", "default", "of what"], rows)


def memories() -> str:
    """The buffers of ``sim``."""
    target = Target.named("sim")
    rows = [
        (m.name, m.value, ELEMENTS[m], target.element_bytes(m), f"{target.depth(m):,}")
        for m in Memory
    ]
    return table(["memory", "id", "element", "bytes in DRAM", "elements"], rows)


def presets() -> str:
    """Features, quirks and sizes of the named machines."""
    names = [*machine.FEATURES, *machine.QUIRKS]
    rows = []
    for name in PRESETS:
        target = Target.named(name)
        values = ["yes" if getattr(target, key) else "no" for key in names]
        sizes = [f"{target.uop_entries:,}", target.queue_depth, target.token_depth]
        rows.append([f"`{name}`", *values, *sizes, f"`{target.timing.name}`"])
    head = [*(f"`{name}`" for name in names), "micro-ops", "queue", "tokens", "timing"]
    return table(["preset", *head], rows)


def fields() -> str:
    """Where each field of each instruction lies, for the default configuration."""
    found = instruction_fields(Target.named("sim"))
    rows = []
    for opcode, all_fields in found.items():
        for word in (0, 1):
            if own := [field for field in all_fields if field.word == word]:
                rows.append((opcode.name, word, bits(own)))
    return table(["instruction", "word", "field: first bit to last bit"], rows)


def bits(some: Iterable[Field]) -> str:
    """Fields with the bits that they occupy."""
    return ", ".join(f"{field.name} {_span(field)}" for field in some)


def _span(field: Field) -> str:
    last = field.offset + field.width - 1
    return f"{field.offset}" if field.width == 1 else f"{field.offset}-{last}"


def _compute(micro_ops: int) -> dict[str, int]:
    return {"uop_bgn": 0, "uop_end": 1, "iter_out": micro_ops, "iter_in": 1}


def _moved(rows: int, columns: int, **rest: int) -> dict[str, int]:
    sizes = {"y_size": rows, "x_size": columns, "x_stride": columns}
    return {"sram_base": 0, "dram_base": 1024, **sizes, **rest}


EXAMPLES: Sequence[tuple[str, Instruction]] = (
    ("LOAD of no elements (a pop or push alone)", Load(memory=Memory.UOP, **_moved(0, 0))),
    ("GEMM, 360 micro-ops", Gemm(**_compute(360))),
    ("GEMM with reset, 64 micro-ops", Gemm(reset=True, **_compute(64))),
    (
        "ALU with an immediate, 300 micro-ops",
        Alu(alu_opcode=AluOpcode.ADD, use_imm=True, **_compute(300)),
    ),
    ("ALU with two operands, 300 micro-ops", Alu(alu_opcode=AluOpcode.ADD, **_compute(300))),
    ("LOAD UOP, 1 micro-op", Load(memory=Memory.UOP, **_moved(1, 1))),
    ("LOAD UOP, 600 micro-ops", Load(memory=Memory.UOP, **_moved(1, 600))),
    ("LOAD INP, 1 element", Load(memory=Memory.INP, **_moved(1, 1))),
    ("LOAD INP, 40 rows of 1", Load(memory=Memory.INP, **_moved(40, 1))),
    ("LOAD WGT, 40 elements", Load(memory=Memory.WGT, **_moved(1, 40))),
    ("LOAD ACC, 24 elements", Load(memory=Memory.ACC, **_moved(1, 24))),
    (
        "LOAD INP, 4 x 6 with one pad on each side",
        Load(memory=Memory.INP, **_moved(4, 6, y_pad_0=1, y_pad_1=1, x_pad_0=1, x_pad_1=1)),
    ),
    (
        "LOAD INP, 3 x 40 with 15 pads left and right",
        Load(memory=Memory.INP, **_moved(3, 40, x_pad_0=15, x_pad_1=15)),
    ),
    ("STORE, 1 element", Store(memory=Memory.OUT, **_moved(1, 1))),
    ("STORE, 64 elements", Store(memory=Memory.OUT, **_moved(1, 64))),
    ("STORE, 20 rows of 1", Store(memory=Memory.OUT, **_moved(20, 1))),
)
"""Instructions whose durations the page shows."""


def durations() -> str:
    """Cycles of single instructions that nothing disturbs, as the clock counts them."""
    rows = [(what, *(duration(name, one) for name in CLOCKS)) for what, one in EXAMPLES]
    return table(["instruction", *(f"`{name}`" for name in CLOCKS)], rows)


def duration(preset: str, instruction: Instruction) -> int:
    """Cycles from start to end of an instruction that runs alone, FINISH waiting for it."""
    target = Target.named(preset)
    on_load = isinstance(instruction, Load) and instruction.memory in (Memory.INP, Memory.WGT)
    on_store = isinstance(instruction, Store)
    pushing = dataclasses.replace(instruction, push_next=on_load, push_prev=on_store)
    finish = Finish(pop_prev=on_load, pop_next=on_store)
    report = estimate(target, encode(target, [pushing, finish]))
    return int(report.events[0, 3] - report.events[0, 2])


def timing_fields() -> str:
    """Every rate of a `TimingPreset`: its value in each preset, and what it is."""
    names = list(rates.TIMING_PRESETS)
    rows = []
    for name, meaning in _documented_fields():
        values = [_plain(getattr(TimingPreset.named(preset), name)) for preset in names]
        rows.append((f"`{name}`", *values, meaning))
    return table(["rate", *(f"`{name}`" for name in names), "meaning"], rows)


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    return "none" if value is None else str(value)


def _documented_fields() -> Iterable[tuple[str, str]]:
    """The fields of `TimingPreset` but its name, each with the docstring below it."""
    (definition,) = ast.parse(inspect.getsource(TimingPreset)).body
    assert isinstance(definition, ast.ClassDef)
    for node, after in zip(definition.body, definition.body[1:], strict=False):
        match node, after:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ) if name != "name":
                yield name, " ".join(text.split())


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
