"""Zero points and enlarged channels: what the readers of a value allow."""

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from small_models import run as run_onnx
from small_networks import Network, find, main_of, ops_of, quantised, run, set_ranges_from
from xdsl.ir import Operation, SSAValue

from vtac.dialects import graph
from vtac.dialects.context import VtacContext
from vtac.dialects.graph.ranges import set_range
from vtac.lowering.graph_to_onnx import build_model
from vtac.passes.graph.float_groups.groups import find_groups
from vtac.passes.graph.float_groups.network import Network as PlannedNetwork
from vtac.passes.graph.quantize import QuantizePass, error_bounds
from vtac.passes.graph.quantize.equalisation import FEWEST, find_factors


class Known:
    """Observations of which only magnitudes are known, and what single ops compute."""

    def __init__(
        self,
        ctx: VtacContext,
        magnitudes: Mapping[SSAValue, Sequence[float] | np.ndarray],
        batches: Sequence[Sequence[np.ndarray]],
    ):
        self.ctx, self.magnitudes, self.batches = ctx, magnitudes, batches

    def mean(self, value: SSAValue) -> None:
        return None

    def power(self, value: SSAValue) -> None:
        return None

    def largest(self, value: SSAValue) -> np.ndarray | None:
        found = self.magnitudes.get(value)
        return None if found is None else np.array(found)

    def describe_part(
        self, whole: SSAValue, part: SSAValue, channels: np.ndarray, number: int
    ) -> None:
        pass

    def describe_copy(self, op: Operation, copy: Operation) -> None:
        pass

    def evaluate(self, op: Operation, batches: Sequence[Sequence[np.ndarray]]) -> list[list]:
        operands = list(dict.fromkeys(op.operands))
        names = {value: f"x{number}" for number, value in enumerate(operands)}
        model = build_model([op], operands, op.results, names, self.ctx, {})
        results = []
        for batch in batches:
            feeds = {names[value]: x for value, x in zip(op.operands, batch, strict=True)}
            results.append(run_onnx(model, feeds))
        return results

    def quantised(self, stored: object) -> None:
        """Nobody asks afterwards."""


@pytest.mark.parametrize("reader", ["valid", "padded", "pool", "skip"])
def test_values_after_a_relu_use_all_of_int8(reader: str) -> None:
    """All ranges have whole steps of 1: answers are exact, but only 255 steps reach 255."""
    net = Network((1, 2, 4, 4))
    (x,) = net.inputs
    y = net.relu(net.conv(x, np.array([2, 1, -1, 3]).reshape(2, 2, 1, 1), np.array([3, -2])))
    w = np.ones((2, 2, 2, 2))
    z = {
        "valid": lambda: net.conv(y, w),
        "padded": lambda: net.conv(y, w, pads=[1, 1, 0, 0]),
        "pool": lambda: net.relu(net.pool(graph.MaxPoolOp, y, [2, 2], pads=[1, 1, 0, 0])),
        "skip": lambda: net.add(net.conv(x, w[:, :, :1, :1]), y),
    }[reader]()
    module = net.module(z)
    set_range(x, -128, 127)
    set_range(y, 0, 255)
    if reader == "pool":
        set_range(z.owner.operands[0], 0, 255)
    set_range(z, *((0, 255) if reader == "pool" else (-4096, 4064)))
    out = quantised(net, module)
    first = find(out, graph.RequantizeOp)[0]
    zero_point, scale = first.zero_point.value.data, first.scale.value.data
    assert (zero_point, scale) == (-128, 1.0)
    pads = [op.properties["pad_value"].value.data for op in find(out, graph.ConvOp)[1:]
            if "pad_value" in op.properties]  # fmt: skip
    assert pads == ([-128] if reader == "padded" else [])
    rng = np.random.default_rng(0)
    inputs = [rng.integers(-40, 41, (1, 2, 4, 4)).astype(np.float32)]
    (expected,), (actual,) = run(module, net.ctx, inputs), run(out, net.ctx, inputs)
    (bound,) = error_bounds(main_of(out))
    assert bound is not None and np.abs(actual - expected).max() <= bound
    steps = 1 if reader == "pool" else 32
    np.testing.assert_array_equal(actual, np.floor(expected / steps + 0.5) * steps)


def test_channels_are_enlarged_for_a_depthwise_reader() -> None:
    net = Network((1, 2, 4, 4))
    (x,) = net.inputs
    y = net.relu(net.conv(x, np.array([1, 0, 0, 1 / 16]).reshape(2, 2, 1, 1), np.array([0, 1.0])))
    module = net.module(net.conv(y, np.ones((4, 1, 3, 3)), pads=[1, 1, 1, 1], group=2))
    rng = np.random.default_rng(0)
    samples = [[rng.uniform(-1, 1, (1, 2, 4, 4)).astype(np.float32)] for _ in range(3)]
    set_ranges_from(module, net.ctx, samples)
    set_range(y, 0, 10)
    plain, enlarged = module.clone(), module.clone()
    QuantizePass().apply(net.ctx, plain)
    relu = find(enlarged, graph.ReluOp)[0].result
    net.ctx.observations = Known(net.ctx, {relu: [10.0, 1.2]}, samples)
    QuantizePass().apply(net.ctx, enlarged)
    assert ops_of(enlarged) == ops_of(plain)
    wrong = []
    for out in (plain, enlarged):
        (bound,) = error_bounds(main_of(out))
        pairs = [(run(module, net.ctx, x)[0], run(out, net.ctx, x)[0]) for x in samples]
        wrong.append(max(np.abs(a - b)[:, 2:].max() for a, b in pairs))
        assert bound is not None and max(np.abs(a - b).max() for a, b in pairs) <= bound
    assert wrong[1] < wrong[0] / 2


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("most", [0.0, 10.0])
def test_dead_and_tiny_channels_divide_by_nothing(most: float) -> None:
    net = Network((1, 4, 3, 3))
    y = net.relu(net.conv(net.inputs[0], np.ones((4, 4, 1, 1)), np.zeros(4)))
    module = net.module(net.conv(y, np.ones((4, 1, 1, 1)), group=4))
    set_ranges_from(module, net.ctx, [[np.ones((1, 4, 3, 3), np.float32)]])
    set_range(y, 0, most)
    network = PlannedNetwork(net.ctx, main_of(module))
    magnitudes = np.array([0, np.float32(1e-45), most / 4, most], np.float32)
    groups = find_groups(network, {}, frozenset()).groups
    few = [[np.ones((1, 4, 3, 3), np.float32)]] * (FEWEST - 1)
    factors = find_factors(network, groups, Known(net.ctx, {y: magnitudes}, few + few[:1]))
    assert factors[y].tolist() == ([1, 16, 2, 1] if most else [1, 1, 1, 1])
    assert not find_factors(network, groups, Known(net.ctx, {y: magnitudes}, few))
