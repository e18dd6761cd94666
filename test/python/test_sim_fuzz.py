"""The fast machine against the plain definition, on random programs: DRAM, all of ACC, all of OUT.

``test/benchmarks/bench_fuzz.py --plain`` compares as many programs as one likes.
"""

from dataclasses import replace

import numpy as np
import pytest
from random_programs import DATA, MICRO_OPS, SHAPES, Author, fast_is_plain, outcome

from vtac.dialects.target import Memory
from vtac.dialects.vta.encoding import (
    Alu,
    AluOpcode,
    Finish,
    Gemm,
    Load,
    encode,
    encode_micro_ops,
)
from vtac.sim import SimulationError, Simulator, pending
from vtac.sim.machine import FastMachine
from vtac.sim.plans import plans_of
from vtac.sim.reference import ReferenceMachine


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("shape", SHAPES)
def test_fast_is_plain(shape: str, seed: int) -> None:
    fast_is_plain(shape, seed + 100 * list(SHAPES).index(shape))


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("shape", SHAPES)
def test_programs_run_again_on_other_data_and_micro_ops(shape: str, seed: int) -> None:
    """What a machine remembers of a program does not depend on data, and follows micro-ops."""
    target = SHAPES[shape]
    author = Author(target, 7000 + seed)
    words = author.write(10)
    fast, plain = Simulator(target), Simulator(target, ReferenceMachine)
    rng = np.random.default_rng(seed)
    for other in range(4):
        image = author.dram.copy()
        if other:
            image[:MICRO_OPS] = rng.integers(0, 256, MICRO_OPS)
        if other == 2:
            for micro_op in rng.choice(np.arange(MICRO_OPS, author.kernel_end, 4), 3):
                image[micro_op : micro_op + 4] = image[MICRO_OPS : MICRO_OPS + 4]
        results = []
        for simulator in (fast, plain):
            results.append(image.copy())
            with np.errstate(over="ignore"):
                try:
                    simulator.run(words, results[-1], strict=False)
                except SimulationError as error:
                    results[-1] = np.array([error.index])
        np.testing.assert_array_equal(*results, err_msg=f"run {other}")


@pytest.mark.parametrize("shape", ["1x16", "4x8", "2x16"])
def test_long_reductions_are_exact(shape: str) -> None:
    """More products than a float32 can sum: beyond 2^24."""
    target = SHAPES[shape]
    author = Author(target, 1)
    author.dram[:MICRO_OPS] = author.rng.integers(100, 128, MICRO_OPS)
    for memory in (Memory.INP, Memory.WGT):
        base = DATA // target.element_bytes(memory)
        load = Load(memory=memory, sram_base=0, dram_base=base, y_size=1, x_size=8, x_stride=8)
        author.program.append(load)
    author.identity()
    gemm = Gemm(uop_bgn=0, uop_end=1, iter_out=150, iter_in=3, src_factor_in=1, wgt_factor_in=1)
    author.program += [gemm, gemm, Finish()]
    fast, plain = (outcome(target, m, author, True) for m in (FastMachine, ReferenceMachine))
    assert fast[1].max() > 1 << 25
    np.testing.assert_array_equal(fast[1], plain[1])


@pytest.mark.parametrize("room", [1 << 22, 5000])
@pytest.mark.parametrize("shape", ["1x16", "4x8", "2x16"])
def test_sums_that_wait(shape: str, room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many GEMMs on the same and on overlapping accumulators, LOADs of micro-ops in between.

    The third run finds other micro-ops where sums are waiting, the last one those of the first.
    """
    monkeypatch.setattr(pending, "MOST_BYTES", room)
    target = SHAPES[shape]
    author = Author(target, 4)  # memory full of -128
    for memory in (Memory.INP, Memory.WGT):
        base = DATA // target.element_bytes(memory)
        load = Load(memory=memory, sram_base=0, dram_base=base, y_size=1, x_size=16, x_stride=16)
        author.program.append(load)
    author.everywhere(AluOpcode.ADD, 3)
    author.identity()
    deep = {"uop_bgn": 0, "uop_end": 1, "dst_factor_in": 1, "src_factor_in": 1}
    gemms = [Gemm(iter_out=i, iter_in=i + 2, src_factor_out=1, wgt_factor_out=1, **deep)
             for i in (5, 5, 3, 5, 5, 6, 5)]  # fmt: skip
    clip = Alu(alu_opcode=AluOpcode.MIN, use_imm=True, imm=9, iter_out=3, iter_in=1, **deep)
    author.program += gemms[:4]
    changed = author.kernel_end
    author.identity()
    author.program += [*gemms, replace(clip, dst_factor_out=1), *gemms]
    author.store()
    words = encode(target, [*author.program, Finish()])
    fast, plain = FastMachine(target), ReferenceMachine(target)
    other = author.dram.copy()
    other[changed : changed + 4] = encode_micro_ops(target, 1, 2, 3).view(np.uint8)
    for image in (author.dram, author.dram, other, author.dram):
        images = [image.copy(), image.copy()]
        for machine, dram in zip((fast, plain), images, strict=True):
            with np.errstate(over="ignore"):
                Simulator(target, lambda _, machine=machine: machine).run(words, dram, strict=False)
        np.testing.assert_array_equal(*images)
        np.testing.assert_array_equal(fast.buffers.acc, plain.acc.reshape(target.acc_depth, -1))


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("shape", ["1x16", "4x8"])
def test_words_that_differ_by_as_much(shape: str, order: tuple[int, int]) -> None:
    """A dst that falls while src rises is, in the words, a dst that rises to the last."""
    target = SHAPES[shape]
    kernels = [(0, target.acc_depth - 1), (0, 0)], [(1, 0), (0, 1)]
    words = [encode_micro_ops(target, *kernels[which]) for which in order]
    assert len({int(second) - int(first) for first, second in words}) == 1
    author = Author(target, 1)
    author.dram[MICRO_OPS : MICRO_OPS + 16] = np.concatenate(words).view(np.uint8)
    sizes = {Memory.INP: 2, Memory.WGT: 1, Memory.UOP: 4}
    for memory, x in sizes.items():
        place = MICRO_OPS if memory is Memory.UOP else DATA
        base = place // target.element_bytes(memory)
        load = Load(memory=memory, sram_base=0, dram_base=base, y_size=1, x_size=x, x_stride=x)
        author.program.append(load)
    gemms = [Gemm(uop_bgn=u, uop_end=u + 2, iter_out=1, iter_in=1) for u in (0, 2)]
    author.program += [*gemms, Finish()]
    plans_of.cache_clear()
    fast, plain = (outcome(target, m, author, True) for m in (FastMachine, ReferenceMachine))
    assert fast[3] is None
    assert fast[1].any(axis=1).nonzero()[0].tolist() == [0, 1, target.acc_depth - 1]
    np.testing.assert_array_equal(fast[1], plain[1])


def test_most_programs_run_to_their_end() -> None:
    target = SHAPES["1x16"]
    finished = 0
    for seed in range(20):
        author = Author(target, seed)
        author.write(14)
        finished += outcome(target, FastMachine, author, True)[3] is None
    assert finished >= 10
