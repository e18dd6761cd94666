"""The clock of a cluster once more, cycle by cycle: what each part does in cycle t.

The plain definition that the event-driven clock of a cluster is tested against. Cores are those of
`clock_reference`, memories those of `cluster_memory_reference`; semaphores and the DMA are written
down here as docs/cluster.md states them, each as what it does in one cycle. It shares the presets
and the decoder with the clock, and no rule. One element of OUT is two beats.
"""

from collections import deque
from collections.abc import Sequence
from typing import Any

from clock_reference import LIMIT, READER, ReferenceClock, Stuck, Unit, pieces
from cluster_memory_reference import (
    NAMES,
    Ask,
    BufferedWrite,
    Reader,
    ReadMemory,
    WriteBuffer,
    WritePort,
)

from vtac.dialects.target import ClusterTarget, Memory
from vtac.dialects.vta.dma import Copy, DmaCommand, DmaFinish, Signal, Wait
from vtac.dialects.vta.encoding import Instruction, Load, Store

GB, SEM, HIGH = 0x0100_0000, 0x0200_0000, 0x0300_0000


class CoreClock(ReferenceClock):
    """A core whose transfers go to the memories of the cluster."""

    def __init__(self, cluster: "ClusterReference", unit: int, program: Sequence[Instruction]):
        super().__init__(cluster.target.core, cluster.preset, program)
        self.cluster, self.number = cluster, unit
        self.readers = cluster.readers[unit]
        self.ports = []
        self.stores_end: dict[int, int] = {}

    def asks(self, address: int, nbytes: int) -> list[Ask]:
        """The requests of a row."""
        sizes = pieces(self.preset, address, nbytes)
        found, word = [], address // 8
        for beats in sizes:
            found.append(Ask(beats, self.cluster.memory(self.number, word * 8), word))
            word += beats
        return found

    def begin_load(self, start: int, unit: Unit, x: Load) -> None:
        reader, size = self.readers[READER[x.memory]], self.target.element_bytes(x.memory)
        for row in range(x.y_size):
            at = (x.dram_base + row * x.x_stride) * size
            asks = self.asks(at, x.x_size * size)
            if SEM <= at < HIGH:
                number = (at - SEM) // 64
                destination, source = divmod(number, self.cluster.target.cores + 1)
                asks[0].semaphore = number if source != destination else None
            reader.todo.extend(asks)
        reader.pending = len(reader.todo)
        reader.visible, reader.last_beat = start + 1 + x.y_pad_0, -1
        beside = x.x_pad_0 + x.x_pad_1
        walk = bool(x.y_pad_1) and not beside
        middle = ["walk"] * x.y_size if walk else ["zero"] * (beside * x.y_size)
        above, below = x.y_pad_0 * x.sram_width, x.y_pad_1 * x.sram_width
        unit.zeros = ["zero"] * above + middle + ["zero"] * below
        unit.zeros_from = start if x.memory is Memory.UOP else start + 1

    def load_done(self, t: int, unit: Unit, x: Load) -> bool:
        name = READER[x.memory]
        reader, delay = self.readers[name], 1 if x.memory is Memory.UOP else 2
        beats = (name, t - delay) in self.cluster.beats[self.number]
        idle = not unit.zeros
        if unit.zeros and t >= unit.zeros_from and (not beats or unit.zeros[0] == "walk"):
            unit.zeros.pop(0)
        served = not reader.todo and not reader.pending
        return idle and served and t >= reader.last_beat + delay + 1

    def decide(self, t: int, name: str) -> None:
        unit = self.units[name]
        before = unit.start
        super().decide(t, name)
        if name == "store" and before is None and unit.start is not None:
            index = unit.queue[0][0]
            x = self.program[index]
            if isinstance(x, Store) and x.x_size:
                self.begin_store(t + 1, index, x)

    def begin_store(self, start: int, index: int, x: Store) -> None:
        size = self.target.element_bytes(Memory.OUT)
        asks = []
        for row in range(x.y_size):
            asks += self.asks((x.dram_base + row * x.x_stride) * size, x.x_size * size)
        self.stores_end[index] = LIMIT
        self.write(start, index, asks, 0)

    def write(self, at: int, index: int, asks: list[Ask], number: int) -> None:
        """Request `number` of a STORE asks in cycle `at`."""
        if number == len(asks):
            self.stores_end[index] = at
            return
        ask, last = asks[number], number + 1 == len(asks)
        hold = ask.beats // 2 * 3 + 3

        def following(t: int) -> None:
            self.write(t, index, asks, number + 1)

        if ask.memory.startswith("ddr"):
            self.cluster.write_ports[int(ask.memory[3:])].asks[self.number] = (at, hold, following)
            return
        signals = ask.memory.startswith("sem")

        def written(t: int) -> None:
            if signals:
                self.cluster.signal(t, (ask.word * 8 - SEM) // 64)
            if last:
                self.stores_end[index] = t

        word = None if signals else ask.word
        request = BufferedWrite(ask.beats, word, last, following, written)
        self.cluster.buffers[self.number].accept(at, hold, request)

    def finish(self, t: int, name: str) -> None:
        unit = self.units[name]
        if name == "store" and unit.start is not None and unit.queue:
            index = unit.queue[0][0]
            if index in self.stores_end and t < self.stores_end[index] - 1:
                return
        super().finish(t, name)

    def duration(self, x: Instruction) -> int:
        return 1 if isinstance(x, Store) else super().duration(x)

    def fetch(self, t: int) -> None:
        fetch_chunk(self, self.cluster, self.number, t)


def fetch_chunk(core: Any, cluster: "ClusterReference", unit: int, t: int) -> None:
    """Command the next chunk; it may be dispatched two cycles after its last beat."""
    reader = cluster.readers[unit]["fetch"]
    if t == core.command and core.fetched < len(core.program):
        first = core.fetched
        core.fetched = min(len(core.program), first + cluster.preset.fetch_instructions)
        word = first * 2
        for beats in pieces(cluster.preset, first * 16, (core.fetched - first) * 16):
            reader.todo.append(Ask(beats, cluster.ddr(word * 8), word))
            word += beats
        reader.pending, reader.visible, reader.last_beat = len(reader.todo), t + 1, -1
        core.ready = LIMIT
    elif not reader.todo and not reader.pending and core.ready == LIMIT:
        core.ready = reader.last_beat + 2


class DmaClock:
    """The DMA."""

    def __init__(self, cluster: "ClusterReference", program: Sequence[DmaCommand]) -> None:
        self.cluster, self.program = cluster, program
        self.unit = cluster.target.cores
        self.readers = cluster.readers[self.unit]
        self.queue: deque[tuple[int, int]] = deque()
        self.running: int | None = None
        self.start: dict[int, int] = {}
        self.end: dict[int, int] = {}
        self.released: dict[int, int] = {}
        self.cycles: int | None = None
        self.fetched = self.dispatched = 0
        self.command, self.ready = 1, -1
        self.left: dict[int, int] = {}
        self.latest: dict[int, int] = {}
        self.writes: deque[tuple[int, int, int, int]] = deque()
        self.asking, self.answered = False, 0

    def step(self, t: int) -> None:
        if self.running is not None and self.released.get(self.running, LIMIT) <= t:
            self.queue.popleft()
            self.running = None
        self.decide(t)
        self.dispatch(t)
        fetch_chunk(self, self.cluster, self.unit, t)

    def decide(self, t: int) -> None:
        if self.running is not None or not self.queue or self.queue[0][1] >= t:
            return
        index = self.queue[0][0]
        x = self.program[index]
        before = [self.end.get(other, LIMIT) for other in range(index)]
        if isinstance(x, Signal | DmaFinish) and any(end > t for end in before):
            return
        self.running, self.start[index] = index, t + 1
        match x:
            case DmaFinish():
                self.cycles = t + 1
            case Signal(number):
                self.signal(t + 2, index, number)
            case Wait(number):
                destination, source = divmod(number, self.unit + 1)
                semaphore = number if source != destination else None
                reader = self.readers["wait"]
                reader.todo.append(Ask(2, f"sem{self.unit}", 0, semaphore, index))
                reader.visible = t + 2
            case Copy():
                self.begin_copy(t + 1, index, x)

    def begin_copy(self, start: int, index: int, x: Copy) -> None:
        inward = not GB <= x.source < SEM
        reader = self.readers["copy" if inward else "gb copy"]
        word = x.source // 8
        for beats in pieces(self.cluster.preset, x.source, x.nbytes):
            memory = self.cluster.memory(self.unit, word * 8)
            reader.todo.append(Ask(beats, memory, word, None, index))
            word += beats
        self.left[index], reader.visible = len(reader.todo), start + 1

    def signal(self, at: int, index: int, number: int) -> None:
        def written(t: int) -> None:
            self.end[index] = self.released[index] = t
            self.cluster.signal(t, number)

        request = BufferedWrite(2, None, True, lambda t: None, written)
        self.cluster.buffers[self.unit].accept(at, 5, request)

    def asked_all(self, index: int, t: int) -> None:
        """The last request of a COPY leaves in cycle t."""
        if isinstance(self.program[index], Copy):
            self.released[index] = t

    def came(self, ask: Ask, last_beat: int) -> None:
        """The beats of a request pass until cycle `last_beat`."""
        index = ask.owner
        x = self.program[index]
        if isinstance(x, Wait):
            self.end[index] = self.released[index] = last_beat + 1
            return
        assert isinstance(x, Copy)
        self.left[index] -= 1
        self.latest[index] = max(self.latest.get(index, -1), last_beat)
        done = not self.left[index]
        if not GB <= x.source < SEM:
            if done:
                self.end[index] = self.latest[index] + 3 + self.cluster.timing.gb_banks
            return
        word = (x.destination - x.source) // 8 + ask.word
        sizes = pieces(self.cluster.preset, word * 8, ask.beats * 8)
        for number, beats in enumerate(sizes):
            last = index if done and number == len(sizes) - 1 else -1
            self.writes.append((last_beat + 1, beats, word, last))
            word += beats

    def write(self, t: int) -> None:
        """Let the next piece of a COPY into DDR ask."""
        if self.asking or not self.writes:
            return
        comes, beats, word, index = self.writes[0]
        since = max(comes, self.answered)
        if since > t:
            return

        def answer(at: int) -> None:
            self.writes.popleft()
            self.asking, self.answered = False, at
            if index >= 0:
                self.end[index] = at

        self.asking = True
        port = self.cluster.write_ports[int(self.cluster.ddr(word * 8)[3:])]
        port.asks[self.unit] = (since, beats + 3, answer)

    def dispatch(self, t: int) -> None:
        if self.dispatched == self.fetched or t < self.ready:
            return
        if len(self.queue) == self.cluster.preset.queue_depth:
            return
        self.queue.append((self.dispatched, t))
        self.dispatched += 1
        if self.dispatched == self.fetched:
            self.command = t + 2


class ClusterReference:
    """Runs one program; `cores` and `dma` have start and end by step, and cycles."""

    def __init__(self, target: ClusterTarget, streams: Sequence[Any]) -> None:
        self.target, self.timing, self.preset = target, target.timing, target.timing.core
        units = list(range(target.units))
        self.readers = {u: {name: Reader() for name in NAMES} for u in units}
        self.beats: dict[int, set[tuple[str, int]]] = {u: set() for u in units}
        self.counts = [0] * (target.cores + 1) ** 2
        self.signals: list[tuple[int, int]] = []
        self.lost = 0
        latency = self.timing.ddr_latency
        self.memories = [
            ReadMemory(self, f"ddr{n}", units, latency) for n in range(self.timing.ddr_channels)
        ]
        for kind in ("gb", "sem"):
            self.memories += [
                ReadMemory(self, f"{kind}{u}", [u], self.timing.gb_latency) for u in units
            ]
        self.write_ports = [WritePort(target.units) for _ in range(self.timing.ddr_channels)]
        self.buffers = [WriteBuffer(self, u) for u in units]
        self.cores = [CoreClock(self, u, streams[u]) for u in range(target.cores)]
        self.dma = DmaClock(self, streams[-1]) if target.dma else None

    def ddr(self, address: int) -> str:
        return f"ddr{address // 4096 % self.timing.ddr_channels}"

    def memory(self, unit: int, address: int) -> str:
        """The memory of a byte, as a unit sees it."""
        if not self.target.has_windows or not GB <= address < HIGH:
            return self.ddr(address)
        return f"gb{unit}" if address < SEM else f"sem{unit}"

    def signal(self, written: int, number: int) -> None:
        destination, source = divmod(number, self.target.cores + 1)
        if source != destination:
            self.signals.append((written + self.timing.sem_latency, number))

    def asked_all(self, unit: int, name: str, owner: int, t: int) -> None:
        if unit == self.target.cores and name != "fetch" and self.dma is not None:
            self.dma.asked_all(owner, t)

    def came(self, unit: int, name: str, ask: Ask, last_beat: int) -> None:
        if unit == self.target.cores and name != "fetch" and self.dma is not None:
            self.dma.came(ask, last_beat)

    def count(self, t: int) -> None:
        for at, number in [s for s in self.signals if s[0] == t]:
            if self.counts[number] == 255:
                self.lost += 1
            else:
                self.counts[number] += 1
            self.signals.remove((at, number))

    def run(self) -> "ClusterReference":
        """Cycle after cycle until the last FINISH starts."""
        for t in range(LIMIT):
            self.count(t)
            for core in self.cores:
                for name in core.units:
                    core.decide(t, name)
                core.dispatch(t)
                for name in core.units:
                    core.finish(t, name)
                core.fetch(t)
            for memory in self.memories:
                memory.step(t)
            if self.dma is not None:
                self.dma.write(t)
            for port in self.write_ports:
                port.step(t)
            for buffer in self.buffers:
                buffer.step(t)
            if self.dma is not None:
                self.dma.step(t)
            if all(unit.cycles is not None for unit in self.units):
                return self
        raise Stuck

    @property
    def units(self) -> list[Any]:
        return [*self.cores, *([] if self.dma is None else [self.dma])]

    @property
    def cycles(self) -> int:
        return max(unit.cycles for unit in self.units)
