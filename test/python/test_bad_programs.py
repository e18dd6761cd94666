"""Every way in which a program can be bad: the same diagnostic from all who can know.

One row a rule: the simulator refuses (in strict mode), the checker reports, and the clock, which
sees no data, refuses what the machine cannot run. Then the golden programs that the RTL does not
survive.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from instructions import alu, gemm, load, store

from vtac.dialects.target import Memory, Target
from vtac.dialects.vta.assembly import disassemble
from vtac.dialects.vta.encoding import (
    AluOpcode,
    Finish,
    Instruction,
    Load,
    encode,
    encode_micro_ops,
)
from vtac.sim import HazardKind, SimulationError, check, estimate, execute

SIM, CHISEL = Target.named("sim"), Target.named("chisel-pynq")
KERNEL = Load(memory=Memory.UOP, sram_base=0, dram_base=2048, y_size=1, x_size=2, x_stride=2)
NOTHING = Load(memory=Memory.INP, sram_base=0, dram_base=0, y_size=0, x_size=0, x_stride=0)
SYNC = Load(memory=Memory.UOP, sram_base=0, dram_base=0, y_size=0, x_size=0, x_stride=0)


def raised(instruction: Instruction, word: int, offset: int, value: int) -> np.ndarray:
    """The words of an instruction with a field overwritten."""
    words = encode(SIM, [instruction])
    words[0, word] |= np.uint64(value << offset)
    return words


@dataclass(frozen=True)
class Bad:
    """program: instructions or words, without FINISH. index: which is bad. by: who can know."""

    rule: str
    program: Sequence[Instruction] | np.ndarray
    index: int
    message: str
    target: Target = SIM
    by: str = "run check"

    def words(self) -> np.ndarray:
        if isinstance(self.program, np.ndarray):
            return np.concatenate([self.program, encode(self.target, [Finish()])])
        return encode(self.target, [*self.program, Finish()])


EVERYONE = "run check time"
ORDERED = [KERNEL, alu(push_next=True)]
PUSH, POP = load(x_size=0, push_next=True), load(Memory.UOP, x_size=0, pop_prev=True)

BAD = [
    Bad("SRAM out of range", [load(sram_base=2048)], 0, "the buffer has 2048", by=EVERYONE),
    Bad("SRAM out of range", [KERNEL, gemm(dst_factor_out=2047, iter_out=3)], 1, "ACC indices"),
    Bad("SRAM out of range", [KERNEL, alu(uop_end=8193)], 1, "the target has 8192", by=EVERYONE),
    Bad("DRAM out of range", [load(dram_base=4095, x_size=2)], 0, "but the image has 65536"),
    Bad("page zero", [load(dram_base=255)], 0, "the first 4096 bytes", by=EVERYONE),
    Bad("unwritten OUT", [KERNEL, store(push_prev=True), replace(SYNC, pop_next=True)], 1,
        "which no GEMM or ALU has written", by="run"),
    Bad("pads on STORE", [store(x_pad_1=1)], 0, "STORE has no pads", by=EVERYONE),
    Bad("no MUL", [KERNEL, alu(AluOpcode.MUL)], 1, "alu_mul", CHISEL, EVERYONE),
    Bad("no ACC_8BIT", [load(Memory.ACC_8BIT)], 0, "acc_load_int8", CHISEL, EVERYONE),
    Bad("shift", [KERNEL, alu(AluOpcode.SHR, imm=32)], 1, "shift by 32"),
    Bad("shift", [load(Memory.ACC, x_size=2, x_stride=2, dram_base=128), KERNEL,
                  alu(AluOpcode.SHR, use_imm=False, imm=0)], 2, "shift amounts", by="run"),
    Bad("opcode", np.array([[5, 0]], np.uint64), 0, "unknown opcode 5", by=EVERYONE),
    Bad("memory", raised(NOTHING, 0, 7, 7), 0, "memory", by=EVERYONE),
    Bad("ALU opcode", raised(alu(AluOpcode.MIN), 1, 44, 7), 0, "alu_opcode", by=EVERYONE),
    Bad("reserved bits", raised(Finish(), 1, 3, 1), 0, "reserved bits", by=EVERYONE),
    Bad("deadlock", [load(pop_next=True), gemm(pop_prev=True)], 0, "deadlock", by=EVERYONE),
    Bad("waits for ever", [load(pop_next=True)], 0, "compute to load token"),
    Bad("adjacent", [KERNEL, alu(uop_end=2)], 1, "depends on the one before it", CHISEL),
    Bad("zero count", [KERNEL, gemm(iter_in=0)], 1, "1 x 0 iterations"),
    Bad("zero count", [KERNEL, alu(uop_end=0)], 1, "run 16384 times"),
    Bad("endless transfer", [load(y_size=0)], 0, "never ends", by=EVERYONE),
    Bad("endless transfer", [store(y_size=0)], 0, "never ends", by=EVERYONE),
    Bad("tokens", [PUSH, POP] * 1025, 2048, "may be one too many"),
    Bad("tokens left", [load(push_next=True)], 0, "left over"),
    Bad("full queue", [load(x_size=0, pop_next=True), *[NOTHING] * 512,
                       load(Memory.UOP, x_size=0, push_prev=True)], 0, "fetch waits", by=EVERYONE),
    Bad("FINISH", [*ORDERED, store(pop_prev=True)], 2, "not wait", by="check"),
]  # fmt: skip


def image(target: Target) -> np.ndarray:
    """64 KiB; micro-ops at byte 8192, of which two have one dst."""
    dram = np.full(65536, 77, np.uint8)
    words = encode_micro_ops(target, np.zeros(2, int), np.ones(2, int), np.zeros(2, int))
    dram[8192:8200] = words.view(np.uint8)
    return dram


def who(bad: Bad, name: str) -> bool:
    return name in bad.by.split()


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: bad.rule)
def test_one_diagnostic(bad: Bad) -> None:
    words, dram = bad.words(), image(bad.target)
    errors = []
    if who(bad, "run"):
        with pytest.raises(SimulationError) as caught:
            execute(bad.target, words, dram)
        errors.append(caught.value)
    if who(bad, "time"):
        with pytest.raises(SimulationError) as caught:
            estimate(bad.target, words)
        errors.append(caught.value)
    for error in errors:
        assert bad.message.removeprefix("deadlock: ") in error.reason
        assert f"instruction {bad.index}" in str(error)
    report = check(bad.target, words, dram)
    assert report.ok != who(bad, "check"), str(report)
    if not report.ok:
        assert any(bad.message in str(hazard) for hazard in report.hazards), str(report)
        assert any(bad.index in hazard.instructions for hazard in report.hazards)
        if not isinstance(bad.program, np.ndarray):
            assert disassemble(bad.program[bad.index]) in str(report)


def test_no_finish() -> None:
    for words in (np.zeros((0, 2), np.uint64), encode(SIM, [KERNEL])):
        for run in (lambda w: execute(SIM, w, image(SIM)), lambda w: estimate(SIM, w)):
            with pytest.raises(SimulationError, match="has no FINISH"):
                run(words)
        assert "has no FINISH" in str(check(SIM, words, image(SIM)))


def test_a_store_is_ordered_through_other_instructions() -> None:
    """Store to compute to FINISH, and store to compute to load to compute."""
    stored = [*ORDERED, store(pop_prev=True, push_prev=True)]
    direct = [*stored, Finish(pop_next=True)]
    around = [
        *stored,
        load(Memory.UOP, x_size=0, pop_next=True, push_prev=True),
        load(x_size=0, pop_next=True, push_next=True),
        Finish(pop_prev=True),
    ]
    for program in (direct, around):
        assert check(SIM, encode(SIM, program), image(SIM)).ok
        execute(SIM, encode(SIM, program), image(SIM), order_seed=1)
    loose = [*ORDERED, store(pop_prev=True), Finish()]
    (hazard,) = check(SIM, encode(SIM, loose), image(SIM)).hazards
    assert hazard.kind is HazardKind.FINISH and hazard.instructions == (2, 3)


HAZARDS = {
    "alu_imm_same_dst_adjacent": (2, "depends on the one before it"),
    "alu_mul": (0, "does not multiply"),
    "gemm_zero_iterations": (0, "run 16384 times"),
    "queue_full_deadlock": (0, "fetch waits at instruction 512, whose module already holds 512"),
}
"""What the notes of the golden programs say, as our diagnostics."""


def golden(name: str) -> tuple[np.ndarray, np.ndarray]:
    path = Path(__file__).parents[3] / "shared" / "golden" / "hazards" / f"{name}.npz"
    if not path.is_file():
        pytest.skip("needs ../shared/golden, which is absent")
    with np.load(path) as program:
        return program["insns"], program["dram_in"]


@pytest.mark.parametrize("preset", ["chisel-pynq", "chisel-de10"])
@pytest.mark.parametrize("name", HAZARDS)
def test_what_the_rtl_does_not_survive(name: str, preset: str) -> None:
    (insns, dram), (index, message) = golden(name), HAZARDS[name]
    target = Target.named(preset)
    with pytest.raises(SimulationError, match=message) as caught:
        execute(target, insns, dram)
    assert caught.value.index == index
    report = check(target, insns, dram)
    assert not report.ok and message in str(report)
    assert index in report.hazards[0].instructions


def test_what_loses_its_data_or_just_fits() -> None:
    insns, dram = golden("early_done_inp_2048")
    for preset in ("chisel-pynq", "chisel-de10"):
        report = check(Target.named(preset), insns, dram)
        assert report.ok and "instruction 28 (LOAD INP" in report.warnings[0]
        assert "may lose its data" in report.warnings[0]
    assert not check(Target.named("pynq"), insns, dram).warnings
    lost = estimate(Target.named("chisel-pynq"), insns).warnings
    assert len(lost) == 1 and "loses its data" in lost[0]
    assert not estimate(Target.named("chisel-de10"), insns).warnings
    insns, dram = golden("queue_full_just_no_deadlock")
    assert check(CHISEL, insns, dram).ok
    execute(CHISEL, insns, dram)
