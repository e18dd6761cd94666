"""Small programs for the clock of a cluster, at random, always free of deadlock.

Steps are written in one order over all units; in it every token is pushed before it is popped and
every signal given before it is waited for. Data and races play no part.
"""

import random
from dataclasses import replace
from typing import Any

import numpy as np
from clock_programs import load, random_program, store
from cluster_clock_reference import ClusterReference
from cluster_programs import words_of

from vtac.dialects.target import ClusterTarget, Memory
from vtac.dialects.target.windows import GB_BASE
from vtac.dialects.vta.dma import Copy, DmaCommand, DmaFinish, Signal, Wait
from vtac.dialects.vta.encoding import Finish, Instruction, Load, Store
from vtac.sim.cluster import ClusterReport, estimate_cluster

CHANGES: list[dict[str, Any]] = [
    {},
    {"core": "chisel-de10"},
    {"ddr_beat_cycles": 2},
    {"ddr_channels": 2},
    {"ddr_channels": 2, "core": "chisel-de10", "ddr_beat_cycles": 3},
    {"ddr_latency": 3, "gb_latency": 1, "sem_latency": 0},
    {"gb_latency": 40, "sem_latency": 25, "outstanding": 3},
    {"gb_banks": 32, "queue_depth": 5, "core": "chisel-de10"},
    {"dma": False},
    {"gb_bytes": 0, "dma": False},
]
"""Clusters that differ in what the rules of the clock read."""


def random_cluster(rng: random.Random, cores: int) -> ClusterTarget:
    """A cluster of some cores."""
    changes = rng.choice(CHANGES)
    return ClusterTarget.named("cluster-8").replace(
        **{"cores": cores, "gb_bytes": 65536, **changes}
    )


def random_streams(cluster: ClusterTarget, rng: random.Random, length: int) -> list[Any]:
    """Streams of about `length` steps a unit."""
    sources = [random_program(cluster.core, rng, length)[:-1] for _ in range(cluster.cores)]
    ends = [random_finish(stream) for stream in sources]
    streams: list[Any] = [[] for _ in range(cluster.units)]
    counts: dict[tuple[int, int], int] = {}
    place = [0] * cluster.units
    for _ in range(length * cluster.units):
        unit = rng.randrange(cluster.units)
        if unit == cluster.cores:
            streams[unit].append(_random_command(cluster, rng, counts))
        elif place[unit] < length:
            x = _moved(cluster, rng, sources[unit][place[unit]])
            streams[unit] += [_exchanged(cluster, rng, counts, unit, x)]
            place[unit] += 1
    for unit in range(cluster.cores):
        streams[unit] += sources[unit][place[unit] :]
        streams[unit].append(ends[unit])
    if cluster.dma:
        streams[-1].append(DmaFinish())
    return streams


def random_finish(stream: list[Instruction]) -> Finish:
    """A FINISH that pops a token of each queue to compute that has one left."""
    left = {"lc": 0, "sc": 0}
    for x in stream:
        if isinstance(x, Store):
            left["sc"] += x.push_prev
        elif isinstance(x, Load) and x.memory in (Memory.INP, Memory.WGT):
            left["lc"] += x.push_next
        else:
            left["lc"] -= x.pop_prev
            left["sc"] -= x.pop_next
    return Finish(pop_prev=left["lc"] > 0, pop_next=left["sc"] > 0)


def _moved(cluster: ClusterTarget, rng: random.Random, x: Instruction) -> Instruction:
    """A transfer of DDR, or the same of GB."""
    if not isinstance(x, Load | Store) or x.memory is Memory.UOP or not x.x_size:
        return x
    if not cluster.gb_bytes or rng.random() < 0.5:
        return x
    size = cluster.core.element_bytes(x.memory)
    return replace(x, dram_base=x.dram_base + (GB_BASE - 4096) // size)


def _exchanged(
    cluster: ClusterTarget,
    rng: random.Random,
    counts: dict[tuple[int, int], int],
    unit: int,
    x: Instruction,
) -> Instruction:
    """A transfer as it is, or a wait or a signal with its tokens instead."""
    if not isinstance(x, Load | Store) or rng.random() < 0.6 or cluster.units == 1:
        return x
    flags = {name: getattr(x, name) for name in ("pop_prev", "pop_next", "push_prev", "push_next")}
    units = range(cluster.units)
    if isinstance(x, Store):
        rows = sorted(rng.sample(units, rng.randint(1, min(2, len(units)))))
        for other in rows:
            counts[unit, other] = counts.get((unit, other), 0) + 1
        addresses = [cluster.semaphore_address(unit, other) for other in rows]
        return _rows(store, addresses, flags)
    if x.memory is not Memory.INP:
        return x
    rows = [u for u in units if u == unit or counts.get((u, unit), 0)]
    rows = sorted(rng.sample(rows, rng.randint(1, min(2, len(rows)))))
    for other in rows:
        counts[other, unit] = counts.get((other, unit), 0) - 1
    addresses = [cluster.semaphore_address(other, unit) for other in rows]
    return _rows(lambda *a, **k: load(Memory.INP, *a, **k), addresses, flags)


def _rows(make: Any, addresses: list[int], flags: dict[str, bool]) -> Instruction:
    stride = (addresses[-1] - addresses[0]) // 16 or 4
    made: Instruction = make(addresses[0], len(addresses), 1, stride, **flags)
    return made


def _random_command(
    cluster: ClusterTarget, rng: random.Random, counts: dict[tuple[int, int], int]
) -> DmaCommand:
    unit, kind = cluster.cores, rng.random()
    waiting = [u for u in range(unit + 1) if u == unit or counts.get((u, unit), 0)]
    if kind < 0.25:
        source = rng.choice(waiting)
        counts[source, unit] = counts.get((source, unit), 0) - 1
        return Wait(cluster.semaphore_number(source, unit))
    if kind < 0.5:
        other = rng.randrange(unit + 1)
        counts[unit, other] = counts.get((unit, other), 0) + 1
        return Signal(cluster.semaphore_number(unit, other))
    sizes = {"nbytes": 8 * rng.choice((1, 2, 5, 32, 300)), "source": 8 * rng.randrange(1024, 4096)}
    gb = GB_BASE + 8 * rng.randrange(2048)
    if rng.random() < 0.5:
        return Copy(**sizes, destination=gb)
    return Copy(nbytes=sizes["nbytes"], source=gb, destination=sizes["source"])


def assert_same_clock(cluster: ClusterTarget, streams: list[Any]) -> ClusterReport:
    """Assert that both clocks agree in the cycles of each unit and in every start and end."""
    report = estimate_cluster(cluster, words_of(cluster, streams))
    plain = ClusterReference(cluster, streams).run()
    for unit, reference in enumerate(plain.units):
        timeline = report.timeline(unit)
        assert timeline.cycles == reference.cycles, f"cycles of unit {unit}"
        for name in ("start", "end"):
            ours, theirs = getattr(timeline, name), getattr(reference, name)
            known = np.flatnonzero(ours < min(timeline.cycles, report.cycles)).tolist()
            found = {index: int(ours[index]) for index in known}
            other = {i: at for i, at in theirs.items() if at < timeline.cycles}
            assert found == other, f"{name} of unit {unit}"
    assert report.cycles == plain.cycles
    return report
