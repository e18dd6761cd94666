"""Instructions too large for a plan: in pieces they do what they say, or are refused soon."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from random_programs import DATA, IMAGE, MICRO_OPS, SHAPES, fast_is_plain

from vtac.dialects.target import Memory, Target
from vtac.dialects.vta.encoding import (
    Alu,
    AluOpcode,
    Finish,
    Gemm,
    Instruction,
    Load,
    encode,
    encode_micro_ops,
)
from vtac.sim import SimulationError, Simulator, alu_plan, check, gemm_plan, large, plans

SIM = Target.named("sim")
MANY = (1 << 14) - 1


@pytest.fixture
def small_limits(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Almost every instruction is too large."""
    plans.plans_of.cache_clear()
    for module in (gemm_plan, plans):
        monkeypatch.setattr(module, "MOST_INDICES", 64)
    monkeypatch.setattr(alu_plan, "MOST_MICRO_OPS", 4)
    monkeypatch.setattr(alu_plan, "MOST_LEVELS", 5)
    monkeypatch.setattr(large, "_ALU_PIECE", 5)
    monkeypatch.setattr(large, "_APART_PIECE", 3)
    yield
    plans.plans_of.cache_clear()


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.usefixtures("small_limits")
def test_pieces_are_plain(shape: str, seed: int) -> None:
    fast_is_plain(shape, 9000 + seed + 10 * list(SHAPES).index(shape))


def load(memory: Memory, base: int, count: int, sram: int = 0) -> Load:
    size = SIM.element_bytes(memory)
    shape = {"y_size": 1, "x_size": count, "x_stride": count}
    return Load(memory=memory, sram_base=sram, dram_base=base // size, **shape)


def image() -> NDArray[np.uint8]:
    return np.random.default_rng(5).integers(0, 256, IMAGE).astype(np.uint8)


def run(
    instruction: Instruction, micro_ops: list[tuple[int, int, int]], before: tuple[Load, ...] = ()
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """ACC before, [2048, 16], and after; the first 512 come from DRAM, all is written in OUT."""
    dram = image()
    words = encode_micro_ops(SIM, *np.array(micro_ops).T)
    dram[MICRO_OPS : MICRO_OPS + 4 * len(words)] = words.view(np.uint8)
    program = [
        load(Memory.ACC, DATA, 512), *before, load(Memory.UOP, MICRO_OPS, len(words)), instruction,
    ]  # fmt: skip
    simulator = Simulator(SIM)
    simulator.run(encode(SIM, [*program, Finish()]), dram)
    acc = np.zeros((2048, 16), np.int32)
    acc[:512] = dram[DATA : DATA + 512 * 64].view(np.int32).reshape(512, 16)
    return acc, simulator._machine.buffers.acc.copy()  # type: ignore[attr-defined]


def test_a_large_gemm() -> None:
    """2^23 micro-ops: every source with two weights, into every accumulator."""
    gemm = Gemm(
        uop_bgn=0, uop_end=2, iter_out=2048, iter_in=2048, src_factor_out=1, dst_factor_in=1
    )
    loads = (load(Memory.INP, DATA, 2048), load(Memory.WGT, DATA, 2))
    before, after = run(gemm, [(0, 0, 0), (0, 0, 1)], loads)
    dram = image().view(np.int8).astype(np.int64)
    inputs = dram[DATA : DATA + 2048 * 16].reshape(2048, 16).sum(axis=0)
    weights = dram[DATA : DATA + 512].reshape(2, 16, 16).sum(axis=0)
    np.testing.assert_array_equal(after, (before + weights @ inputs).astype(np.int32))


@pytest.mark.parametrize(
    ("opcode", "imm"),
    [(AluOpcode.ADD, -7), (AluOpcode.MUL, 3), (AluOpcode.MIN, 5), (AluOpcode.MAX, -9),
     (AluOpcode.SHR, 1), (AluOpcode.SHR, -1), (AluOpcode.SHR, 0)],
)  # fmt: skip
@pytest.mark.parametrize("times", [1, 3, MANY * MANY])
def test_an_immediate_very_often(opcode: AluOpcode, imm: int, times: int) -> None:
    """Two accumulators of three, one of them twice an iteration."""
    many, spread = {1: (1, 1 << 13), 3: (3, 1 << 13)}.get(times, (MANY, MANY))
    micro_ops = [(0, 0, 0), (2, 2, 0), (2, 2, 0)]
    kernel = micro_ops if times > 3 else micro_ops * 100
    alu = Alu(
        alu_opcode=opcode, use_imm=True, imm=imm, uop_bgn=0, uop_end=len(kernel), iter_out=many,
        iter_in=spread,
    )  # fmt: skip
    before, after = run(alu, kernel)
    expected = before.copy()
    for element, hits in ((0, 1), (2, 2)):
        count = hits * len(kernel) // 3 * many * spread
        values = [often(opcode, int(value), imm, count) for value in before[element]]
        expected[element] = [(value + (1 << 31)) % (1 << 32) - (1 << 31) for value in values]
    np.testing.assert_array_equal(after, expected)


def often(opcode: AluOpcode, value: int, imm: int, count: int) -> int:
    """An operation so many times, in Python's integers."""
    match opcode:
        case AluOpcode.ADD:
            return value + count * imm
        case AluOpcode.MUL:
            return value * pow(imm, count, 1 << 32)
        case AluOpcode.MIN:
            return min(value, imm)
        case AluOpcode.MAX:
            return max(value, imm)
        case _:
            shift = min(40, max(-40, count * imm))
            return value >> shift if shift >= 0 else value << -shift


@pytest.mark.parametrize("opcode", [AluOpcode.MIN, AluOpcode.MAX])
def test_what_changes_nothing_any_more_is_done(opcode: AluOpcode) -> None:
    """A chain through 100 accumulators, from each to the next, very often."""
    alu = Alu(alu_opcode=opcode, uop_bgn=0, uop_end=100, iter_out=MANY, iter_in=MANY)
    before, after = run(alu, [(i, (i + 1) % 100, 0) for i in range(100)])
    best = before[:100].min(axis=0) if opcode is AluOpcode.MIN else before[:100].max(axis=0)
    np.testing.assert_array_equal(after[:100], np.broadcast_to(best, (100, 16)))
    np.testing.assert_array_equal(after[100:], before[100:])


def test_a_chain_longer_than_a_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """A running sum over accumulators: each reads the one before."""
    plans.plans_of.cache_clear()
    for module, limit in ((alu_plan, "MOST_LEVELS"), (large, "_ALU_PIECE")):
        monkeypatch.setattr(module, limit, 300)
    alu = Alu(
        alu_opcode=AluOpcode.ADD, uop_bgn=0, uop_end=1, iter_out=70, iter_in=10,
        dst_factor_out=1, src_factor_out=1,
    )  # fmt: skip
    before, after = run(alu, [(1, 0, 0)])
    expected = before.copy()
    for i in range(1, 71):
        expected[i] += np.int32(10) * expected[i - 1]
    np.testing.assert_array_equal(after, expected)


@pytest.mark.parametrize(
    "instruction",
    [
        Gemm(uop_bgn=0, uop_end=90, iter_out=2000, iter_in=2000, src_factor_out=1, dst_factor_in=1),
        Gemm(uop_bgn=0, uop_end=90, iter_out=900, iter_in=900, src_factor_out=1, dst_factor_out=1,
             wgt_factor_out=1, src_factor_in=1, dst_factor_in=1, wgt_factor_in=0),
        Gemm(uop_bgn=0, uop_end=90, iter_out=500, iter_in=500, src_factor_out=1, dst_factor_out=1,
             wgt_factor_out=1, src_factor_in=1, dst_factor_in=2, wgt_factor_in=1),
        Alu(alu_opcode=AluOpcode.ADD, uop_bgn=0, uop_end=90, iter_out=MANY, iter_in=MANY),
    ],
)  # fmt: skip
def test_what_would_take_too_long_is_refused(
    instruction: Instruction, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(large, "MOST_MICRO_OPS", 1 << 26)
    monkeypatch.setattr(large, "MOST_LEVELS", 1000)
    with pytest.raises(SimulationError, match="would take the simulator too long"):
        run(instruction, [(i % 3, 30 + i % 5, i % 2) for i in range(90)])


@pytest.mark.parametrize(
    ("src_of_first", "use_imm", "found"), [(40, True, True), (40, False, False), (2, False, True)]
)
def test_neighbours_in_a_large_instruction(src_of_first: int, use_imm: bool, found: bool) -> None:
    """Nothing is bypassed: does the first micro-op of an iteration need the last of the other?"""
    target, dram = Target.named("chisel-pynq"), image()
    dst = [2, 1] * 150 + [2]
    words = encode_micro_ops(target, dst, [src_of_first, *range(100, 400)])
    dram[MICRO_OPS : MICRO_OPS + 4 * len(words)] = words.view(np.uint8)
    alu = Alu(
        alu_opcode=AluOpcode.ADD, use_imm=use_imm, uop_bgn=0, uop_end=301, iter_out=MANY,
        iter_in=MANY,
    )  # fmt: skip
    if use_imm:
        alu = replace(alu, imm=1)
    program = encode(target, [load(Memory.UOP, MICRO_OPS, 301), alu, Finish()])
    hazards = [str(hazard) for hazard in check(target, program, dram).hazards]
    assert [True for text in hazards if "depends on the one before it" in text] == [True] * found
