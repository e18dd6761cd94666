"""The figures of a machine that formulas read: its fields, and sizes that follow from them."""

from collections.abc import Mapping

from vtac.dialects.target import Memory, Target

DERIVED: Mapping[str, str] = {
    "block": "lanes of an element: 2 ** log_block",
    "batch": "rows of an element: 2 ** log_batch",
    "multipliers": "of the GEMM core: batch * block * block",
    "alu_lanes": "of the ALU: batch * block",
    "uop_bytes": "of the micro-op memory",
    "inp_bytes": "of the input buffer",
    "wgt_bytes": "of the weight buffer",
    "acc_bytes": "of the accumulators",
    "out_bytes": "of the output buffer, which has an int8 for each accumulator",
    "sram_bytes": "of all five memories",
    "area": "sram_bytes + 80 * multipliers, a rough area in bytes of SRAM",
}
"""The figures that follow from the fields of a machine."""

MULTIPLIER_BYTES = 80
"""Bytes of SRAM that take as much area as one int8 multiplier with its 32-bit adder.

At 45 nm a multiplier takes 282 and an adder 137 square micrometres (Horowitz, "Computing's Energy
Problem", ISSCC 2014), and a bit of SRAM about 0.65: a cell of 0.35, where cells are 55 % of an
array. A rough figure: who knows the technology gives a formula.
"""


def figures_of(machine: Target) -> dict[str, float]:
    """The numbers of a machine by name: its fields, and those of `DERIVED`. Sizes are in bytes."""
    fields = machine.fields()
    found = {k: float(v) for k, v in fields.items() if isinstance(v, int | float)}
    found["uop_entries"] = machine.uop_entries
    memories = {m: machine.depth(m) * machine.element_bytes(m) for m in _MEMORIES}
    found |= {f"{memory.name.lower()}_bytes": size for memory, size in memories.items()}
    multipliers = machine.batch * machine.block * machine.block
    sram = sum(memories.values())
    return found | {
        "block": machine.block,
        "batch": machine.batch,
        "multipliers": multipliers,
        "alu_lanes": machine.batch * machine.block,
        "sram_bytes": sram,
        "area": sram + MULTIPLIER_BYTES * multipliers,
    }


_MEMORIES = (Memory.UOP, Memory.INP, Memory.WGT, Memory.ACC, Memory.OUT)
