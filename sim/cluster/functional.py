"""The functional simulator of a cluster: the exact contents of memory after a launch.

Every core is a machine of the single simulator (`sim.machine`); this module runs them in turn on
one image, in an order that tokens and semaphores allow, with the COPYs of the DMA between. Whether
a program may read what it reads follows from the order alone, so it is checked before anything
runs.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ...dialects.target import ClusterTarget, MemoryScope, Target
from ...dialects.target.windows import SEMAPHORE_BASE, semaphores_end
from ...dialects.vta.dma import Copy
from ...dialects.vta.encoding import Load, Store, Transfer
from ..errors import Fault
from ..functional import FunctionalCore
from ..launch import Counters, Launch
from ..machine import FastMachine
from .flow import ClusterFlow, balance, clocks, deadlock_reason, overflows, schedule
from .gb_record import GbRecord
from .program import ClusterProgram, decode_cluster, scope


@dataclass
class ClusterCounters:
    """What a launch did: the counters of each core, and the bytes that the DMA copied.

    cores: their `bytes_moved` count all transfers, whatever the memory. gb_bytes: those of them
    that reached GB, by class; signals and waits are in neither.
    """

    cores: list[Counters]
    gb_bytes: dict[str, int] = field(default_factory=dict)
    copied_to_gb: int = 0
    copied_to_ddr: int = 0

    @property
    def total(self) -> Counters:
        """The counters of all cores together."""
        result = Counters()
        for counters in self.cores:
            result.instructions += counters.instructions
            result.gemm_micro_ops += counters.gemm_micro_ops
            result.reset_micro_ops += counters.reset_micro_ops
            result.alu_micro_ops += counters.alu_micro_ops
            for name, amount in counters.bytes_moved.items():
                result.bytes_moved[name] += amount
        return result


@dataclass(frozen=True, eq=False)
class ClusterLaunch:
    """A verified program in the order in which it runs.

    turns: a unit, and the place in its launch up to which it runs then. cores: the launch of each
    core; its places are those in the core's stream.
    """

    program: ClusterProgram
    turns: list[tuple[int, int]]
    cores: list[Launch]
    counters: ClusterCounters


class ClusterSimulator:
    """A cluster with the interface of a device: launch after launch on one image of its memory.

    Buffers, GB, semaphores and tokens are undefined or empty at each launch. ``machine`` is the
    implementation of a core, see `Simulator`.
    """

    def __init__(
        self, cluster: ClusterTarget, machine: Callable[[Target], FunctionalCore] = FastMachine
    ) -> None:
        self.cluster = cluster
        self._machines = [machine(cluster.core) for _ in range(cluster.cores)]

    def run(
        self,
        streams: Sequence[NDArray[np.uint64]],
        dram: NDArray[np.uint8],
        strict: bool = True,
        order_seed: int | None = None,
    ) -> ClusterCounters:
        """Run one stream per unit, uint64 [n, 2], on ``dram`` (uint8), which it changes in place.

        The image holds DDR, GB and semaphores at their addresses. Strict mode also refuses reads of
        GB that nothing has written, tokens and signals that are left over, and what `Simulator.run`
        refuses. Without a seed each unit runs as far as it can before the next one; with one, all
        modules of all units take turns at random. Raises `ClusterError`; the image may then have
        changed in part.
        """
        if dram.dtype != np.uint8 or dram.ndim != 1 or not dram.flags.c_contiguous:
            raise ValueError("dram must be a contiguous uint8 array of one dimension")
        words = tuple(np.ascontiguousarray(stream, np.uint64).tobytes() for stream in streams)
        launch = cluster_launch(self.cluster, words, len(dram), strict, order_seed)
        if self.cluster.has_windows:
            dram[SEMAPHORE_BASE : semaphores_end(self.cluster.cores)] = 0
        for machine, core in zip(self._machines, launch.cores, strict=True):
            machine.begin(core, dram)
        commands, done = launch.program.commands, 0
        for unit, until in launch.turns:
            if unit == self.cluster.cores:
                for command in commands[done:until]:
                    if isinstance(command, Copy):
                        _copy(command, dram)
                done = until
            else:
                self._advance(launch, unit, until)
        counters = launch.counters
        return replace(counters, cores=[_copied(core) for core in counters.cores])

    def _advance(self, launch: ClusterLaunch, unit: int, until: int) -> None:
        machine, core = self._machines[unit], launch.cores[unit]
        try:
            machine.advance(until)
        except Fault as fault:
            place = core.places[machine.position]
            raise launch.program.error(unit, place, str(fault)) from None


def _copied(counters: Counters) -> Counters:
    return replace(counters, bytes_moved=dict(counters.bytes_moved))


def _copy(command: Copy, dram: NDArray[np.uint8]) -> None:
    source = dram[command.source : command.source + command.nbytes]
    dram[command.destination : command.destination + command.nbytes] = source


@lru_cache(maxsize=16)
def cluster_launch(
    cluster: ClusterTarget,
    streams: tuple[bytes, ...],
    dram_bytes: int,
    strict: bool,
    order_seed: int | None,
) -> ClusterLaunch:
    """The program of ``streams`` on an image of ``dram_bytes``. Raises `ClusterError`."""
    words = [np.frombuffer(stream, np.uint64).reshape(-1, 2) for stream in streams]
    program = decode_cluster(cluster, words, dram_bytes, strict)
    flow = ClusterFlow.of(program)
    order = _verified_order(program, flow, strict, order_seed)
    if strict:
        _verify_written(program, flow, order)
    places: list[list[int]] = [[] for _ in program.streams]
    turns: list[tuple[int, int]] = []
    for step in order:
        unit, index = flow.place_of(step)
        places[unit].append(index)
        if turns and turns[-1][0] == unit:
            turns.pop()
        turns.append((unit, len(places[unit])))
    cores = [
        _core_launch(program, unit, places[unit], strict) for unit in range(program.cluster.cores)
    ]
    return ClusterLaunch(program, turns, cores, _counters(program, [c.counters for c in cores]))


def _core_launch(program: ClusterProgram, unit: int, places: list[int], strict: bool) -> Launch:
    instructions = program.without_signals(unit)
    ordered = [instructions[index] for index in places]
    moving = [
        replace(x, x_size=0) if isinstance(x, Load) and index in program.waits[unit] else x
        for index, x in zip(places, ordered, strict=True)
    ]
    return Launch(places, ordered, strict, Counters.of(program.cluster.core, moving))


def _counters(program: ClusterProgram, cores: list[Counters]) -> ClusterCounters:
    cluster = program.cluster
    found = ClusterCounters(cores)
    for instructions in program.cores:
        for x in instructions:
            if isinstance(x, Transfer) and scope(cluster, x) is MemoryScope.GB:
                name = "acc" if x.memory.name == "ACC_8BIT" else x.memory.name.lower()
                size = x.x_size * x.y_size * cluster.core.element_bytes(x.memory)
                found.gb_bytes[name] = found.gb_bytes.get(name, 0) + size
    for command in program.commands:
        if isinstance(command, Copy):
            to_gb = cluster.scope_of(command.destination, command.destination + 8)
            if to_gb is MemoryScope.GB:
                found.copied_to_gb += command.nbytes
            else:
                found.copied_to_ddr += command.nbytes
    return found


def _verified_order(
    program: ClusterProgram, flow: ClusterFlow, strict: bool, seed: int | None
) -> list[int]:
    """An order in which the program runs. Raises `ClusterError` where there is none."""
    depth = program.cluster.core.queue_depth
    found = schedule(flow, depth, seed)
    if found.blocked or found.full:
        first = found.blocked[0][0] if found.blocked else found.full[0]
        reason = f"deadlock: {deadlock_reason(flow, found, depth)}"
        raise program.error(*flow.place_of(first), reason)
    if not strict:
        return found.order
    for reason, step in balance(flow):
        raise program.error(*flow.place_of(step), reason)
    if len(found.order) < len(flow.modules):
        ran = set(found.order)
        for step in range(len(flow.modules)):
            unit, index = flow.place_of(step)
            x = program.streams[unit][index]
            if step not in ran and (isinstance(x, Store | Copy) or index in program.waits[unit]):
                reason = "no FINISH waits for it: it may not have happened"
                raise program.error(unit, index, reason)
    pushed = [0] * flow.queues
    for queues in flow.pushes:
        for queue in queues:
            pushed[queue] += 1
    if any(count > flow.depth(queue) for queue, count in enumerate(pushed)):
        start = clocks(flow, schedule(flow, None, through=True).order)
        for step, queue in overflows(flow, start):
            name = flow.queue_name(queue)
            reason = f"its {name} may be one too many: {flow.depth(queue)} are counted"
            raise program.error(*flow.place_of(step), reason)
    return found.order


def _verify_written(program: ClusterProgram, flow: ClusterFlow, order: Sequence[int]) -> None:
    """Raise `ClusterError` on a read of GB before a write, in this order."""
    if not program.cluster.gb_bytes:
        return
    record = GbRecord(program.cluster)
    for step in order:
        unit, index = flow.place_of(step)
        x = program.streams[unit][index]
        if isinstance(x, Transfer | Copy) and (address := record.touch(x)) is not None:
            reason = f"reads byte {address:#x} of GB, which nothing has written in this launch"
            raise program.error(unit, index, reason)


@lru_cache(maxsize=4)
def _simulator(cluster: ClusterTarget, thread: int) -> ClusterSimulator:
    """The simulator of a cluster in a thread: a program that runs again is not planned again."""
    return ClusterSimulator(cluster)


def run_cluster(
    cluster: ClusterTarget,
    streams: Sequence[NDArray[np.uint64]],
    dram: NDArray[np.uint8],
    strict: bool = True,
    order_seed: int | None = None,
) -> tuple[NDArray[np.uint8], ClusterCounters]:
    """The image after a launch, a new array, and what it did (see `ClusterSimulator.run`)."""
    image = np.array(dram, dtype=np.uint8)
    simulator = _simulator(cluster, threading.get_ident())
    return image, simulator.run(streams, image, strict, order_seed)
