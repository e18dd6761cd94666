"""Any sequence of primitives is exact or refused: random computes, random walks over schedules."""

import re
from collections import Counter
from random import Random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from te_interpreter import run_loops
from te_kernels import SMALL
from te_walks import Walk, random_computes, stages_of
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import VerifyException

from vtac.dialects.context import VtacContext
from vtac.dialects.errors import CompileError
from vtac.dialects.target import TARGET_ATTRIBUTE
from vtac.passes.te.apply_schedule import apply_schedule
from vtac.passes.te.te_to_loops import TeToLoops
from vtac.tools.tune.evaluate import evaluate_kernel

STEPS = 7


def outcome(seed: int, careless: float) -> str:
    """What becomes of a random schedule: exact, refused, or a failure of this test."""
    kernel = random_computes(Random(seed))
    walk = Walk(stages_of(kernel), Random(seed), careless)
    generator = np.random.default_rng(seed)
    shapes = [argument.type.get_shape() for argument in kernel.body.block.args]
    inputs = [generator.integers(-50, 50, shape) for shape in shapes]
    expected = evaluate_kernel(kernel, inputs)
    module = ModuleOp([kernel], {TARGET_ATTRIBUTE: SMALL})
    TeToLoops().apply(VtacContext(), module)
    schedule = walk.schedule(STEPS)
    module.body.block.add_op(schedule)
    try:
        schedule.verify()
    except VerifyException as error:
        assert "has used up" in str(error)
        return "dead handle"
    try:
        apply_schedule(schedule)
    except CompileError as error:
        [problem] = error.problems
        assert re.fullmatch(r"te\.schedule @k, step \d+ \(te\.\w+\)", problem.where)
        assert problem.what
        return "refused"
    kernel.verify()
    for want, have in zip(expected, run_loops(kernel, inputs), strict=True):
        np.testing.assert_array_equal(want, have)
    return "exact"


def outcomes(examples: int, careless: float) -> Counter[str]:
    found: Counter[str] = Counter()

    @settings(max_examples=examples, suppress_health_check=list(HealthCheck))
    @given(st.integers(0, 10**9))
    def run(seed: int) -> None:
        found[outcome(seed, careless)] += 1

    run()
    return found


@pytest.mark.parametrize(
    ("seed", "careless", "becomes"),
    [
        (865069066, 0, "exact"),  # reads of one stage lie wholly outside its operand
        (1680315, 0, "exact"),  # and what is read there is itself read at an offset
        (495163, 0.3, "refused"),  # a stage that has a cache already moves to a scratchpad
    ],
)
def test_walks_that_went_astray(seed: int, careless: float, becomes: str) -> None:
    assert outcome(seed, careless) == becomes


def test_legal_walks_are_exact() -> None:
    assert outcomes(415, careless=0)["exact"] >= 360


def test_careless_walks_are_exact_or_refused() -> None:
    found = outcomes(120, careless=0.3)
    assert found["refused"] + found["dead handle"] >= 40
