"""How a planned invocation becomes instructions: a lowering for each thing an intrinsic lowers to.

The target's own instructions are here. A new one is a `te.intrinsic` that ``lowers "its name"``,
and a function under that name in the context's ``lowerings`` (`VtacContext`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Attribute

from vtac.dialects import te, vta
from vtac.dialects.vta.encoding import AluOpcode

from .compute import MicroOpNest

Properties: TypeAlias = dict[str, Attribute]


@dataclass(frozen=True, slots=True, eq=False)
class Emitted:
    """An instruction to be: its operation, properties, and which of the operands it takes.

    Equal tiles share one, so that what follows from it is worked out once: it is its own key.
    """

    kind: type[vta.ComputeOp]
    properties: Properties
    operands: tuple[int, ...]


class Lowering(Protocol):
    """Makes the instructions of an invocation, in the order in which they run."""

    def __call__(self, nest: MicroOpNest, immediate: int | None) -> Sequence[Emitted]:
        """What to emit for micro-ops and loops over the operands, destination first."""
        ...

    def __hash__(self) -> int:
        """Instructions that were made once are kept by who made them."""
        ...


def gemm(nest: MicroOpNest, immediate: int | None = None) -> list[Emitted]:
    """GEMM: acc += inp * wgt."""
    return [Emitted(vta.GemmOp, _fields(nest), (0, 1, 2))]


def reset(nest: MicroOpNest, immediate: int | None = None) -> list[Emitted]:
    """GEMM with reset: acc = 0."""
    return [Emitted(vta.GemmOp, _fields(nest) | {"reset": UnitAttr()}, (0,))]


def alu(opcode: AluOpcode) -> Lowering:
    """ALU: acc = op(acc, acc), or with an immediate."""

    def lower(nest: MicroOpNest, immediate: int | None) -> list[Emitted]:
        columns = nest.micro_ops.shape[1]
        properties = _fields(nest.of((0, 0)) if columns == 1 else nest)
        properties["operation"] = vta.AluOpcodeAttr(opcode)
        if immediate is not None:
            properties["imm"] = vta.integer(immediate)
        return [Emitted(vta.AluOp, properties, tuple(range(columns)))]

    return lower


def copy(nest: MicroOpNest, immediate: int | None = None) -> Sequence[Emitted]:
    """ALU: acc = acc + 0 of another element, on targets whose immediate form reads a source."""
    return alu(AluOpcode.ADD)(nest, 0)


def _fields(nest: MicroOpNest) -> Properties:
    """Micro-ops, loops and their steps."""
    rows = nest.micro_ops
    triples = np.zeros((len(rows), 3), np.int64)
    triples[:, : rows.shape[1]] = rows
    fields: Properties = {
        "micro_ops": vta.MicroOps.of(triples),
        "loops": vta.integers(*(loop.count for loop in nest.loops)),
    }
    for column, name in enumerate(("dst", "src", "wgt")[: rows.shape[1]]):
        fields[name] = vta.integers(*(loop.by[column] for loop in nest.loops))
    return fields


STANDARD: Mapping[str, Lowering] = {
    te.Instruction.GEMM: gemm,
    te.Instruction.RESET: reset,
    te.Instruction.COPY: copy,
    te.Instruction.ADD: alu(AluOpcode.ADD),
    te.Instruction.MAX: alu(AluOpcode.MAX),
    te.Instruction.MIN: alu(AluOpcode.MIN),
    te.Instruction.SHR: alu(AluOpcode.SHR),
    te.Instruction.MUL: alu(AluOpcode.MUL),
}
"""The instructions of the machine, by what intrinsics say they lower to."""
