"""The simulator in C against golden programs, against the simulator in Python, and on faults."""

import json
from pathlib import Path

import numpy as np
import pytest
from c_projects import COMPILERS, CSimulator, any_compiler, found_compiler
from random_programs import IMAGE, SHAPES, Author

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
)
from vtac.sim import SimulationError, execute

GOLDEN = Path(__file__).parents[2] / ".." / "shared" / "golden"
PATHS = [
    *sorted((GOLDEN / "streams").glob("*.npz")),
    *sorted((GOLDEN / "rtl").glob("*.npz"))[::10],
    *sorted((GOLDEN / "layers").glob("C4_*.npz")),
]
SIZE = 1 << 24
PROGRAMS = 16


@pytest.mark.skipif(not PATHS, reason="../shared/golden is absent")
@pytest.mark.parametrize("compiler", COMPILERS)
def test_golden_programs(compiler: str, tmp_path: Path) -> None:
    simulators: dict[Target, CSimulator] = {}
    for path in PATHS:
        with np.load(path) as golden:
            config = json.loads(str(golden["config"]))
            insns, dram_in, dram_out = (golden[key] for key in ("insns", "dram_in", "dram_out"))
        target = Target.named("chisel-pynq")
        if path.parent.name == "streams":
            target = Target.from_vta_config(config, alu_mul=True, alu_bypass=True)
        if target not in simulators:
            folder = tmp_path / str(len(simulators))
            folder.mkdir()
            simulators[target] = CSimulator(target, folder, found_compiler(compiler), SIZE)
        found = simulators[target].run(insns, dram_in)
        assert not isinstance(found, str), f"{path.name}: {found}"
        np.testing.assert_array_equal(found, dram_out, err_msg=path.name)


@pytest.mark.parametrize("shape", SHAPES)
def test_random_programs(shape: str, tmp_path: Path) -> None:
    """What Python's strict simulator accepts has the same effects; what it refuses is refused."""
    target, refused = SHAPES[shape], 0
    simulator = CSimulator(target, tmp_path, any_compiler(), 1 << 20)
    for seed in range(PROGRAMS):
        author = Author(target, seed)
        words = author.write(12)
        found = simulator.run(words, author.dram)
        try:
            expected = execute(target, words, author.dram)
        except SimulationError as error:
            assert isinstance(found, str), f"{seed}: not refused: {error}"
            assert f"instruction {error.index}:" in found, (seed, found, str(error))
            refused += 1
            continue
        assert not isinstance(found, str), f"{seed}: {found}"
        np.testing.assert_array_equal(found, expected, err_msg=str(seed))
    assert refused < PROGRAMS


ONE = {"sram_base": 0, "y_size": 1, "x_size": 1, "x_stride": 1}
LOOP = {"uop_bgn": 0, "uop_end": 1, "iter_out": 1, "iter_in": 1}
UOP = Load(memory=Memory.UOP, dram_base=2048, **ONE)
SHIFT = Alu(alu_opcode=AluOpcode.SHR, use_imm=True, imm=32, **LOOP)
FAULTS: dict[str, list[Instruction]] = {
    "wait for each other": [Finish(pop_prev=True)],
    "no FINISH": [UOP],
    "left over": [Load(memory=Memory.INP, dram_base=2048, push_next=True, **ONE), Finish()],
    "no such neighbour": [Load(memory=Memory.INP, dram_base=2048, push_prev=True, **ONE), Finish()],
    "leaves the memory": [Load(memory=Memory.INP, dram_base=1 << 30, **ONE), Finish()],
    "the transfer leaves the memory": [Load(memory=Memory.INP, dram_base=0, **ONE), Finish()],
    "leaves its buffer": [
        Load(memory=Memory.INP, dram_base=2048, **{**ONE, "sram_base": 2048}),
        Finish(),
    ],
    "y_size is 0": [Load(memory=Memory.INP, dram_base=2048, **{**ONE, "y_size": 0}), Finish()],
    "no GEMM or ALU has written": [Store(memory=Memory.OUT, dram_base=2048, **ONE), Finish()],
    "with pads": [Store(memory=Memory.OUT, dram_base=2048, y_pad_0=1, **ONE), Finish()],
    "another memory than OUT": [Store(memory=Memory.INP, dram_base=2048, **ONE), Finish()],
    "LOAD into OUT": [Load(memory=Memory.OUT, dram_base=2048, **ONE), Finish()],
    "LOAD of int8": [Load(memory=Memory.ACC_8BIT, dram_base=2048, **ONE), Finish()],
    "nothing to do": [Gemm(**{**LOOP, "iter_in": 0}), Finish()],
    "beyond the buffer": [Gemm(**{**LOOP, "uop_end": 8192, "uop_bgn": 1}), Finish()],
    "leaves ACC": [Gemm(**{**LOOP, "iter_out": 3}, dst_factor_out=2047), Finish()],
    "leaves INP": [Gemm(**{**LOOP, "iter_out": 3}, src_factor_out=2047), Finish()],
    "more than 31": [SHIFT, Finish()],
    "does not have": [Alu(alu_opcode=AluOpcode.MUL, use_imm=True, imm=2, **LOOP), Finish()],
    "depends on the one before": [
        Alu(alu_opcode=AluOpcode.ADD, use_imm=True, imm=2, **{**LOOP, "iter_in": 2}),
        Finish(),
    ],
    "turned round": [Alu(alu_opcode=AluOpcode.SHR, imm=-1, **LOOP), Finish()],
}


def test_what_is_wrong_is_said(tmp_path: Path) -> None:
    simulator = CSimulator(Target.named("chisel-pynq"), tmp_path, any_compiler(), 1 << 20)
    image = np.zeros(IMAGE, np.uint8)
    for what, program in FAULTS.items():
        words = encode(Target.named("chisel-pynq"), program)
        found = simulator.run(words, image)
        assert isinstance(found, str) and what in found, (what, found)


@pytest.mark.parametrize(
    ("word", "bits", "what"),
    [(0, 7, "opcode"), (0, 1 << 60, "reserved bits of FINISH"), (1, 1, "reserved bits of FINISH")],
)
def test_bits_without_a_meaning_are_refused(
    word: int, bits: int, what: str, tmp_path: Path
) -> None:
    simulator = CSimulator(Target.named("pynq"), tmp_path, any_compiler(), 1 << 20)
    words = encode(Target.named("pynq"), [Finish()])
    words[0, word] |= np.uint64(bits)
    found = simulator.run(words, np.zeros(IMAGE, np.uint8))
    assert isinstance(found, str) and what in found
