"""Random programs without tokens, and what a machine makes of them: for comparing machines.

Programs use every instruction over several shapes of machine: kernels with and without the
structure that the fast path looks for, repeated destinations, zero strides, chains inside one ALU
instruction, memories full of -128, sums that wrap. They run in program order.
"""

import numpy as np
from numpy.typing import NDArray

from vtac.dialects.target import Memory, Target
from vtac.dialects.vta.encoding import (
    Alu,
    AluOpcode,
    Finish,
    Gemm,
    Instruction,
    Load,
    Store,
    encode,
    encode_micro_ops,
)
from vtac.sim import SimulationError, Simulator
from vtac.sim.machine import FastMachine
from vtac.sim.reference import ReferenceMachine

SHAPES = {
    "1x16": Target.named("sim"),
    "4x8": Target.named("sim").replace(log_batch=2, log_block=3),
    "2x16": Target.named("sim").replace(log_batch=1),
    "imm_src": Target.named("sim").replace(alu_imm_src=True),
    "chisel": Target.named("chisel-pynq"),
}
DATA, MICRO_OPS, RESULTS = 8192, 65536, 131072
IMAGE = 196608


class Author:
    """Writes random programs for a target."""

    def __init__(self, target: Target, seed: int) -> None:
        self.target, self.rng = target, np.random.default_rng(seed)
        self.dram = self.rng.integers(0, 256, IMAGE).astype(np.uint8)
        if seed % 4 == 0:
            self.dram[:MICRO_OPS] = 128
        self.program: list[Instruction] = []
        self.kernel_end = MICRO_OPS
        self.space = int(self.rng.choice([6, 40, 300]))

    def pick(self, *choices: int) -> int:
        return int(self.rng.choice(choices))

    def load(self, memory: Memory) -> None:
        size = self.target.element_bytes(memory)
        pads = self.rng.integers(0, 3, 4) if self.rng.random() < 0.4 else np.zeros(4, int)
        y, x = (int(v) for v in self.rng.integers(1, 7, 2))
        load = Load(
            memory=memory,
            sram_base=self.pick(0, 1, 5, self.space // 2),
            dram_base=DATA // size + int(self.rng.integers(0, 16)),
            y_size=y,
            x_size=x,
            x_stride=x + self.pick(0, 0, 3),
            y_pad_0=int(pads[0]),
            y_pad_1=int(pads[1]),
            x_pad_0=int(pads[2]),
            x_pad_1=int(pads[3]),
        )
        self.program.append(load)

    def kernel(self, src_beyond: bool = False) -> int:
        """Put a random list of micro-ops into DRAM, load it at 0, and return its length.

        With ``src_beyond``, sources lie behind all destinations.
        """
        kind = self.pick(0, 1, 2, 3)
        a, b = self.pick(1, 2, 3, 5), self.pick(1, 2, 4, 7)
        p, q = (v.reshape(-1) for v in np.meshgrid(np.arange(a), np.arange(b)))
        near = min(self.space, 8)
        dst, src, wgt = (self.rng.integers(0, n, a * b) for n in (self.space, self.space, near))
        if kind == 1:
            dst, src, wgt = p * self.pick(1, 3), q * self.pick(1, 2), p * b + q
        elif kind == 2:
            dst, src, wgt = p, p + q, q
        elif kind == 3:
            dst, src = dst % near, src % near
        if src_beyond:
            src = self.space + src % 30
        if self.rng.random() < 0.3:
            keep = np.sort(self.rng.permutation(a * b)[: max(1, a * b - 2)])
            dst, src, wgt = dst[keep], src[keep], wgt[keep]
        words = encode_micro_ops(self.target, dst, src, wgt)
        self.dram[self.kernel_end : self.kernel_end + 4 * len(words)] = words.view(np.uint8)
        load = Load(
            memory=Memory.UOP,
            sram_base=0,
            dram_base=self.kernel_end // 4,
            y_size=1,
            x_size=len(words),
            x_stride=len(words),
        )
        self.program.append(load)
        self.kernel_end += 4 * len(words)
        return len(words)

    def gemm(self) -> None:
        count = self.kernel()
        iterations = (self.pick(1, 2, 3, 9), self.pick(1, 2, 5))
        if count < 4 and self.rng.random() < 0.3:
            iterations = (self.pick(1, 90), self.pick(1, 3))
        factors = self.rng.choice([0, 0, 1, 2, 7], 6)
        gemm = Gemm(
            reset=bool(self.rng.random() < 0.15),
            uop_bgn=0,
            uop_end=count,
            iter_out=iterations[0],
            iter_in=iterations[1],
            dst_factor_out=int(factors[0]),
            dst_factor_in=int(factors[1]),
            src_factor_out=int(factors[2]),
            src_factor_in=int(factors[3]),
            wgt_factor_out=int(factors[4]),
            wgt_factor_in=int(factors[5]),
        )
        self.program.append(gemm)

    def alu(self) -> None:
        count = self.kernel()
        opcodes = list(AluOpcode) if self.target.alu_mul else list(AluOpcode)[:4]
        opcode = opcodes[self.pick(*range(len(opcodes)))]
        shift = opcode is AluOpcode.SHR
        use_imm = shift or bool(self.rng.random() < 0.5)
        factors = self.rng.choice([0, 1, 1, 3], 4)
        imm = self.pick(-31, -2, 0, 1, 9, 31) if shift else self.pick(-32768, -3, 0, 77, 32767)
        alu = Alu(
            alu_opcode=opcode,
            use_imm=use_imm,
            imm=imm,
            uop_bgn=0,
            uop_end=count,
            iter_out=self.pick(1, 2, 6),
            iter_in=self.pick(1, 3),
            dst_factor_out=int(factors[0]),
            dst_factor_in=int(factors[1]),
            src_factor_out=int(factors[2]),
            src_factor_in=int(factors[3]),
        )
        self.program.append(alu)

    def register_shift(self) -> None:
        """Bring accumulators into the range of amounts, then shift by some that stay."""
        low = 0 if self.target.preset.startswith("chisel") else -31
        self.everywhere(AluOpcode.MIN, 31)
        self.everywhere(AluOpcode.MAX, low)
        count = self.kernel(src_beyond=True)
        shift = Alu(alu_opcode=AluOpcode.SHR, uop_bgn=0, uop_end=count, iter_out=1, iter_in=1)
        self.program.append(shift)

    def identity(self) -> None:
        words = encode_micro_ops(self.target, 0, 0)
        self.dram[self.kernel_end : self.kernel_end + 4] = words.view(np.uint8)
        base = self.kernel_end // 4
        load = Load(memory=Memory.UOP, sram_base=0, dram_base=base, y_size=1, x_size=1, x_stride=1)
        self.program.append(load)
        self.kernel_end += 4

    def store(self) -> None:
        y, x = (int(v) for v in self.rng.integers(1, 6, 2))
        store = Store(
            memory=Memory.OUT,
            sram_base=int(self.rng.integers(0, max(1, self.space - y * x))),
            dram_base=RESULTS // self.target.element_bytes(Memory.OUT)
            + int(self.rng.integers(0, 64)),
            y_size=y,
            x_size=x,
            x_stride=self.pick(x, x + 2, 1),
        )
        self.program.append(store)

    def everywhere(self, opcode: AluOpcode, imm: int) -> None:
        """An immediate operation on every accumulator in use, which also writes OUT."""
        self.identity()
        alu = Alu(
            alu_opcode=opcode,
            use_imm=True,
            imm=imm,
            uop_bgn=0,
            uop_end=1,
            iter_out=self.space + 30,
            iter_in=1,
            dst_factor_out=1,
            src_factor_out=1,
        )
        self.program.append(alu)

    def write(self, length: int) -> NDArray[np.uint64]:
        memories = [Memory.INP, Memory.WGT, Memory.ACC]
        if self.target.acc_load_int8:
            memories.append(Memory.ACC_8BIT)
        if self.rng.random() < 0.9:
            self.everywhere(AluOpcode.ADD, 3)
        steps = [self.gemm, self.gemm, self.alu, self.alu, self.store, self.register_shift]
        for _ in range(length):
            for _ in range(self.pick(0, 1, 3)):
                self.load(memories[self.pick(*range(len(memories)))])
            steps[self.pick(*range(len(steps)))]()
        self.program.append(Finish())
        return encode(self.target, self.program)


def outcome(
    target: Target, cls: type[FastMachine] | type[ReferenceMachine], author: Author, strict: bool
) -> tuple[NDArray[np.uint8], NDArray[np.int32], NDArray[np.int8], int | None]:
    """DRAM, ACC, OUT, and the instruction that was refused, if one was."""
    machines: list[FastMachine | ReferenceMachine] = []

    def make(*arguments):
        machines.append(cls(*arguments))
        return machines[-1]

    image = author.dram.copy()
    refused = None
    with np.errstate(over="ignore"):
        try:
            Simulator(target, make).run(encode(target, author.program), image, strict)
        except SimulationError as error:
            refused = error.index
    made = machines[0]
    machine = made.buffers if isinstance(made, FastMachine) else made
    lazy = made.buffers.out_lazy if isinstance(made, FastMachine) else None
    depth = target.acc_depth
    acc, out = machine.acc.reshape(depth, -1), machine.out.reshape(depth, -1).copy()
    if lazy is not None:
        out[lazy] = acc[lazy].astype(np.int8)
    return image, acc, out, refused


def fast_is_plain(shape: str, seed: int) -> bool:
    """Compare both machines on one program, byte for byte; whether it ran to its end."""
    target = SHAPES[shape]
    author = Author(target, seed)
    author.write(14)
    strict = seed % 3 != 0 and shape != "chisel"
    fast = outcome(target, FastMachine, author, strict)
    plain = outcome(target, ReferenceMachine, author, strict)
    assert fast[3] == plain[3]
    if fast[3] is not None:
        return False
    for one, other in zip(fast[:3], plain[:3], strict=True):
        np.testing.assert_array_equal(one, other)
    return True
