"""Compilation takes steps linear in the size of a network: calls are counted, not time.

Each kind of `wide_networks` is compiled at a size and at twice that size. No function of vtac may
be called more than 2.5 times as often (a quadratic one would be called 4 times as often), beside a
constant number of calls. A function that only larger networks need at all is called more often
once; where one is, the network is doubled again, and a function that is called too often again is
a fault.
"""

import cProfile
import pstats
from pathlib import Path

import pytest
from wide_networks import samples_of, wide_network

import vtac

MOST_GROWTH = 2.5

CONSTANT = 400
"""Calls that a function may have beside those that grow."""

PACKAGE = str(Path(vtac.__file__).parent)

SCHEDULER = "passes/te/schedule/"
"""The room that is left out: how many schedules a kernel has depends on the sizes of its tiles."""

SIZES = {
    "sum": 80,
    "adds of constants": 100,
    "initialisers": 150,
    "concat": 150,
    "relus": 150,
    "layers": 30,
    "tower": 16,
    "outputs": 80,
}


def calls_of(kind: str, size: int) -> dict[str, int]:
    """How often each function of vtac is called while a network is compiled."""
    model = wide_network(kind, size)
    samples = samples_of(model)
    profile = cProfile.Profile()
    profile.runcall(vtac.compile, model, "chisel-pynq", samples)
    return {
        f"{Path(file).relative_to(PACKAGE)}:{line} {name}": calls
        for (file, line, name), (_, calls, *_) in pstats.Stats(profile).stats.items()  # type: ignore[attr-defined]
        if file.startswith(PACKAGE) and ".venv" not in file and SCHEDULER not in file
    }


def grown(small: dict[str, int], large: dict[str, int]) -> dict[str, tuple[int, int]]:
    """The functions that are called too often, with their calls in both networks."""
    return {
        name: (small.get(name, 0), calls)
        for name, calls in large.items()
        if calls > MOST_GROWTH * small.get(name, 0) + CONSTANT
    }


@pytest.mark.parametrize("kind", list(SIZES))
def test_calls_grow_with_the_size(kind: str) -> None:
    calls_of(kind, 5)
    size = SIZES[kind]
    small, large = calls_of(kind, size), calls_of(kind, 2 * size)
    faster = grown(small, large)
    if faster:
        again = grown(large, calls_of(kind, 4 * size))
        faster = {name: calls for name, calls in again.items() if name in faster}
    assert not faster
