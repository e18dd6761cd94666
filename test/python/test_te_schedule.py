"""Schedules do not change results: random kernels, random schedules, an independent interpreter.

Every schedule is compared at loop level; some also run on the simulator, in several orders of its
modules, with all proofs of `vta_runner` on the way. A kernel is built once and scheduled often.
"""

from dataclasses import dataclass
from functools import cache
from random import Random

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from te_interpreter import kernel_named, run_loops
from te_kernels import Stage, random_kernel
from te_schedules import Scheduler
from vta_runner import run_loops as run_on_simulator
from xdsl.dialects.builtin import FunctionType, ModuleOp, StringAttr, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region

from vtac.dialects import te
from vtac.dialects.context import VtacContext
from vtac.dialects.errors import CompileError
from vtac.passes.te.apply_schedule import apply_schedule
from vtac.passes.te.declare_intrinsics import TeDeclareIntrinsics
from vtac.passes.te.simplify_loops import TeSimplifyLoops
from vtac.passes.te.te_to_loops import TeToLoops
from vtac.tools.tune.evaluate import evaluate_kernel

KERNELS = 40


@dataclass(frozen=True)
class Lowered:
    """A kernel in loop form, the module of its intrinsics, and what it computes."""

    module: ModuleOp
    kernel: te.KernelOp
    stages: list[Stage]
    inputs: list[np.ndarray]
    expected: list[np.ndarray]

    def scheduled(self, schedule: te.ScheduleOp) -> te.KernelOp:
        """The kernel after a schedule, in the module until the next one takes its place."""
        block = self.module.body.block
        for op in [op for op in block.ops if not isinstance(op, te.IntrinsicOp)]:
            op.detach()
        kernel = self.kernel.clone()
        block.add_ops([kernel, schedule])
        schedule.verify()
        apply_schedule(schedule)
        schedule.detach()
        kernel.verify()
        return kernel


def inputs_of(kernel: te.KernelOp, seed: int) -> list[np.ndarray]:
    generator = np.random.default_rng(seed)
    arrays = []
    for argument in kernel.body.block.args:
        limit = 1 << (argument.type.element_type.width.data - 1)
        limit = min(limit, 1 << 10)
        arrays.append(generator.integers(-limit, limit, argument.type.get_shape()))
    return arrays


@cache
def lowered(number: int) -> Lowered:
    """One of the kernels that schedules are tried on."""
    module, stages = random_kernel(Random(number))
    module.verify()
    kernel = kernel_named(module, "k")
    inputs = inputs_of(kernel, number)
    expected = evaluate_kernel(kernel, inputs)
    for step in (TeDeclareIntrinsics(), TeToLoops()):
        step.apply(VtacContext(), module)
    module.verify()
    kernel.detach()
    return Lowered(module, kernel, stages, inputs, expected)


def assert_equal(expected: list[np.ndarray], found: list[np.ndarray]) -> None:
    for want, have in zip(expected, found, strict=True):
        np.testing.assert_array_equal(want, have)


@settings(max_examples=115, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, KERNELS - 1), st.integers(0, 10**9))
def test_random_schedules_keep_results(number: int, seed: int) -> None:
    case = lowered(number)
    kernel = case.scheduled(Scheduler(case.stages, Random(seed), pads=True).schedule())
    assert_equal(case.expected, run_loops(kernel, case.inputs))
    assert not any(isinstance(op, te.UpdateOp) for op in kernel.walk())


@settings(max_examples=3, deadline=None)
@given(st.integers(0, KERNELS - 1), st.integers(0, 10**9))
def test_the_interpreter_looks_at_points_together_or_one_by_one(number: int, seed: int) -> None:
    case = lowered(number)
    kernel = case.scheduled(Scheduler(case.stages, Random(seed), pads=True).schedule())
    assert_equal(run_loops(kernel, case.inputs), run_loops(kernel, case.inputs, plain=True))


def launched(case: Lowered, kernel: te.KernelOp) -> list[np.ndarray]:
    """What a scheduled kernel computes on the simulator."""
    types = [
        TensorType(argument.type.element_type, argument.type.get_shape())
        for argument in kernel.body.block.args
    ]
    inputs, outputs = types[: len(case.inputs)], types[len(case.inputs) :]
    block = Block(arg_types=inputs)
    call = te.CallOp("k", block.args, outputs)
    block.add_ops([call, ReturnOp(*call.results)])
    function = FuncOp("f", FunctionType.from_lists(inputs, outputs), Region(block))
    function.attributes["codegen"] = StringAttr("vta")
    ops = [op.clone() for op in case.module.body.block.ops]
    module = ModuleOp([function, *ops], dict(case.module.attributes))
    context = VtacContext()
    TeSimplifyLoops().apply(context, module)
    module.verify()
    arrays = [
        array.astype(f"i{type.element_type.width.data // 8}")
        for array, type in zip(case.inputs, inputs, strict=True)
    ]
    return run_on_simulator(context, module, arrays, seeds=(None, 1))


@settings(max_examples=35, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, KERNELS - 1), st.integers(0, 10**9))
def test_random_schedules_on_the_simulator(number: int, seed: int) -> None:
    case = lowered(number)
    kernel = case.scheduled(Scheduler(case.stages, Random(seed), pads=True).schedule())
    try:
        found = launched(case, kernel)
    except CompileError as error:
        assert "lies wholly in the padding" in str(error)  # only te.pad needs that
        assert any(isinstance(op, te.CopyOp) and op.pads is not None for op in kernel.walk())
        return
    assert_equal(case.expected, found)


def test_one_thread_and_two_compute_the_same() -> None:
    """The same tiles, one after the other and as virtual threads, each with buffers of its own."""
    number = next(
        number
        for number in range(KERNELS)
        if [stage.kind for stage in lowered(number).stages] == ["contraction", "result"]
        and lowered(number).stages[1].extents[2] > 1
    )
    case = lowered(number)
    places = {}
    for threads in (1, 2):
        kernel = case.scheduled(two_tiles(case, threaded=threads == 2))
        assert_equal(case.expected, run_loops(kernel, case.inputs))
        assert_equal(case.expected, launched(case, kernel))
        scratch = (op for op in kernel.walk() if isinstance(op, te.AllocOp))
        places[threads] = sum(te.scope_of(op.buffer) is te.Scope.ACC for op in scratch)
    assert places == {1: 1, 2: 2}


def two_tiles(case: Lowered, *, threaded: bool) -> te.ScheduleOp:
    """A contraction in two tiles of rows of its result."""
    block = Block(arg_types=[te.StageType()] * 2)

    def add(op):
        block.add_op(op)
        return op

    sums, result = block.args
    rows = case.stages[1].extents[2]
    axes = add(te.AxesOp(result, case.stages[1].axes)).axes
    split = add(te.SplitOp(axes[2], factor=-(-rows // 2)))
    add(te.ReorderOp(split.outer, axes[0], axes[1], split.inner, *axes[3:]))
    add(te.SetScopeOp(sums, te.Scope.ACC, 1))
    add(te.ComputeAtOp(sums, split.outer))
    add(te.DmaOp(result, axes[0]))
    axes = add(te.AxesOp(sums, case.stages[0].axes)).axes
    lanes = [axis for axis, name in zip(axes, case.stages[0].axes, strict=True) if name in "bok"]
    add(te.ReorderOp(*(axis for axis in axes if axis not in lanes), *lanes))
    for operand, scope in enumerate((te.Scope.INP, te.Scope.WGT)):
        cache = add(te.CacheReadOp(sums, operand, scope, 1)).cache
        add(te.ComputeAtOp(cache, split.outer))
    add(te.TensorizeOp(sums, axes[0], ["gemm"]))
    init = add(te.InitOp(sums)).init
    axes = add(te.AxesOp(init, case.stages[0].axes[:6])).axes
    add(te.TensorizeOp(init, axes[0], ["reset"]))
    if threaded:
        add(te.VthreadOp(split.outer))
    return te.ScheduleOp("k", Region(block))
