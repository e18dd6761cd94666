"""Fuzzing: mutants of valid programs end in a result or a diagnostic, soon and in little memory.

``test/benchmarks/bench_fuzz.py`` tries as many as one likes.
"""

import random
from collections import Counter

import pytest
from launches import Program
from mutants import TARGETS, Mutator, compiled, confined, in_time, judge, pipeline

from vtac.sim import check, execute

COUNT = 600


def try_mutants(program: Program, count: int, first: int = 0) -> Counter[str]:
    verdicts: Counter[str] = Counter()
    mutator = Mutator(program)
    with confined():
        for seed in range(first, first + count):
            rng = random.Random(seed)
            words, dram = mutator.mutant(rng)
            with in_time():
                try:
                    verdicts[judge(program.target, words, dram, rng)] += 1
                except Exception as error:
                    raise AssertionError(f"mutant {seed} of {program.name}") from error
    return verdicts


@pytest.mark.parametrize("name", TARGETS)
def test_mutants_of_a_pipeline(name: str) -> None:
    program = pipeline(name)
    assert check(program.target, program.insns, program.dram).ok
    assert (execute(program.target, program.insns, program.dram) != program.dram).any()
    verdicts = try_mutants(program, COUNT)
    assert verdicts["refused"] > COUNT / 4 and verdicts["runs"] > COUNT / 4


def test_mutants_of_a_compiled_program() -> None:
    (program,) = compiled("chisel-pynq")
    assert check(program.target, program.insns, program.dram).ok
    verdicts = try_mutants(program, COUNT // 3, 10_000)
    assert verdicts["refused"] > 0 and verdicts["runs"] > 0
