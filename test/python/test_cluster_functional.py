"""The functional simulator of a cluster: results in every order, and what it refuses."""

from typing import Any

import numpy as np
import pytest
from clock_programs import load, store, sync
from cluster_programs import IMAGE, Program, random_cluster_program, words_of

from vtac.dialects.target import ClusterTarget, Memory
from vtac.dialects.target.windows import GB_BASE, SEMAPHORE_BASE, semaphores_end
from vtac.dialects.vta.dma import Copy, DmaFinish, Signal, Wait
from vtac.dialects.vta.encoding import Finish, Load, Store
from vtac.sim import execute
from vtac.sim.cluster import ClusterError, ClusterSimulator, run_cluster
from vtac.sim.reference import ReferenceMachine


def cluster(cores: int, **changes: Any) -> ClusterTarget:
    return ClusterTarget.named("cluster-8").replace(cores=cores, **{"gb_bytes": 8192, **changes})


TWO = cluster(2)
A_TO_B, B_TO_A = TWO.semaphore_address(0, 1), TWO.semaphore_address(1, 0)
TO_DMA, FROM_DMA = TWO.semaphore_number(0, 2), TWO.semaphore_number(2, 0)
DONE = [Finish()]
NO_COPY = [DmaFinish()]


def wait(address: int, **rest: Any) -> Load:
    return load(Memory.INP, address, 1, 1, **rest)


def signal(address: int, **rest: Any) -> Store:
    return store(address, 1, 1, **rest)


def outcome(program: Program, seed: int | None) -> None:
    found, _ = run_cluster(program.cluster, program.words(), program.image, order_seed=seed)
    np.testing.assert_array_equal(found, program.expected())


@pytest.mark.parametrize("cores", [1, 2, 3, 5])
@pytest.mark.parametrize("seed", range(5))
def test_every_order_gives_the_same_result(cores: int, seed: int) -> None:
    program = random_cluster_program(cluster(cores), seed, tasks=16)
    for order in (None, 0, 1, 2):
        outcome(program, order)


@pytest.mark.parametrize("seed", range(4))
def test_without_gb_and_dma(seed: int) -> None:
    program = random_cluster_program(cluster(3, gb_bytes=0, dma=False), seed)
    assert any(task.waits for task in program.tasks)
    for order in (None, 7):
        outcome(program, order)


@pytest.mark.parametrize("seed", range(3))
def test_cores_may_be_the_plain_machine(seed: int) -> None:
    program = random_cluster_program(cluster(2), seed, tasks=8)
    image = program.image.copy()
    ClusterSimulator(program.cluster, ReferenceMachine).run(program.words(), image)
    np.testing.assert_array_equal(image, program.expected())


def test_one_core_alone_is_the_machine_of_today() -> None:
    lone = cluster(1, gb_bytes=0, dma=False)
    program = random_cluster_program(lone, 3)
    found, counters = run_cluster(lone, program.words(), program.image)
    np.testing.assert_array_equal(found, execute(lone.core, program.words()[0], program.image))
    assert counters.total == counters.cores[0]


def test_a_launch_can_be_repeated_on_other_data() -> None:
    program = random_cluster_program(cluster(2), 5)
    simulator = ClusterSimulator(program.cluster)
    for seed in range(3):
        program.image[0x10000:0x80000] = np.random.default_rng(seed).integers(0, 256, 0x70000)
        image = program.image.copy()
        simulator.run(program.words(), image)
        np.testing.assert_array_equal(image, program.expected())


def test_counters() -> None:
    copy = Copy(nbytes=64, source=0x2000, destination=GB_BASE)
    streams = [
        [
            wait(TWO.semaphore_address(2, 0)),
            load(Memory.INP, GB_BASE, 1, 4, push_next=True),
            Finish(pop_prev=True),
        ],
        DONE,
        [copy, Signal(FROM_DMA), DmaFinish()],
    ]
    _, counters = run_cluster(TWO, words_of(TWO, streams), np.zeros(IMAGE, np.uint8))
    assert counters.total.bytes_moved["inp"] == 64
    assert counters.gb_bytes == {"inp": 64}
    assert (counters.copied_to_gb, counters.copied_to_ddr) == (64, 0)


def test_a_wait_overwrites_inp_with_zeros() -> None:
    program = random_cluster_program(cluster(2), 1)
    program.image[SEMAPHORE_BASE : semaphores_end(2)] = 7
    image = program.image.copy()
    ClusterSimulator(program.cluster).run(program.words(), image)
    assert not image[SEMAPHORE_BASE : semaphores_end(2)].any()


COPY = Copy(nbytes=64, source=0x2000, destination=GB_BASE)
REFUSALS: dict[str, tuple[list[Any], str]] = {
    "no stream": ([DONE, DONE], "2 streams for a cluster of 3 units"),
    "unwritten": (
        [[load(Memory.INP, GB_BASE + 64, 1, 1), *DONE], DONE, NO_COPY],
        "core0 instruction 0 .*reads byte 0x1000040 of GB, which nothing has written",
    ),
    "two memories": (
        [DONE, [load(Memory.INP, GB_BASE - 16, 1, 2), *DONE], NO_COPY],
        "core1 .*do not lie in one of DDR, GB and semaphores",
    ),
    "behind gb": ([[load(Memory.INP, GB_BASE + 8192, 1, 1), *DONE], DONE, NO_COPY], "do not lie"),
    "micro-ops": ([[load(Memory.UOP, GB_BASE, 1, 1), *DONE], DONE, NO_COPY], "micro-ops lie in"),
    "weights wait": (
        [[load(Memory.WGT, A_TO_B, 1, 1), *DONE], DONE, NO_COPY],
        "only a LOAD of INP",
    ),
    "wide wait": ([DONE, [load(Memory.INP, A_TO_B, 1, 2), *DONE], NO_COPY], "x_size 1 and no pads"),
    "padded wait": ([DONE, [wait(A_TO_B, x_pad_0=1), *DONE], NO_COPY], "x_size 1 and no pads"),
    "between": ([DONE, [wait(A_TO_B + 16), *DONE], NO_COPY], "one semaphore in each row"),
    "foreign wait": ([[wait(A_TO_B), *DONE], DONE, NO_COPY], r"core0 -> core1\) only its dest"),
    "foreign signal": ([[signal(B_TO_A), *DONE], DONE, NO_COPY], r"core1 -> core0\) only its sou"),
    "left over": (
        [[signal(A_TO_B, push_prev=True), Finish(pop_next=True)], DONE, NO_COPY],
        "core0 instruction 0 .*1 signal from core0 to core1 left over",
    ),
    "deadlock": (
        [DONE, [wait(A_TO_B, push_next=True), Finish(pop_prev=True)], NO_COPY],
        "deadlock: core1 0 waits for a signal from core0 to core1",
    ),
    "no push": ([DONE, [wait(A_TO_B), *DONE], NO_COPY], "nobody pushes the signal from core0"),
    "dma wait": ([DONE, DONE, [Wait(FROM_DMA), DmaFinish()]], r"dma command 0 \(WAIT 2\): of sem"),
    "dma number": ([DONE, DONE, [Signal(9), DmaFinish()]], "semaphores are 0 to 8"),
    "dma end": ([DONE, DONE, [COPY]], "dma: the stream has no FINISH"),
    "dma behind": ([DONE, DONE, [DmaFinish(), COPY, DmaFinish()]], "commands follow FINISH"),
    "copy in gb": (
        [DONE, DONE, [Copy(nbytes=8, source=GB_BASE, destination=GB_BASE + 64), DmaFinish()]],
        "from DDR to GB or from GB to DDR",
    ),
    "odd copy": (
        [DONE, DONE, [Copy(nbytes=12, source=0x2000, destination=GB_BASE), DmaFinish()]],
        "multiples of 8",
    ),
    "copy of nothing": (
        [DONE, DONE, [Copy(nbytes=64, source=GB_BASE, destination=0x2000), DmaFinish()]],
        "dma command 0 .*nothing has written",
    ),
    "far": ([[load(Memory.INP, 1 << 26, 1, 1), *DONE], DONE, NO_COPY], "but the image has"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals(name: str) -> None:
    streams, reason = REFUSALS[name]
    with pytest.raises(ClusterError, match=reason):
        run_cluster(TWO, words_of(TWO, streams), np.zeros(IMAGE, np.uint8))


def test_finish_must_wait_for_signals_and_waits() -> None:
    """Some order ends before the signal or the wait has happened."""
    streams = [[signal(A_TO_B), *DONE], [wait(A_TO_B), *DONE], NO_COPY]
    with pytest.raises(ClusterError, match="no FINISH waits for it"):
        for seed in range(30):
            run_cluster(TWO, words_of(TWO, streams), np.zeros(IMAGE, np.uint8), order_seed=seed)


def test_a_semaphore_counts_to_255() -> None:
    """The 256th signal is lost unless a wait is sure to have come before."""
    ahead = [signal(A_TO_B) for _ in range(256)]
    last = [sync("store", push_prev=True), Finish(pop_next=True)]
    waits = [wait(A_TO_B) for _ in range(256)]
    end = [sync("load", push_next=True), Finish(pop_prev=True)]
    image = np.zeros(IMAGE, np.uint8)
    with pytest.raises(ClusterError, match="may be one too many: 255 are counted"):
        run_cluster(TWO, words_of(TWO, [[*ahead, *last], [*waits, *end], NO_COPY]), image)
    run_cluster(TWO, words_of(TWO, [[*ahead[1:], *last], [*waits[1:], *end], NO_COPY]), image)


def test_signals_of_a_unit_to_itself_count_nothing() -> None:
    own = TWO.semaphore_address(0, 0)
    first = [wait(own), wait(own, push_next=True), signal(own, push_prev=True)]
    streams = [[*first, Finish(pop_prev=True, pop_next=True)], DONE, NO_COPY]
    run_cluster(TWO, words_of(TWO, streams), np.zeros(IMAGE, np.uint8))
