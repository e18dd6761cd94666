"""A simple model of when the instructions of a program run, in a given or in a chosen order.

The modules run side by side. An instruction takes cycles of its module; a load also takes
beats of a read channel, which it shares with the other module that loads. The latency of the memory
counts from the start of a load, and its beats pass when the channel has served all earlier
requests. Fetch takes beats of the channel, too, before all others: as soon as instructions are
dispatched it asks for the next ones, until the queues are full. So a program's first loads come
slowly. What fetch brings is there in time: the order that is chosen is one in which instructions
start.

Where the order is free this is list scheduling (Graham, 1966): a module that is idle takes, of the
instructions whose predecessors are done, the first in program order. There is one exception: loads
of a module that computes, such as those of accumulators. They hold up the module while the channel
serves others, so they run early if the channel is quiet, and later if it is busy and there is
something else to compute.

Instead of the first in program order it can take the most urgent one: `urgencies` runs a program
from its end to its beginning, and what starts last there is the most urgent. This is justification
(Valls, Ballestin and Quintanilla, "Justification and RCPSP: A technique that pays", 2005).
"""

import heapq
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from vtac.dialects.target import INSTRUCTION_BYTES, Memory, Module, System, Target, TimingPreset
from vtac.dialects.vta import ComputeOp, GemmOp, MicroOps

_REQUEST = 2
"""Cycles from the start of a load to its first request, besides the latency."""

_ARRIVAL = 4
"""Cycles from the last beat of a load to its end."""

_CARRIER = 2
"""Cycles of an empty instruction that carries a token from STORE to LOAD."""

_DISPATCH = 2
"""Cycles from the last beat of instructions to the dispatch of the first."""

_AHEAD = 4
"""By how many loads a load may stand before the instructions that start when it does."""


class Occupation(NamedTuple):
    """The resources of an instruction: its module, cycles there, and for a load beats of a
    channel."""

    module: Module
    cycles: int
    beats: int | None = None


class ListSchedule(NamedTuple):
    """Instructions in program order as they run, and the cycle in which all are done.

    starts, ends: the cycles in which each instruction starts, and in which the next one of its
    module or one that waits for it can start, by its number.
    """

    order: list[int]
    cycles: int
    starts: list[int]
    ends: list[int]


def transfer_work(target: Target, memory: Memory, y: int, x: int) -> Occupation:
    """What a LOAD of `y` rows of `x` elements takes on a target, or for OUT a STORE."""
    timing, module = target.timing, target.system.moves[memory]
    if x == 0 or y == 0:
        return Occupation(module, 1)
    if memory is target.system.results:
        return Occupation(module, _store_cycles(target, y, x))
    if timing.ideal_memory:
        return Occupation(module, 1, 0)
    row = timing.beats(x * target.element_bytes(memory))
    return Occupation(module, 0, y * max(row, timing.request_interval))


def _store_cycles(target: Target, y: int, x: int) -> int:
    timing, element = target.timing, target.element_bytes(target.system.results)
    if timing.ideal_memory:
        return max(y * x * timing.store_idle_cycles, 1)
    requests = y * -(-x * element // timing.burst_bytes)
    moving = y * x * (timing.store_idle_cycles + timing.beats(element))
    return moving + requests * timing.store_request_cycles


def compute_work(target: Target, op: ComputeOp, micro_ops: MicroOps) -> Occupation:
    """What a GEMM or ALU instruction with these micro-ops takes on a target."""
    outer, inner = op.iterations
    cycles = micro_ops.count * outer * inner * _rate(op, target.timing)
    module = target.system.runs[op.OPCODE.name]
    return Occupation(module, cycles + target.timing.compute_overhead)


def _rate(op: ComputeOp, timing: TimingPreset) -> int:
    """Cycles of a micro-op."""
    if isinstance(op, GemmOp):
        return timing.gemm_cycles
    if "imm" in op.properties:
        return timing.alu_immediate_cycles
    return timing.alu_register_cycles


def run(
    target: Target,
    work: Sequence[Occupation],
    before: Sequence[set[int]],
    *,
    keep_order: bool = False,
    earliest: Sequence[int] | None = None,
    urgency: Sequence[int] | None = None,
    fetches: bool = False,
) -> ListSchedule:
    """Run a program. before: for each instruction those that must be done when it starts.

    keep_order: each module runs its instructions in program order. earliest: the cycle before which
    each instruction does not start, 0 unless given. urgency: a module that is idle takes the
    instruction with the greatest one, of equal ones the first in program order; all are equal
    unless given. fetches: whether the program's own fetch takes beats of the channel.
    """
    return _ListScheduler(target, work, before, keep_order, earliest, urgency, fetches).run()


def urgencies(
    target: Target,
    work: Sequence[Occupation],
    before: Sequence[set[int]],
    starts: Sequence[int],
) -> list[int]:
    """How urgent each instruction is, for `run`: its start in a run from the end to the beginning.

    starts: of each instruction in a run from the beginning; those that started late come first in
    the run from the end.
    """
    count = len(work)
    after: list[set[int]] = [set() for _ in work]
    for number, numbers in enumerate(before):
        for earlier in numbers:
            after[count - 1 - earlier].add(count - 1 - number)
    found = run(target, work[::-1], after, urgency=starts[::-1])
    return found.starts[::-1]


def earliest_loads(
    system: System,
    work: Sequence[Occupation],
    before: Sequence[set[int]],
    starts: Sequence[int],
    ahead: int,
) -> list[int]:
    """For each load the cycle that lies so many cycles before the first start of what needs it.

    starts: of each instruction in some run. Instructions of modules that do more than load, and
    loads that nothing needs, may start at once: 0.
    """
    needed, computing = dict[int, int](), set(system.runs.values())
    for number, numbers in enumerate(before):
        for earlier in numbers:
            if work[earlier].module in system.loaders and work[number].module in computing:
                needed[earlier] = min(starts[number], needed.get(earlier, starts[number]))
    return [max(needed.get(number, 0) - ahead, 0) for number in range(len(work))]


class _Fetch:
    """The instructions of a program as fetch asks for them; the first chunk is there in cycle 0.

    first: the cycle in which it asks for the second. waits: whether queues have no room for the
    chunk that came last. A queue is full when so many more are dispatched than started that the
    busiest module's part of them fills it.
    """

    def __init__(self, timing: TimingPreset, work: Sequence[Occupation]):
        self._timing, self._total = timing, len(work) + 1
        self._most = timing.fetch_instructions
        self._came = min(self._most, self._total)
        self.first = 0 if timing.fetch_ahead else self._came
        self.waits = False
        busiest = max(Counter(each.module for each in work).values(), default=1)
        self._room = timing.queue_depth * len(work) // busiest

    def is_ahead_of(self, started: int) -> bool:
        """Whether the queues are full once so many instructions have started.

        They are if they cannot hold the fetched instructions that have not started.
        """
        return self._came - started > self._room

    def next_beats(self) -> int:
        """The beats of the next chunk; 0 if there is none."""
        return self._timing.beats(INSTRUCTION_BYTES * min(self._most, self._total - self._came))

    def asked(self, arrival: int) -> int:
        """Take the next chunk, whose last beat comes then; returns when the one behind it is asked
        for: when this one is dispatched, or begins to be."""
        count = min(self._most, self._total - self._came)
        self._came += count
        return arrival + _DISPATCH + (0 if self._timing.fetch_ahead else count)


class _ListScheduler:
    """One run. For each module: the instruction that runs, and the ranks of those that could start.

    A carrier has the number of the instruction whose token it brings to one before it in the row of
    modules, as -1 - number.
    """

    def __init__(
        self,
        target: Target,
        work: Sequence[Occupation],
        before: Sequence[set[int]],
        keep_order: bool,
        earliest: Sequence[int] | None,
        urgency: Sequence[int] | None,
        fetches: bool,
    ):
        count, timing, self._system = len(work), target.timing, target.system
        # Lists of instructions hold ranks: the most urgent one has the least.
        keys = [0] * count if urgency is None else [-value for value in urgency]
        self._numbers = sorted(range(count), key=keys.__getitem__)
        self._ranks = [0] * count
        for rank, number in enumerate(self._numbers):
            self._ranks[number] = rank
        modules = self._system.modules
        self._earliest = [0] * count if earliest is None else earliest
        self._starts, self._ends = [0] * count, [0] * count
        self._timing, self._work, self._keep_order = timing, work, keep_order
        self._latency = 0 if timing.ideal_memory else timing.latency
        self._waits = [len(numbers) for numbers in before]
        self._after: list[list[int]] = [[] for _ in range(count)]
        # The instructions that wait for one of a module further down the row, such as a load for a
        # store: a carrier brings them its token.
        self._carried: dict[int, list[int]] = {}
        for number, numbers in enumerate(before):
            for earlier in numbers:
                if work[earlier].module > work[number].module + 1:
                    self._carried.setdefault(earlier, []).append(number)
                else:
                    self._after[earlier].append(number)
        self._turn: list[list[int]] = [[] for _ in modules]
        for number in reversed(range(count)):
            self._turn[work[number].module].append(number)
        # Of modules that also run others, loads apart: these lists come behind.
        self._ready: list[list[int]] = [[] for _ in range(2 * len(modules))]
        self._carriers: list[list[int]] = [[] for _ in modules]
        self._busy = [False] * len(modules)
        self._events: list[tuple[int, int]] = []
        self._now = self._last = 0
        # Cycles in which the channels of modules that only load, and of others, fall free.
        self._free = [0] * min(timing.read_channels, 2)
        self._available = [0] * count
        self._load_keys: list[int] = []
        self._load_starts: list[int] = []
        self._placed: list[tuple[int, int, int, int]] = []
        self._fetch = _Fetch(timing, work) if fetches and not timing.ideal_memory else None
        if self._fetch is not None:
            heapq.heappush(self._events, (self._fetch.first, 2 * count))
        for number, waits in enumerate(self._waits):
            if not waits:
                self._make_ready(number)

    def run(self) -> ListSchedule:
        """See the function `run`."""
        while True:
            for module in self._system.modules:
                if not self._busy[module]:
                    self._begin(module)
            if not self._events:
                break
            self._now = self._events[0][0]
            while self._events and self._events[0][0] == self._now:
                self._end(heapq.heappop(self._events)[1])
        assert len(self._placed) == len(self._work)
        order = [number for *_, number in sorted(self._placed)]
        return ListSchedule(order, self._last, self._starts, self._ends)

    def _make_ready(self, number: int) -> None:
        module, _, beats = self._work[number]
        if self._earliest[number] > self._now:
            heapq.heappush(self._events, (self._earliest[number], len(self._work) + number))
            return
        self._available[number] = self._now
        apart = beats is not None and module not in self._system.loaders
        heapq.heappush(self._ready[module + apart * len(self._busy)], self._ranks[number])

    def _begin(self, module: Module) -> None:
        """Start the next instruction of a module, if there is one."""
        if self._carriers[module]:
            self._busy[module] = True
            carrier = -1 - self._carriers[module].pop()
            heapq.heappush(self._events, (self._now + _CARRIER, carrier))
            return
        ready = self._choose(module)
        if not ready:
            return
        turn = self._turn[module]
        if self._keep_order and turn[-1] != self._numbers[ready[0]]:
            return
        number = self._numbers[heapq.heappop(ready)]
        if self._keep_order:
            turn.pop()
        if self._fetch is not None and self._fetch.waits:
            self._ask(self._fetch)
        self._busy[module] = True
        self._ends[number] = self._end_of(number)
        heapq.heappush(self._events, (self._ends[number], number))
        self._place(number)

    def _choose(self, module: Module) -> list[int]:
        """The list of ranks whose first instruction a module starts; empty if it has none."""
        ready, loads = self._ready[module], self._ready[module + len(self._busy)]
        free = self._free[-1]
        if not loads or not ready:
            return loads or ready
        if self._keep_order:
            return min(loads, ready)
        if free <= self._now + 1 and not any(self._busy[x] for x in self._system.loaders):
            return loads
        if free > self._now + self._latency:
            return ready
        return min(loads, ready)

    def _end_of(self, number: int) -> int:
        """When an instruction that starts now ends; a load takes its beats of the channel."""
        module, cycles, beats = self._work[number]
        if beats is None:
            return self._now + cycles + 1
        only_loads = module in self._system.loaders
        channel = 0 if only_loads else -1
        queued = free = self._free[channel]
        if not only_loads:
            # Of the load before, only so many requests are in front.
            most = self._timing.outstanding * self._timing.burst_beats
            queued = min(queued, self._now + most)
        served = max(self._now + self._latency + _REQUEST, queued)
        self._free[channel] = max(served, free) + beats
        return served + beats + _ARRIVAL + 1

    def _place(self, number: int) -> None:
        """Give an instruction that starts now its place in the program.

        A load stands where it could have started, so that a token that it waits for is not brought
        behind compute instructions that started meanwhile.
        """
        module, key = self._work[number].module, self._now
        self._starts[number] = key
        if module in self._system.loaders:
            key = self._available[number]
            if self._load_keys:
                key = max(key, self._load_keys[-1])
            if len(self._load_starts) >= _AHEAD:
                key = max(key, self._load_starts[-_AHEAD])
            self._load_keys.append(key)
            self._load_starts.append(self._now)
        self._placed.append((key, module, len(self._placed), number))

    def _ask(self, fetch: "_Fetch") -> None:
        """Fetch asks for its next instructions, or waits until queues have room for the last."""
        fetch.waits = fetch.is_ahead_of(len(self._placed))
        if fetch.waits or not (beats := fetch.next_beats()):
            return
        channel = 0 if self._timing.read_channels == 1 else -1
        most = self._timing.outstanding * self._timing.burst_beats
        queued = min(self._free[channel], self._now + most)
        served = max(self._now + self._latency + _REQUEST, queued)
        self._free[channel] = max(served, self._free[channel]) + beats
        heapq.heappush(self._events, (fetch.asked(served + beats), 2 * len(self._work)))

    def _end(self, number: int) -> None:
        """An instruction or a carrier is done, or a load may start from now on."""
        if number == 2 * len(self._work):
            assert self._fetch is not None
            self._ask(self._fetch)
            return
        self._last = self._now
        if number >= len(self._work):
            self._make_ready(number - len(self._work))
            return
        if number < 0:
            earlier = -1 - number
            self._busy[self._between(earlier)] = False
            self._release(self._carried[earlier])
            return
        self._busy[self._work[number].module] = False
        if number in self._carried:
            self._carriers[self._between(number)].append(number)
        self._release(self._after[number])

    def _between(self, number: int) -> Module:
        """The module that carries the token of an instruction on."""
        return self._system.modules[self._work[number].module - 1]

    def _release(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            self._waits[number] -= 1
            if not self._waits[number]:
                self._make_ready(number)
