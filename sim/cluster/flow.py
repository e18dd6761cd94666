"""Modules, tokens and semaphores of a whole cluster, and the orders that they allow.

A cluster of N cores has 3 N modules and the DMA, each of which runs its own steps in order. Queues
are the 4 token queues of each core and the semaphores; the k-th pop of a queue matches its k-th
push, and neither carries data. So the orders that a program allows follow from its tokens and
semaphores alone: `schedule` picks one of them, `clocks` says what holds in all of them (vector
clocks, see `sim.tokens`, which has the same for one core).
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from ...dialects.target import System
from ...dialects.target.windows import SEMAPHORE_DEPTH, semaphore_units
from ...dialects.vta.dma import DmaFinish
from ..tokens import Flow
from .program import ClusterProgram


@dataclass(frozen=True)
class ClusterFlow:
    """The steps of all units, numbered unit by unit, and what they pop and push.

    offsets: the first step of each unit, and behind the last. modules: the module of each step:
    3 u + m for module m of core u, 3 N for the DMA. pops, pushes: queues of each step: 4 u + q for
    token queue q of core u, 4 N + s for semaphore s. members: the steps of each module, in order.
    finishes: the FINISH of each unit.
    """

    program: ClusterProgram
    offsets: list[int]
    modules: list[int]
    pops: list[tuple[int, ...]]
    pushes: list[tuple[int, ...]]
    members: list[list[int]]
    finishes: list[int]

    @classmethod
    def of(cls, program: ClusterProgram) -> "ClusterFlow":
        """The flow of a program."""
        cores, system = program.cluster.cores, program.cluster.core.system
        width, queues = len(system.modules), len(system.queues)
        flow = cls(program, [0], [], [], [], [[] for _ in range(width * cores + 1)], [])
        for unit, instructions in enumerate(program.cores):
            own, first = Flow.of(instructions, system), flow.offsets[-1]
            flow.modules.extend(width * unit + module for module in own.modules)
            flow.pops.extend(tuple(queues * unit + q for q in found) for found in own.pops)
            flow.pushes.extend(tuple(queues * unit + q for q in found) for found in own.pushes)
            for module in system.modules:
                members = [first + index for index in own.members[module]]
                flow.members[width * unit + module] = members
            flow._add_unit(unit, len(instructions), first + own.finish)
        if commands := program.commands:
            first, count = flow.offsets[-1], len(commands)
            flow.modules.extend([width * cores] * count)
            flow.pops.extend([()] * count)
            flow.pushes.extend([()] * count)
            flow.members[-1].extend(range(first, first + count))
            finish = next(i for i, x in enumerate(commands) if isinstance(x, DmaFinish))
            flow._add_unit(cores, count, first + finish)
        return flow

    @property
    def _system(self) -> System:
        return self.program.cluster.core.system

    @cached_property
    def width(self) -> int:
        """Modules of a core."""
        return len(self._system.modules)

    @cached_property
    def _tokens(self) -> int:
        """Token queues of a core."""
        return len(self._system.queues)

    def _add_unit(self, unit: int, count: int, finish: int) -> None:
        first, base = self.offsets[-1], self._tokens * self.program.cluster.cores
        counted = self.program.counted
        for index, numbers in self.program.waits[unit].items():
            self.pops[first + index] += tuple(base + number for number in counted(numbers))
        for index, numbers in self.program.signals[unit].items():
            self.pushes[first + index] += tuple(base + number for number in counted(numbers))
        self.offsets.append(first + count)
        self.finishes.append(finish)

    @property
    def queues(self) -> int:
        """How many queues there are."""
        cores = self.program.cluster.cores
        return self._tokens * cores + (cores + 1) ** 2

    def unit_of(self, step: int) -> int:
        """The unit of a step."""
        return self.modules[step] // self.width

    def place_of(self, step: int) -> tuple[int, int]:
        """The unit of a step, and its place in the unit's stream."""
        unit = self.unit_of(step)
        return unit, step - self.offsets[unit]

    def depth(self, queue: int) -> int:
        """How much a queue holds."""
        is_token = queue < self._tokens * self.program.cluster.cores
        return self.program.cluster.core.token_depth if is_token else SEMAPHORE_DEPTH

    def consumer(self, queue: int) -> int:
        """The module that pops a queue."""
        core, own = divmod(queue, self._tokens)
        if core < self.program.cluster.cores:
            return self.width * core + self._system.queues[own].sink
        destination = self._units(queue)[1]
        load = self.width * destination + self._system.moves[self._system.activations]
        return load if destination < self.program.cluster.cores else self.width * destination

    def producer(self, queue: int) -> int:
        """The module that pushes a queue."""
        core, own = divmod(queue, self._tokens)
        if core < self.program.cluster.cores:
            return self.width * core + self._system.queues[own].source
        source = self._units(queue)[0]
        store = self.width * source + self._system.stores
        return store if source < self.program.cluster.cores else self.width * source

    def _units(self, queue: int) -> tuple[int, int]:
        cores = self.program.cluster.cores
        return semaphore_units(cores, queue - self._tokens * cores)

    def queue_name(self, queue: int) -> str:
        """``load to compute token of core0`` or ``signal from core1 to dma``."""
        cluster = self.program.cluster
        core, own = divmod(queue, self._tokens)
        if core < cluster.cores:
            return f"{self._system.queues[own]} token of {cluster.unit_name(core)}"
        source, destination = self._units(queue)
        return f"signal from {cluster.unit_name(source)} to {cluster.unit_name(destination)}"

    def module_name(self, module: int) -> str:
        """``core0 load``, ``dma``: how messages call a module."""
        unit, own = divmod(module, self.width)
        name = self.program.cluster.unit_name(unit)
        return f"{name} {self._system.modules[own]}" if unit < self.program.cluster.cores else name


@dataclass(frozen=True)
class ClusterSchedule:
    """One order that tokens and semaphores allow, up to the last FINISH or until nothing can start.

    blocked: where some FINISH did not run, the head of each module that waits, and the queues that
    it finds empty. full: for each unit whose fetch stands before a full queue, the step that has no
    place.
    """

    order: list[int]
    blocked: list[tuple[int, list[int]]]
    full: list[int]


class _Run:
    """The state of a run: what each module has done, what fetch has brought, what queues hold."""

    def __init__(self, flow: ClusterFlow, depth: int | None) -> None:
        self.flow = flow
        count = len(flow.members)
        self.done = [0] * count
        self.room = [len(flow.modules) if depth is None else depth] * count
        self.held = [0] * flow.queues
        self.fetched = list(flow.offsets[:-1])
        self.awake: list[int] = []
        self._is_awake = [False] * count
        for unit in range(len(self.fetched)):
            self._fetch(unit)
        for module in range(count):
            if flow.members[module]:
                self._wake(module)

    def _wake(self, module: int) -> None:
        if not self._is_awake[module]:
            self._is_awake[module] = True
            self.awake.append(module)

    def _fetch(self, unit: int) -> None:
        position, end, modules = self.fetched[unit], self.flow.offsets[unit + 1], self.flow.modules
        while position < end and self.room[modules[position]]:
            self.room[modules[position]] -= 1
            self._wake(modules[position])
            position += 1
        self.fetched[unit] = position

    def head(self, module: int) -> int | None:
        """The next step of a module, if fetch has brought it."""
        members, done = self.flow.members[module], self.done[module]
        if done == len(members) or members[done] >= self.fetched[self.flow.unit_of(members[done])]:
            return None
        return members[done]

    def ready(self, module: int) -> int | None:
        """The next step of a module, if it can start; else the module sleeps."""
        head = self.head(module)
        if head is not None and all(self.held[queue] for queue in self.flow.pops[head]):
            return head
        self._is_awake[module] = False
        self.awake.remove(module)
        return None

    def run(self, step: int) -> None:
        """Run a step that is ready."""
        flow = self.flow
        module = flow.modules[step]
        self.done[module] += 1
        self.room[module] += 1
        for queue in flow.pops[step]:
            self.held[queue] -= 1
        for queue in flow.pushes[step]:
            self.held[queue] += 1
            self._wake(flow.consumer(queue))
        unit = flow.unit_of(step)
        if self.fetched[unit] < flow.offsets[unit + 1]:
            self._fetch(unit)


def schedule(
    flow: ClusterFlow, depth: int | None, seed: int | None = None, through: bool = False
) -> ClusterSchedule:
    """Run the tokens and semaphores of a program.

    Without a seed each unit runs as far as it can, in its program order where that is legal, before
    the next one does; with one, a random ready module goes next. At most `depth` steps of a module
    are fetched and not done; fetch waits for room in program order. ``through`` goes on behind the
    last FINISH, to whatever can still start.
    """
    run, order, left = _Run(flow, depth), [], set(flow.finishes)
    rng = None if seed is None else random.Random(seed)
    unit = 0
    while run.awake and (left or through):
        if rng is not None:
            step = run.ready(rng.choice(run.awake))
        else:
            steps = [run.ready(m) for m in list(run.awake) if m // flow.width == unit]
            step = min((found for found in steps if found is not None), default=None)
            if step is None:
                unit = (unit + 1) % len(flow.finishes)
        if step is not None:
            run.run(step)
            order.append(step)
            left.discard(step)
    heads = [head for m in range(len(flow.members)) if (head := run.head(m)) is not None]
    blocked = [(head, [q for q in flow.pops[head] if not run.held[q]]) for head in sorted(heads)]
    full = [at for at, end in zip(run.fetched, flow.offsets[1:], strict=True) if at < end]
    return ClusterSchedule(order, blocked if left else [], full if left else [])


def deadlock_reason(flow: ClusterFlow, stuck: ClusterSchedule, depth: int) -> str:
    """Why a schedule that did not finish cannot go on."""
    waits = []
    for step, queues in stuck.blocked:
        unit, index = flow.place_of(step)
        names = " and a ".join(map(flow.queue_name, queues))
        waits.append(f"{flow.program.cluster.unit_name(unit)} {index} waits for a {names}")
    for step in stuck.full:
        unit, index = flow.place_of(step)
        name = flow.program.cluster.unit_name(unit)
        waits.append(f"fetch of {name} waits at {index}, whose module already holds {depth}")
    return "; ".join(waits)


def balance(flow: ClusterFlow) -> list[tuple[str, int]]:
    """Queues whose pushes and pops differ in number: what is wrong, and a step that it is about.

    The step is the last push where something is left over, the first pop without a push where
    something is missing.
    """
    pushed: list[list[int]] = [[] for _ in range(flow.queues)]
    popped: list[list[int]] = [[] for _ in range(flow.queues)]
    for members in flow.members:
        for step in members:
            for queue in flow.pushes[step]:
                pushed[queue].append(step)
            for queue in flow.pops[step]:
                popped[queue].append(step)
    found = []
    for queue in range(flow.queues):
        left = len(pushed[queue]) - len(popped[queue])
        if left > 0:
            found.append((f"{left} {flow.queue_name(queue)} left over", pushed[queue][-1]))
        elif left < 0:
            name = flow.queue_name(queue)
            found.append((f"nobody pushes the {name} it pops", popped[queue][len(pushed[queue])]))
    return found


Clock = tuple[int, ...]


def clocks(flow: ClusterFlow, order: Sequence[int]) -> list[Clock]:
    """For each step, how many of each module's are done before it starts, in every order.

    ``order`` is any order the queues allow; steps that it lacks have no clock (zeros). A COPY of
    the DMA is done for the DMA itself only at its next SIGNAL, since COPYs overlap.
    """
    count = len(flow.members)
    zeros = (0,) * count
    start: list[Clock] = [zeros] * len(flow.modules)
    known: list[Clock] = [zeros] * count
    done = [0] * count
    in_flight: list[list[Clock]] = [[] for _ in range(flow.queues)]
    popped = [0] * flow.queues
    dma = count - 1
    signals = flow.program.signals[-1] if flow.program.cluster.dma else {}
    commands = flow.offsets[flow.program.cluster.cores]
    for step in order:
        module = flow.modules[step]
        clock = known[module]
        for queue in flow.pops[step]:
            other = in_flight[queue][popped[queue]]
            popped[queue] += 1
            clock = tuple(map(max, clock, other))
        done[module] += 1
        if module == dma and (step - commands in signals or step == flow.finishes[-1]):
            clock = (*clock[:dma], done[dma] - 1)
        start[step] = clock
        if module != dma or step - commands in signals:
            after = (*clock[:module], done[module], *clock[module + 1 :])
        else:
            after = clock
        known[module] = after
        for queue in flow.pushes[step]:
            in_flight[queue].append(after)
    return start


def overflows(flow: ClusterFlow, start: Sequence[Clock]) -> list[tuple[int, int]]:
    """The pushes that find their queue full in some order, with the queue: the first of each.

    The k-th push is safe if all but ``depth - 1`` of the earlier ones are popped in every order.
    """
    found = []
    used = {queue for queues in flow.pushes for queue in queues}
    for queue in sorted(used):
        consumer, depth = flow.consumer(queue), flow.depth(queue)
        popped_by = [0]
        for step in flow.members[consumer]:
            popped_by.append(popped_by[-1] + flow.pops[step].count(queue))
        pushed = 0
        for step in flow.members[flow.producer(queue)]:
            if times := flow.pushes[step].count(queue):
                pushed += times
                if pushed - popped_by[start[step][consumer]] > depth:
                    found.append((step, queue))
                    break
    return found
