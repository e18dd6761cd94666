"""Schedule spaces as IR, the passes over them, templates, and points of random kernels."""

from io import StringIO
from itertools import islice
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from integer_groups import LOOPS, REWRITES
from random_groups import KINDS, TARGETS, RandomGroup
from random_knobs import random_knobs
from te_interpreter import kernel_named
from te_kernels import SMALL, random_kernel
from vta_runner import run_loops, straight_binaries
from xdsl.dialects.builtin import FunctionType, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region
from xdsl.parser import Parser
from xdsl.printer import Printer

from vtac.dialects import te
from vtac.dialects.context import VtacContext, element_dtype
from vtac.dialects.errors import CompileError
from vtac.dialects.target import TARGET_ATTRIBUTE
from vtac.lowering.graph_to_te import GraphToTePass
from vtac.passes.te.apply_point import TeApplyPointPass
from vtac.passes.te.apply_schedule import TeApplySchedule
from vtac.passes.te.choose_point import TeChoosePointPass
from vtac.passes.te.declare_intrinsics import TeDeclareIntrinsics
from vtac.passes.te.declare_space import TeDeclareSpacePass
from vtac.passes.te.schedule.structure import structure_of
from vtac.passes.te.schedule.te_schedule import TeSchedulePass
from vtac.passes.te.simplify_loops import TeSimplifyLoops
from vtac.passes.te.te_to_loops import TeToLoops
from vtac.passes.te.templates.find import all_templates, template_named
from vtac.passes.te.templates.tiles import TilesTemplate
from vtac.tools.driver.discovery import load_dialects
from vtac.tools.tune.evaluate import evaluate_kernel

AT = LOOPS.index(TeSchedulePass)

SMALLER = SMALL.replace(log_inp_buff_size=7, log_wgt_buff_size=7, log_acc_buff_size=9)
"""Buffers of 32 elements each, so that many points do not fit."""


def text_of(module: ModuleOp) -> str:
    stream = StringIO()
    Printer(stream).print_op(module)
    return stream.getvalue()


def reader() -> VtacContext:
    ctx = VtacContext()
    load_dialects(ctx)
    return ctx


@given(random_knobs(), st.randoms(use_true_random=False), st.none() | st.integers(0, 10**9))
def test_spaces_and_points_are_read_back(knobs: te.Knobs, random: Random, cost: int | None) -> None:
    module, _ = random_kernel(Random(0))
    point = knobs.draw(random)
    ops = te.SpaceOp.of("k", "tiles", 1, knobs), te.PointOp("k", point, cost)
    module.body.block.add_ops(ops)
    module.verify()
    again = Parser(reader(), text_of(module)).parse_module()
    again.verify()
    (space,) = (op for op in again.body.block.ops if isinstance(op, te.SpaceOp))
    (read,) = (op for op in again.body.block.ops if isinstance(op, te.PointOp))
    assert space.knobs.knobs == knobs.knobs
    assert list(space.knobs.knobs) == list(knobs.knobs)
    assert read.point == point
    assert te.point_text(read.point) == te.point_text(point)
    assert text_of(again) == text_of(module)


@settings(max_examples=25)
@given(
    st.randoms(use_true_random=False),
    st.sampled_from(sorted(TARGETS)),
    st.sampled_from(KINDS),
)
def test_the_three_passes_write_the_default_schedule(
    random: Random, machine: str, kind: str
) -> None:
    group = RandomGroup(random, TARGETS[machine], largest=9, channels=36)
    module = group.build(kind, fused=True)
    group.function.apply(module, [GraphToTePass, *REWRITES, *LOOPS[:AT]])
    other = module.clone()
    ctx = group.function.ctx
    TeSchedulePass().apply(ctx, module)
    for step in (TeDeclareSpacePass(), TeChoosePointPass(), TeApplyPointPass()):
        step.apply(ctx, other)
        other.verify()
    assert text_of(other) == text_of(module)


def called(module: ModuleOp) -> ModuleOp:
    """The module with a function that calls its kernel, as accelerator functions do."""
    kernel = kernel_named(module, "k")
    inputs, outputs = kernel.function_type.inputs.data, kernel.function_type.outputs.data
    block = Block(arg_types=inputs)
    call = te.CallOp("k", block.args, outputs)
    block.add_ops([call, ReturnOp(*call.results)])
    function = FuncOp("f", FunctionType.from_lists(inputs, outputs), Region(block))
    function.attributes["codegen"] = StringAttr("vta")
    function.attributes[TARGET_ATTRIBUTE] = module.attributes[TARGET_ATTRIBUTE]
    module.body.block.insert_op_before(function, module.body.block.first_op)
    return module


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.randoms(use_true_random=False), st.booleans())
def test_points_of_random_kernels_are_refused_or_exact(
    number: int, random: Random, small: bool
) -> None:
    """What the predicate accepts compiles, has no hazard and computes what the tensors mean."""
    module, _ = random_kernel(Random(number))
    target = SMALLER if small else SMALL
    module.attributes[TARGET_ATTRIBUTE] = target
    kernel = kernel_named(module, "k")
    space = TilesTemplate().declare(structure_of(kernel, "k"), target)
    generator = np.random.default_rng(number)
    arrays = [
        generator.integers(-100, 100, type.get_shape()).astype(element_dtype(type.element_type))
        for type in kernel.function_type.inputs
    ]
    expected = evaluate_kernel(kernel, [array.astype(np.int64) for array in arrays])
    points = (space.draw(random) for _ in range(40))
    for point in islice((p for p in points if space.problem(p) is None), 2):
        ctx, chosen = VtacContext(), called(module.clone())
        for step in (
            TeDeclareSpacePass(),
            TeApplyPointPass(point=te.point_text(point) or "slots.inp=2"),
            TeToLoops(),
            TeDeclareIntrinsics(),
            TeApplySchedule(),
            TeSimplifyLoops(),
        ):
            step.apply(ctx, chosen)
        chosen.verify()
        (found,) = straight_binaries(ctx, chosen.clone()).values()
        assert not isinstance(found, CompileError), te.point_text(point)
        for want, have in zip(
            expected, run_loops(ctx, chosen, arrays, seeds=(None, 1)), strict=True
        ):
            np.testing.assert_array_equal(want, have)


def test_points_that_do_not_fit_are_refused_with_needs_and_depths() -> None:
    module, _ = random_kernel(Random(1))
    module.attributes[TARGET_ATTRIBUTE] = SMALLER
    kernel = kernel_named(module, "k")
    space = TilesTemplate().declare(structure_of(kernel, "k"), SMALLER)
    random, refused = Random(0), 0
    for point in (space.draw(random) for _ in range(200)):
        problem = space.problem(point)
        if problem is None:
            continue
        refused += 1
        ctx, tried = VtacContext(), module.clone()
        TeDeclareSpacePass().apply(ctx, tried)
        with pytest.raises(CompileError) as error:
            TeApplyPointPass(point=te.point_text(point)).apply(ctx, tried)
        assert problem.what in str(error.value)
        assert "has 32" in problem.what or "has 16" in problem.what or "has 64" in problem.what
    assert refused


def test_spaces_of_an_older_template_are_refused() -> None:
    module, _ = random_kernel(Random(1))
    ctx = VtacContext()
    TeDeclareSpacePass().apply(ctx, module)
    (space,) = (op for op in module.body.block.ops if isinstance(op, te.SpaceOp))
    old = te.SpaceOp.of("k", "tiles", 0, space.knobs)
    module.body.block.insert_op_after(old, space)
    module.body.block.erase_op(space)
    with pytest.raises(CompileError, match="of version 0 of template 'tiles'"):
        TeChoosePointPass().apply(ctx, module)


def test_a_space_with_fewer_values_allows_only_these() -> None:
    """A space that was narrowed by hand is searched as it stands."""
    module, _ = random_kernel(Random(1))
    ctx = VtacContext()
    TeDeclareSpacePass().apply(ctx, module)
    (space,) = (op for op in module.body.block.ops if isinstance(op, te.SpaceOp))
    (slots,) = (k for k in space.body.block.ops if k.knob.data.name == "slots.inp")
    space.body.block.insert_op_after(
        te.KnobOp(te.Knob("slots.inp", te.KnobKind.ORDERED, (2, 3), 3)), slots
    )
    space.body.block.erase_op(slots)
    with pytest.raises(CompileError, match=r"knob 'slots\.inp' has no value 4"):
        TeApplyPointPass(point="slots.inp=4").apply(ctx, module.clone())
    for point, expected in (("slots.wgt=1", "slots 3 act"), ("slots.inp=2", "slots 2 act")):
        applied = module.clone()
        TeApplyPointPass(point=point).apply(ctx, applied)
        assert expected in text_of(applied)


PACKAGE = '''
from vtac.passes.te.templates.tiles import TilesTemplate

class Fewer(TilesTemplate):
    """Tiles for those who want few."""

    name = "fewer"
    version = 7
'''


def test_templates_of_other_packages_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "few_tiles.py").write_text(PACKAGE)
    made = tmp_path / "few_tiles-1.dist-info"
    made.mkdir()
    (made / "METADATA").write_text("Metadata-Version: 2.1\nName: few_tiles\nVersion: 1\n")
    entries = "[vtac.templates]\nfewer = few_tiles:Fewer\n"
    (made / "entry_points.txt").write_text(entries)
    monkeypatch.syspath_prepend(str(tmp_path))
    all_templates.cache_clear()
    try:
        assert list(all_templates()) == ["conv2d-threads", "fewer", "tiles"]
        module, _ = random_kernel(Random(0))
        TeDeclareSpacePass(template="fewer").apply(VtacContext(), module)
        assert 'te.space @k template "fewer" version 7' in text_of(module)
        (made / "entry_points.txt").write_text(entries + "odd = few_tiles:Absent\n")
        all_templates.cache_clear()
        with pytest.raises(CompileError, match="the template of few_tiles:Absent cannot be"):
            all_templates()
    finally:
        (made / "entry_points.txt").write_text("")
        all_templates.cache_clear()
    assert template_named().name == "tiles"


def test_random_points_are_drawn_by_seed() -> None:
    def chosen(seed: int) -> te.Point:
        module, _ = random_kernel(Random(5))
        for step in (TeDeclareSpacePass(), TeChoosePointPass(method="random", seed=seed)):
            step.apply(VtacContext(), module)
        (point,) = (op for op in module.body.block.ops if isinstance(op, te.PointOp))
        return point.point

    assert chosen(1) == chosen(1)
    assert len({te.point_text(chosen(seed)) for seed in range(8)}) > 4


def test_a_machine_must_be_known() -> None:
    module, _ = random_kernel(Random(5))
    del module.attributes[TARGET_ATTRIBUTE]
    with pytest.raises(CompileError, match=r"there is no vtac\.target"):
        TeDeclareSpacePass().apply(VtacContext(), module)
