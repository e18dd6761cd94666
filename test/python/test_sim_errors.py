"""Bad programs: each is a SimulationError that names the instruction, on both machines."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest
from instructions import alu, gemm, load, store
from numpy.typing import NDArray

from vtac.dialects.target import Memory, Target
from vtac.dialects.vta.encoding import (
    AluOpcode,
    Finish,
    Instruction,
    Load,
    Store,
    encode,
    encode_micro_ops,
)
from vtac.sim import SimulationError, Simulator
from vtac.sim.legality import doubtful_transfers, objection
from vtac.sim.machine import FastMachine
from vtac.sim.reference import ReferenceMachine

SIM, PYNQ, CHISEL = (Target.named(name) for name in ("sim", "pynq", "chisel-pynq"))
KERNELS = 8192
PADS = ("y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1")
MACHINES = [FastMachine, ReferenceMachine]


def kernel(count: int = 1) -> Load:
    return load(Memory.UOP, dram_base=KERNELS // 4, x_size=count, x_stride=count)


def image(target: Target = SIM, *micro_ops: tuple[int, int, int]) -> NDArray[np.uint8]:
    """64 KiB: ones, and micro-ops at KERNELS."""
    dram = np.ones(65536, np.uint8)
    words = encode_micro_ops(target, *np.array(micro_ops or [(0, 0, 0)]).T)
    dram[KERNELS : KERNELS + 4 * len(words)] = words.view(np.uint8)
    return dram


def assert_refused(
    target: Target,
    program: Sequence[Instruction],
    message: str,
    index: int,
    dram: NDArray[np.uint8] | None = None,
    **options: Any,
) -> None:
    words = encode(target, [*program, Finish()])
    for machine in MACHINES:
        copy = (image(target) if dram is None else dram).copy()
        with pytest.raises(SimulationError, match=message) as error:
            Simulator(target, machine).run(words, copy, **options)
        assert error.value.index == index
        assert f"instruction {index} (" in str(error.value)


def assert_accepted(
    target: Target, program: Sequence[Instruction], dram: NDArray[np.uint8], **options: Any
) -> NDArray[np.uint8]:
    words = encode(target, [*program, Finish()])
    images = []
    for machine in MACHINES:
        images.append(dram.copy())
        Simulator(target, machine).run(words, images[-1], **options)
    np.testing.assert_array_equal(*images)
    return images[0]


@pytest.mark.parametrize(
    ("target", "instruction", "message"),
    [
        (SIM, load(sram_base=2048), "INP elements 2048 to 2048, but the buffer has 2048"),
        (SIM, load(sram_base=2046, y_pad_0=2), "INP elements 2046 to 2048"),
        (SIM, load(dram_base=4096), "DRAM bytes 65536 to 65551, but the image has 65536"),
        (SIM, load(dram_base=4000, y_size=3, x_stride=90), "but the image has 65536"),
        (SIM, load(dram_base=255), "DRAM byte 4080 lies in the first 4096"),
        (SIM, store(y_pad_0=1), "STORE has no pads"),
        (SIM, store(memory=Memory.ACC), "STORE writes OUT only, not ACC"),
        (SIM, store(), "stores OUT element 0, which no GEMM or ALU has written"),
        (SIM, load(Memory.OUT), "LOAD cannot fill OUT"),
        (PYNQ, load(Memory.ACC_8BIT), "acc_load_int8"),
        (PYNQ, alu(AluOpcode.MUL), "alu_mul"),
        (SIM, alu(AluOpcode.SHR, imm=32), "shift by 32, but amounts go from -31 to 31"),
        (SIM, alu(AluOpcode.SHR, imm=-32), "shift by -32"),
        (CHISEL, alu(AluOpcode.SHR, use_imm=False, imm=-1), "Chisel"),
        (CHISEL, gemm(uop_bgn=2047, uop_end=2049), "micro-ops up to 2048, but the target has 2048"),
        (SIM, gemm(iter_out=0), "0 x 1 iterations"),
        (SIM, alu(uop_bgn=1), r"micro-ops \[1, 1\)"),
        (SIM, load(y_size=0), "y_size 0 with x_size > 0 never ends"),
        (SIM, store(y_size=0), "y_size 0 with x_size > 0 never ends"),
        (SIM, load(push_prev=True), "no previous module"),
        (SIM, store(pop_next=True), "no next module"),
        (SIM, alu(reset=True), "reset has no meaning for the ALU"),
        (
            SIM,
            gemm(dst_factor_out=2047, iter_out=3),
            "ACC indices .* but the buffer has 2048",
        ),
        (SIM, gemm(src_factor_in=2047, iter_in=3), "INP indices .* but the buffer has 2048"),
        (SIM, gemm(wgt_factor_in=1023, iter_in=3), "WGT indices .* but the buffer has 1024"),
        (SIM, alu(use_imm=False, src_factor_out=2047, iter_out=3), "ACC indices"),
    ],
)
def test_an_instruction_that_is_wrong(
    target: Target, instruction: Instruction, message: str
) -> None:
    assert_refused(target, [kernel(), instruction], message, 1)


@pytest.mark.parametrize("target", [SIM, PYNQ], ids=lambda target: target.preset)
def test_many_transfers_are_judged_like_each(target: Target) -> None:
    rng = Random(1)
    program: list[Load | Store] = []
    for _ in range(2000):
        kind, memory = rng.choice((Load, Store)), rng.choice(list(Memory))
        depth, size = target.depth(memory), target.element_bytes(memory)
        fields = {name: rng.choice((0, 0, 0, 1, 5)) for name in PADS}
        fields["y_size"], fields["x_size"] = (rng.choice((0, 1, 2, 7)) for _ in "yx")
        fields["x_stride"] = fields["x_size"]
        fields["dram_base"] = rng.choice((0, 4096 // size - 1, 4096 // size, 1 << 20))
        sram = rng.choice((0, depth - fields["y_size"] * fields["x_size"], depth - 30))
        fields["sram_base"] = min(sram + rng.randint(0, 1), (1 << 16) - 1)
        program.append(kind(memory=memory, **fields))
    wrong = [objection(target, each, None, strict=False) is not None for each in program]
    columns = {
        name: np.array([getattr(each, name) for each in program], np.int64)
        for name in ("memory", "sram_base", "dram_base", "y_size", "x_size", *PADS)
    }
    stores = np.array([isinstance(each, Store) for each in program])
    assert doubtful_transfers(target, stores, columns).tolist() == wrong
    assert 200 < sum(wrong) < 1800


def test_register_shifts_beyond_their_range() -> None:
    shift = alu(AluOpcode.SHR, use_imm=False, imm=0)
    dram = image(SIM, (0, 1, 0))
    for amount, target in ((32, SIM), (-32, SIM), (-1, CHISEL)):
        program = [load(Memory.ACC, x_size=2, x_stride=2), kernel(), shift]
        dram[65536 - 128 :].view(np.int32)[:] = amount
        program[0] = load(Memory.ACC, dram_base=1022, x_size=2, x_stride=2)
        assert_refused(target, program, f"shift amounts {amount} to {amount}", 2, dram)
    assert_accepted(SIM, [program[0], kernel(), shift], dram)


def test_micro_ops_that_depend_on_the_one_before() -> None:
    same = image(CHISEL, (3, 3, 0), (3, 3, 0))
    chain = image(CHISEL, (3, 2, 0), (4, 3, 0))
    around = image(CHISEL, (3, 4, 0), (4, 5, 0))
    two_operands = alu(use_imm=False, imm=0, uop_end=2)
    message = "depends on the one before it"
    assert_refused(CHISEL, [kernel(2), alu(uop_end=2)], message, 1, same)
    assert_refused(CHISEL, [kernel(2), alu(uop_end=2)], message, 1, chain)
    assert_refused(CHISEL, [kernel(2), two_operands], message, 1, chain)
    assert_refused(CHISEL, [kernel(2), alu(uop_end=2, iter_in=2)], message, 1, around)
    assert_accepted(CHISEL, [kernel(2), alu(uop_end=2)], around)
    assert_accepted(SIM, [kernel(2), two_operands], chain)
    assert_accepted(CHISEL, [kernel(2), alu(uop_end=2)], same, strict=False)


def test_words_without_meaning() -> None:
    words = np.array([[3, 0], [7, 0]], np.uint64)
    with pytest.raises(
        SimulationError, match=r"instruction 1: \(words .*unknown opcode 7"
    ) as error:
        Simulator(SIM).run(words, image())
    assert error.value.index == 1 and error.value.disassembly == ""


def test_reserved_bits_of_a_micro_op() -> None:
    target = SIM.replace(log_wgt_buff_size=17)
    dram = image()
    dram[KERNELS : KERNELS + 4] = 255
    assert_refused(target, [kernel(), gemm()], "micro-op 0 .* reserved bits", 1, dram)


@pytest.mark.parametrize("program", [[], [kernel()]])
def test_no_finish(program: list[Instruction]) -> None:
    with pytest.raises(SimulationError, match="has no FINISH"):
        Simulator(SIM).run(encode(SIM, program), image())


def test_instructions_behind_finish() -> None:
    assert_refused(SIM, [Finish()], "instructions follow FINISH", 0)


def test_deadlocks() -> None:
    stuck = [load(pop_next=True), gemm(pop_prev=True)]
    assert_refused(
        SIM, stuck, "instruction 0 waits for a compute to load token; instruction 1 waits", 0
    )
    assert_refused(SIM, [*stuck, store(pop_prev=True)], "deadlock", 0, order_seed=1)
    nothing = load(x_size=0, y_size=0)
    full = [load(x_size=0, y_size=0, pop_next=True), *[nothing] * 511]
    assert_accepted(SIM, [*full, load(Memory.UOP, x_size=0, push_prev=True)], image())
    full.append(nothing)
    message = "fetch waits at instruction 512, whose module already holds 512"
    assert_refused(SIM, [*full, load(Memory.UOP, x_size=0, push_prev=True)], message, 0)


def test_a_pop_may_stand_before_its_push() -> None:
    program = [kernel(), gemm(pop_prev=True), load(push_next=True)]
    assert_accepted(SIM, program, image())


def test_tokens_left_over() -> None:
    program = [load(push_next=True), load(push_next=True), gemm(pop_prev=True)]
    message = "1 load to compute token left over, the last pushed by instruction 1"
    assert_refused(SIM, program, message, 3)
    assert_accepted(SIM, program, image(), strict=False)


def test_tokens_beyond_the_depth_of_their_queue() -> None:
    small = SIM.replace(token_depth=3)
    push, pop = load(x_size=0, push_next=True), load(Memory.UOP, x_size=0, pop_prev=True)
    message = "its load to compute token may be one too many: the queue holds 3"
    assert_refused(small, [*[push] * 4, *[pop] * 4], message, 3)
    assert_refused(small, [push, pop] * 4, message, 6)
    assert_accepted(small, [push, pop] * 3, image())
    waits = load(x_size=0, push_next=True, pop_next=True)
    answers = load(Memory.UOP, x_size=0, pop_prev=True, push_prev=True)
    paced = [push, push, answers, waits, answers, waits, answers, waits, pop, pop]
    tail = [*paced[:-2], pop, pop]
    assert_accepted(small, tail, image())


def test_finish_that_does_not_wait_for_a_store() -> None:
    program = [kernel(), alu(push_next=True), store(pop_prev=True)]
    assert_accepted(SIM, program, image())
    words = encode(SIM, [*program, Finish()])
    reasons = []
    for seed in range(20):
        try:
            Simulator(SIM).run(words, image(), order_seed=seed)
        except SimulationError as error:
            reasons.append(error.reason)
    assert reasons and all("FINISH does not wait" in reason for reason in reasons)


def test_counts_of_zero_do_nothing_where_they_are_allowed() -> None:
    program = [kernel(), gemm(iter_in=0), alu(uop_end=0), load(y_size=0), store(y_size=0)]
    np.testing.assert_array_equal(assert_accepted(SIM, program, image(), strict=False), image())


def test_a_load_of_nothing_needs_no_address() -> None:
    assert_accepted(
        SIM, [load(dram_base=0, x_size=0, y_size=0), load(dram_base=0, x_size=0)], image()
    )


def test_programs_that_would_run_for_ages_end_at_once() -> None:
    loops = {"iter_out": 16383, "iter_in": 16383}
    for instruction in (gemm(), gemm(reset=True)):
        words = encode(SIM, [kernel(), replace(instruction, **loops), Finish()])
        Simulator(SIM).run(words, image())
    words = encode(SIM, [kernel(), alu(**loops), Finish()])
    Simulator(SIM).run(words, image())
    far = encode(SIM, [kernel(), gemm(dst_factor_out=1, dst_factor_in=7, **loops), Finish()])
    with pytest.raises(SimulationError, match="ACC indices 0 to 131056"):
        Simulator(SIM).run(far, image())
