"""GEMM and ALU: two loops around micro-ops, which stand inline or lie in the micro-op buffer."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, cast

from xdsl.dialects.builtin import DenseArrayBase, FlatSymbolRefAttrConstr, IntegerType, UnitAttr
from xdsl.ir import Attribute
from xdsl.irdl import irdl_op_definition, opt_prop_def, prop_def, var_operand_def
from xdsl.utils.exceptions import VerifyException

from ..target import Memory, Target
from .attributes import AluOpcodeAttr, MicroOps, SramType, integers, numbers
from .encoding import AluOpcode, Opcode
from .instructions import FLAGS, INTEGER, INTEGERS, InstructionOp, SramBuffers, verify_lengths

_ZEROS = integers(0, 0)


class ComputeOp(InstructionOp, ABC):
    """Two loops, [out, in], around a list of micro-ops; a pair of factors for each index."""

    buffers = var_operand_def(SramType)
    reset = opt_prop_def(UnitAttr)
    micro_ops = opt_prop_def(MicroOps)
    kernel = opt_prop_def(FlatSymbolRefAttrConstr)
    uops = opt_prop_def(INTEGERS)
    loops = prop_def(INTEGERS)
    dst = prop_def(INTEGERS, default_value=_ZEROS)
    src = prop_def(INTEGERS, default_value=_ZEROS)

    @property
    def iterations(self) -> tuple[int, int]:
        """Outer and inner iterations."""
        outer, inner = numbers(cast("DenseArrayBase[IntegerType]", self.properties["loops"]))
        return outer, inner

    def factors(self) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int]]:
        """The factors [out, in] of dst, src and wgt."""
        dst_out, dst_in = numbers(self.dst)
        src_out, src_in = numbers(self.src)
        return (dst_out, dst_in), (src_out, src_in), (0, 0)

    def fields(self) -> dict[str, int]:
        """See `InstructionOp`."""
        outer, inner = self.iterations
        begin, end = (0, 0) if self.uops is None else numbers(self.uops)
        dst, src, _ = self.factors()
        return {
            "reset": int(self.reset is not None),
            "uop_bgn": begin,
            "uop_end": end,
            "iter_out": outer,
            "iter_in": inner,
            "dst_factor_out": dst[0],
            "dst_factor_in": dst[1],
            "src_factor_out": src[0],
            "src_factor_in": src[1],
        }

    def row(self) -> tuple[int, ...]:
        """See `InstructionOp`. Raises `ValueError` before micro-ops have their place, too."""
        if self.placed and self.uops is None:
            raise ValueError(f"{self.name} has micro-ops inline: run vta-plan-microops first")
        return super().row()

    def verify_(self) -> None:
        """Check what all instructions must fulfil, and that the micro-ops are given exactly once.

        They are either inline or a range of the micro-op buffer.
        """
        verify_lengths(self, loops=2, dst=2, src=2, wgt=2, uops=2)
        if (self.micro_ops is None) == (self.uops is None):
            raise VerifyException(
                f"{self.name}: expected either inline micro_ops or a range of uops"
            )
        if self.kernel is not None and self.uops is None:
            raise VerifyException(f"{self.name}: a kernel needs its range of uops")
        if self.buffers and self.micro_ops is None:
            raise VerifyException(f"{self.name}: unplaced buffers need inline micro_ops")
        super().verify_()

    def verify_instruction(self, target: Target) -> None:
        """There are micro-ops, and their indices stay inside the memories.

        Empty loops are left to the hazard checker: they are encodable, and machines differ.
        """
        if self.uops is not None:
            begin, end = numbers(self.uops)
            if not begin <= end <= target.uop_entries:
                raise VerifyException(
                    f"{self.name}: uops [{begin}, {end}] is no range of the target's"
                    f" {target.uop_entries} micro-ops"
                )
        elif self.micro_ops is not None:
            if not self.micro_ops.data:
                raise VerifyException(f"{self.name}: no micro-ops")
            self._verify_indices(target, self.micro_ops)

    def _verify_indices(self, target: Target, micro_ops: MicroOps) -> None:
        highest = micro_ops.rows.max(axis=0).tolist()
        outer, inner = (max(1, count) for count in self.iterations)
        memories = self.index_memories()
        for name, memory, top, (by_out, by_in) in zip(
            ("dst", "src", "wgt"), memories, highest, self.factors(), strict=True
        ):
            top += (outer - 1) * by_out + (inner - 1) * by_in
            if memory is not None and top >= target.depth(memory):
                raise VerifyException(
                    f"{self.name}: {name} reaches element {top} of {memory.name.lower()}, but the"
                    f" target has {target.depth(memory)}"
                )

    @abstractmethod
    def index_memories(self) -> tuple[Memory | None, Memory | None, Memory | None]:
        """The memories that dst, src and wgt index, None where the index is not used."""

    def written(self) -> tuple[Memory, ...]:
        """The memories that it writes at dst: results go to ACC, and narrowed to OUT."""
        return (Memory.ACC, Memory.OUT)

    def touched(self) -> Iterator[tuple[Memory, int, bool]]:
        """The memories that it reaches, each with the number of its index (dst, src, wgt) and
        whether it writes. An accumulation reads what it writes, which is not listed.
        """
        yield from ((memory, 0, True) for memory in self.written())
        _, *read = self.index_memories()
        for index, memory in enumerate(read, start=1):
            if memory is not None:
                yield memory, index, False


@irdl_op_definition
class GemmOp(ComputeOp):
    """GEMM: ``vta.gemm %acc, %inp, %wgt micro_ops <[0, 0, 0]> loops [14, 16] dst [16, 1] ...``.

    With reset it clears accumulators, and has only the first operand.
    """

    name = "vta.gemm"
    OPCODE: ClassVar[Opcode] = Opcode.GEMM

    wgt = prop_def(INTEGERS, default_value=_ZEROS)

    custom_directives = (SramBuffers,)
    assembly_format = (
        "(`reset` $reset^)? custom<SramBuffers>($buffers, type($buffers))"
        " (`micro_ops` $micro_ops^)? (`kernel` $kernel^)? (`uops` $uops^)? `loops` $loops"
        f" (`dst` $dst^)? (`src` $src^)? (`wgt` $wgt^)? {FLAGS} attr-dict"
    )

    @classmethod
    def memories(cls, properties: Mapping[str, Attribute]) -> Sequence[Memory]:
        """ACC, and for products INP and WGT."""
        if "reset" in properties:
            return (Memory.ACC,)
        return (Memory.ACC, Memory.INP, Memory.WGT)

    def index_memories(self) -> tuple[Memory | None, Memory | None, Memory | None]:
        """See `ComputeOp`."""
        if self.reset is not None:
            return (Memory.ACC, None, None)
        return (Memory.ACC, Memory.INP, Memory.WGT)

    def written(self) -> tuple[Memory, ...]:
        """See `ComputeOp`. A reset leaves OUT as it is."""
        return super().written() if self.reset is None else (Memory.ACC,)

    def factors(self) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int]]:
        """The factors [out, in] of dst, src and wgt."""
        dst, src, _ = super().factors()
        wgt_out, wgt_in = numbers(self.wgt)
        return dst, src, (wgt_out, wgt_in)

    def fields(self) -> dict[str, int]:
        """See `InstructionOp`."""
        by_out, by_in = numbers(self.wgt)
        return super().fields() | {"wgt_factor_out": by_out, "wgt_factor_in": by_in}

    def verify_instruction(self, target: Target) -> None:
        """As every compute instruction; all its buffers, or none."""
        if self.buffers and len(self.buffers) != len(self.memories(self.properties)):
            raise VerifyException(
                f"vta.gemm: expected {len(self.memories(self.properties))} SRAM buffers or none"
            )
        super().verify_instruction(target)


@irdl_op_definition
class AluOp(ComputeOp):
    """ALU: ``vta.alu max %acc imm 0 ...``; ``vta.alu add %acc, %other ...`` reads a second operand.

    With an immediate, src equals dst everywhere, but for targets with alu_imm_src, where the
    operation may read acc[src] (then it has a second operand). ``unused_imm`` is the field of an
    operation without an immediate: the Chisel design takes the direction of a shift from its sign.
    """

    name = "vta.alu"
    OPCODE: ClassVar[Opcode] = Opcode.ALU

    operation = prop_def(AluOpcodeAttr)
    imm = opt_prop_def(INTEGER)
    unused_imm = opt_prop_def(INTEGER)

    custom_directives = (SramBuffers,)
    assembly_format = (
        "$operation (`reset` $reset^)? custom<SramBuffers>($buffers, type($buffers)) (`imm` $imm^)?"
        " (`unused_imm` $unused_imm^)? (`micro_ops` $micro_ops^)? (`kernel` $kernel^)?"
        " (`uops` $uops^)? `loops` $loops (`dst` $dst^)? (`src` $src^)?"
        f" {FLAGS} attr-dict"
    )

    @classmethod
    def memories(cls, properties: Mapping[str, Attribute]) -> Sequence[Memory]:
        """ACC twice; the second operand may be left out where it is the first."""
        return (Memory.ACC, Memory.ACC)

    def index_memories(self) -> tuple[Memory | None, Memory | None, Memory | None]:
        """See `ComputeOp`."""
        return (Memory.ACC, Memory.ACC, None)

    def fields(self) -> dict[str, int]:
        """See `InstructionOp`."""
        value = self.imm if self.imm is not None else self.unused_imm
        return super().fields() | {
            "alu_opcode": int(self.operation.data),
            "use_imm": int(self.imm is not None),
            "imm": 0 if value is None else value.value.data,
        }

    def verify_instruction(self, target: Target) -> None:
        """As every compute instruction; the target has the operation and the amount."""
        if self.operation.data is AluOpcode.MUL and not target.alu_mul:
            raise VerifyException("vta.alu: the target has no mul")
        if self.imm is not None and self.unused_imm is not None:
            raise VerifyException("vta.alu: expected imm or unused_imm, not both")
        shift = self.imm if self.operation.data is AluOpcode.SHR else None
        if shift is not None and abs(shift.value.data) > 31:
            raise VerifyException(f"vta.alu: shifts by {shift.value.data}, beyond -31 to 31")
        if len(self.buffers) > 1 and self.imm is not None and not target.alu_imm_src:
            raise VerifyException(
                "vta.alu: an immediate operation reads a second operand only where the target has"
                " alu_imm_src"
            )
        super().verify_instruction(target)
