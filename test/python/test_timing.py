"""The clock on programs whose cycles are worked out by hand, and against its plain definition.

Where a test says S and E it means the first cycle in which an instruction's module is not idle and
the first in which it is idle again. A program's cycles are the S of its FINISH.
"""

import dataclasses
import random

import numpy as np
import pytest
from clock_programs import alu, gemm, load, random_preset, random_program, store, sync
from clock_reference import ReferenceClock

from vtac.dialects.target import CORE, LOAD, STORE, Memory, Target
from vtac.dialects.vta.encoding import AluOpcode, Finish, Instruction, encode
from vtac.sim import SimulationError, TimingPreset, TimingReport, estimate
from vtac.sim.tokens import module_of

CHISEL = Target.named("chisel-pynq")
LONG, SHORT = TimingPreset.named("chisel-pynq"), TimingPreset.named("chisel-de10")


def timed(preset: TimingPreset, *program: Instruction) -> TimingReport:
    """The report of a program with a FINISH behind it."""
    return estimate(CHISEL, encode(CHISEL, [*program, Finish()]), preset)


def spans(report: TimingReport) -> dict[int, tuple[int, int]]:
    """Start and end by instruction."""
    return {index: (start, end) for index, _, start, end in report.events.tolist()}


def alone(preset: TimingPreset, instruction: Instruction) -> int:
    """E - S of an instruction that nothing disturbs and that FINISH waits for."""
    exchanged = {
        LOAD: ({"push_next": True}, {"pop_prev": True}),
        STORE: ({"push_prev": True}, {"pop_next": True}),
    }
    pushes, pops = exchanged.get(module_of(instruction, CORE), ({}, {}))
    program = [dataclasses.replace(instruction, **pushes), Finish(**pops)]
    start, end = spans(estimate(CHISEL, encode(CHISEL, program), preset))[0]
    return end - start


@pytest.mark.parametrize("preset", [SHORT, LONG], ids=lambda preset: preset.name)
def test_1_a_lone_finish(preset: TimingPreset) -> None:
    # Fetch commands in cycle 1; the arbiter sees the request in 2 and takes it. The memory was
    # empty: served 17 cycles later, in 19; the two beats of one instruction pass in 20 and 21. It
    # is dispatched in 23, and S is 2 later.
    report = timed(preset)
    assert report.cycles == 25
    assert report.events.tolist() == [[0, 1, 25, 0]]


def test_2_syncs_take_one_cycle_and_one_between_them() -> None:
    # Seven syncs and FINISH are a chunk of 8: 16 beats, the last in 35; dispatched from 37 on, one
    # a cycle. The first S is 39, the next ones follow at E + 1: 2 cycles each.
    report = timed(SHORT, *[sync("compute")] * 7)
    assert report.events[:3, 2:].tolist() == [[39, 40], [41, 42], [43, 44]]
    assert report.cycles == 39 + 7 * 2


def test_3_fetch_does_not_look_ahead() -> None:
    # Eight syncs fill the first chunk; the last one is dispatched in 44, so the next command comes
    # in 46: request 47, served 64, last beat 66, dispatched 68. With chunks of 128 all nine are in
    # one: 18 beats, the last in 37, the ninth dispatched in 39 + 8; but the syncs need until 57.
    assert timed(SHORT, *[sync("compute")] * 8).cycles == 70
    assert timed(LONG, *[sync("compute")] * 8).cycles == 41 + 8 * 2


def test_4_micro_ops_take_a_cycle_or_two_and_six_an_instruction() -> None:
    assert alone(LONG, gemm(4, 9, 10)) == 360 + 6
    assert alone(LONG, gemm(8, 8, 1, reset=True)) == 64 + 6
    assert alone(LONG, alu(300)) == 300 + 6
    assert alone(LONG, alu(300, immediate=False)) == 2 * 300 + 6


def test_5_a_load_is_its_beats_and_22_cycles() -> None:
    # 1 from S to the request, 17 until it is served, the beats, and 4 from the last one to E; for
    # micro-ops 3. It does not matter how many requests there are, as long as each has two beats.
    assert alone(LONG, load(Memory.INP, 4096, 1, 8)) == 16 + 22
    assert alone(SHORT, load(Memory.INP, 4096, 40, 1, 128)) == 80 + 22
    assert alone(SHORT, load(Memory.WGT, 8192, 1, 40)) == 1280 + 22
    assert alone(SHORT, load(Memory.ACC, 4096, 24, 1)) == 192 + 22
    # 33 micro-ops of 4 bytes are 16.5 beats.
    assert alone(LONG, load(Memory.UOP, 4096, 1, 33)) == 17 + 21


def test_6_requests_of_one_beat_leave_the_memory_empty() -> None:
    # Rows of one micro-op. Requests leave every 2 cycles, in S + 1, S + 3, ...; the first is served
    # in S + 18 and the rest follow without a gap: six beats end in S + 24, E is 3 later.
    six = alone(SHORT, load(Memory.UOP, 4096, 6, 1))
    assert six == 6 + 21
    # But none leaves in the cycle of a last beat. Nine have left by S + 17; their beats pass in
    # S + 19 ... S + 27, so the tenth leaves in S + 28, 27 after the first, and all starts again.
    longer = alone(SHORT, load(Memory.UOP, 4096, 49, 1))
    assert longer - alone(SHORT, load(Memory.UOP, 4096, 40, 1)) == 27


def test_7_zeros_hide_in_the_latency_and_then_cost_a_cycle_each() -> None:
    # 4 x 6 with 2 rows above, 1 below, 1 left and right: 3 x 8 + 4 x 2 = 32 zeros, 20 + 2 hidden.
    pads = {"y_pad_0": 2, "y_pad_1": 1, "x_pad_0": 1, "x_pad_1": 1}
    assert alone(LONG, load(Memory.INP, 4096, 4, 6, **pads)) == 48 + 2 + 32
    # Few zeros: the two rows above only delay the first request, by a cycle each.
    assert alone(LONG, load(Memory.INP, 4096, 4, 6, y_pad_0=2)) == 48 + 2 + 22
    # Nothing beside the data and a row below: the machine walks over 60 rows first, but the 120
    # beats take longer: the zero comes after them.
    assert alone(LONG, load(Memory.INP, 4096, 60, 1, y_pad_1=1)) == 120 + 22 + 1


def test_8_a_store_pays_for_each_element_and_request() -> None:
    assert alone(LONG, store(4096, 1, 8)) == 8 * 3 + 3
    # 9 elements from the fourth of 8 on: with bursts of 16 beats 5 and 4 of them.
    assert alone(SHORT, store(4096 + 3 * 16, 1, 9)) == 9 * 3 + 2 * 3
    assert alone(LONG, store(4096 + 3 * 16, 1, 9)) == 9 * 3 + 3
    # Rows are never merged.
    assert alone(LONG, store(4096, 20, 1)) == 20 * (3 + 3)


def test_9_a_token_costs_nothing_but_the_cycle_between() -> None:
    program = [
        sync("load", push_next=True),
        sync("compute", pop_prev=True, push_prev=True),
        sync("load", pop_next=True, push_next=True),
        sync("compute", pop_prev=True),
    ]
    # Five instructions are dispatched from 31 on: S = 33 of the first, then E + 1 in turn.
    found = spans(timed(LONG, *program))
    assert [found[index] for index in range(4)] == [(33, 34), (35, 36), (37, 38), (39, 40)]


def test_10_the_reader_of_lower_priority_gets_what_it_has_queued() -> None:
    # Three instructions are 6 beats, dispatched from 27 on: S of ACC is 29, S of INP 30. They ask
    # in turn, ACC in 30, INP in 31, ..., until 16 requests are under way, INP's eighth in 45. From
    # then on every slot that falls free goes to INP.
    program = [
        load(Memory.ACC, 4096, 1, 64),
        load(Memory.INP, 65536, 1, 128, push_next=True),
        Finish(pop_prev=True),
    ]
    report = estimate(CHISEL, encode(CHISEL, program), SHORT)
    found = spans(report)
    assert (found[0][0], found[1][0]) == (29, 30)
    # The first is served in 30 + 17, and no gap follows: INP's 16 requests and 8 of ACC's come
    # first, each of 16 beats; then the rest of ACC's 32.
    assert found[1][1] == 47 + 24 * 16 + 4
    assert found[0][1] == 47 + 48 * 16 + 4


def test_11_a_full_queue_stops_fetch_for_everybody() -> None:
    # Two places in a queue: a GEMM of 100 runs, one sync waits, the next one blocks fetch, and
    # the store behind it comes late. E of the GEMM frees a place, refilled in that very cycle.
    preset = LONG.replace(queue_depth=2)
    program = [gemm(10, 10, 1), sync("compute"), sync("compute"), sync("store", push_prev=True)]
    report = estimate(CHISEL, encode(CHISEL, [*program, Finish(pop_next=True)]), preset)
    found = spans(report)
    # Dispatched from 31 on.
    assert found[0] == (33, 139)
    assert found[3][0] == 139 + 1 + 2
    assert report.timeline.full == [(33, 139)]


def test_12_finish_hides_what_ends_later() -> None:
    # The load runs on; its end is not logged, for the counter is cleared.
    report = timed(LONG, load(Memory.INP, 4096, 1, 100))
    assert report.events.tolist() == [[0, 0, 27, 0], [1, 1, 28, 0]]
    assert report.cycles == 28


@pytest.mark.parametrize("seed", range(60))
def test_equals_the_plain_definition_cycle_by_cycle(seed: int) -> None:
    rng = random.Random(seed)
    preset = random_preset(rng) if seed % 2 else rng.choice((LONG, SHORT))
    program = random_program(CHISEL, rng, rng.randint(3, 40))
    clock = ReferenceClock(CHISEL, preset, program).run()
    report = estimate(CHISEL, encode(CHISEL, program), preset)
    assert clock.cycles is not None
    assert report.cycles == clock.cycles
    ends = {i: end for i, end in clock.end.items() if end <= clock.cycles}
    expected = {
        i: (start, ends.get(i, 0)) for i, start in clock.start.items() if start <= clock.cycles
    }
    assert spans(report) == expected
    verify_accounts(report)


def verify_accounts(report: TimingReport) -> None:
    """Assert what holds for every report: each cycle is counted once, and none is below its lower
    bound."""
    total = report.total
    assert report.cycles >= total.lower_bound
    for module in CORE.modules:
        assert sum(total.modules[module].values()) == report.cycles
        assert all(count > 0 for count in total.modules[module].values())


@pytest.mark.parametrize("name", ["hls-pynq", "hls-ultra96", "chisel-pynq-ideal", "hls-pynq-ideal"])
@pytest.mark.parametrize("seed", range(10))
def test_no_machine_is_faster_than_its_bound(name: str, seed: int) -> None:
    rng = random.Random(seed)
    words = encode(CHISEL, random_program(CHISEL, rng, 60))
    report = estimate(CHISEL, words, name)
    verify_accounts(report)
    if name == "chisel-pynq-ideal":
        assert report.cycles <= estimate(CHISEL, words, LONG).cycles


def test_a_deadlock_names_who_waits_for_what() -> None:
    with pytest.raises(SimulationError, match="waits for a load to compute token") as caught:
        timed(LONG, sync("compute", pop_prev=True))
    assert caught.value.index == 0


def test_a_full_queue_can_deadlock() -> None:
    program = [*[sync("load", pop_next=True)] * 3, sync("compute", push_prev=True)]
    with pytest.raises(SimulationError, match="fetch waits at instruction 2"):
        timed(LONG.replace(queue_depth=2), *program)


def test_tokens_beyond_the_counter_are_lost() -> None:
    program = [*[sync("load", push_next=True)] * 3, *[sync("compute", pop_prev=True)] * 3]
    assert not timed(LONG, *program).warnings
    slow = [sync("compute", pop_next=True), *program, sync("store", push_prev=True)]
    with pytest.raises(SimulationError, match="deadlock"):
        timed(LONG.replace(token_depth=2), *slow)


def test_counts_of_zero_run_16384_times() -> None:
    report = timed(LONG, gemm(0, 1, 1))
    assert spans(report)[0][1] - spans(report)[0][0] == 16384 + 6
    assert "16384 times" in report.warnings[0]


def test_what_the_machine_cannot_run_is_an_error() -> None:
    sim = Target.named("sim")
    words = encode(sim, [dataclasses.replace(alu(1), alu_opcode=AluOpcode.MUL), Finish()])
    assert estimate(sim, words).cycles > 0
    with pytest.raises(SimulationError, match="does not decode it"):
        estimate(sim, words, "chisel-pynq")
    with pytest.raises(SimulationError, match="does not multiply"):
        estimate(CHISEL, words)
    with pytest.raises(SimulationError, match="never ends"):
        timed(LONG, load(Memory.INP, 4096, 0, 4))
    with pytest.raises(SimulationError, match="no FINISH"):
        estimate(CHISEL, encode(CHISEL, [sync("load")]))
    with pytest.raises(SimulationError, match="INP elements 0 to 2999"):
        timed(LONG, load(Memory.INP, 4096, 1, 3000))
    with pytest.raises(SimulationError, match=r"instruction 1: .*unknown opcode 7"):
        words = encode(CHISEL, [sync("load"), sync("load"), Finish()])
        words[1, 0] |= np.uint64(7)
        estimate(CHISEL, words)


def test_mutated_programs_give_times_or_diagnostics() -> None:
    rng = random.Random(1)
    for _ in range(300):
        words = encode(CHISEL, random_program(CHISEL, rng, 20))
        for _ in range(rng.randint(1, 3)):
            row, column = rng.randrange(len(words)), rng.randrange(2)
            words[row, column] ^= np.uint64(1 << rng.randrange(64))
        try:
            verify_accounts(estimate(CHISEL, words, rng.choice(("chisel-pynq", "chisel-de10"))))
        except SimulationError:
            continue
