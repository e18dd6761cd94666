"""The error of each layer, layers that are left on the host for it, and nodes that users keep."""

from dataclasses import dataclass
from math import inf
from typing import Any

import encoder
import numpy as np
import pytest
from graph_reference import run_reference
from onnx import ModelProto, helper
from small_models import CLEANING, context, floats, small_model
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

import vtac
from vtac.dialects.context import VtacContext
from vtac.dialects.errors import CompileError
from vtac.dialects.graph import RequantizeOp
from vtac.dialects.locations import layer_of
from vtac.lowering.onnx_to_graph import import_model
from vtac.passes.graph.quantize import QuantizePass
from vtac.passes.graph.reasons import HostReason, ReasonKind, host_reason
from vtac.runtime.samples import load_samples, tensor_specs
from vtac.tools.driver.calibrate import Calibrated, calibrate_network
from vtac.tools.driver.keep_float import keep_float
from vtac.tools.driver.placements import Nodes
from vtac.tools.driver.planner import main_function
from vtac.tools.reports.agreement import Agreement
from vtac.tools.reports.layer_errors import ErrorOptions, LayerError, LayerErrors

SAMPLES = floats((6, 4, 5, 5), 1)


def network() -> ModelProto:
    """Three convolutions; the second is the difference of channels that are nearly equal."""
    rng = np.random.default_rng(0)
    first = rng.normal(size=(8, 4, 3, 3))
    first[1] = first[0] + 0.01 * rng.normal(size=first[0].shape)
    difference = np.zeros((8, 8, 1, 1))
    difference[:, 0], difference[:, 1] = 1, -1
    weights = {"w": first, "d": difference, "v": rng.normal(size=(5, 8, 1, 1))}
    weights |= {"scale": rng.uniform(1, 2, 5), "shift": rng.normal(size=5)}
    weights |= {"mean": np.zeros(5), "variance": np.ones(5)}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], "first", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"], "relu"),
        helper.make_node("Conv", ["b", "d"], ["c"], "difference"),
        helper.make_node("Conv", ["c", "v"], ["e"], "last"),
        helper.make_node(
            "BatchNormalization", ["e", "scale", "shift", "mean", "variance"], ["y"], "norm"
        ),
    ]
    floats32 = {name: array.astype(np.float32) for name, array in weights.items()}
    return small_model(nodes, {"x": [2, 4, 5, 5]}, ["y"], floats32)


@dataclass
class Prepared:
    """A calibrated float network."""

    ctx: VtacContext
    module: ModuleOp
    nodes: Nodes
    calibrated: Calibrated

    def errors(self, least: float | None = None, samples: Any = None) -> tuple[LayerError, ...]:
        options = ErrorOptions(least, samples)
        return LayerErrors(self.module, self.ctx, self.calibrated, options).settle(quantise)

    def layers(self) -> list[Any]:
        """The layers of a trial."""
        measured = LayerErrors(self.module, self.ctx, self.calibrated, ErrorOptions())
        return list(measured._trial(quantise).layers)

    def reasons(self) -> dict[str, HostReason]:
        ops = main_function(self.module).body.block.ops
        return {layer_of(op): found for op in ops if (found := host_reason(op)) is not None}


def quantise(ctx: VtacContext, module: ModuleOp) -> None:
    QuantizePass().apply(ctx, module)


def prepared(model: ModelProto, samples: np.ndarray = SAMPLES) -> Prepared:
    ctx = context()
    module = import_model(model, ctx)
    nodes = Nodes.of(module)
    for cleaning in CLEANING:
        cleaning.apply(ctx, module)
    main = main_function(module)
    batches = load_samples(samples, tensor_specs(main))
    return Prepared(ctx, module, nodes, calibrate_network(module, ctx, batches))


def values_of(made: Prepared) -> dict[tuple[str, str], np.ndarray]:
    """What the reference computes for all samples: by kind of op and layer."""
    found: dict[tuple[str, str], list[np.ndarray]] = {}

    def keep(value: SSAValue, array: np.ndarray) -> None:
        op = value.owner
        stored = isinstance(op, RequantizeOp)
        zero, scale = (op.zero_point.value.data, op.scale.value.data) if stored else (0, 1)
        if array.ndim == 4 and layer_of(op):
            found.setdefault((op.name, layer_of(op)), []).append((array - float(zero)) * scale)

    for batch in made.calibrated.samples:
        run_reference(made.module, batch, made.ctx.resources, keep)
    return {key: np.concatenate(arrays) for key, arrays in found.items()}


def test_errors_are_those_of_the_integer_reference() -> None:
    made = prepared(network())
    errors = {error.node: error for error in made.errors()}
    assert list(errors) == ["difference", "last", "first"]
    assert errors["difference"].own < 25 < errors["first"].own
    assert errors["first"].total == errors["first"].own  # its operand is an input
    assert errors["last"].total < errors["last"].own
    assert errors["last"].ops == ("conv",) and errors["first"].ops == ("conv", "relu")
    assert not made.reasons()
    real = values_of(made)
    quantise(made.ctx, made.module)
    stored = values_of(made)
    last_ops = {"first": ("graph.relu", "relu")}
    for node, error in errors.items():
        found = Agreement()
        found.add(real[last_ops.get(node, ("graph.conv", node))], stored["graph.requantize", node])
        assert error.total == pytest.approx(found.snr, abs=1e-3)


def test_layers_below_the_bound_stay_on_the_host_and_the_rest_is_planned_anew() -> None:
    made = prepared(network())
    before = {error.node: error for error in made.errors()}
    errors = {error.node: error for error in made.errors(least=25)}
    worst, maker = errors["difference"], errors["first"]
    assert worst.own == before["difference"].own
    assert worst.reason == (
        f"its signal to quantisation noise is {worst.own:.1f} dB, the bound is 25 dB"
    )
    # It is not the difference that is inexact, but what it is the difference of.
    assert maker.own > 25 and maker.total == worst.total == inf
    assert "its result in int8 leaves 'difference' " in maker.reason
    assert maker.reason.endswith(" dB of signal to noise, the bound is 25 dB")
    assert errors["last"].total > 25 and not errors["last"].reason
    quantise(made.ctx, made.module)
    kinds = [op.name for op in main_function(made.module).body.block.ops]
    assert kinds.count("graph.requantize") == kinds.count("graph.quantize") == 1
    assert made.reasons()["difference"].text == worst.reason
    assert made.reasons()["relu"].text == made.reasons()["first"].text == maker.reason
    assert {found.kind for found in made.reasons().values()} == {ReasonKind.PRECISION}


def test_a_bound_that_nothing_meets_leaves_everything_on_the_host() -> None:
    made = prepared(network())
    errors = made.errors(least=1000)
    assert [error.total for error in errors] == [inf] * 3
    assert {error.node for error in errors if error.reason} == {"first", "difference", "last"}
    quantise(made.ctx, made.module)
    assert "graph.quantize" not in {op.name for op in made.module.walk()}


def test_other_samples_may_be_measured_on() -> None:
    made = prepared(network())
    here = {error.node: error.own for error in made.errors()}
    there = {error.node: error.own for error in made.errors(samples={"x": 0.1 * SAMPLES, "y": [0]})}
    assert all(there[node] < here[node] for node in here)
    with pytest.raises(CompileError, match="no input 'z'"):
        made.errors(samples={"z": SAMPLES})


def test_channels_that_were_enlarged_are_compared_as_what_they_stand_for() -> None:
    rng = np.random.default_rng(3)
    first = rng.normal(size=(4, 4, 1, 1)) * np.array([1, 0.2, 0.1, 0.05]).reshape(4, 1, 1, 1)
    weights = {"w": first, "v": rng.normal(size=(4, 1, 3, 3))}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], "first"),
        helper.make_node("Conv", ["a", "v"], ["y"], "depthwise", group=4),
    ]
    floats32 = {name: array.astype(np.float32) for name, array in weights.items()}
    made = prepared(small_model(nodes, {"x": [1, 4, 5, 5]}, ["y"], floats32))
    assert all(error.total > 30 for error in made.errors())
    assert any(layer.stored[0].factors is not None for layer in made.layers())


def test_what_is_exact_has_no_noise() -> None:
    rng = np.random.default_rng(2)
    weights = {"w": rng.integers(-1, 2, (3, 4, 1, 1)).astype(np.float32)}
    model = small_model(
        [helper.make_node("Conv", ["x", "w"], ["y"], "conv")], {"x": [1, 4, 5, 5]}, ["y"], weights
    )
    made = prepared(model, rng.integers(-3, 4, (4, 4, 5, 5)).astype(np.float32))
    assert made.errors(least=100) == (LayerError("conv", ("conv",), inf, inf),)


def test_nodes_are_kept_with_what_they_became_part_of() -> None:
    made = prepared(network())
    notes = keep_float(made.module, made.nodes, ["norm", "relu"])
    assert notes == ["node 'norm' is part of 'last', which is kept with it"]
    kept = HostReason("kept by the user", ReasonKind.USER, "Leave --keep-float away.")
    assert made.reasons() == {"last": kept, "relu": kept}
    quantise(made.ctx, made.module)
    stays = [op for op in main_function(made.module).body.block.ops if host_reason(op) == kept]
    assert [op.name for op in stays] == ["graph.relu", "graph.conv"]
    assert list(made.reasons()) == ["relu", "last"]


def test_every_name_that_is_no_node_is_told_with_the_nearest() -> None:
    made = prepared(network())
    with pytest.raises(CompileError) as error:
        keep_float(made.module, made.nodes, ["lost", "first", "frist", "zebra"])
    assert [problem.where for problem in error.value.problems] == [
        f"--keep-float {name}" for name in ("lost", "frist", "zebra")
    ]
    assert "(did you mean last?)" in error.value.problems[0].what
    assert "(did you mean first?)" in error.value.problems[1].what
    assert not made.reasons()


def test_what_is_not_left_in_integers_is_no_layer() -> None:
    """The division of a GELU is rounded at first, but runs on the host with what reads it."""
    model, samples = encoder.build(1, 16, 32, 2), encoder.samples(2, 16, 32)
    module = vtac.compile(model, "pynq", samples, layer_errors=True)
    found = {error.node for error in module.report.layer_errors}
    assert "layer0.gelu.div" not in found
    assert {"layer0.up.product", "layer0.attention.scores"} <= found
