"""The entry of the functional simulator: a program that runs again is not planned again."""

import threading

import numpy as np
import pytest
from instructions import alu, gemm, load, store

from vtac.dialects.target import Memory, Target
from vtac.dialects.vta.encoding import Finish, encode, encode_micro_ops
from vtac.sim import SimulationError, execute
from vtac.sim.machine import FastMachine

TARGET = Target.named("sim")
KERNELS = 8192


def program() -> np.ndarray:
    kernel = load(Memory.UOP, dram_base=KERNELS // 4)
    inputs = load(push_next=True)
    weights = load(Memory.WGT, dram_base=64, push_next=True)
    clear = gemm(reset=True)
    product = gemm(pop_prev=True)
    shift = alu(imm=1, pop_prev=True, push_next=True)
    out = store(pop_prev=True, push_prev=True, dram_base=2048)
    instructions = [kernel, inputs, weights, clear, product, shift, out, Finish(pop_next=True)]
    return encode(TARGET, instructions)


def image(seed: int = 0) -> np.ndarray:
    dram = np.random.default_rng(seed).integers(0, 256, 65536).astype(np.uint8)
    words = encode_micro_ops(TARGET, *np.array([(0, 0, 0)]).T)
    dram[KERNELS : KERNELS + 4] = words.view(np.uint8)
    return dram


def expected(dram: np.ndarray) -> np.ndarray:
    x = dram[1024 * 16 : 1025 * 16].view(np.int8).astype(np.int32)
    weights = dram[64 * 256 : 65 * 256].view(np.int8).reshape(16, 16).astype(np.int32)
    result = dram.copy()
    result[2048 * 16 : 2049 * 16] = (weights @ x + 1).astype(np.int8).view(np.uint8)
    return result


def test_a_second_call_plans_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    words, dram = program(), image()
    np.testing.assert_array_equal(execute(TARGET, words, dram), expected(dram))

    def planned(*_: object) -> None:
        raise AssertionError("the program was planned again")

    monkeypatch.setattr(FastMachine, "_bind_stretch", planned)
    for seed in range(3):
        other = image(seed)
        np.testing.assert_array_equal(execute(TARGET, words, other), expected(other))


def test_a_fault_leaves_nothing_behind() -> None:
    words, dram = program(), image()
    wrong = encode(TARGET, [store(), Finish()])
    for _ in range(2):
        with pytest.raises(SimulationError):
            execute(TARGET, wrong, dram)
        np.testing.assert_array_equal(execute(TARGET, words, dram), expected(dram))


def test_threads_do_not_share_a_machine() -> None:
    words, wrong = program(), []

    def work(seed: int) -> None:
        dram = image(seed)
        for _ in range(20):
            if not np.array_equal(execute(TARGET, words, dram), expected(dram)):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
