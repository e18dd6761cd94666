"""The hazard checker of a cluster: correct programs pass, whatever is taken away is found."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from clock_programs import gemm, load, store, sync
from cluster_mutants import without_one
from cluster_programs import IMAGE, Program, random_cluster_program, words_of
from cluster_reachability import exchanges, has_race

from vtac.dialects.target import ClusterTarget, Memory
from vtac.dialects.target.windows import GB_BASE
from vtac.dialects.vta.dma import Copy, DmaFinish, Signal, Wait
from vtac.dialects.vta.encoding import Finish, Instruction
from vtac.sim import HazardKind, HazardReport
from vtac.sim.cluster import ClusterHazard, check_cluster, run_cluster

TWO = ClusterTarget.named("cluster-2").replace(gb_bytes=8192)
DONE = [Finish()]
NO_COPY = [DmaFinish()]


def cluster(cores: int) -> ClusterTarget:
    return ClusterTarget.named("cluster-8").replace(cores=cores, gb_bytes=8192)


def check(machine: ClusterTarget, streams: list[Any], image: Any = None) -> HazardReport:
    return check_cluster(machine, words_of(machine, streams), image)


def kinds(streams: list[Any], machine: ClusterTarget = TWO) -> set[HazardKind]:
    return {hazard.kind for hazard in check(machine, streams).hazards}


@pytest.mark.parametrize("cores", [1, 2, 3])
@pytest.mark.parametrize("seed", range(4))
def test_correct_programs_have_no_hazard(cores: int, seed: int) -> None:
    program = random_cluster_program(cluster(cores), seed, tasks=14)
    report = check(program.cluster, program.streams, program.image)
    assert report.ok and report.exact, str(report)
    assert not has_race(program.cluster, program.streams)


@pytest.mark.parametrize("cores", [1, 2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_anything_taken_away_is_found(cores: int, seed: int) -> None:
    program = random_cluster_program(cluster(cores), seed, tasks=9)
    count = 0
    for _, streams in without_one(program.cluster, program.streams):
        found = check(program.cluster, streams, program.image)
        assert not found.ok or not has_race(program.cluster, streams)
        fence = sum(map(len, streams)) < sum(map(len, program.streams))
        assert not found.ok or fence, "only a signal of the DMA to itself may be one too many"
        count += 1
    assert count > 30


def without_an_edge(program: Program) -> Iterator[list[Any]]:
    """The streams without a token or a signal and that which takes it."""
    machine = program.cluster
    queues: dict[Any, tuple[list[Any], list[Any]]] = {}
    for unit, stream in enumerate(program.streams):
        for index, x in enumerate(stream):
            pops, pushes = exchanges(machine, (unit, index), x)
            for side, names in enumerate((pops, pushes)):
                for name in names:
                    queues.setdefault(name, ([], []))[side].append((unit, index))
    for name, (pops, pushes) in queues.items():
        for pop, push in zip(pops, pushes, strict=True):
            streams = [list(stream) for stream in program.streams]
            for (unit, index), side in ((pop, "pop"), (push, "push")):
                x = streams[unit][index]
                streams[unit][index] = _unlinked(machine, x, name, side)
            yield [[x for x in stream if x is not None] for stream in streams]


def _unlinked(machine: ClusterTarget, x: Any, queue: Any, side: str) -> Any:
    if isinstance(x, Wait | Signal):
        return None
    if isinstance(queue[1], str):
        flag = {
            "lc": ("pop_prev", "push_next"),
            "cl": ("pop_next", "push_prev"),
            "cs": ("pop_prev", "push_next"),
            "sc": ("pop_next", "push_prev"),
        }[queue[1]]
        return replace(x, **{flag[side == "push"]: False})
    if x.y_size == 1:
        return replace(x, x_size=0)
    address = machine.semaphore_address(*queue) // 16
    other = x.dram_base if x.dram_base != address else x.dram_base + x.x_stride
    return replace(x, dram_base=other, y_size=1)


@pytest.mark.parametrize("cores", [1, 2, 3])
@pytest.mark.parametrize("seed", range(4))
def test_edges_are_judged_as_by_brute_force(cores: int, seed: int) -> None:
    program = random_cluster_program(cluster(cores), seed, tasks=8, elements=2)
    judged = []
    for streams in without_an_edge(program):
        found = check(program.cluster, streams, program.image)
        races = {hazard.kind for hazard in found.hazards} & {HazardKind.RACE, HazardKind.UNWRITTEN}
        finish = {hazard.kind for hazard in found.hazards} == {HazardKind.FINISH}
        judged.append(bool(races))
        if not finish:
            assert bool(races) == has_race(program.cluster, streams), str(found)
    assert any(judged)


def test_a_race_names_units_bytes_and_what_is_missing() -> None:
    write = [store(GB_BASE, 1, 4, push_prev=True), Finish(pop_next=True)]
    read = [load(Memory.INP, GB_BASE + 32, 1, 4, push_next=True), Finish(pop_prev=True)]
    (hazard,) = [
        found
        for found in check(TWO, [write, read, NO_COPY]).hazards
        if found.kind is HazardKind.RACE
    ]
    assert isinstance(hazard, ClusterHazard)
    assert hazard.steps == ((0, 0), (1, 0))
    text = str(hazard)
    assert "core0 instruction 0" in text and "GB bytes 0x1000020 to 0x100003f" in text
    assert "no tokens or signals from core0 store to core1 load" in text


def test_reads_of_unwritten_gb() -> None:
    read = [load(Memory.INP, GB_BASE, 1, 4, push_next=True), Finish(pop_prev=True)]
    assert HazardKind.UNWRITTEN in kinds([read, DONE, NO_COPY])


def test_copies_that_depend_need_a_signal_between() -> None:
    copies = [
        Copy(nbytes=64, source=8192, destination=GB_BASE),
        Copy(nbytes=64, source=GB_BASE, destination=16384),
    ]
    own = Signal(TWO.semaphore_number(2, 2))
    assert kinds([DONE, DONE, [*copies, DmaFinish()]]) == {HazardKind.RACE}
    assert not kinds([DONE, DONE, [copies[0], own, copies[1], DmaFinish()]])


def test_copies_of_eight_bytes_are_told_apart() -> None:
    copies = [
        Copy(nbytes=8, source=8192, destination=GB_BASE),
        Copy(nbytes=8, source=8192, destination=GB_BASE + 8),
    ]
    assert not kinds([DONE, DONE, [*copies, DmaFinish()]])
    again = replace(copies[1], destination=GB_BASE)
    assert kinds([DONE, DONE, [copies[0], again, DmaFinish()]]) == {HazardKind.RACE}


def test_deadlock_across_units() -> None:
    a_to_b, b_to_a = TWO.semaphore_address(0, 1), TWO.semaphore_address(1, 0)

    def core(wait: int, signal: int) -> list[Instruction]:
        return [
            load(Memory.INP, wait, 1, 1, push_next=True),
            sync("compute", pop_prev=True, push_next=True),
            store(signal, 1, 1, pop_prev=True, push_prev=True),
            Finish(pop_next=True),
        ]

    report = check(TWO, [core(b_to_a, a_to_b), core(a_to_b, b_to_a), NO_COPY])
    assert {hazard.kind for hazard in report.hazards} == {HazardKind.DEADLOCK}
    assert "core0 0 waits for a signal from core1 to core0" in str(report)


def test_full_queues_may_block_across_units() -> None:
    """Core 0's signal lies behind stores that wait for core 1, more than its queue holds."""
    machine = TWO.replace(queue_depth=4)
    a_to_b = machine.semaphore_address(0, 1)
    waiting = [sync("store", pop_prev=True) for _ in range(5)]
    first = [
        *waiting,
        *[sync("compute", push_next=True) for _ in range(5)],
        store(a_to_b, 1, 1, push_prev=True),
        Finish(pop_next=True),
    ]
    second = [load(Memory.INP, a_to_b, 1, 1, push_next=True), Finish(pop_prev=True)]
    assert kinds([first, second, NO_COPY], machine) == {HazardKind.DEADLOCK}
    assert not kinds([first, second, NO_COPY], TWO)


def test_counts_left_over_and_too_many() -> None:
    a_to_b = TWO.semaphore_address(0, 1)
    signals = [store(a_to_b, 1, 1) for _ in range(256)]
    end = [sync("store", push_prev=True), Finish(pop_next=True)]
    waits = [load(Memory.INP, a_to_b, 1, 1) for _ in range(256)]
    waited = [sync("load", push_next=True), Finish(pop_prev=True)]
    assert kinds([[*signals, *end], [*waits, *waited], NO_COPY]) == {HazardKind.OVERFLOW}
    assert kinds([[*signals[1:], *end], [*waits[2:], *waited], NO_COPY]) == {HazardKind.LEFTOVER}


@pytest.mark.parametrize("what", ["store", "signal", "wait"])
def test_what_no_finish_waits_for(what: str) -> None:
    a_to_b = TWO.semaphore_address(0, 1)
    first = [store(16384, 1, 1), store(a_to_b, 1, 1, push_prev=True), Finish(pop_next=True)]
    second = [load(Memory.INP, a_to_b, 1, 1, push_next=True), Finish(pop_prev=True)]
    assert not kinds([first, second, NO_COPY])
    if what == "store":
        late = [store(a_to_b, 1, 1, push_prev=True), store(16384, 1, 1), Finish(pop_next=True)]
        streams = [late, second, NO_COPY]
    elif what == "signal":
        # The wait leads from the signal to the FINISH of core 1: nothing is missing.
        streams = [[store(a_to_b, 1, 1), Finish()], second, NO_COPY]
        assert not kinds(streams)
        return
    else:
        streams = [first, [replace(second[0], push_next=False), Finish()], NO_COPY]
    assert kinds(streams) == {HazardKind.FINISH}


def test_micro_ops_that_nobody_loaded_are_a_warning() -> None:
    report = check(TWO, [DONE, [gemm(1, 1, 1), *DONE], NO_COPY], np.zeros(IMAGE, np.uint8))
    assert report.ok and "micro-op 0 of core1 runs before any LOAD" in report.warnings[0]


def test_invalid_programs_are_reported() -> None:
    report = check(TWO, [[load(Memory.INP, GB_BASE - 16, 1, 2), *DONE], DONE, NO_COPY])
    (hazard,) = report.hazards
    assert hazard.kind is HazardKind.INVALID and "core0" in str(hazard)


def test_what_passes_gives_one_result() -> None:
    """The checker and the simulator agree: what is safe has one result in every order."""
    program = random_cluster_program(cluster(2), 9, tasks=8)
    passed = 0
    for _, streams in without_one(program.cluster, program.streams):
        words = words_of(program.cluster, streams)
        if not check_cluster(program.cluster, words, program.image).ok:
            continue
        passed += 1
        image, _ = run_cluster(program.cluster, words, program.image, order_seed=passed)
        np.testing.assert_array_equal(image, program.expected())
    assert len(program.image) == IMAGE
