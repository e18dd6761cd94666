"""A cluster's program, decoded and verified: one stream per core, and one for the DMA.

Checked here is what needs one instruction alone: that each transfer stays within one memory, that
micro-ops lie in DDR, and who may signal and wait. Waits and signals are found by their addresses:
a LOAD INP from semaphores waits, a STORE to semaphores signals (docs/cluster.md).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from ...dialects.target import ClusterTarget, Memory, MemoryScope
from ...dialects.target.windows import semaphore_at, semaphore_units
from ...dialects.vta.dma import (
    COPY_ALIGNMENT,
    Copy,
    DmaCommand,
    DmaFinish,
    Signal,
    Wait,
    decode_dma,
)
from ...dialects.vta.encoding import EncodingError, Instruction, Load, Store, Transfer
from ..errors import SimulationError
from ..legality import decode_program, verify_program
from .errors import ClusterError, ClusterInstruction

Semaphores = Mapping[int, tuple[int, ...]]
"""For each step of a unit that waits or signals, by its index: the semaphore of each row."""


@dataclass(frozen=True)
class ClusterProgram:
    """The streams of all units; that of the DMA, where there is one, comes last.

    waits, signals: for each unit, see `Semaphores`. in_gb: for each core its transfers that reach
    GB.
    """

    cluster: ClusterTarget
    streams: tuple[Sequence[ClusterInstruction], ...]
    waits: tuple[Semaphores, ...]
    signals: tuple[Semaphores, ...]
    in_gb: tuple[frozenset[int], ...]

    def counted(self, numbers: Sequence[int]) -> tuple[int, ...]:
        """Those of some semaphores that count: not the ones from a unit to itself."""
        cores = self.cluster.cores
        return tuple(n for n in numbers if len(set(semaphore_units(cores, n))) == 2)

    @property
    def cores(self) -> list[list[Instruction]]:
        """The instructions of each core."""
        streams = self.streams[: self.cluster.cores]
        return [[x for x in stream if isinstance(x, Instruction)] for stream in streams]

    @property
    def commands(self) -> list[DmaCommand]:
        """The commands of the DMA; none without one."""
        streams = self.streams[self.cluster.cores :]
        return [x for stream in streams for x in stream if not isinstance(x, Instruction)]

    def without_signals(self, unit: int) -> list[Instruction]:
        """The instructions of a core as the rest of it sees them: a signal moves no data."""
        return [
            replace(x, x_size=0) if isinstance(x, Store) and self._signals(x) else x
            for x in self.cores[unit]
        ]

    def _signals(self, store: Store) -> bool:
        return scope(self.cluster, store) is MemoryScope.SEMAPHORES

    def error(self, unit: int, index: int, reason: str) -> ClusterError:
        """An error about one step."""
        return ClusterError(self.cluster, unit, index, self.streams[unit][index], reason)


def scope(cluster: ClusterTarget, transfer: Transfer) -> MemoryScope | None:
    """The memory that a transfer reaches; None where it touches nothing, or more than one."""
    if not transfer.x_size or not transfer.y_size:
        return None
    size = cluster.core.element_bytes(transfer.memory)
    first = transfer.dram_base * size
    elements = (transfer.y_size - 1) * transfer.x_stride + transfer.x_size
    return cluster.scope_of(first, first + elements * size)


def decode_cluster(
    cluster: ClusterTarget,
    streams: Sequence[NDArray[np.uint64]],
    dram_bytes: int | None,
    strict: bool = True,
) -> ClusterProgram:
    """Decode and verify the streams of all units, uint64 [n, 2] each. Raises `ClusterError`.

    dram_bytes: the size of the image, None where unknown.
    """
    if len(streams) != cluster.units:
        reason = f"{len(streams)} streams for a cluster of {cluster.units} units"
        raise ClusterError(cluster, -1, -1, None, reason)
    decoded: list[Sequence[ClusterInstruction]] = []
    found = []
    for unit, words in enumerate(streams):
        if unit == cluster.cores:
            commands, places = _commands(cluster, words, dram_bytes)
            decoded.append(commands)
        else:
            core, places = _core(cluster, unit, words, dram_bytes, strict)
            decoded.append(core)
        found.append(places)
    return ClusterProgram(
        cluster,
        tuple(decoded),
        tuple(places.waits for places in found),
        tuple(places.signals for places in found),
        tuple(frozenset(places.in_gb) for places in found[: cluster.cores]),
    )


@dataclass
class _Places:
    """Which steps of a unit wait, signal, and reach GB."""

    waits: dict[int, tuple[int, ...]] = field(default_factory=dict)
    signals: dict[int, tuple[int, ...]] = field(default_factory=dict)
    in_gb: list[int] = field(default_factory=list)


def _core(
    cluster: ClusterTarget,
    unit: int,
    words: NDArray[np.uint64],
    dram_bytes: int | None,
    strict: bool,
) -> tuple[list[Instruction], _Places]:
    program: list[Instruction] = []
    try:
        program = decode_program(cluster.core, words)
        verify_program(cluster.core, program, dram_bytes, strict)
    except SimulationError as error:
        step = program[error.index] if program and error.index >= 0 else None
        raise ClusterError(cluster, unit, error.index, step, error.reason) from None
    places = _Places()
    for index, x in enumerate(program):
        if not isinstance(x, Transfer) or not x.x_size or not x.y_size:
            continue
        where = scope(cluster, x)
        reason = _transfer_objection(x, where)
        if reason is None and where is MemoryScope.SEMAPHORES:
            numbers = _semaphores(cluster, x)
            reason = None if numbers else "it does not meet one semaphore in each row"
            reason = reason or _unit_objection(cluster, unit, numbers, isinstance(x, Load))
            (places.waits if isinstance(x, Load) else places.signals)[index] = numbers
        elif where is MemoryScope.GB:
            places.in_gb.append(index)
        if reason is not None:
            raise ClusterError(cluster, unit, index, x, reason)
    return program, places


def _transfer_objection(transfer: Transfer, where: MemoryScope | None) -> str | None:
    if where is None:
        return "its bytes do not lie in one of DDR, GB and semaphores"
    if transfer.memory is Memory.UOP and where is not MemoryScope.DDR:
        return f"micro-ops lie in DDR, not in {where}"
    if where is not MemoryScope.SEMAPHORES:
        return None
    if isinstance(transfer, Load) and transfer.memory is not Memory.INP:
        return "only a LOAD of INP waits for semaphores"
    if transfer.sram_size != transfer.y_size:
        return "a wait or a signal has x_size 1 and no pads"
    return None


def _semaphores(cluster: ClusterTarget, transfer: Transfer) -> tuple[int, ...]:
    """The semaphore of each row; none where a row does not lie on one."""
    size = cluster.core.element_bytes(transfer.memory)
    rows = range(transfer.y_size)
    numbers = [
        semaphore_at(cluster.cores, (transfer.dram_base + row * transfer.x_stride) * size)
        for row in rows
    ]
    found = tuple(number for number in numbers if number is not None)
    return found if len(found) == len(numbers) else ()


def _unit_objection(
    cluster: ClusterTarget, unit: int, numbers: Sequence[int], waits: bool
) -> str | None:
    """Only its source signals a semaphore, only its destination waits for it."""
    for number in numbers:
        source, destination = semaphore_units(cluster.cores, number)
        if unit == (destination if waits else source):
            continue
        names = f"{cluster.unit_name(source)} -> {cluster.unit_name(destination)}"
        may = "its destination waits" if waits else "its source signals"
        return f"of semaphore {number} ({names}) only {may}"
    return None


def _commands(
    cluster: ClusterTarget, words: NDArray[np.uint64], dram_bytes: int | None
) -> tuple[list[DmaCommand], _Places]:
    unit = cluster.cores
    try:
        commands = decode_dma(words)
    except EncodingError as error:
        raise ClusterError(cluster, unit, error.index, None, str(error)) from None
    places = _Places()
    for index, command in enumerate(commands):
        reason = None
        if isinstance(command, Copy):
            reason = _copy_objection(cluster, command, dram_bytes)
        elif isinstance(command, Wait | Signal):
            is_wait = isinstance(command, Wait)
            reason = _number_objection(cluster, command.semaphore, is_wait)
            (places.waits if is_wait else places.signals)[index] = (command.semaphore,)
        elif index != len(commands) - 1:
            reason = "commands follow FINISH"
        if reason is not None:
            raise ClusterError(cluster, unit, index, command, reason)
    if not commands or not isinstance(commands[-1], DmaFinish):
        raise ClusterError(cluster, unit, -1, None, "the stream has no FINISH and never ends")
    return commands, places


def _number_objection(cluster: ClusterTarget, number: int, waits: bool) -> str | None:
    if number >= (cluster.cores + 1) ** 2:
        return f"semaphores are 0 to {(cluster.cores + 1) ** 2 - 1}"
    return _unit_objection(cluster, cluster.cores, [number], waits)


def _copy_objection(cluster: ClusterTarget, copy: Copy, dram_bytes: int | None) -> str | None:
    numbers = (copy.nbytes, copy.source, copy.destination)
    if copy.nbytes == 0 or any(number % COPY_ALIGNMENT for number in numbers):
        return f"bytes and addresses must be multiples of {COPY_ALIGNMENT}, bytes above 0"
    scopes = copy_scopes(cluster, copy)
    if set(scopes) != {MemoryScope.DDR, MemoryScope.GB}:
        return "a COPY moves from DDR to GB or from GB to DDR"
    end = max(copy.source, copy.destination) + copy.nbytes
    if dram_bytes is not None and end > dram_bytes:
        return f"bytes up to {end - 1}, but the image has {dram_bytes}"
    return None


def copy_scopes(
    cluster: ClusterTarget, copy: Copy
) -> tuple[MemoryScope | None, MemoryScope | None]:
    """The memories that a COPY reads and writes."""
    return (
        cluster.scope_of(copy.source, copy.source + copy.nbytes),
        cluster.scope_of(copy.destination, copy.destination + copy.nbytes),
    )
