"""The plain definition of VTA: one micro-op after another, to be read beside docs/vta.md section 3.
Everything fast in this package is tested against it. It is slow and simple: each buffer is an
array, each rule is a line or two, and each check stands beside the rule that it protects.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ..dialects.target import Memory, Target
from ..dialects.vta.encoding import (
    Alu,
    AluOpcode,
    Compute,
    EncodingError,
    Gemm,
    Instruction,
    Load,
    Store,
    Transfer,
    decode_micro_ops,
)
from .elements import out_of_range
from .errors import Fault
from .launch import Launch
from .legality import MAX_SHIFT

MicroOps = Iterator[tuple[int, int, int]]


class ReferenceMachine:
    """The buffers of one VTA and what each instruction does to them and to DRAM."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.position = 0

    def begin(self, program: Launch, dram: NDArray[np.uint8]) -> None:
        """Make ready to run legal instructions from undefined buffers, on ``dram`` in place."""
        target = self.target
        self.instructions, self.done = program.instructions, 0
        self.dram, self.strict = dram, program.strict
        batch, block = target.batch, target.block
        self.uop = np.zeros(target.uop_entries, np.uint32)
        self.inp = np.zeros((target.inp_depth, batch, block), np.int8)
        self.wgt = np.zeros((target.wgt_depth, block, block), np.int8)
        self.acc = np.zeros((target.acc_depth, batch, block), np.int32)
        self.out = np.zeros((target.acc_depth, batch, block), np.int8)
        self.out_written = np.zeros(target.acc_depth, bool)

    def advance(self, until: int) -> None:
        """Run the instructions that have not run, up to place `until`; raises `Fault`."""
        for position, instruction in enumerate(self.instructions[self.done : until], self.done):
            self.position = position
            self.execute(instruction)
        self.done = until

    def execute(self, instruction: Instruction) -> None:
        """Run one instruction to which `legality.objection` has no objection."""
        match instruction:
            case Load():
                self.load(instruction)
            case Store():
                self.store(instruction)
            case Gemm():
                self.gemm(instruction)
            case Alu():
                self.alu(instruction)

    def _dram_element(self, transfer: Transfer, y: int, x: int) -> NDArray[np.uint8]:
        size = self.target.element_bytes(transfer.memory)
        first = (transfer.dram_base + y * transfer.x_stride + x) * size
        return self.dram[first : first + size]

    def load(self, load: Load) -> None:
        """Rows of DRAM elements into a dense rectangle with a border of zeros."""
        buffers: dict[Memory, NDArray[np.generic]] = {
            Memory.UOP: self.uop,
            Memory.WGT: self.wgt,
            Memory.INP: self.inp,
            Memory.ACC: self.acc,
            Memory.ACC_8BIT: self.acc,
        }
        buffer = buffers[load.memory]
        stored = np.dtype(np.int8) if load.memory is Memory.ACC_8BIT else buffer.dtype
        if load.x_size == 0 or load.y_size == 0:
            return
        sram = load.sram_base
        for y in range(-load.y_pad_0, load.y_size + load.y_pad_1):
            for x in range(-load.x_pad_0, load.x_size + load.x_pad_1):
                if 0 <= y < load.y_size and 0 <= x < load.x_size:
                    values = self._dram_element(load, y, x).view(stored)
                    buffer[sram] = values.reshape(buffer.shape[1:])
                else:
                    buffer[sram] = 0
                sram += 1

    def store(self, store: Store) -> None:
        """Rows of OUT elements, dense in the buffer, to DRAM."""
        sram = store.sram_base
        for y in range(store.y_size):
            for x in range(store.x_size):
                if self.strict and not self.out_written[sram]:
                    raise Fault(f"stores OUT element {sram}, which no GEMM or ALU has written")
                self._dram_element(store, y, x)[:] = self.out[sram].reshape(-1).view(np.uint8)
                sram += 1

    def micro_ops(self, compute: Compute, factors: tuple[tuple[int, int], ...]) -> MicroOps:
        """The indices dst, src, wgt of each micro-op in the order in which they run."""
        kernel = slice(compute.uop_bgn, compute.uop_end)
        try:
            kernel_ops = decode_micro_ops(self.target, self.uop[kernel]).tolist()
        except EncodingError as error:
            raise Fault(f"in its kernel, {error}") from None
        (dst_out, dst_in), (src_out, src_in), (wgt_out, wgt_in) = factors
        for i in range(compute.iter_out):
            for j in range(compute.iter_in):
                for dst, src, wgt in kernel_ops:
                    yield (
                        dst + i * dst_out + j * dst_in,
                        src + i * src_out + j * src_in,
                        wgt + i * wgt_out + j * wgt_in,
                    )

    def gemm(self, gemm: Gemm) -> None:
        """acc[dst] += inp[src] x wgt[wgt] transposed, or with reset acc[dst] = 0."""
        factors = (
            (gemm.dst_factor_out, gemm.dst_factor_in),
            (gemm.src_factor_out, gemm.src_factor_in),
            (gemm.wgt_factor_out, gemm.wgt_factor_in),
        )
        for dst, src, wgt in self.micro_ops(gemm, factors):
            self._within("ACC", dst, len(self.acc))
            if gemm.reset:
                self.acc[dst] = 0
                continue
            self._within("INP", src, len(self.inp))
            self._within("WGT", wgt, len(self.wgt))
            product = self.inp[src].astype(np.int32) @ self.wgt[wgt].astype(np.int32).T
            self.acc[dst] += product
            self._write_out(dst)

    def alu(self, alu: Alu) -> None:
        """acc[dst] = op(acc[dst], imm or acc[src]); with `alu_imm_src`, op(acc[src], imm)."""
        factors = (
            (alu.dst_factor_out, alu.dst_factor_in),
            (alu.src_factor_out, alu.src_factor_in),
            (0, 0),
        )
        reads_src = not alu.use_imm or self.target.alu_imm_src
        immediate = np.full(self.acc.shape[1:], alu.imm, np.int32)
        previous: int | None = None
        for dst, src, _ in self.micro_ops(alu, factors):
            self._within("ACC", dst, len(self.acc))
            if reads_src:
                self._within("ACC", src, len(self.acc))
            adjacent = (reads_src and src == previous) or (alu.use_imm and dst == previous)
            if self.strict and adjacent and not self.target.alu_bypass:
                raise Fault(f"a micro-op depends on the one before it (acc {previous})")
            previous = dst
            left = self.acc[src] if alu.use_imm and reads_src else self.acc[dst]
            right = immediate if alu.use_imm else self.acc[src]
            self.acc[dst] = self._operate(alu, left, right)
            self._write_out(dst)

    def _operate(
        self, alu: Alu, left: NDArray[np.int32], right: NDArray[np.int32]
    ) -> NDArray[np.int32]:
        match alu.alu_opcode:
            case AluOpcode.MIN:
                return np.minimum(left, right)
            case AluOpcode.MAX:
                return np.maximum(left, right)
            case AluOpcode.ADD:
                return left + right
            case AluOpcode.MUL:
                return left * right
            case AluOpcode.SHR:
                low = 0 if self.target.shr_sign_of_imm and not alu.use_imm else -MAX_SHIFT
                if right.min() < low or right.max() > MAX_SHIFT:
                    raise Fault(
                        f"shift amounts {right.min()} to {right.max()}, but they go from {low} to"
                        f" {MAX_SHIFT}"
                    )
                shifted_left = left << np.maximum(-right, 0)
                return np.where(right < 0, shifted_left, left >> np.maximum(right, 0))

    def _write_out(self, dst: int) -> None:
        self.out[dst] = self.acc[dst].astype(np.int8)
        self.out_written[dst] = True

    def _within(self, name: str, index: int, depth: int) -> None:
        if index >= depth:
            raise Fault(out_of_range(name, index, index, depth))
