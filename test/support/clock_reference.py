"""The clock once more, cycle by cycle: what each part of the machine does in cycle t.

The plain definition that the event-driven clock is tested against. It shares the presets and the
decoder, and no rule: memory here is a queue, a port and a counter of the delay, the padding machine
a list of steps, and a load is done when its last beat and its last zero are written. No
`fetch_ahead`, no `ideal_memory`, and no loss of data (`inp_beat_limit`).
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from vtac.dialects.target import Memory, Target
from vtac.dialects.vta.encoding import (
    Alu,
    Compute,
    Finish,
    Gemm,
    Instruction,
    Load,
    Store,
    Transfer,
)
from vtac.sim.timing import TimingPreset

PRIORITY = ("fetch", "uop", "inp", "wgt", "acc")
SPLIT = {
    1: {"fetch": 0, "uop": 0, "inp": 0, "wgt": 0, "acc": 0},
    2: {"fetch": 0, "uop": 0, "inp": 1, "wgt": 1, "acc": 0},
    3: {"fetch": 0, "uop": 1, "inp": 2, "wgt": 2, "acc": 1},
}
READER = {Memory.UOP: "uop", Memory.INP: "inp", Memory.WGT: "wgt", Memory.ACC: "acc"}
LIMIT = 200_000


class Stuck(Exception):  # noqa: N818
    """Nothing happens any more."""


def pieces(preset: TimingPreset, start: int, size: int) -> list[int]:
    """Beats of the requests for a row of bytes, by walking over its beats."""
    port, burst = preset.port_bytes, preset.burst_beats
    found: list[int] = []
    for number, beat in enumerate(range(start // port, (start + size - 1) // port + 1)):
        border = beat % burst == 0 if preset.aligned_bursts else number % burst == 0
        if border or not found:
            found.append(0)
        found[-1] += 1
    return found


@dataclass
class Reader:
    """Requests to make: the next one is seen by the arbiter from cycle `visible` on."""

    todo: deque[int] = field(default_factory=deque)
    visible: int = 0
    pending: int = 0
    last_beat: int = -1


class Port:
    """One read channel: arbiter, queue of requests, the memory behind."""

    def __init__(self, preset: TimingPreset, names: Sequence[str]) -> None:
        self.preset, self.names = preset, names
        self.queue: deque[tuple[int, str, int]] = deque()
        self.delay = 0
        self.served: list[tuple[str, int, int]] = []

    def beat(self, t: int) -> str | None:
        """Whose beat passes in cycle t."""
        latest = self.served[-4:]
        return next((name for name, start, end in latest if start < t <= end), None)

    def step(self, t: int, readers: dict[str, Reader]) -> None:
        """Arbiter and memory in cycle t."""
        end = self.served[-1][2] if self.served else -1
        under_way = len(self.queue) + (end >= t)
        seen = [n for n in self.names if readers[n].todo and readers[n].visible <= t]
        if seen and under_way < self.preset.outstanding and end != t:
            reader = readers[seen[0]]
            self.queue.append((t, seen[0], reader.todo.popleft()))
            reader.visible = t + self.preset.request_interval
        if self.queue and self.queue[0][0] < t:
            self.delay = min(self.delay + 1, self.preset.latency + 1)
            if self.delay == self.preset.latency + 1 and end <= t:
                _, name, beats = self.queue.popleft()
                self.served.append((name, t, t + beats))
                readers[name].pending -= 1
                readers[name].last_beat = t + beats
                if not self.queue:
                    self.delay = 0


class Unit:
    """Load, compute or store: a queue of instructions, the first one maybe running."""

    def __init__(self) -> None:
        self.queue: deque[tuple[int, int]] = deque()
        self.start: int | None = None
        self.idle_from = 0
        self.zeros: list[str] = []
        self.zeros_from = 0


class ReferenceClock:
    """Runs one program; `start` and `end` by instruction, `cycles` in all."""

    def __init__(
        self, target: Target, preset: TimingPreset, program: Sequence[Instruction]
    ) -> None:
        self.target, self.preset, self.program = target, preset, program
        self.units = {"load": Unit(), "compute": Unit(), "store": Unit()}
        self.tokens = {"lc": 0, "cl": 0, "cs": 0, "sc": 0}
        self.readers = {name: Reader() for name in PRIORITY}
        split = SPLIT[preset.read_channels]
        self.ports = [
            Port(preset, [name for name in PRIORITY if split[name] == number])
            for number in range(preset.read_channels)
        ]
        self.start: dict[int, int] = {}
        self.end: dict[int, int] = {}
        self.cycles: int | None = None
        self.fetched = self.dispatched = 0
        self.command, self.ready = 1, -1

    def run(self) -> "ReferenceClock":
        """Cycle after cycle until FINISH starts."""
        for t in range(LIMIT):
            for name in self.units:
                self.decide(t, name)
            self.dispatch(t)
            for name in self.units:
                self.finish(t, name)
            self.fetch(t)
            for port in self.ports:
                port.step(t, self.readers)
            if self.cycles is not None:
                return self
        raise Stuck

    def unit_of(self, instruction: Instruction) -> str:
        if isinstance(instruction, Store):
            return "store"
        loads = isinstance(instruction, Load) and instruction.memory in (Memory.INP, Memory.WGT)
        return "load" if loads else "compute"

    def flags(self, name: str, prev: bool, following: bool, pops: bool) -> list[str]:
        sides = {"load": ("", "c"), "compute": ("l", "s"), "store": ("c", "")}[name]
        found = [side for side, flag in zip(sides, (prev, following), strict=True) if flag and side]
        return [side + name[0] if pops else name[0] + side for side in found]

    def decide(self, t: int, name: str) -> None:
        """Start the first instruction of the queue in cycle t + 1."""
        unit = self.units[name]
        if unit.start is not None or unit.idle_from > t or not unit.queue:
            return
        index, since = unit.queue[0]
        x = self.program[index]
        needs = self.flags(name, x.pop_prev, x.pop_next, pops=True)
        if since >= t or not all(self.tokens[token] for token in needs):
            return
        for token in needs:
            self.tokens[token] -= 1
        unit.start = self.start[index] = t + 1
        if isinstance(x, Finish):
            self.cycles = t + 1
        elif isinstance(x, Load) and x.x_size:
            self.begin_load(t + 1, unit, x)

    def begin_load(self, start: int, unit: Unit, x: Load) -> None:
        reader, size = self.readers[READER[x.memory]], self.target.element_bytes(x.memory)
        for row in range(x.y_size):
            at = (x.dram_base + row * x.x_stride) * size
            reader.todo.extend(pieces(self.preset, at, x.x_size * size))
        reader.pending = len(reader.todo)
        reader.visible = start + 1 + x.y_pad_0
        beside = x.x_pad_0 + x.x_pad_1
        walk = "walk" if x.y_pad_1 and not beside else ""
        middle = [walk] * x.y_size if walk else ["zero"] * (beside * x.y_size)
        above, below = x.y_pad_0 * x.sram_width, x.y_pad_1 * x.sram_width
        unit.zeros = ["zero"] * above + middle + ["zero"] * below
        unit.zeros_from = start if x.memory is Memory.UOP else start + 1

    def finish(self, t: int, name: str) -> None:
        """In cycle t the running instruction may be done; its zeros are written meanwhile."""
        unit = self.units[name]
        if unit.start is None or t < unit.start:
            return
        index = unit.queue[0][0]
        x = self.program[index]
        if isinstance(x, Load) and x.x_size:
            if not self.load_done(t, unit, x):
                return
        elif t < unit.start + self.duration(x) - 1:
            return
        unit.queue.popleft()
        unit.start, unit.idle_from = None, t + 1
        self.end[index] = t + 1
        for token in self.flags(name, x.push_prev, x.push_next, pops=False):
            self.tokens[token] = min(self.tokens[token] + 1, self.preset.token_depth)

    def load_done(self, t: int, unit: Unit, x: Load) -> bool:
        name = READER[x.memory]
        reader, uop = self.readers[name], x.memory is Memory.UOP
        delay = 1 if uop else 2
        beats = any(port.beat(t - delay) == name for port in self.ports)
        idle = not unit.zeros
        if unit.zeros and t >= unit.zeros_from and (not beats or unit.zeros[0] == "walk"):
            unit.zeros.pop(0)
        served = not reader.todo and not reader.pending
        return idle and served and t >= reader.last_beat + delay + 1

    def duration(self, x: Instruction) -> int:
        preset = self.preset
        if isinstance(x, Compute):
            cost = preset.gemm_cycles
            if isinstance(x, Alu):
                cost = preset.alu_immediate_cycles if x.use_imm else preset.alu_register_cycles
            assert isinstance(x, Gemm | Alu)
            return x.micro_ops * cost + preset.compute_overhead
        assert isinstance(x, Transfer | Finish)
        if isinstance(x, Finish) or x.x_size == 0:
            return 1
        size, total = self.target.element_bytes(x.memory), 0
        for row in range(x.y_size):
            at = (x.dram_base + row * x.x_stride) * size
            requests = pieces(preset, at, x.x_size * size)
            total += preset.store_request_cycles * len(requests) + sum(requests)
        return total + preset.store_idle_cycles * x.x_size * x.y_size

    def dispatch(self, t: int) -> None:
        if self.dispatched == self.fetched or t < self.ready:
            return
        unit = self.units[self.unit_of(self.program[self.dispatched])]
        if len(unit.queue) == self.preset.queue_depth:
            return
        unit.queue.append((self.dispatched, t))
        self.dispatched += 1
        if self.dispatched == self.fetched:
            self.command = t + 2

    def fetch(self, t: int) -> None:
        """Command the next chunk; it may be dispatched two cycles after its last beat."""
        reader = self.readers["fetch"]
        if t == self.command and self.fetched < len(self.program):
            first = self.fetched
            self.fetched = min(len(self.program), first + self.preset.fetch_instructions)
            reader.todo.extend(pieces(self.preset, first * 16, (self.fetched - first) * 16))
            reader.pending, reader.visible = len(reader.todo), t + 1
            self.ready = LIMIT
        elif not reader.todo and not reader.pending and self.ready == LIMIT:
            self.ready = reader.last_beat + 2
