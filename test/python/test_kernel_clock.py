"""A kernel clock says of a schedule what the compiled network says."""

from typing import Any

import pytest
from by_path import load
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64

from vtac.dialects import te
from vtac.dialects.errors import CompileError
from vtac.dialects.target import Target
from vtac.tools.tensor_expressions.kernel_clock import KernelClock

layers = load("test/benchmarks/resnet_layers.py")

LAYERS = (
    layers.Layer("small", 14, 32, 48, 3, 1, 1),
    layers.Layer("strided", 15, 16, 32, 1, 2, 1),
    layers.Layer("first", 18, 3, 16, 7, 2, 1),
)


def compiled(layer: Any, target: str | Target) -> tuple[Any, ModuleOp, te.ScheduleOp]:
    result = layers.compile_layer(layer, target, shift="channel", keep=("te",))
    module = result.levels["te"]
    (schedule,) = (op for op in module.ops if isinstance(op, te.ScheduleOp))
    return result, module, schedule


@pytest.mark.parametrize("target", ["chisel-pynq", "sim", "ultra96"])
@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.name)
def test_it_agrees_with_the_compiled_network(layer: Any, target: str) -> None:
    result, module, schedule = compiled(layer, target)
    before = str(module)
    clock = KernelClock(module, schedule.kernel.root_reference.data, result.context)
    expected = result.report().cycles
    assert [clock.cycles(schedule) for _ in range(2)] == [expected, expected]
    assert str(module) == before


@pytest.mark.parametrize("latency", [0, 16, 120])
@pytest.mark.parametrize("channels", [64, 512])
def test_it_cuts_and_joins_loads_as_the_network_does(latency: int, channels: int) -> None:
    layer = layers.Layer("wide", 7, channels, 256, 3, 1, 1)
    machine = Target.named("pynq").replace(latency=latency, outstanding=4, burst_beats=64)
    result, module, schedule = compiled(layer, machine)
    clock = KernelClock(module, schedule.kernel.root_reference.data, result.context)
    assert clock.cycles(schedule) == result.report().cycles


def test_a_kernel_that_nothing_calls_has_no_constants() -> None:
    result, module, schedule = compiled(LAYERS[0], "chisel-pynq")
    name = schedule.kernel.root_reference.data
    called = KernelClock(module, name, result.context).cycles(schedule)
    alone = module.clone()
    for op in list(alone.ops):
        if not isinstance(op, te.KernelOp):
            op.detach()
    # Its weights lie as the kernel indexes them, not in the order in which they are loaded.
    assert KernelClock(alone, name, result.context).cycles(schedule) >= called


def test_refusals_leave_it_usable() -> None:
    result, module, schedule = compiled(LAYERS[0], "chisel-pynq")
    clock = KernelClock(module, schedule.kernel.root_reference.data, result.context)
    expected = clock.cycles(schedule)
    whole = schedule.clone()
    for op in list(whole.body.block.ops):
        if isinstance(op, te.SplitOp):
            op.factor = IntegerAttr(1 << 20, i64)
        elif isinstance(op, te.TensorizeOp):
            op.detach()
            op.erase()
    with pytest.raises(CompileError):
        clock.cycles(whole)
    assert clock.cycles(schedule) == expected


def test_other_tiles_give_other_cycles() -> None:
    result, module, schedule = compiled(LAYERS[0], "chisel-pynq")
    clock = KernelClock(module, schedule.kernel.root_reference.data, result.context)
    other = schedule.clone()
    for op in other.body.block.ops:
        if isinstance(op, te.SplitOp):
            op.factor = IntegerAttr(1, i64)
    assert clock.cycles(other) > clock.cycles(schedule)


def test_it_says_what_it_misses() -> None:
    result, module, schedule = compiled(LAYERS[0], "chisel-pynq")
    name = schedule.kernel.root_reference.data
    with pytest.raises(CompileError, match="no kernel of tensors"):
        KernelClock(module, "nobody", result.context)
    unknown = module.clone()
    del unknown.attributes["vtac.target"]
    with pytest.raises(CompileError, match=r"vtac\.target"):
        KernelClock(unknown, name, result.context)
