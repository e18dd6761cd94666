"""Memory channels that come from outside: one machine's are as before, several machines contend."""

import random

import numpy as np
import pytest
from clock_programs import load, random_program, store

from vtac.dialects.target import Memory, Target, TimingPreset
from vtac.dialects.vta.encoding import Finish, Instruction, encode
from vtac.sim.timing.channels import Channels
from vtac.sim.timing.machine import CoreClock, Timeline
from vtac.sim.timing.together import run
from vtac.sim.timing.work import prepare

TARGET = Target.named("chisel-pynq")
LONG, SHORT = TimingPreset.named("chisel-pynq"), TimingPreset.named("chisel-de10")
HLS = TimingPreset.named("hls-pynq")
SPLIT = LONG.replace(read_channels=3)


def machine(
    preset: TimingPreset, program: list[Instruction], channels: Channels, unit: int = 0
) -> CoreClock:
    return CoreClock(preset, prepare(TARGET, preset, encode(TARGET, program)), channels, unit)


def alone(preset: TimingPreset, program: list[Instruction]) -> Timeline:
    return run([machine(preset, program, Channels.of(preset))])[0]


def together(preset: TimingPreset, *programs: list[Instruction]) -> list[Timeline]:
    """Each program on a machine of its own, all of them on the same memory."""
    channels = Channels.shared(preset, len(programs))
    return run([machine(preset, program, channels, unit) for unit, program in enumerate(programs)])


def assert_same(one: Timeline, other: Timeline) -> None:
    """Assert that all is the same up to the start of FINISH; what ends later may not be known."""
    assert one.cycles == other.cycles
    ends = (np.minimum(found.end, found.cycles + 1) for found in (one, other))
    np.testing.assert_array_equal(*ends, err_msg="end")
    for name in ("start", "dispatched", "edges"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


@pytest.mark.parametrize("preset", [LONG, SHORT, HLS, SPLIT], ids=["long", "short", "hls", "split"])
@pytest.mark.parametrize("seed", range(25))
def test_one_machine_on_shared_channels_is_a_machine_alone(preset: TimingPreset, seed: int) -> None:
    program = random_program(TARGET, random.Random(seed), 60)
    assert_same(alone(preset, program), together(preset, program)[0])


@pytest.mark.parametrize("seed", range(10))
def test_machines_with_channels_of_their_own_do_not_meet(seed: int) -> None:
    programs = [random_program(TARGET, random.Random(10 * seed + n), 40) for n in range(3)]
    machines = [
        machine(LONG, program, Channels.of(LONG), unit) for unit, program in enumerate(programs)
    ]
    for program, found in zip(programs, run(machines), strict=True):
        assert_same(alone(LONG, program), found)


def test_two_loads_on_one_memory() -> None:
    # Both machines ask for two instructions in cycle 2. Machine 0 is first: served in 19, its four
    # beats end in 23; machine 1 asks in 3 and is served right behind, until 27. Dispatch is 2
    # later, S 2 after that, so the loads start in 27 and 31 and ask in 28 and 32. The memory is
    # idle in 28: machine 0 is served in 45, its 16 beats end in 61, E is 65 and FINISH starts in
    # 66. Machine 1 asked in 32, before 45: its beats follow until 77, and FINISH starts in 82.
    program = [load(Memory.INP, 4096, 1, 8, push_next=True), Finish(pop_prev=True)]
    assert alone(SHORT, program).cycles == 66
    assert [found.cycles for found in together(SHORT, program, program)] == [66, 82]


def test_two_stores_on_one_memory() -> None:
    # The STOREs start in 27 and 31, after the fetches as above. The first holds the channel for
    # 6 cycles, until 33; the second has to wait for that and ends in 39. FINISH follows at E + 1.
    program = [store(8192, 1, 1, push_prev=True), Finish(pop_next=True)]
    assert alone(SHORT, program).cycles == 34
    assert [found.cycles for found in together(SHORT, program, program)] == [34, 40]


@pytest.mark.parametrize("count", [2, 3, 4])
def test_streams_share_the_port_in_turn(count: int) -> None:
    """As many bytes take as many cycles, whoever they are for, and nobody is left behind."""
    rows = 30
    program = [load(Memory.INP, 4096, rows, 40, push_next=True), Finish(pop_prev=True)]
    cycles = [found.cycles for found in together(LONG, *[program] * count)]
    beats = 2 * 40 * rows
    assert count * beats <= max(cycles) <= count * beats + 100
    assert min(cycles) > (count - 1) * beats


@pytest.mark.parametrize("seed", range(10))
def test_sharing_a_memory_costs_time(seed: int) -> None:
    programs = [random_program(TARGET, random.Random(100 * seed + n), 40) for n in range(3)]
    found = together(SHORT, *programs)
    apart = [alone(SHORT, program).cycles for program in programs]
    assert sum(timeline.cycles for timeline in found) > sum(apart)
