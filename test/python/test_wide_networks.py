"""Wide and deep networks compile with few frames on the stack: nothing recurses over a network.

Under a recursion limit a little above what a small network needs, each kind of `wide_networks` has
so many operands, layers or branches that a recursion over them would exceed it.
"""

import inspect
import sys
from collections.abc import Iterator

import numpy as np
import onnxruntime
import pytest
from small_models import one_thread
from wide_networks import samples_of, wide_network

import vtac

FRAMES = 340
"""Frames that a compilation may need."""

KINDS = ["concat", "sum", "adds", "adds of constants", "initialisers", "relus"]
SLOW_KINDS = ["branches"]


@pytest.fixture
def few_frames() -> Iterator[None]:
    """A recursion limit; what is imported at first use is imported before."""
    before = sys.getrecursionlimit()
    small = wide_network("layers", 2)
    vtac.compile(small, "chisel-pynq", samples_of(small))
    sys.setrecursionlimit(len(inspect.stack()) + FRAMES)
    yield
    sys.setrecursionlimit(before)


@pytest.mark.parametrize(
    ("kind", "count"),
    [*((kind, 400) for kind in KINDS), *((kind, 180) for kind in SLOW_KINDS)],
)
@pytest.mark.usefixtures("few_frames")
def test_nothing_recurses_over_a_network(kind: str, count: int) -> None:
    model = wide_network(kind, count)
    samples = samples_of(model)
    module = vtac.compile(model, "chisel-pynq", samples)
    feeds = {name: array[:1] for name, array in samples.items()}
    session = onnxruntime.InferenceSession(model.SerializeToString(), one_thread())
    (wanted,) = session.run(None, feeds)
    (found,) = module.run(feeds).values()
    assert np.sqrt(np.mean((found - wanted) ** 2)) < 0.05 * wanted.std() + 1e-6
