"""The intrinsics of a VTA, as declarations: GEMM, its reset, the operations of the ALU, transfers.

Apache tvm declares the same in ``vta/environment.py``; the semantics are those of docs/vta.md,
section 3.
The lane axes are b (BATCH rows), o (output lanes) and k (input lanes).
"""

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, i8, i32
from xdsl.ir import Region, SSAValue

from vtac.dialects.target import Target

from .affine import Row
from .attributes import DomainAttr, Scope
from .body import scalar_body
from .intrinsics import Instruction, IntrinsicOp, Lanes

_B, _O, _K = Row(((0, 1),)), Row(((1, 1),)), Row(((2, 1),))
_ACC = Lanes(Scope.ACC, (_B, _O), i32)

_ALU = {
    Instruction.ADD: arith.AddiOp,
    Instruction.MAX: arith.MaxSIOp,
    Instruction.MIN: arith.MinSIOp,
    Instruction.SHR: arith.ShRSIOp,
    Instruction.MUL: arith.MuliOp,
}

IMMEDIATE = (-(1 << 15), (1 << 15) - 1)
"""The 16-bit immediate of an ALU instruction."""

SHIFT = (-31, 31)
"""The immediate of a shift; a negative amount shifts to the left."""


def standard_intrinsics(target: Target) -> list[IntrinsicOp]:
    """The declarations for a target, fresh operations in a fixed order."""
    lanes = DomainAttr({"b": target.batch, "o": target.block})
    intrinsics = [_gemm(target), _reset(lanes)]
    if target.alu_imm_src:
        intrinsics.append(_copy(lanes))
    for instruction, operation in _ALU.items():
        if instruction is Instruction.MUL and not target.alu_mul:
            continue

        def two(first: SSAValue, second: SSAValue, alu: type = operation) -> SSAValue:
            result: SSAValue = alu(first, second).result
            return result

        bounds = SHIFT if instruction is Instruction.SHR else IMMEDIATE
        for name, operands, immediate in (
            (instruction.value, [_ACC, _ACC], None),
            (f"{instruction.value}_imm", [_ACC], bounds),
        ):
            intrinsics.append(
                IntrinsicOp(
                    name,
                    lanes,
                    DomainAttr(()),
                    operands,
                    scalar_body([i32, i32], two),
                    instruction,
                    updates=True,
                    immediate=immediate,
                )
            )
    return intrinsics + _transfers(target)


def copying_intrinsics(target: Target) -> Sequence[str]:
    """The intrinsics that copy accumulators to others: one, or an addition after a reset."""
    return ("copy",) if target.alu_imm_src else ("reset", "add")


def _transfers(target: Target) -> list[IntrinsicOp]:
    """LOAD into each scratchpad, with zeros for pads, and STORE, which keeps the low 8 bits.

    The load of WGT has no pads, since hardware designs differ in what they do with them.
    """
    b, o, k = ("b", target.batch), ("o", target.block), ("k", target.block)
    loads = [
        ("load_inp", DomainAttr((b, k)), Scope.INP, i8, 0),
        ("load_wgt", DomainAttr((o, k)), Scope.WGT, i8, None),
        ("load_acc", DomainAttr((b, o)), Scope.ACC, i32, 0),
    ]
    transfers = [
        IntrinsicOp(
            name,
            lanes,
            DomainAttr(()),
            [Lanes(scope, (_B, _O), element), Lanes(Scope.DRAM, (_B, _O), element, pads)],
            scalar_body([element], lambda value: value),
            Instruction.LOAD,
            updates=False,
        )
        for name, lanes, scope, element, pads in loads
    ]
    store = IntrinsicOp(
        "store",
        DomainAttr((b, o)),
        DomainAttr(()),
        [Lanes(Scope.DRAM, (_B, _O), i8), _ACC],
        scalar_body([i32], lambda value: arith.TruncIOp(value, i8).result),
        Instruction.STORE,
        updates=False,
    )
    return [*transfers, store]


def _gemm(target: Target) -> IntrinsicOp:
    def body(accumulator: SSAValue, left: SSAValue, right: SSAValue) -> SSAValue:
        wide = arith.ExtSIOp(left, i32).result, arith.ExtSIOp(right, i32).result
        return arith.AddiOp(accumulator, arith.MuliOp(*wide).result).result

    return IntrinsicOp(
        "gemm",
        DomainAttr({"b": target.batch, "o": target.block}),
        DomainAttr({"k": target.block}),
        [_ACC, Lanes(Scope.INP, (_B, _K), i8), Lanes(Scope.WGT, (_O, _K), i8)],
        scalar_body([i32, i8, i8], body),
        Instruction.GEMM,
        updates=True,
    )


def _reset(lanes: DomainAttr) -> IntrinsicOp:
    zero: Region = scalar_body([], lambda: arith.ConstantOp(IntegerAttr(0, i32)).result)
    return IntrinsicOp(
        "reset", lanes, DomainAttr(()), [_ACC], zero, Instruction.RESET, updates=False
    )


def _copy(lanes: DomainAttr) -> IntrinsicOp:
    """The ALU's copy: an addition of the immediate 0 with another element as source."""
    body: Region = scalar_body([i32], lambda source: source)
    return IntrinsicOp(
        "copy", lanes, DomainAttr(()), [_ACC, _ACC], body, Instruction.COPY, updates=False
    )
