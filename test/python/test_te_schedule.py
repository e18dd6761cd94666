"""Schedules do not change results: random kernels, random schedules, an independent interpreter."""

from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from te_interpreter import kernel_named, run_loops, run_tensors
from te_kernels import random_kernel
from te_schedules import Scheduler
from xdsl.dialects.builtin import ModuleOp

from vtac.dialects import te
from vtac.dialects.context import VtacContext
from vtac.passes.te.apply_schedule import TeApplySchedule
from vtac.passes.te.declare_intrinsics import TeDeclareIntrinsics
from vtac.passes.te.simplify_loops import TeSimplifyLoops
from vtac.passes.te.te_to_loops import TeToLoops


def inputs_of(kernel: te.KernelOp, seed: int) -> list[np.ndarray]:
    generator = np.random.default_rng(seed)
    arrays = []
    for argument in kernel.body.block.args:
        limit = 1 << (argument.type.element_type.width.data - 1)
        limit = min(limit, 1 << 10)
        arrays.append(generator.integers(-limit, limit, argument.type.get_shape()))
    return arrays


def compare(expected: list[np.ndarray], found: list[np.ndarray]) -> None:
    for want, have in zip(expected, found, strict=True):
        np.testing.assert_array_equal(want, have)


def check(module: ModuleOp, seed: int) -> None:
    """Compare a kernel before and after its schedule."""
    context = VtacContext()
    module.verify()
    kernel = kernel_named(module, "k")
    inputs = inputs_of(kernel, seed)
    expected = run_tensors(kernel, inputs)
    for step in (TeDeclareIntrinsics(), TeToLoops(), TeApplySchedule()):
        step.apply(context, module)
        module.verify()
    compare(expected, run_loops(kernel, inputs))
    TeSimplifyLoops().apply(context, module)
    module.verify()
    compare(expected, run_loops(kernel, inputs))


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 10**9))
def test_random_schedules_keep_results(seed: int) -> None:
    random = Random(seed)
    module, stages = random_kernel(random)
    module.body.block.add_op(Scheduler(stages, random).schedule())
    check(module, seed)
    kernel = kernel_named(module, "k")
    assert not any(isinstance(op, te.UpdateOp) for op in kernel.walk())
