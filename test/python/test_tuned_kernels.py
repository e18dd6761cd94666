"""Real kernels in a search: tasks, measurement, and the proof of the best point."""

from random import Random
from typing import Any

import numpy as np
import pytest
from by_path import load
from integer_groups import LOOPS, REWRITES
from random_groups import KINDS, TARGETS, RandomGroup
from xdsl.dialects.builtin import ModuleOp

from vtac.dialects import te
from vtac.dialects.errors import CompileError
from vtac.dialects.te import point_text
from vtac.lowering.graph_to_te import GraphToTePass
from vtac.passes.te.schedule.te_schedule import TeSchedulePass
from vtac.tools.tune import evaluate as reference
from vtac.tools.tune import proof
from vtac.tools.tune.evaluate import evaluate_kernel
from vtac.tools.tune.kernel import prepared
from vtac.tools.tune.measure import measure
from vtac.tools.tune.proof import prove
from vtac.tools.tune.protocol import Stops
from vtac.tools.tune.tasks import tasks_of
from vtac.tools.tune.tuner import tune

layers = load("test/benchmarks/resnet_layers.py")

LAYERS = (
    layers.Layer("small", 14, 32, 48, 3, 1, 1),
    layers.Layer("strided", 15, 16, 32, 1, 2, 1),
    layers.Layer("first", 18, 3, 16, 7, 2, 1),
)

AT = LOOPS.index(TeSchedulePass)


def compiled(layer: Any, target: str, shift: str) -> tuple[Any, ModuleOp]:
    result = layers.compile_layer(layer, target, shift=shift, keep=("te",))
    module = result.levels["te"]
    assert isinstance(module, ModuleOp)
    return result, module


def random_module(seed: int, machine: str, kind: str) -> ModuleOp:
    """A random function of kernels, before they are scheduled."""
    group = RandomGroup(Random(seed), TARGETS[machine], largest=9, channels=36)
    module = group.build(kind, fused=True)
    group.function.apply(module, [GraphToTePass, *REWRITES, *LOOPS[:AT]])
    return module


@pytest.mark.parametrize(
    ("layer", "target", "shift"),
    [
        (LAYERS[0], "chisel-pynq", "channel"),
        (LAYERS[1], "ultra96", "channel"),
        (LAYERS[2], "sim", "block"),
    ],
)
def test_a_task_has_the_cycles_of_the_network(layer: Any, target: str, shift: str) -> None:
    result, module = compiled(layer, target, shift)
    (task,) = tasks_of(module)
    assert task.default_cycles == result.report().cycles
    assert 0 < task.bound <= task.default_cycles
    assert measure(task.module, task.template, task.default).cycles == task.default_cycles
    assert task.layers and task.multiplicity == 1
    assert not prove(task.module, task.template, task.default).problem


def test_a_search_finds_proven_schedules() -> None:
    _, module = compiled(LAYERS[0], "chisel-pynq", "block")
    tasks = tasks_of(module)
    (result,) = tune(tasks, stops=Stops(trials=16))
    assert result.best is not None and result.best.proved, result.best
    assert result.best.trial.cycles is not None
    assert result.best.trial.cycles <= tasks[0].default_cycles


def test_equal_kernels_are_one_task() -> None:
    _, module = compiled(LAYERS[0], "chisel-pynq", "block")
    (kernel,) = (op for op in module.ops if isinstance(op, te.KernelOp))
    (call,) = (op for op in module.walk() if isinstance(op, te.CallOp))
    again = te.CallOp(call.callee.root_reference.data, call.arguments, list(call.result_types))
    call.parent_block().insert_op_after(again, call)  # type: ignore[union-attr]
    (task,) = tasks_of(module)
    assert task.multiplicity == 2 and task.digest == te.digest_of_kernel(kernel)


def test_refused_points_say_why() -> None:
    _, module = compiled(layers.layer_named("C2"), "chisel-pynq", "block")
    (task,) = tasks_of(module)
    kernel = prepared(task.module, task.template)
    random = Random(0)
    large = next(
        point
        for point in (kernel.space.draw(random) for _ in range(10_000))
        if kernel.space.problem(point) is not None
    )
    trial = measure(task.module, task.template, large)
    assert trial.cycles is None and "elements" in trial.why, point_text(large)
    assert "elements" in prove(task.module, task.template, large).problem


def test_a_wrong_reference_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    _, module = compiled(LAYERS[0], "chisel-pynq", "block")
    (task,) = tasks_of(module)

    def wrong(kernel: te.KernelOp, inputs: Any) -> list[Any]:
        first, *rest = evaluate_kernel(kernel, inputs)
        changed = np.array(first)
        changed.flat[3] += 1
        return [changed, *rest]

    monkeypatch.setattr(proof, "evaluate_kernel", wrong)
    found = prove(task.module, task.template, task.default)
    assert "1 of" in found.problem and "differ" in found.problem


def test_a_module_without_a_target_is_refused() -> None:
    with pytest.raises(CompileError, match=r"vtac\.target"):
        tasks_of(ModuleOp([]))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_products_of_matrices_agree_with_sums_tap_by_tap(
    kind: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = random_module(seed, sorted(TARGETS)[seed % len(TARGETS)], kind)
    random = np.random.default_rng(seed)
    kernels = [op for op in module.ops if isinstance(op, te.KernelOp)]
    inputs = [proof._numbers(kernel, random) for kernel in kernels]
    found = list(map(evaluate_kernel, kernels, inputs))
    monkeypatch.setattr(reference, "_is_product", lambda body: False)
    for results, expected in zip(found, map(evaluate_kernel, kernels, inputs), strict=True):
        for one, other in zip(results, expected, strict=True):
            assert np.array_equal(one, other)


@pytest.mark.parametrize("kind", KINDS)
def test_random_kernels_are_proved(kind: str) -> None:
    module = random_module(7, sorted(TARGETS)[0], kind)
    random = Random(1)
    for task in tasks_of(module):
        kernel = prepared(task.module, task.template)
        points = [task.default, *(kernel.space.draw(random) for _ in range(20))]
        for point in [p for p in points if kernel.space.problem(p) is None][:3]:
            found = prove(task.module, task.template, point)
            assert not found.problem, point_text(point)
