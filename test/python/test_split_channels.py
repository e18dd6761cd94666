"""Large channels between dense layers: a part of their own, the same function, a smaller error."""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from small_models import run, small_model
from xdsl.dialects.builtin import ModuleOp

import vtac
from vtac.dialects.context import VtacContext
from vtac.dialects.graph import ConcatOp
from vtac.lowering.graph_to_onnx import host_model
from vtac.passes.graph.split_channels import SplitChannelsPass

Array = np.ndarray[Any, np.dtype[Any]]

WIDTH, INNER, ROWS = 32, 512, 16


def network(
    large: Sequence[int], factor: float, *, gelu: str = "Gelu", ends: Sequence[str] = ("y",),
    seed: int = 0, bias: bool = True, transposed: bool = False,
) -> onnx.ModelProto:  # fmt: skip
    """Two dense layers around a function; some channels between them are ``factor`` as large."""
    rng = np.random.default_rng(seed)
    up = rng.normal(0, 0.15, (WIDTH, INNER)).astype(np.float32)
    up[:, list(large)] *= factor
    down = rng.normal(0, 0.1, (INNER, WIDTH)).astype(np.float32)
    weights = {"up": up.T.copy() if transposed else up, "down": down.T if transposed else down}
    weights["scale"] = np.ones(WIDTH, np.float32)
    weights |= {"offset": rng.normal(0, 0.1, INNER).astype(np.float32)} if bias else {}
    attribute = {"transB": 1} if transposed else {}
    nodes = [
        helper.make_node("Gemm", ["x", "up", *(["offset"] if bias else [])], ["a"], **attribute),
        *([helper.make_node("Gelu", ["a"], ["b"])] if gelu == "Gelu" else _silu()),
        helper.make_node("Gemm", ["b", "down"], ["c"], **attribute),
        helper.make_node("LayerNormalization", ["c", "scale"], ["y"]),
    ]
    return small_model(nodes, {"x": (ROWS, WIDTH)}, ends, weights, opset=20)


def _silu() -> list[onnx.NodeProto]:
    return [
        helper.make_node("Sigmoid", ["a"], ["s"]),
        helper.make_node("Mul", ["a", "s"], ["b"]),
    ]


def samples(count: int, seed: int = 7) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    return {"x": rng.normal(0, 1, (count * ROWS, WIDTH)).astype(np.float32)}


def levels(
    model: onnx.ModelProto, machine: str, count: int = 6, **options: Any
) -> tuple[vtac.Module, onnx.ModelProto, int]:
    """The module, its integers as an ONNX model, and how many concatenations these take apart."""
    found: dict[str, Any] = {}

    def observe(level: str, module: ModuleOp, ctx: VtacContext) -> None:
        if level == "calibrated":
            found["splits"] = len(concats(split(module, ctx)))
        elif level == "quantised":
            found["integers"] = host_model(module, ctx)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ranges from few samples
        module = vtac.compile(model, machine, samples(count), observe=observe, **options)
    return module, found["integers"], found["splits"]


def split(module: ModuleOp, ctx: VtacContext) -> ModuleOp:
    copy = module.clone()
    SplitChannelsPass().apply(ctx.clone(), copy)
    copy.verify()
    return copy


def concats(module: ModuleOp) -> list[ConcatOp]:
    return [op for op in module.walk() if isinstance(op, ConcatOp)]


def error(module: vtac.Module, model: onnx.ModelProto) -> float:
    wrong = right = 0.0
    for seed in range(20, 24):
        batch = samples(1, seed)
        (expected,) = run(model, batch)
        wrong += float(np.square(module.run(batch)["y"] - expected).sum())
        right += float(np.square(expected).sum())
    return float(np.sqrt(wrong / right))


@pytest.mark.parametrize("machine", ["sim", "pynq"])
@pytest.mark.parametrize("gelu", ["Gelu", "silu"])
def test_the_error_falls_and_the_integers_are_exact(gelu: str, machine: str) -> None:
    model = network((3, 200, 431), 12, gelu=gelu)
    module, integers, splits = levels(model, machine)
    assert splits == 1
    for seed in (20, 21):
        (exact,) = run(integers, samples(1, seed))
        np.testing.assert_allclose(module.run(samples(1, seed))["y"], exact, rtol=1e-5, atol=1e-5)
    whole, _, _ = levels(model, machine, pipeline=lambda p: p.without("split-channels"))
    assert error(module, model) < 0.6 * error(whole, model)


@pytest.mark.parametrize("seed", range(6))
def test_the_parts_are_the_same_function(seed: int) -> None:
    """In floats, whichever channels are large, with and without biases, in either order."""
    rng = np.random.default_rng(seed)
    large = rng.choice(INNER, rng.integers(1, 17), replace=False).tolist()
    model = network(large, float(rng.uniform(8, 30)), seed=seed, bias=bool(seed % 2),
                    transposed=seed % 3 == 0, gelu=("Gelu", "silu")[seed // 3])  # fmt: skip
    found: dict[str, Any] = {}

    def observe(level: str, module: ModuleOp, ctx: VtacContext) -> None:
        if level == "calibrated":
            copy = split(module, ctx)
            found["channels"] = [value.type.get_shape()[1] for value in concats(copy)[0].inputs]  # type: ignore[attr-defined]
            ctx = ctx.clone()
            copy = module.clone()
            SplitChannelsPass().apply(ctx, copy)
            found["model"] = host_model(copy, ctx)

    vtac.compile(model, "sim", samples(4), observe=observe)
    assert found["channels"] == [INNER - 16, 16]
    batch = samples(1, seed)
    np.testing.assert_allclose(
        run(found["model"], batch)[0], run(model, batch)[0], rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize(
    ("change", "options"),
    [
        ({"factor": 1.0}, {}),  # all channels are alike
        ({"large": range(0, INNER, 8)}, {}),  # too many are large
        ({"ends": ("y", "b")}, {}),  # what lies between is a result
        ({"ends": ("c",)}, {}),  # the accumulators are the result, and have one scale
        ({}, {"keep_float": ["a"]}),  # the user keeps the first layer
        ({}, {"count": 2}),  # too few batches were seen
    ],
)
def test_what_stays_whole(change: dict[str, Any], options: dict[str, Any]) -> None:
    form: dict[str, Any] = {"large": (5, 6), "factor": 12.0, **change}
    model = network(**form)
    for node in model.graph.node:
        node.name = node.output[0]
    assert levels(model, "sim", **options)[2] == 0


def named(model: onnx.ModelProto) -> onnx.ModelProto:
    for node in model.graph.node:
        node.name = node.output[0]
    return model


@pytest.mark.parametrize("machine", ["sim", "pynq"])
@pytest.mark.parametrize("gelu", ["Gelu", "silu"])
@pytest.mark.parametrize("seed", range(2))
def test_errors_of_the_parts_are_those_of_one_layer(gelu: str, machine: str, seed: int) -> None:
    """Channels that were compared with those of the other part would leave no signal at all."""
    rng = np.random.default_rng(seed)
    large = rng.choice(INNER, 3, replace=False).tolist()
    module, _, splits = levels(named(network(large, 12, gelu=gelu)), machine, layer_errors=True)
    assert splits == 1
    errors = {error.node: error for error in module.report.layer_errors}
    assert len(errors) == len(module.report.layer_errors)
    assert list(errors) == ["c", "b", "a"]  # worst first
    assert errors["a"].ops == errors["c"].ops == ("gemm",)
    assert errors["b"].ops == (
        ("mul", "activation", "add", "mul", "mul") if gelu == "Gelu" else ("activation", "mul")
    )
    assert all(error.total > 25 for error in errors.values())
    assert errors["a"].total == errors["a"].own  # its operand is an input


@pytest.mark.parametrize("machine", ["sim", "pynq"])
@pytest.mark.parametrize("node", ["a", "b"])
def test_a_layer_of_parts_below_the_bound_stays_on_the_host(node: str, machine: str) -> None:
    model = named(network((1, 2), 12))
    module, _, splits = levels(model, machine, layer_errors=True)
    assert splits == 1
    before = {error.node: error for error in module.report.layer_errors}
    bound = before[node].own + 0.1
    bounded, _, splits = levels(model, machine, min_layer_snr=bound)
    assert splits == 0
    after = {error.node: error for error in bounded.report.layer_errors}
    assert after[node].own == before[node].own
    assert after[node].reason == (
        f"its signal to quantisation noise is {before[node].own:.1f} dB, the bound is {bound:g} dB"
    )
    assert {place.node: place.where for place in bounded.explain}[node] == "host"
