"""Where the cycles of a program go beyond its bound, and what its epilogues cost, from the clock.

`distance` splits the cycles above the bound by reason; the reasons add up to the difference. Where
the compute module's micro-ops are the bound, these are the cycles in which it runs none; where the
read port is the bound, those in which the load module moves nothing. `kinds` splits the cycles of
micro-ops by what they do.
"""

from collections import Counter
from collections.abc import Mapping

import numpy as np

from vtac.dialects.target import COMPUTE, LOAD
from vtac.dialects.vta.encoding import AluOpcode, Opcode, instruction_columns
from vtac.sim import TimingReport
from vtac.sim.timing.accounts import Cause
from vtac.sim.timing.work import InstructionKind

COMPUTE_REASONS: Mapping[str, tuple[Cause, ...]] = {
    "instructions": (Cause.GEMM, Cause.RESET, Cause.ALU, Cause.START, Cause.SYNC),
    "biases": (Cause.TRANSFER, Cause.DRAM, Cause.PADDING),
    "micro-op loads": (Cause.MICRO_OPS,),
    "wait for loads": (Cause.LOAD_TO_COMPUTE,),
    "wait for stores": (Cause.STORE_TO_COMPUTE,),
    "fetch": (Cause.FETCH, Cause.FULL_QUEUE),
}
"""Reasons for which the compute module runs no micro-op, with their causes. Instructions take
cycles beside their micro-ops; biases, shifts and other vectors are loaded by the module itself."""

PORT_REASONS: Mapping[str, tuple[Cause, ...]] = {
    "no room": (Cause.COMPUTE_TO_LOAD,),
    "latency": (Cause.DRAM, Cause.START, Cause.PADDING, Cause.SYNC),
    "fetch": (Cause.FETCH, Cause.FULL_QUEUE),
}
"""Reasons for which the load module moves nothing: scratchpads are full, or requests are few."""

REST = "start and end"
"""The reason of all other cycles: a module has nothing to do yet, or nothing left."""

REASONS = tuple(dict.fromkeys([*COMPUTE_REASONS, *PORT_REASONS, REST]))

KINDS = (
    "products", "resets", "additions of constants", "additions of vectors",
    "shifts by constants", "shifts by vectors", "clips", "maxima of vectors", "others",
)  # fmt: skip
"""What micro-ops do. A copy of a bias is an addition of the constant 0 to another element."""


def distance(report: TimingReport) -> Counter[str]:
    """Cycles above the bound of a program by reason; those of all reasons are the difference."""
    total = report.total
    unit, reasons = COMPUTE, COMPUTE_REASONS
    if total.bound_by != "compute":
        unit, reasons = LOAD, PORT_REASONS
    causes = total.modules[unit]
    found = Counter({
        name: sum(causes.get(cause, 0) for cause in members) for name, members in reasons.items()
    })  # fmt: skip
    if unit is COMPUTE:
        found["instructions"] -= total.lower_bound
    else:
        # While the load module waits for the port, others read: that is no distance from the bound.
        others = total.lower_bound - causes.get(Cause.TRANSFER, 0)
        for name in ("latency", "no room", "fetch"):
            taken = min(others, found[name])
            found[name] -= taken
            others -= taken
    found[REST] = report.cycles - total.lower_bound - sum(found.values())
    return found


def kinds(report: TimingReport) -> Counter[str]:
    """Cycles of the compute module's micro-ops by what they do (`KINDS`)."""
    work, preset = report.work, report.preset
    cycles = work.duration - preset.compute_overhead
    found = Counter({
        "products": int(cycles[work.kind == InstructionKind.GEMM].sum()),
        "resets": int(cycles[work.kind == InstructionKind.RESET].sum()),
    })  # fmt: skip
    rows = np.flatnonzero(work.kind == InstructionKind.ALU)
    columns = instruction_columns(work.target)[Opcode.ALU]
    fields = dict(zip(columns.names, columns.extract(work.words[rows]), strict=True))
    for row, opcode, immediate in zip(rows, fields["alu_opcode"], fields["use_imm"], strict=True):
        found[_kind(AluOpcode(int(opcode)), bool(immediate))] += int(cycles[row])
    return found


def _kind(opcode: AluOpcode, immediate: bool) -> str:
    if opcode in (AluOpcode.MIN, AluOpcode.MAX):
        return "clips" if immediate else "maxima of vectors"
    names = {AluOpcode.ADD: "additions", AluOpcode.SHR: "shifts"}
    if opcode not in names:
        return "others"
    what = "of" if opcode is AluOpcode.ADD else "by"
    return f"{names[opcode]} {what} {'constants' if immediate else 'vectors'}"
