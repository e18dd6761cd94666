"""DepthToSpace and what is made of it: channels spread over space, on the accelerator."""

import numpy as np
import pytest
from element_networks import ElementBuilder
from network_comparison import TARGETS, assert_exact
from random_networks import Value, finish


@pytest.mark.parametrize("target", sorted(TARGETS))
@pytest.mark.parametrize("mode", ["DCR", "CRD"])
@pytest.mark.parametrize(
    ("channels", "size", "extents"),
    [(3, 2, (5, 4)), (16, 2, (3, 6)), (32, 2, (7, 2)), (1, 3, (4, 5)), (20, 2, (2, 3))],
)
def test_channels_are_spread_exactly(
    target: str, mode: str, channels: int, size: int, extents: tuple[int, int]
) -> None:
    build = ElementBuilder(None, True, np.random.default_rng(7))  # type: ignore[arg-type]
    shape = (1, 5, *extents)
    weights = build.rng.integers(-1, 2, (channels * size**2, 5, 1, 1))
    weights[:, 1:] = 0
    name = build.node("Conv", ["x", build.constant(weights)])
    name = build.node("DepthToSpace", [name], blocksize=size, mode=mode)
    result = (1, channels, extents[0] * size, extents[1] * size)
    network = finish(build, Value(name, result, 3), shape, 3)
    assert_exact(network, TARGETS[target], "channel")
