"""Points of schedule spaces: what fits compiles and is exact, and what does not fit is refused."""

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from math import prod
from random import Random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from integer_groups import LOOPS, REWRITES, IntegerFunction
from random_groups import KINDS, SMALL, TARGETS, RandomGroup
from vta_runner import run_loops, straight_binaries
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from vtac.dialects import te
from vtac.dialects.errors import CompileError
from vtac.dialects.target import Memory, Target
from vtac.dialects.vta.encoding import Load, decode
from vtac.lowering.graph_to_te import GraphToTePass
from vtac.passes.te.schedule.emit import schedule_of
from vtac.passes.te.schedule.fits import operands_of, smallest
from vtac.passes.te.schedule.search import search
from vtac.passes.te.schedule.simulated_cost import CostSimulator
from vtac.passes.te.schedule.space import Space
from vtac.passes.te.schedule.structure import structure_of
from vtac.passes.te.schedule.te_schedule import TeSchedulePass
from vtac.passes.te.schedule.tiling import Tiling
from vtac.passes.te.templates.conv2d_threads import Conv2dThreadsTemplate
from vtac.passes.te.templates.tiles import TilesTemplate
from vtac.tools.tensor_expressions.kernel_clock import KernelClock

AT = LOOPS.index(TeSchedulePass)

MACHINES = {
    **{f"{name}, small": target for name, target in SMALL.items()},
    **TARGETS,
    "ultra96": Target.named("ultra96"),
    "chisel-de10, small": Target.named("chisel-de10").replace(
        log_inp_buff_size=10, log_wgt_buff_size=13, log_acc_buff_size=12
    ),
}

DRAWS = 60
"""Points drawn from a space at most."""


class Scheduled:
    """A random function that is one kernel, before it is scheduled."""

    def __init__(self, random: Random, machine: str, kind: str):
        group = RandomGroup(random, MACHINES[machine], largest=9, channels=36)
        self.function, self.random = group.function, random
        self.module = group.build(kind, fused=True)
        (op,) = [op for op in self.module.ops if isinstance(op, FuncOp)]
        self.rank = max(len(type.get_shape()) for type in op.function_type.inputs) - 4
        self.function.apply(self.module, [GraphToTePass, *REWRITES, *LOOPS[:AT]])
        self.kernel = kernel_of(self.module)
        self.structure = structure_of(self.kernel, "layer")
        self.tiled = TilesTemplate().declare(self.structure, self.function.target)
        self.space = Space(self.structure)
        self.simulator = CostSimulator(self.structure, self.function.target)

    def points(self, *, fit: bool) -> Iterator[te.Point]:
        """Random points that fit, or that do not."""
        for _ in range(DRAWS):
            point = self.space.draw(self.random)
            assert self.space.check(point) is None
            if self.simulator.needs.fits(self.space.tiling(point)) == fit:
                yield point

    def lowered(self, schedule: te.ScheduleOp) -> ModuleOp:
        """Loops under a schedule."""
        module = self.module.clone()
        module.body.block.insert_op_after(schedule.clone(), kernel_of(module))
        self.function.apply(module, LOOPS[AT + 1 :])
        return module

    def schedule(self, tiling: Tiling) -> te.ScheduleOp:
        """The schedule with this tiling."""
        copying = te.copying_intrinsics(self.function.target)
        cost = self.simulator.cycles(tiling)
        assert cost > 0
        return schedule_of(self.kernel, self.structure, tiling, cost, copying)

    def words(self, schedule: te.ScheduleOp) -> list[int]:
        """The program under a schedule."""
        clock = KernelClock(self.module, self.kernel.sym_name.data, self.function.ctx)
        return clock.words(schedule).ravel().tolist()

    def shares_places(self, tiling: Tiling) -> bool:
        """Whether each scratchpad that is too small holds more than one buffer."""
        needs, target = self.simulator.needs, self.function.target
        counts = Counter(
            memory
            for stage in self.structure.stages
            for _, memory in operands_of(self.structure, stage)
        )
        counts[Memory.ACC] += len({stage.buffer for stage in self.structure.stages})
        lacking = [m for m, need in needs.needs(tiling).items() if need > target.depth(m)]
        return all(counts[memory] > 1 for memory in lacking)

    def check(self, tiling: Tiling) -> None:
        """The program of a tiling is free of hazards and its results are exact."""
        self.check_schedule(self.schedule(tiling))

    def check_schedule(self, schedule: te.ScheduleOp) -> None:
        """The program of a schedule is free of hazards and its results are exact."""
        ctx, module = self.function.ctx, self.lowered(schedule)
        self.function.check(module, lambda m, inputs: run_loops(ctx, m, inputs), self.rank)


def kernel_of(module: ModuleOp) -> te.KernelOp:
    (kernel,) = [op for op in module.ops if isinstance(op, te.KernelOp)]
    return kernel


KERNELS = st.sampled_from(sorted(MACHINES)), st.sampled_from(KINDS)


@settings(max_examples=40)
@given(st.randoms(use_true_random=False), *KERNELS)
def test_points_that_fit_compile_and_are_exact(random: Random, machine: str, kind: str) -> None:
    kernel = Scheduled(random, machine, kind)
    for point in islice(kernel.points(fit=True), 2):
        kernel.check(kernel.space.tiling(point))


@settings(max_examples=40)
@given(st.randoms(use_true_random=False), *KERNELS)
def test_points_near_the_default_are_exact(random: Random, machine: str, kind: str) -> None:
    kernel = Scheduled(random, machine, kind)
    point = search(kernel.structure, kernel.function.target, "layer").point
    assert kernel.simulator.needs.fits(kernel.space.tiling(point))
    for _ in range(3):
        near = random.choice(list(kernel.space.neighbours(point)))
        if kernel.simulator.needs.fits(kernel.space.tiling(near)):
            point = near
    kernel.check(kernel.space.tiling(point))


@settings(max_examples=40)
@given(st.randoms(use_true_random=False), st.sampled_from(sorted(SMALL)), st.sampled_from(KINDS))
def test_points_that_do_not_fit_are_refused(random: Random, machine: str, kind: str) -> None:
    kernel = Scheduled(random, f"{machine}, small", kind)
    for point in islice(kernel.points(fit=False), 2):
        tiling = kernel.space.tiling(point)
        assert kernel.simulator.needs.problem(tiling)
        (found,) = straight_binaries(
            kernel.function.ctx, kernel.lowered(kernel.schedule(tiling))
        ).values()
        if not isinstance(found, CompileError):
            # Buffers that are never in use at the same time share their place after all.
            assert kernel.shares_places(tiling), kernel.simulator.needs.problem(tiling)


def loaded_accumulators(kernel: Scheduled, point: te.Point) -> int:
    """The elements of ACC that the program of a point loads."""
    target, schedule = kernel.function.target, kernel.schedule(kernel.space.tiling(point))
    clock = KernelClock(kernel.module, kernel.kernel.sym_name.data, kernel.function.ctx)
    into = Memory.ACC, Memory.ACC_8BIT
    return sum(
        op.x_size * op.y_size
        for op in decode(target, clock.words(schedule))
        if isinstance(op, Load) and op.memory in into
    )


@settings(max_examples=40)
@given(st.randoms(use_true_random=False), *KERNELS)
def test_a_kept_operand_is_loaded_once(random: Random, machine: str, kind: str) -> None:
    """However its tiles are cut, and the results stay exact."""
    kernel = Scheduled(random, machine, kind)
    assume(kernel.space.keeps)
    kept = dict.fromkeys(kernel.space.keeps, True)
    size = sum(
        prod(te.shaped(stage.reads[operand].value).get_shape()[: -te.LANES])
        for stage in kernel.structure.stages
        for operand in kernel.structure.vectors(stage)
    )
    point = kernel.space.with_values(kernel.space.draw(random), kept)
    assume(kernel.simulator.needs.fits(kernel.space.tiling(point)))
    without = kernel.space.with_values(point, dict.fromkeys(kept, False))
    assert loaded_accumulators(kernel, point) <= size
    assert loaded_accumulators(kernel, point) <= loaded_accumulators(kernel, without)
    kernel.check(kernel.space.tiling(point))


@settings(max_examples=40)
@given(st.randoms(use_true_random=False), *KERNELS)
def test_a_canonical_point_has_the_same_program(random: Random, machine: str, kind: str) -> None:
    kernel = Scheduled(random, machine, kind)
    space, changed = kernel.tiled, 0
    for point in kernel.points(fit=True):
        same = space.canonical(point)
        assert space.canonical(same) == same
        assert space.check(same) is None
        assert space.problem(same) is None
        changed += same != point
        if same != point and changed <= 2:
            schedules = [space.schedule(kernel.kernel, p, 1) for p in (point, same)]
            assert kernel.words(schedules[0]) == kernel.words(schedules[1]), (point, same)


@settings(max_examples=20)
@given(st.randoms(use_true_random=False), *KERNELS)
def test_points_with_equal_loops_have_one_canonical_point(
    random: Random, machine: str, kind: str
) -> None:
    kernel = Scheduled(random, machine, kind)
    known: dict[object, te.Point] = {}
    for _ in range(DRAWS):
        point = kernel.space.draw(random)
        same = kernel.tiled.canonical(point)
        key = kernel.space.tiling(point).key
        assert known.setdefault(key, same) == same


@settings(max_examples=40)
@given(st.randoms(use_true_random=False), st.sampled_from(sorted(MACHINES)))
def test_points_of_threads_that_fit_are_exact(random: Random, machine: str) -> None:
    kernel = Scheduled(random, machine, "conv")
    template = Conv2dThreadsTemplate()
    if template.refuses(kernel.structure) is not None:
        return
    space = template.declare(kernel.structure, kernel.function.target)
    drawn = (space.draw(random) for _ in range(DRAWS))
    try:
        rule = [space.rule("layer").point]
    except CompileError:
        rule = []
    for point in (*rule, *islice((p for p in drawn if space.problem(p) is None), 2)):
        same = space.canonical(point)
        kernel.check_schedule(space.schedule(kernel.kernel, point))
        assert space.problem(same) is None
        schedules = [space.schedule(kernel.kernel, p) for p in (point, same)]
        assert kernel.words(schedules[0]) == kernel.words(schedules[1])


@pytest.mark.parametrize(("size", "kernel", "pad", "tile"), [(5, 1, 2, 1), (40, 33, 16, 8)])
def test_threads_whose_pads_no_load_writes_are_refused(
    size: int, kernel: int, pad: int, tile: int
) -> None:
    f = IntegerFunction(Target.named("chisel-pynq"))
    acc = f.conv(f.input(1, 16, size, size), 32, (kernel, 1), pads=(pad, 0, pad, 0))
    module = f.finish(f.requantize(acc, shift="one"))
    f.apply(module, [GraphToTePass, *REWRITES, *LOOPS[:AT]])
    space = Conv2dThreadsTemplate().declare(structure_of(kernel_of(module), "layer"), f.target)
    point = space.with_values(
        {}, {f"tile.{axis}": tile for axis in (space.rows, space.columns)} | {space.inputs: 1}
    )
    problem = space.problem(point)
    assert problem is not None
    assert "padding" in problem.what or "pads are" in problem.what


def test_threads_load_columns_that_no_tap_reads() -> None:
    """Loaded before all loops, an input comes whole: 3 x 2 x 6 x 2 elements, not every second
    column."""
    machine = MACHINES["chisel-de10, small"]
    f = IntegerFunction(machine)
    acc = f.conv(f.input(3, 32, 4, 2), 16, (3, 1), strides=(1, 2), pads=(0, 0, 2, 0))
    module = f.finish(f.requantize(acc, shift="one"))
    f.apply(module, [GraphToTePass, *REWRITES, *LOOPS[:AT]])
    space = Conv2dThreadsTemplate().declare(structure_of(kernel_of(module), "layer"), machine)
    whole = space.with_values({}, {})
    assert space.needs(whole)[Memory.INP] == 72 > machine.depth(Memory.INP)
    assert space.problem(whole) is not None


@pytest.mark.parametrize("kind", KINDS)
def test_the_smallest_tiling_fits_and_is_exact(kind: str) -> None:
    kernel = Scheduled(Random(3), "1x16, small", kind)
    tiling = smallest(kernel.structure)
    assert kernel.simulator.needs.fits(tiling)
    kernel.check(tiling)


def test_a_point_of_another_space_is_refused() -> None:
    space = Scheduled(Random(0), "1x16", "conv").space
    axis = space.axes[0]
    assert space.check({f"tile.{axis}": 0}) == f"knob 'tile.{axis}' has no value 0"
    assert space.check({"slots.inp": True}) == "knob 'slots.inp' has no value true"
    assert space.check({"order": space.axes[1:]}) is not None
    assert space.check({"tile.nowhere": 1}) == "there is no knob 'tile.nowhere'"
    assert space.check({"order": space.axes[::-1]}) is None
