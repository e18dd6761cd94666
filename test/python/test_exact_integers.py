"""The oracle of whole networks judges launches behind operators that the host alone knows, too."""

from dataclasses import replace
from random import Random

import numpy as np
import onnx
import pytest
from exact_integers import Array, Oracle
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper

import vtac
from vtac.runtime.engine import LaunchOptions, LaunchResult
from vtac.runtime.engines.vta import VtaSession

CHANNELS, EXTENT = 4, 6


def network(random: Random, parts: int) -> onnx.ModelProto:
    """Convolutions with operators of the host between them; a part may also read an earlier one."""
    rng = np.random.default_rng(random.randrange(1 << 30))
    nodes, weights, values = [], [], ["x"]
    for part in range(parts):
        weight = rng.normal(0, 0.3, (CHANNELS, CHANNELS, 3, 3)).astype(np.float32)
        weights.append(numpy_helper.from_array(weight, f"w{part}"))
        source = values[-1]
        nodes.append(helper.make_node("Conv", [source, f"w{part}"], [f"c{part}"], pads=[1] * 4))
        last = f"c{part}"
        if part and random.random() < 0.5:  # joins what the host made and what a launch returned
            nodes.append(helper.make_node("Add", [last, random.choice(values[1:])], [f"a{part}"]))
            last = f"a{part}"
        nodes.append(helper.make_node("Relu", [last], [f"r{part}"]))
        if part < parts - 1:
            kind = random.choice(("LRN", "Sin"))
            size = {"size": 3} if kind == "LRN" else {}
            nodes.append(helper.make_node(kind, [f"r{part}"], [f"h{part}"], **size))
            values.append(f"h{part}")
    shape = [1, CHANNELS, EXTENT, EXTENT]
    ends = [helper.make_tensor_value_info(n, 1, shape) for n in ("x", f"r{parts - 1}")]
    graph = helper.make_graph(nodes, "parts", ends[:1], ends[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def judged(random: Random, parts: int) -> tuple[vtac.Module, Oracle]:
    """A compiled network of so many launches, and its oracle for two inputs."""
    rng = np.random.default_rng(random.randrange(1 << 30))
    samples: Array = rng.normal(size=(5, 1, CHANNELS, EXTENT, EXTENT)).astype(np.float32)
    oracle = Oracle([{"x": sample} for sample in samples[:2]])
    options = {"target": random.choice(("pynq", "sim")), "calibration": samples}
    return vtac.compile(network(random, parts), observe=oracle.observe, **options), oracle


@settings(max_examples=12)
@given(st.randoms(use_true_random=False), st.integers(2, 4))
def test_launches_behind_the_host_are_compared(random: Random, parts: int) -> None:
    module, oracle = judged(random, parts)
    found = oracle.judge(module)
    assert found.launches == parts and not found.differences
    returned = 2 * 3 * parts * CHANNELS * EXTENT**2
    assert found.integers >= returned, "what every launch returned was compared"


@pytest.mark.parametrize("seed", range(6))
def test_a_wrong_integer_behind_the_host_is_found(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = Random(seed)
    parts = random.randint(2, 4)
    module, oracle = judged(random, parts)
    assert not oracle.judge(module, orders=(None,)).differences
    broken = random.randrange(1, parts)
    launch, count = VtaSession.launch, 0

    def wrong(
        self: VtaSession, function: str, inputs: list[Array], options: LaunchOptions
    ) -> LaunchResult:
        nonlocal count
        result = launch(self, function, inputs, options)
        count += 1
        if count != broken + 1:
            return result
        first, *others = (np.array(output) for output in result.outputs)
        first.reshape(-1)[0] ^= 1
        return replace(result, outputs=[first, *others])

    monkeypatch.setattr(VtaSession, "launch", wrong)
    differences = oracle.judge(module, orders=(None,)).differences
    assert differences and f"vta_{broken}, returned: 1 of" in differences[0]
