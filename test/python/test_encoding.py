"""The bits of instructions and micro-ops, on golden streams and over all fields."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vtac.dialects.target import Memory, Target
from vtac.dialects.vta.assembly import disassemble
from vtac.dialects.vta.encoding import (
    Alu,
    AluOpcode,
    EncodingError,
    Finish,
    Gemm,
    Instruction,
    Load,
    Opcode,
    Store,
    decode,
    decode_micro_ops,
    encode,
    encode_micro_ops,
    instruction_fields,
    micro_op_fields,
)

GOLDEN = Path(__file__).parents[2] / ".." / "shared" / "golden"
SHAPES = {
    "1x16": Target.named("sim"),
    "4x8": Target.named("sim").replace(log_batch=2, log_block=3),
    "2x16": Target.named("sim").replace(log_batch=1),
}
KINDS: dict[Opcode, type[Instruction]] = {
    Opcode.LOAD: Load,
    Opcode.STORE: Store,
    Opcode.GEMM: Gemm,
    Opcode.FINISH: Finish,
    Opcode.ALU: Alu,
}


def instructions(target: Target) -> st.SearchStrategy[Instruction]:
    special = {"memory": st.sampled_from(Memory), "alu_opcode": st.sampled_from(AluOpcode)}

    def build(opcode: Opcode) -> st.SearchStrategy[Any]:
        values = {
            f.name: special.get(f.name, st.integers(*f.limits))
            for f in instruction_fields(target)[opcode]
        }
        return st.builds(KINDS[opcode], **values)

    return st.sampled_from(Opcode).flatmap(build)


@pytest.mark.parametrize("shape", SHAPES)
def test_every_field_survives(shape: str) -> None:
    target = SHAPES[shape]

    @settings(max_examples=60, deadline=None)
    @given(st.lists(instructions(target), max_size=12))
    def check(program: list[Instruction]) -> None:
        words = encode(target, program)
        assert words.shape == (len(program), 2)
        assert decode(target, words) == program
        assert all(disassemble(instruction) for instruction in program)

    check()


@pytest.mark.skipif(not GOLDEN.exists(), reason="../shared/golden is absent")
def test_golden_streams_survive() -> None:
    paths = sorted(GOLDEN.glob("*/*.npz"))
    for path in paths:
        with np.load(path) as golden:
            target = Target.from_vta_config(json.loads(str(golden["config"])))
            words = golden["insns"]
        program = decode(target, words)
        assert isinstance(program[-1], Finish)
        np.testing.assert_array_equal(encode(target, program), words)


def test_positions_of_the_default_machine() -> None:
    layout = instruction_fields(SHAPES["1x16"])
    gemm = {f.name: (f.word, f.offset, f.width) for f in layout[Opcode.GEMM]}
    assert gemm["uop_bgn"] == (0, 8, 13)
    assert gemm["iter_in"] == (0, 49, 14)
    assert gemm["wgt_factor_in"] == (1, 54, 10)
    alu = {f.name: (f.word, f.offset, f.width) for f in layout[Opcode.ALU]}
    assert alu["imm"] == (1, 48, 16)
    assert [(f.name, f.offset, f.width) for f in micro_op_fields(SHAPES["1x16"])] == [
        ("dst", 0, 11),
        ("src", 11, 11),
        ("wgt", 22, 10),
    ]


def load(**changes: Any) -> Load:
    values = {"memory": Memory.INP, "sram_base": 0, "dram_base": 256, "y_size": 1}
    return Load(**{**values, "x_size": 1, "x_stride": 1, **changes})


def test_values_out_of_range_name_field_value_and_limit() -> None:
    with pytest.raises(EncodingError, match=r"instruction 1 \(LOAD\): x_pad_1 is 16.*0 to 15"):
        encode(SHAPES["1x16"], [load(), load(x_pad_1=16)])
    shift = Alu(alu_opcode=AluOpcode.SHR, uop_bgn=0, uop_end=1, iter_out=1, iter_in=1, imm=-32769)
    with pytest.raises(EncodingError, match=r"imm is -32769.*-32768 to 32767"):
        encode(SHAPES["1x16"], [shift])
    with pytest.raises(EncodingError, match=r"micro-op 1: wgt is 1024.*0 to 1023"):
        encode_micro_ops(SHAPES["1x16"], [0, 0], 0, [0, 1024])


@pytest.mark.parametrize(
    ("word_0", "word_1", "message"),
    [
        (5, 0, "unknown opcode 5"),
        (3 | 1 << 40, 0, "FINISH has reserved bits 0x10000000000 of word 0"),
        (3, 1, "FINISH has reserved bits 0x1 of word 1"),
        (0 | 6 << 7, 0, "LOAD has unknown memory 6"),
        (4, 5 << 44, "ALU has unknown alu_opcode 5"),
    ],
)
def test_bits_that_mean_nothing(word_0: int, word_1: int, message: str) -> None:
    words = np.array([[3, 0], [word_0, word_1]], dtype=np.uint64)
    with pytest.raises(EncodingError, match=message) as error:
        decode(SHAPES["1x16"], words)
    assert error.value.index == 1


@pytest.mark.parametrize("shape", SHAPES)
def test_micro_ops_survive(shape: str) -> None:
    target = SHAPES[shape]
    rng = np.random.default_rng(3)
    columns = [rng.integers(0, f.limits[1] + 1, 100) for f in micro_op_fields(target)]
    words = encode_micro_ops(target, *columns)
    np.testing.assert_array_equal(decode_micro_ops(target, words), np.stack(columns, axis=1))


def test_reserved_bits_of_micro_ops() -> None:
    target = SHAPES["1x16"].replace(log_wgt_buff_size=17)
    with pytest.raises(EncodingError, match=r"micro-op 0 .* has reserved bits"):
        decode_micro_ops(target, np.array([1 << 31], dtype=np.uint32))


def test_one_line_says_all() -> None:
    assert disassemble(load(y_pad_0=1, pop_next=True)) == (
        "LOAD INP sram 0 dram 256 size 1x1 stride 1 pads (1, 0, 0, 0) pop_next"
    )
    gemm = Gemm(uop_bgn=2, uop_end=9, iter_out=4, iter_in=3, wgt_factor_in=9, push_prev=True)
    assert disassemble(gemm) == "GEMM uops [2, 9) loops 4x3 wgt +(0, 9) push_prev"
