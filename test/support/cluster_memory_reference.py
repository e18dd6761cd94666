"""The memories of a cluster, cycle by cycle: see `cluster_clock_reference`, which runs them.

Each `step` says what a part does in one cycle. `cluster` is the `ClusterReference` that owns it.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

NAMES = ("fetch", "uop", "inp", "wgt", "acc", "copy", "gb copy", "wait")
"""The readers of a unit, by priority."""


@dataclass
class Ask:
    """A read request: its beats, the memory, the word it begins with, its semaphore if it waits."""

    beats: int
    memory: str
    word: int
    semaphore: int | None = None
    owner: int = -1


@dataclass
class Reader:
    """Requests to make: the next one is seen by the arbiter from cycle `visible` on."""

    todo: deque[Ask] = field(default_factory=deque)
    visible: int = 0
    pending: int = 0
    last_beat: int = -1


class ReadMemory:
    """One memory with its arbiters, one for each of its units, and its queue."""

    def __init__(self, cluster: Any, name: str, units: list[int], latency: int):
        self.cluster, self.name, self.units, self.latency = cluster, name, units, latency
        self.beat_cycles = cluster.timing.ddr_beat_cycles if name.startswith("ddr") else 1
        self.queue: deque[tuple[int, int, str, Ask]] = deque()
        self.delay, self.end, self.last = 0, -1, units[-1]
        self.under_way: list[tuple[int, int]] = []

    def step(self, t: int) -> None:
        self.under_way = [(u, e) for u, e in self.under_way if e >= t]
        after = [u for u in self.units if u > self.last]
        for unit in [*after, *(u for u in self.units if u <= self.last)]:
            if self.arbitrate(t, unit):
                self.last = unit
                break
        if self.queue and self.queue[0][0] < t:
            self.delay = min(self.delay + 1, self.latency + 1)
            _, unit, name, ask = self.queue[0]
            if self.delay == self.latency + 1 and self.end <= t and self.open(t, unit, ask):
                self.queue.popleft()
                self.serve(t, unit, name, ask)
                if not self.queue:
                    self.delay = 0

    def arbitrate(self, t: int, unit: int) -> bool:
        """Let the reader of the highest priority of one unit ask."""
        readers = self.cluster.readers[unit]
        waiting = sum(u == unit for _, u, _, _ in self.queue)
        ends = [e for u, e in self.under_way if u == unit]
        if waiting + len(ends) >= self.cluster.preset.outstanding or t in ends:
            return False
        for name in NAMES:
            reader = readers[name]
            if reader.todo and reader.visible <= t and reader.todo[0].memory == self.name:
                self.queue.append((t, unit, name, reader.todo.popleft()))
                reader.visible = t + self.cluster.preset.request_interval
                if not reader.todo:
                    self.cluster.asked_all(unit, name, self.queue[-1][3].owner, t)
                return True
        return False

    def open(self, t: int, unit: int, ask: Ask) -> bool:
        """Whether the memory can take up a request in cycle t."""
        if self.name.startswith("gb"):
            return (t + 1 - ask.word - unit) % self.cluster.timing.gb_banks == 0
        if self.name.startswith("sem") and ask.semaphore is not None:
            if not self.cluster.counts[ask.semaphore]:
                return False
            self.cluster.counts[ask.semaphore] -= 1
        return True

    def serve(self, t: int, unit: int, name: str, ask: Ask) -> None:
        reader = self.cluster.readers[unit][name]
        self.end = t + ask.beats * self.beat_cycles
        self.under_way.append((unit, self.end))
        beats = range(t + self.beat_cycles, self.end + 1, self.beat_cycles)
        self.cluster.beats[unit].update((name, beat) for beat in beats)
        reader.pending -= 1
        reader.last_beat = max(reader.last_beat, self.end)
        self.cluster.came(unit, name, ask, self.end)


class WritePort:
    """The write port of a DDR channel: who asks, and since when."""

    def __init__(self, units: int) -> None:
        self.asks: dict[int, tuple[int, int, Callable[[int], None]]] = {}
        self.free, self.last = 0, units - 1

    def step(self, t: int) -> None:
        ready = {u: a for u, a in self.asks.items() if a[0] <= t}
        if self.free > t or not ready:
            return
        first = min(a[0] for a in ready.values())
        unit = min(
            (u for u, a in ready.items() if a[0] == first), key=lambda u: (u <= self.last, u)
        )
        _, hold, answer = self.asks.pop(unit)
        self.free, self.last = t + hold, unit
        answer(t + hold)


class WriteBuffer:
    """A unit's two places in front of GB and semaphores: one accepts, one waits for its bank."""

    def __init__(self, cluster: Any, unit: int) -> None:
        self.cluster, self.unit = cluster, unit
        self.accepting: tuple[int, BufferedWrite] | None = None
        self.waiting: BufferedWrite | None = None
        self.drained = 0

    def accept(self, at: int, hold: int, request: "BufferedWrite") -> None:
        """Begin to accept a request in cycle `at`."""
        self.accepting = (at + hold, request)

    def step(self, t: int) -> None:
        """A request that is accepted follows the one before; then the next one is accepted."""
        if self.accepting is not None and self.waiting is None:
            accepted, request = self.accepting
            if t >= accepted and t >= self.drained:
                self.waiting, self.accepting = request, None
                if not request.last:
                    request.answer(t)
        banks = self.cluster.timing.gb_banks
        if (waits := self.waiting) is None:
            return
        if waits.word is None or (t - waits.word - self.unit) % banks == 0:
            self.waiting, self.drained = None, t + waits.beats
            waits.written(t + waits.beats)


@dataclass
class BufferedWrite:
    """A request in a write buffer."""

    beats: int
    word: int | None
    last: bool
    answer: Callable[[int], None]
    written: Callable[[int], None]
