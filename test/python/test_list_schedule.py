"""Orders of random programs by the list schedule, by program order and by urgency."""

import random

import numpy as np
import pytest
from clock_programs import load

from vtac.dialects.target import CORE, Memory, Target, machine_of
from vtac.dialects.vta.encoding import Finish, encode
from vtac.passes import side_by_side
from vtac.passes.vta import order_instructions
from vtac.passes.vta.list_schedule import ListSchedule, Occupation, run, transfer_work, urgencies
from vtac.passes.vta.order_instructions import MARGIN, better_order
from vtac.passes.vta.precedence import Span, predecessors
from vtac.sim import estimate

TARGET = machine_of("chisel-pynq")
SPACES = (Memory.ACC, Memory.INP, "buffer")


def program(seed: int) -> tuple[list[Occupation], list[set[int]]]:
    """Random instructions, and for each those that it must follow."""
    chosen = random.Random(seed)
    computing = set(CORE.runs.values())
    work, spans = list[Occupation](), list[list[Span]]()
    for _ in range(60):
        module = chosen.choice(CORE.modules)
        loads = module in CORE.loaders or (module in computing and chosen.random() < 0.2)
        cycles = chosen.choice((8, 40, 300))
        work.append(Occupation(module, 0, cycles) if loads else Occupation(module, cycles))
        spans.append([])
        for _ in range(chosen.randint(0, 2)):
            start = chosen.randint(0, 60)
            end = start + chosen.randint(1, 8)
            spans[-1].append(Span(chosen.choice(SPACES), start, end, chosen.random() < 0.4))
    return work, predecessors([each.module for each in work], spans)


def both(seed: int) -> tuple[ListSchedule, ListSchedule]:
    """A random program run by program order, and by urgency."""
    work, before = program(seed)
    first = run(TARGET, work, before)
    return first, run(TARGET, work, before, urgency=urgencies(TARGET, work, before, first.starts))


@pytest.mark.parametrize("seed", range(30))
def test_every_order_keeps_to_the_predecessors(seed: int) -> None:
    work, before = program(seed)
    values = random.Random(seed).choices(range(5), k=len(work))
    for found in (*both(seed), run(TARGET, work, before, urgency=values)):
        places = {number: place for place, number in enumerate(found.order)}
        assert sorted(places) == list(range(len(work)))
        for number, numbers in enumerate(before):
            assert all(places[earlier] < places[number] for earlier in numbers)
            assert all(found.starts[earlier] < found.starts[number] for earlier in numbers)


@pytest.mark.parametrize("seed", range(30))
def test_who_must_come_before_another_is_more_urgent(seed: int) -> None:
    work, before = program(seed)
    found = urgencies(TARGET, work, before, run(TARGET, work, before).starts)
    for number, numbers in enumerate(before):
        assert all(found[earlier] > found[number] for earlier in numbers)


def test_urgency_gains_on_average() -> None:
    cycles = [(first.cycles, urgent.cycles) for first, urgent in map(both, range(60))]
    assert sum(urgent for _, urgent in cycles) < 0.99 * sum(first for first, _ in cycles)


@pytest.mark.parametrize("least", [0, 1 << 30], ids=["beside", "here"])
@pytest.mark.parametrize("seed", range(30))
def test_the_better_order_is_the_faster_one_by_a_margin(
    seed: int, least: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(side_by_side, "_may_fork", lambda: True)
    monkeypatch.setattr(order_instructions, "MANY_INSTRUCTIONS", least)
    work, before = program(seed)
    kept = run(TARGET, work, before, keep_order=True)
    first, urgent = both(seed)
    gains = first.cycles - urgent.cycles >= first.cycles // MARGIN
    best = urgent if gains else first
    expected = best.order if best.cycles < kept.cycles else None
    assert better_order(TARGET, work, before) == expected


@pytest.mark.parametrize("seed", range(8))
def test_fetch_takes_beats_that_loads_then_wait_for(seed: int) -> None:
    """Loads one after the other start as by the clock, which without fetch they do not."""
    chosen = random.Random(seed)
    target = Target.named("chisel-pynq")
    target = target.replace(timing=target.timing.replace(fetch_batch=chosen.choice((16, 64, 128))))
    sizes = [chosen.randint(1, 60) for _ in range(chosen.randint(300, 500))]
    *loads, last = (load(Memory.INP, 1 << 16, 1, size) for size in sizes)
    program = [*loads, load(Memory.INP, 1 << 16, 1, last.x_size, push_next=True)]
    report = estimate(target, encode(target, [*program, Finish(pop_prev=True)]))
    starts = report.timeline.start[: len(sizes)] - report.timeline.start.min()
    work = [transfer_work(target, Memory.INP, 1, size) for size in sizes]
    free: list[set[int]] = [set() for _ in work]
    near, far = (run(target, work, free, fetches=fetches).starts for fetches in (True, False))
    assert np.abs(starts - near).max() <= 10
    assert np.abs(starts - far).max() > 100


@pytest.mark.parametrize("seed", range(10))
def test_fetch_that_waits_for_room_holds_up_no_instruction(seed: int) -> None:
    work, before = program(seed)
    rates = TARGET.timing.replace(fetch_batch=4, queue_depth=2, fetch_ahead=seed % 2 == 0)
    found = run(TARGET.replace(timing=rates), work, before, fetches=True)
    assert sorted(found.order) == list(range(len(work)))
    for number, numbers in enumerate(before):
        assert all(found.starts[earlier] < found.starts[number] for earlier in numbers)
    assert found.cycles >= max(found.starts)
