"""The clock of a cluster: against the plain one cycle by cycle, and probes computed by hand."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from clock_programs import alu, load, store, sync
from cluster_clock_programs import assert_same_clock, random_cluster, random_streams
from cluster_programs import words_of

from vtac.dialects.target import CORE, LOAD, ClusterTarget, Memory, Target
from vtac.dialects.target.windows import GB_BASE
from vtac.dialects.vta.dma import Copy, DmaFinish, Signal, Wait
from vtac.dialects.vta.encoding import Finish, Instruction, Load, Store
from vtac.sim import SimulationError, estimate
from vtac.sim.cluster import ClusterError, ClusterReport, estimate_cluster
from vtac.sim.timing import Cause

GOLDEN = Path(__file__).parents[2] / ".." / "shared" / "golden"
PATHS = sorted(GOLDEN.glob("rtl/*.npz")) + sorted(GOLDEN.glob("hazards/*.npz"))
BARE = ClusterTarget.named("cluster-2").replace(core="chisel-de10", dma=False)
"""Two cores with bursts of 128 bytes, GB of four banks."""


@pytest.mark.parametrize("seed", range(200))
def test_random_programs(seed: int) -> None:
    rng = random.Random(seed)
    cluster = random_cluster(rng, 1 + seed % 4)
    assert_same_clock(cluster, random_streams(cluster, rng, rng.choice((3, 5, 10))))


def test_beats_of_two_channels_may_come_out_of_order() -> None:
    """A load with pads whose rows lie on either side of a page, while both channels are busy."""
    rng = random.Random(1277)
    cluster = random_cluster(rng, 2)
    assert cluster.timing.ddr_channels == 2
    assert_same_clock(cluster, random_streams(cluster, rng, 10))


@pytest.mark.skipif(not PATHS, reason="../shared/golden is absent")
@pytest.mark.parametrize("preset", ["chisel-pynq", "chisel-de10"])
def test_a_lone_core_is_the_machine_of_today(preset: str) -> None:
    lone = ClusterTarget.named("cluster-1").replace(core=preset, gb_bytes=0, dma=False)
    compared = 0
    for path in PATHS:
        with np.load(path) as recorded:
            words = recorded["insns"]
        try:
            ours = estimate(Target.named(preset), words)
        except SimulationError as error:
            with pytest.raises(ClusterError, match="core0"):
                estimate_cluster(lone, [words])
            assert str(error)
            continue
        report = estimate_cluster(lone, [words])
        assert report.cycles == ours.cycles
        np.testing.assert_array_equal(report.cores[0].events, ours.events)
        compared += 1
    assert compared > 50


def cycles(cluster: ClusterTarget, *streams: list[Any]) -> list[int]:
    """The cycles of each unit, the same by both clocks."""
    report = assert_same_clock(cluster, list(streams))
    return [report.timeline(unit).cycles for unit in range(cluster.units)]


LOAD_DONE, STORE_DONE = Finish(pop_prev=True), Finish(pop_next=True)
IDLE: list[Instruction] = [Finish()]


def test_two_cores_stream() -> None:
    # Both ask for two instructions in cycle 2. Core 0 is first: served in 19, its four beats end in
    # 23; core 1 asks in 3 and follows until 27. S of the loads is 27 and 31; they ask in 28 and 32.
    # The memory is idle in 28: core 0 is served in 45 and ends in 61, E is 65. Core 1 follows until
    # 77, E is 81. FINISH starts in the cycle after.
    program = [load(Memory.INP, 4096, 1, 8, push_next=True), LOAD_DONE]
    assert cycles(BARE, program, program) == [66, 82]


def test_requests_of_one_beat_take_turns() -> None:
    # S is 27 and 31. Core 0 asks in 28 and 30 (served 45 and 46), core 1 in 32 (47), core 0 in 33
    # (48), core 1 in 34 (49), core 0 in 35 (50), core 1 in 36 (51) and 38 (52). One beat each: the
    # last beats pass in 51 and 53, E of a LOAD UOP is 3 later, FINISH starts in the cycle after.
    program = [load(Memory.UOP, 4096, 4, 1, 2), Finish()]
    assert cycles(BARE, program, program) == [55, 57]


@pytest.mark.parametrize(("latency", "expected"), [(0, 46), (4, 46), (20, 62)])
def test_a_wait_before_and_after_its_signal(latency: int, expected: int) -> None:
    # The signal starts in 27, is accepted in 33, written in 35, and counts `latency` later. The
    # wait starts in 31, asks in 32 and would be answered in 39; its two beats follow, E is 4 after
    # the last one, FINISH starts in the cycle after.
    cluster = BARE.replace(sem_latency=latency)
    address = cluster.semaphore_address(0, 1)
    signals = [store(address, 1, 1, push_prev=True), STORE_DONE]
    waits = [load(Memory.INP, address, 1, 1, push_next=True), LOAD_DONE]
    assert cycles(cluster, signals, waits) == [36, expected]


def test_larger_elements_take_more_beats() -> None:
    # Elements of 32 bytes are four beats: the signal holds the buffer for 4 + 1 + 3 cycles from 27,
    # is written in 35 ... 39 and counts from 43 on. The wait could be answered in 39 and is in 43;
    # its last beat passes in 47, so E is 51.
    cluster = BARE.replace(log_batch=1)
    at = cluster.semaphore_address(0, 1) // 32
    shape = {"sram_base": 0, "dram_base": at, "y_size": 1, "x_size": 1, "x_stride": 1}
    signals = [Store(memory=Memory.OUT, push_prev=True, **shape), STORE_DONE]
    waits = [Load(memory=Memory.INP, push_next=True, **shape), LOAD_DONE]
    report = estimate_cluster(cluster, words_of(cluster, [signals, waits]))
    assert [report.timeline(unit).cycles for unit in (0, 1)] == [40, 52]


def test_rows_of_a_wait_come_in_order() -> None:
    """Two signals to one wait of two rows: the row of core 2, then that of the core itself."""
    cluster = BARE.replace(cores=3, sem_latency=0)
    first = cluster.semaphore_address(1, 2)
    assert cluster.semaphore_address(2, 2) == first + 64
    waits = [load(Memory.INP, first, 2, 1, 4, push_next=True), LOAD_DONE]
    signals = [store(first, 1, 1, push_prev=True), STORE_DONE]
    # Core 2 dispatches in 33, so S = 35. The first row is asked for in 36 and taken up in 43 (its
    # signal counts from 39 on), the second one follows at once: last beat 47, E 51.
    assert cycles(cluster, IDLE, signals, waits)[1:] == [40 - 2, 52 - 2]


@pytest.mark.parametrize(
    ("element", "expected"), [(0, [42, 47]), (1, [44, 49]), (2, [42, 47]), (3, [44, 49])]
)
def test_bank_turns(element: int, expected: list[int]) -> None:
    # The loads start in 27 and 31, ask in 28 and 32, and could be served in 35 and 39. Element e is
    # words 2e and 2e + 1 of four banks; in cycle c + 1 unit i owns bank c + 1 - i. Core 0: bank 0
    # in 36, bank 2 in 38. Core 1: bank 0 in 41, bank 2 in 43. Last beat one later, E 4 after that.
    program = [load(Memory.INP, GB_BASE + 16 * element, 1, 1, push_next=True), LOAD_DONE]
    assert cycles(BARE, program, program) == expected


def test_dma_beside_loads() -> None:
    # The core's load is served in 45 as ever. The COPY starts in 31, asks in 32 and follows the
    # load: beats until 77; with one bank it ends in 77 + 3 + 1, and FINISH starts in the cycle
    # after.
    cluster = ClusterTarget.named("cluster-1").replace(core="chisel-de10")
    program = [load(Memory.INP, 4096, 1, 8, push_next=True), LOAD_DONE]
    copy = Copy(nbytes=128, source=8192, destination=GB_BASE)
    assert cycles(cluster, program, [copy, DmaFinish()]) == [66, 82]


def test_copy_to_ddr() -> None:
    # A lone COPY: instructions come in 2 ... 25 as ever, behind those of the core (4 beats): S is
    # 31, the first read asks in 32 and is served in 39; 16 beats end in 55, and the second piece in
    # 71. They are written from 56 to 75 and from 75 (its data came in 72) to 94.
    cluster = ClusterTarget.named("cluster-1").replace(core="chisel-de10")
    copy = Copy(nbytes=256, source=GB_BASE, destination=8192)
    program = [load(Memory.INP, 4096, 1, 8, push_next=True), LOAD_DONE]
    assert cycles(cluster, program, [copy, DmaFinish()])[1] == 95


def test_dma_waits_and_signals() -> None:
    # The DMA's instructions take 6 beats behind the core's 4, until 29, so S of the WAIT is 33. Its
    # signal (S 27, written 35) counts from 39 on. It asks in 34, is answered in 41, and ends in the
    # cycle after its last beat, 44. The SIGNAL starts in 45, is accepted from 46 on for 5 cycles
    # and written by 53, so FINISH starts in 54.
    cluster = ClusterTarget.named("cluster-1").replace(core="chisel-de10")
    signals = [store(cluster.semaphore_address(0, 1), 1, 1, push_prev=True), STORE_DONE]
    streams = [Wait(cluster.semaphore_number(0, 1)), Signal(cluster.semaphore_number(1, 0))]
    found = cycles(cluster, signals, [*streams, DmaFinish()])
    assert found == [36, 54]


def test_write_port_contention() -> None:
    # The STOREs start in 27 and 31. The first holds the port for 6 cycles, until 33, the second
    # then until 39.
    program = [store(8192, 1, 1, push_prev=True), STORE_DONE]
    assert cycles(BARE, program, program) == [34, 40]


def test_writes_of_gb_do_not_contend() -> None:
    # Accepted in 33 and 37. Core 0 owns bank 0 in 36, core 1 in 37; two beats, then E.
    program = [store(GB_BASE, 1, 1, push_prev=True), STORE_DONE]
    assert cycles(BARE, program, program) == [39, 40]


def test_a_full_semaphore_loses_a_signal() -> None:
    """Whether the 256th signal is lost depends on the cycle of the first wait."""
    address = BARE.semaphore_address(0, 1)
    signals = [*[store(address, 1, 1) for _ in range(256)], Finish()]
    signals[-2] = store(address, 1, 1, push_prev=True)
    signals[-1] = STORE_DONE
    lost = []
    for delay in range(2272, 2296, 3):
        late = [alu(delay, push_prev=True), load(Memory.INP, address, 1, 1, pop_next=True)]
        report = assert_same_clock(BARE, [signals, [*late, Finish()]])
        lost.append(len(report.warnings))
        assert all("its signal is lost" in warning for warning in report.warnings)
    assert lost == sorted(lost) and set(lost) == {0, 1}


def test_deadlock_names_the_unit() -> None:
    address = BARE.semaphore_address(0, 1)
    waits = [load(Memory.INP, address, 1, 1, push_next=True), LOAD_DONE]
    with pytest.raises(ClusterError, match="core1 0 waits for a signal from core0 to core1"):
        estimate_cluster(BARE, words_of(BARE, [IDLE, waits]))


def report_of_an_exchange() -> ClusterReport:
    cluster = ClusterTarget.named("cluster-2").replace(core="chisel-de10")
    address = cluster.semaphore_address(0, 1)
    first = [store(GB_BASE, 1, 4), store(address, 1, 1, push_prev=True), STORE_DONE]
    second = [
        load(Memory.INP, address, 1, 1),
        load(Memory.INP, GB_BASE, 1, 4, push_next=True),
        load(Memory.ACC, 4096, 1, 2),
        LOAD_DONE,
    ]
    copy = Copy(nbytes=64, source=8192, destination=GB_BASE + 4096)
    streams = words_of(cluster, [first, second, [copy, DmaFinish()]])
    return estimate_cluster(cluster, streams, [["a"] * 3, None])


def test_report() -> None:
    report = report_of_an_exchange()
    assert report.ddr_bytes[0] == {
        "instruction": 48,
        "uop": 0,
        "inp": 0,
        "wgt": 0,
        "acc": 0,
        "out": 0,
    }
    assert report.ddr_bytes[1]["acc"] == 128 and report.ddr_bytes[1]["inp"] == 0
    assert report.ddr_bytes[2] == {"instruction": 32, "read": 64, "written": 0}
    assert report.gb_bytes[0]["out"] == 64 and report.gb_bytes[1]["inp"] == 64
    assert report.gb_bytes[2] == {"read": 0, "written": 64}
    assert report.total_ddr_bytes == 48 + 64 + 32 + 128 + 64
    assert report.bounds["ddr reads"] == (48 + 64 + 32 + 128 + 64) // 8
    assert report.bounds["gb reads"] == 8 and report.bounds["gb writes"] == 8
    waits = report.cores[1].total.modules[LOAD][Cause.SEMAPHORE]
    assert report.waited == (0, waits, 0) and waits > 20
    (edge,) = report.semaphore_edges.tolist()
    assert edge[:4] == [0, 1, 1, 0] and edge[4] <= edge[5]
    for core in report.cores:
        for module in CORE.modules:
            assert sum(core.total.modules[module].values()) == core.cycles
    assert [account.label for account in report.cores[0].regions] == ["a"]


def test_more_latency_and_fewer_beats_never_help() -> None:
    sync_only = [sync("compute"), Finish()]
    program = [load(Memory.INP, 4096, 30, 8, 9, push_next=True), LOAD_DONE]
    found = [
        cycles(
            BARE.replace(**changes),
            program,
            [*program],
        )[1]
        for changes in ({}, {"ddr_latency": 40}, {"ddr_latency": 40, "ddr_beat_cycles": 2})
    ]
    assert found == sorted(found) and len(set(found)) == 3
    halved = cycles(BARE.replace(ddr_channels=2), program, program)
    assert max(halved) <= found[0]
    assert cycles(BARE, sync_only, sync_only)[0] < found[0]
