"""What scratchpads and DRAM hold over time, against a plain account element by element."""

import encoder
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vtac
from vtac.dialects.target import Memory
from vtac.dialects.vta.attributes import BufferKind
from vtac.sim.timing.occupancy import SCRATCHPADS, Levels, LiveRanges

SPANS = st.lists(
    st.tuples(st.integers(0, 50), st.integers(1, 30), st.integers(0, 9)), min_size=0, max_size=12
)


def held(spans: list[tuple[int, int, int]], cycle: int) -> int:
    return sum(amount for start, length, amount in spans if start <= cycle < start + length)


@given(SPANS)
def test_levels_are_sums_of_what_is_held(spans: list[tuple[int, int, int]]) -> None:
    columns = [(start, start + length, amount) for start, length, amount in spans]
    levels = Levels.of(*np.array(columns, np.int64).reshape(-1, 3).T)
    for cycle in range(90):
        at = np.searchsorted(levels.cycles, cycle, side="right") - 1
        assert (levels.amounts[at] if at >= 0 else 0) == held(spans, cycle)
    assert levels.peak == max((held(spans, cycle) for cycle in range(90)), default=0)


@given(SPANS, st.integers(1, 20))
def test_samples_are_the_largest_amounts(spans: list[tuple[int, int, int]], count: int) -> None:
    columns = [(start, start + length, amount) for start, length, amount in spans]
    levels = Levels.of(*np.array(columns, np.int64).reshape(-1, 3).T)
    cycles = 90
    found = levels.sampled(cycles, count)
    parts = [[] for _ in range(count)]
    for cycle in range(cycles):
        parts[cycle * count // cycles].append(held(spans, cycle))
    for amount, part in zip(found, parts, strict=True):
        assert amount >= max(part)
    assert found.max() == levels.peak


ACCESSES = st.lists(
    st.tuples(st.booleans(), st.integers(0, 7), st.integers(1, 4), st.integers(1, 5)), max_size=30
)


@given(ACCESSES)
def test_live_ranges_end_with_the_last_read(accesses: list[tuple[bool, int, int, int]]) -> None:
    ranges = LiveRanges(12)
    now = 0
    history: list[list[tuple[bool, int, int]]] = [[] for _ in range(12)]
    for writes, first, length, cycles in accesses:
        elements = slice(first, first + length)
        if writes:
            ranges.write(elements, now)
        else:
            ranges.read(elements, now, now + cycles)
        for element in range(first, first + length):
            history[element].append((writes, now, now + cycles))
        now += cycles
    spans = [span for events in history for span in plain_ranges(events)]
    levels = ranges.levels()
    for cycle in range(now):
        at = np.searchsorted(levels.cycles, cycle, side="right") - 1
        expected = sum(start <= cycle < end for start, end in spans)
        assert (levels.amounts[at] if at >= 0 else 0) == expected


def plain_ranges(events: list[tuple[bool, int, int]]) -> list[tuple[int, int]]:
    """The live ranges of one element, of which each event is a write or a read."""
    found: list[tuple[int, int]] = []
    start, last = -1, -1
    for writes, begin, end in [*events, (True, 10**6, 10**6)]:
        if not writes:
            start, last = (begin if start < 0 else start), end
            continue
        if last >= 0:
            found.append((start, last))
        start, last = begin, -1
    return found


@pytest.fixture(scope="module")
def module() -> vtac.Module:
    return vtac.compile(encoder.build(1, 16, 32, 2), "pynq", encoder.samples(2, 16, 32))


def test_memories_of_a_network_are_used_and_never_overfull(module: vtac.Module) -> None:
    profile = module.profile()
    uses = module.memory_use(profile)
    assert len(uses) == len(profile.launches)
    for launch, use in zip(profile.launches, uses, strict=True):
        assert use is not None
        for memory in SCRATCHPADS:
            levels = use.scratchpads[memory]
            assert levels.amounts.min(initial=0) >= 0
            assert levels.peak <= use.depths[memory]
            assert levels.cycles.max(initial=0) <= launch.report.cycles
        assert use.scratchpads[Memory.ACC].peak > 0
        assert use.dram[BufferKind.INPUT].peak > 0 and use.dram[BufferKind.OUTPUT].peak > 0
        at_end = use.dram[BufferKind.OUTPUT].amounts[-2:]
        assert at_end[0] == use.dram[BufferKind.OUTPUT].peak, "results stay to the end"
