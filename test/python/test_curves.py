"""Functions of one variable as clamped lines: the fit, its stated error, and whole networks."""

from collections.abc import Callable

import numpy as np
import pytest
from element_networks import ElementBuilder
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from network_comparison import TARGETS, assert_equals_reference, assert_exact
from random_networks import Value, finish

import vtac
from vtac.passes.approximation.integers import STORED
from vtac.passes.approximation.lines import STEEPEST, fitted

SHIFTING = sorted(name for name, target in TARGETS.items() if not target.alu_mul)
FUNCTIONS = {
    "hard swish": lambda x: x * np.clip(x / 6 + 1 / 2, 0, 1),
    "tanh": np.tanh,
    "parabola": lambda x: x * x / 6,
    "falling": lambda x: -3 * x,
    "constant": lambda x: 0 * x + 2,
}


@pytest.mark.parametrize("name", FUNCTIONS)
@given(reach=st.floats(0.1, 40), shift=st.integers(0, 12), tolerance=st.sampled_from([0.3, 0.5, 1]))
def test_lines_stay_within_the_tolerance(
    name: str, reach: float, shift: int, tolerance: float
) -> None:
    real = FUNCTIONS[name](STORED / 128 * reach)
    wanted = np.ldexp((real - real[0]) / max(np.abs(real).max() / 127, 1e-9), shift)
    if np.abs(np.diff(wanted)).max() > STEEPEST:
        return
    lines = fitted(wanted, tolerance * 2**shift)
    if lines is None:
        assert shift == 0, "only coarse slopes can miss the tolerance"
        return
    assert np.abs(lines.at(STORED) - wanted).max() <= tolerance * 2**shift + 1e-6
    assert all(abs(piece.slope) <= STEEPEST for piece in lines.pieces)
    for piece in lines.pieces:  # each is a line between two plateaus
        assert piece.height * piece.slope > 0 or len(lines.pieces) == 1
        assert set(piece.at(np.array([-(10**6), 10**6]))) == {0, piece.height}


def test_a_straight_line_is_one_line() -> None:
    lines = fitted(3.0 * np.arange(256), 0.5)
    assert lines is not None
    assert [piece.slope for piece in lines.pieces] == [3]
    assert (lines.at(STORED) == 3 * np.arange(256)).all()


@given(seed=st.integers(0, 10**6), scale=st.floats(0.5, 20))
def test_any_function_that_is_not_too_steep_has_lines(seed: int, scale: float) -> None:
    """Even one that goes up and down everywhere: at worst each integer has a line of its own."""
    steps = np.random.default_rng(seed).normal(0, scale, 255)
    wanted = np.concatenate([[0.0], np.cumsum(np.clip(steps, -100, 100))])
    lines = fitted(wanted, 0.5)
    assert lines is not None
    assert np.abs(lines.at(STORED) - wanted).max() <= 0.5


def _silu(build: ElementBuilder, x: str) -> str:
    return build.node("Mul", [build.node("Sigmoid", [x]), x])


def _gelu(build: ElementBuilder, x: str) -> str:
    numbers = [build.constant(np.array(number)) for number in (2**0.5, 1.0, 0.5)]
    curve = build.node("Erf", [build.node("Div", [x, numbers[0]])])
    product = build.node("Mul", [x, build.node("Add", [curve, numbers[1]])])
    return build.node("Mul", [product, numbers[2]])


def _square(build: ElementBuilder, x: str) -> str:
    return build.node("Mul", [x, x])


def _mish(build: ElementBuilder, x: str) -> str:
    return build.node("Mul", [x, build.node("Tanh", [build.node("Softplus", [x])])])


def _gate(build: ElementBuilder, x: str) -> str:
    return build.node("Mul", [x, build.node("HardSigmoid", [x], alpha=0.3)])


def _bounded(build: ElementBuilder, x: str) -> str:
    bounds = [build.constant(np.array(number)) for number in (-0.1, 0.8)]
    return build.node("Clip", [_silu(build, x), *bounds])


def _plain(operator: str, **attributes: float) -> Callable[[ElementBuilder, str], str]:
    return lambda build, x: build.node(operator, [x], **attributes)


FORMS = {
    "SiLU": _silu,
    "Gelu of five operators": _gelu,
    "square": _square,
    "Mish of three operators": _mish,
    "gate by a hard sigmoid": _gate,
    "SiLU between bounds": _bounded,
    "Sigmoid": _plain("Sigmoid"),
    "Tanh": _plain("Tanh"),
    "Elu": _plain("Elu", alpha=0.7),
    "Selu": _plain("Selu"),
    "Softplus": _plain("Softplus"),
    "Softsign": _plain("Softsign"),
    "Celu": _plain("Celu", alpha=0.5),
}
"""Functions of one variable, as nodes."""


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=3, suppress_health_check=[HealthCheck.too_slow])
@given(
    seed=st.integers(0, 1000),
    size=st.floats(0.05, 0.7),
    channels=st.sampled_from([3, 20]),
    target=st.sampled_from(sorted(TARGETS)),
)
def test_functions_of_one_variable_run_on_the_accelerator(
    form: str, seed: int, size: float, channels: int, target: str
) -> None:
    """In exact integers, which lie within the bound of the error; unless lines are too coarse."""
    build = ElementBuilder(None, False, np.random.default_rng(seed))  # type: ignore[arg-type]
    first, last = (
        build.constant(build.rng.normal(0, size, shape))
        for shape in ((8, channels, 3, 3), (channels, 8, 1, 1))
    )
    name = FORMS[form](build, build.node("Conv", ["x", first], pads=[1] * 4))
    name = build.node("Conv", [name, last])
    shape = (1, channels, 4, 5)
    network = finish(build, Value(name, shape, 0), shape, seed)
    module = assert_equals_reference(network, TARGETS[target])
    hosted = [placement.reason for placement in module.explain if placement.where == "host"]
    coarse = any("lines do not come within" in reason for reason in hosted)
    assert not hosted or (coarse and form in ("Softsign", "square", "SiLU between bounds"))


def test_a_function_that_only_the_host_reads_stays_there() -> None:
    """Its rounding would lose precision and win nothing."""
    build = ElementBuilder(None, False, np.random.default_rng(2))  # type: ignore[arg-type]
    weights = build.constant(build.rng.normal(0, 0.3, (8, 3, 3, 3)))
    name = build.node("Sigmoid", [build.node("Conv", ["x", weights], pads=[1] * 4)])
    network = finish(build, Value(name, (1, 8, 5, 6), 0), (1, 3, 5, 6), 3)
    module = vtac.compile(network.model, "pynq", network.samples)
    (hosted,) = [p for p in module.explain if p.where == "host"]
    assert hosted.op == "Sigmoid"
    assert "int8 would only lose precision" in hosted.reason


def test_values_that_others_read_end_a_function() -> None:
    """The sigmoid has a second reader, so that it is a value of its own."""
    build = ElementBuilder(None, False, np.random.default_rng(4))  # type: ignore[arg-type]
    weights = [build.constant(build.rng.normal(0, 0.3, (8, c, 3, 3))) for c in (3, 8)]
    x = build.node("Conv", ["x", weights[0]], pads=[1] * 4)
    gate = build.node("Sigmoid", [x])
    name = build.node("Add", [build.node("Mul", [x, gate]), gate])
    name = build.node("Conv", [name, weights[1]], pads=[1] * 4)
    network = finish(build, Value(name, (1, 8, 5, 6), 0), (1, 3, 5, 6), 5)
    assert_exact(network, TARGETS["1x16"], "auto")


@settings(max_examples=8, suppress_health_check=[HealthCheck.too_slow])
@given(
    seed=st.integers(0, 1000),
    size=st.floats(0.05, 1.5),
    channels=st.sampled_from([3, 8, 20]),
    target=st.sampled_from(SHIFTING),
)
def test_hard_swish_without_products(seed: int, size: float, channels: int, target: str) -> None:
    build = ElementBuilder(None, False, np.random.default_rng(seed))  # type: ignore[arg-type]
    name, before = "x", channels
    for after in (8, channels):
        weights = build.constant(build.rng.normal(0, size, (after, before, 3, 3)))
        name = build.node("Conv", [name, weights], pads=[1] * 4)
        name, before = build.node("HardSwish", [name]), after
    shape = (1, channels, 5, 6)
    network = finish(build, Value(name, shape, 0), shape, seed)
    module = vtac.compile(
        network.model, TARGETS[target], network.samples, criteria=vtac.Criteria(compare=False)
    )
    functions = [p for p in module.explain if p.op == "graph.hard_swish"]
    assert len(functions) == 2
    hosted = [placement for placement in functions if placement.where == "host"]
    assert all("do not come within" in placement.reason for placement in hosted)
    if not hosted:
        assert_exact(network, TARGETS[target], "auto")
