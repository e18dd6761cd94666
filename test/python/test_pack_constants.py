"""Constants packed in the order of their loads: layouts as text, and kernels that do not notice."""

from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from loops_reference import evaluate_function
from te_interpreter import kernel_named, run_loops
from te_kernels import random_kernel
from te_schedules import Scheduler
from vta_runner import run_loops as run_simulator
from xdsl.dialects.builtin import ModuleOp, StringAttr, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region
from xdsl.parser import Parser

from vtac.dialects import te
from vtac.dialects.context import VtacContext, constant_attr, constant_value, tensor_type
from vtac.passes.te.apply_schedule import TeApplySchedule
from vtac.passes.te.declare_intrinsics import TeDeclareIntrinsics
from vtac.passes.te.pack_constants import TePackConstants
from vtac.passes.te.simplify_loops import TeSimplifyLoops
from vtac.passes.te.te_to_loops import TeToLoops
from vtac.tools.driver.discovery import load_dialects
from vtac.tools.tune.evaluate import evaluate_kernel


def context() -> VtacContext:
    ctx = VtacContext()
    load_dialects(ctx)
    return ctx


def cut(random: Random, box: te.Box, depth: int) -> list[te.Box]:
    """A box in pieces: mostly as nested loops cut it, sometimes each piece in its own way."""
    if depth == 0:
        return [box]
    dim = random.randrange(len(box))
    start, length = box[dim]
    step = random.randint(1, length)
    pieces = [
        (*box[:dim], (at, min(step, start + length - at)), *box[dim + 1 :])
        for at in range(start, start + length, step)
    ]
    if random.random() < 0.2:
        random.shuffle(pieces)
    seed = random.random()
    same = random.random() < 0.7
    return [
        part for piece in pieces for part in cut(Random(seed) if same else random, piece, depth - 1)
    ]


@given(st.randoms(use_true_random=False))
def test_layouts_hold_any_list_of_boxes(random: Random) -> None:
    shape = [random.randint(1, 6) for _ in range(random.randint(1, 4))]
    boxes = cut(random, tuple((0, size) for size in shape), random.randint(0, 3))
    boxes = [box for box in boxes if random.random() < 0.95] or boxes
    layout = te.PackedAttr.of(boxes, shape)
    assert layout.boxes(shape) == boxes
    assert Parser(context(), str(layout)).parse_attribute() == layout
    place = 0
    for box, offset in layout.offsets(shape).items():
        assert offset == place
        place += int(np.prod([length for _, length in box]))
    assert layout.size(shape) == place


def test_what_loops_visit_is_a_line_of_text() -> None:
    tiles = [
        ((c, min(5, 32 - c)), (k, 1), (0, 9), (j, min(4, 9 - j)))
        for c in range(0, 32, 5)
        for k in range(32)
        for j in range(0, 9, 4)
    ]
    layout = te.PackedAttr.of(tiles, (32, 32, 9, 9))
    assert str(layout) == "#te.packed<cut (0 by 5, 1 by 1, 3 by 4)>"
    growing = [((0, 1), (0, 1)), ((0, 1), (1, 3)), ((0, 1), (4, 2)), ((1, 3), (0, 6))]
    assert str(te.PackedAttr.of(growing, (4, 6))) == (
        "#te.packed<[0 : 1, 0 : 6] cut (1 by [1, 3, 2]), [1 : 3, 0 : 6]>"
    )


def with_function(ctx: VtacContext, module: ModuleOp, arrays: list[np.ndarray]) -> FuncOp:
    """A function that calls kernel @k, its first parameter the argument, the others constants."""
    kernel = kernel_named(module, "k")
    image, *types = kernel.function_type.inputs
    results = list(kernel.function_type.outputs)
    block = Block(arg_types=[image])
    constants = []
    for type, array in zip(types, arrays[1:], strict=True):
        assert isinstance(type, TensorType)
        constants.append(te.ConstantOp(constant_attr(ctx, array, "c"), type))
    call = te.CallOp("k", [block.args[0], *(c.result for c in constants)], results)
    block.add_ops([*constants, call, ReturnOp(*call.outputs)])
    function = FuncOp("f", ([image], results), Region(block), visibility="private")
    function.attributes["codegen"] = StringAttr("vta")
    module.body.block.insert_op_before(function, module.body.block.first_op)
    return function


def scheduled(random: Random) -> tuple[VtacContext, ModuleOp, list[np.ndarray], list[np.ndarray]]:
    """A random kernel in loop form with a call, its inputs, and its results."""
    ctx = context()
    module, stages = random_kernel(random)
    module.body.block.add_op(Scheduler(stages, random).schedule())
    kernel = kernel_named(module, "k")
    numbers = np.random.default_rng(random.randrange(1 << 30))
    inputs = []
    for type in kernel.function_type.inputs:
        bits = type.element_type.width.data
        limit = min(1 << (bits - 1), 1 << 10)
        inputs.append(numbers.integers(-limit, limit, type.get_shape()).astype(f"i{bits // 8}"))
    expected = evaluate_kernel(kernel, inputs)
    with_function(ctx, module, inputs)
    for step in (TeDeclareIntrinsics(), TeToLoops(), TeApplySchedule(), TeSimplifyLoops()):
        step.apply(ctx, module)
    module.verify()
    return ctx, module, inputs, expected


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**9))
def test_kernels_compute_the_same_from_packed_constants(seed: int) -> None:
    ctx, module, inputs, expected = scheduled(Random(seed))
    before = str(module)
    TePackConstants().apply(ctx, module)
    if str(module) == before:
        return
    module.verify()
    [call] = [op for op in module.walk() if isinstance(op, te.CallOp)]
    kernel = kernel_named(module, "k")
    passed = [inputs[0]]
    for argument, parameter in zip(call.arguments[1:], kernel.body.block.args[1:], strict=False):
        constant = argument.owner
        assert isinstance(constant, te.ConstantOp)
        passed.append(constant_value(ctx, constant.value, argument.type))
        assert argument.type == tensor_type(passed[-1])
        assert (te.packing_of(parameter) is not None) == (passed[-1].ndim == 1)
    for want, found in zip(expected, run_loops(kernel, passed), strict=True):
        np.testing.assert_array_equal(want, found)
    for want, found in zip(expected, evaluate_function(ctx, module, inputs[:1]), strict=True):
        np.testing.assert_array_equal(want, found)
    before = str(module)
    TePackConstants().apply(ctx, module)
    assert str(module) == before


def test_some_of_the_random_kernels_are_packed_and_run() -> None:
    """The whole way to the simulator, over the seeds where something is packed."""
    packed = 0
    for seed in range(40):
        ctx, module, inputs, expected = scheduled(Random(seed))
        TePackConstants().apply(ctx, module)
        kernel = kernel_named(module, "k")
        if all(te.packing_of(parameter) is None for parameter in kernel.body.block.args):
            continue
        packed += 1
        found = run_simulator(ctx, module, inputs[:1])
        for want, have in zip(expected, found, strict=True):
            np.testing.assert_array_equal(want, have)
        if packed == 4:
            return
    assert packed >= 3
