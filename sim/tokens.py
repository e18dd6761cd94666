"""Modules, dependence tokens, and the orders they allow.

Load, compute and store run their own instructions in order and exchange tokens through four queues;
the k-th pop of a queue matches its k-th push (technical report, section 2.3). Tokens carry no data,
so the orders a program allows follow from its flags alone: `schedule` picks one of them, `clocks`
says what holds in all of them (vector clocks: Mattern, "Virtual Time and Global States of
Distributed Systems", 1989).
"""

import enum
import random
from collections.abc import Sequence
from dataclasses import dataclass

from ..dialects.target import Memory, Target
from ..dialects.vta.encoding import Finish, Instruction, Load, Store
from .errors import SimulationError


class Module(enum.IntEnum):
    """The modules that run instructions."""

    LOAD = 0
    COMPUTE = 1
    STORE = 2


class Queue(enum.IntEnum):
    """The dependence queues, named from the pushing to the popping module."""

    LOAD_TO_COMPUTE = 0
    COMPUTE_TO_LOAD = 1
    COMPUTE_TO_STORE = 2
    STORE_TO_COMPUTE = 3

    def __str__(self) -> str:
        return self.name.lower().replace("_", " ")


PRODUCER = {
    Queue.LOAD_TO_COMPUTE: Module.LOAD,
    Queue.COMPUTE_TO_LOAD: Module.COMPUTE,
    Queue.COMPUTE_TO_STORE: Module.COMPUTE,
    Queue.STORE_TO_COMPUTE: Module.STORE,
}
CONSUMER = {
    Queue.LOAD_TO_COMPUTE: Module.COMPUTE,
    Queue.COMPUTE_TO_LOAD: Module.LOAD,
    Queue.COMPUTE_TO_STORE: Module.STORE,
    Queue.STORE_TO_COMPUTE: Module.COMPUTE,
}


def module_of(instruction: Instruction) -> Module:
    """The module whose queue an instruction goes to."""
    if isinstance(instruction, Store):
        return Module.STORE
    if isinstance(instruction, Load):
        memory = instruction.memory
        return Module.LOAD if memory is Memory.INP or memory is Memory.WGT else Module.COMPUTE
    return Module.COMPUTE


@dataclass(frozen=True)
class Flow:
    """The tokens of a program; all lists are in program order.

    `pops` and `pushes` are queues; `members` has the instructions of each module, in order.
    """

    modules: list[Module]
    pops: list[tuple[Queue, ...]]
    pushes: list[tuple[Queue, ...]]
    members: tuple[list[int], list[int], list[int]]
    finish: int

    @classmethod
    def of(cls, program: Sequence[Instruction]) -> "Flow":
        """The flow of a program. Flags towards a module that does not exist do nothing."""
        modules, pops, pushes = [], [], []
        members: tuple[list[int], list[int], list[int]] = ([], [], [])
        for index, x in enumerate(program):
            module = module_of(x)
            modules.append(module)
            members[module].append(index)
            pops.append(CONSUMES[module, x.pop_prev, x.pop_next])
            pushes.append(PRODUCES[module, x.push_prev, x.push_next])
        finish = next((i for i, x in enumerate(program) if isinstance(x, Finish)), -1)
        return cls(modules, pops, pushes, members, finish)


def _sides(
    queues: dict[Module, tuple[Queue | None, Queue | None]],
) -> dict[tuple[Module, bool, bool], tuple[Queue, ...]]:
    return {
        (module, bool(prev), bool(next_)): tuple(
            queue for queue, flag in ((before, prev), (after, next_)) if flag and queue is not None
        )
        for module, (before, after) in queues.items()
        for prev in (False, True)
        for next_ in (False, True)
    }


# Module and its flags (prev, next) to the queues that it pops.
CONSUMES = _sides(
    {
        Module.LOAD: (None, Queue.COMPUTE_TO_LOAD),
        Module.COMPUTE: (Queue.LOAD_TO_COMPUTE, Queue.STORE_TO_COMPUTE),
        Module.STORE: (Queue.COMPUTE_TO_STORE, None),
    }
)
# The same for the queues that it pushes.
PRODUCES = _sides(
    {
        Module.LOAD: (None, Queue.LOAD_TO_COMPUTE),
        Module.COMPUTE: (Queue.COMPUTE_TO_LOAD, Queue.COMPUTE_TO_STORE),
        Module.STORE: (Queue.STORE_TO_COMPUTE, None),
    }
)


@dataclass(frozen=True)
class Schedule:
    """One order the tokens allow, until FINISH or until nothing can start.

    `order` has the instructions that ran; `blocked` the head of each module that waits (and for
    which empty queues) if FINISH was not reached; `fetch` the instruction that found its module's
    queue full, if one did.
    """

    order: list[int]
    blocked: list[tuple[int, list[Queue]]]
    fetch: int | None

    @property
    def finished(self) -> bool:
        """Whether FINISH ran."""
        return not self.blocked and self.fetch is None


def schedule(
    flow: Flow, queue_depth: int | None, seed: int | None = None, through: bool = False
) -> Schedule:
    """Run the tokens of a program.

    Without a seed the ready instruction that comes first in the program goes next, which is program
    order wherever that is legal; with one, a random ready module. At most ``queue_depth``
    instructions of a module are fetched and not done; fetch waits for room in program order.
    ``through`` goes on behind FINISH, to whatever can still start.
    """
    rng = random.Random(seed) if seed is not None else None
    total = len(flow.modules)
    tokens, done, room = [0] * len(Queue), [0, 0, 0], [queue_depth or total] * 3
    order: list[int] = []
    fetched = 0
    while True:
        while fetched < total and room[flow.modules[fetched]]:
            room[flow.modules[fetched]] -= 1
            fetched += 1
        ready = []
        for module, members in enumerate(flow.members):
            if done[module] < len(members) and (head := members[done[module]]) < fetched:
                for queue in flow.pops[head]:
                    if not tokens[queue]:
                        break
                else:
                    ready.append(head)
        if not ready:
            break
        index = min(ready) if rng is None else rng.choice(ready)
        module = flow.modules[index]
        done[module] += 1
        room[module] += 1
        for queue in flow.pops[index]:
            tokens[queue] -= 1
        for queue in flow.pushes[index]:
            tokens[queue] += 1
        order.append(index)
        if index == flow.finish and not through:
            return Schedule(order, [], None)
    return _stuck(flow, order, tokens, done, fetched)


def _stuck(
    flow: Flow, order: list[int], tokens: list[int], done: list[int], fetched: int
) -> Schedule:
    total = len(flow.modules)
    heads = [
        members[done[module]]
        for module, members in enumerate(flow.members)
        if done[module] < len(members) and members[done[module]] < fetched
    ]
    blocked = [(h, [q for q in flow.pops[h] if not tokens[q]]) for h in sorted(heads)]
    return Schedule(order, blocked, fetched if fetched < total else None)


def deadlock_reason(stuck: Schedule, queue_depth: int) -> str:
    """Why a schedule that did not finish cannot go on."""
    waits = [
        f"instruction {index} waits for a {' and a '.join(map(str, queues))} token"
        for index, queues in stuck.blocked
    ]
    if stuck.fetch is not None:
        waits.append(
            f"fetch waits at instruction {stuck.fetch}, whose module already holds {queue_depth}"
        )
    return "; ".join(waits)


def verify_balance(flow: Flow) -> list[tuple[str, int]]:
    """Queues with tokens left over: what is left, and the last instruction to push one."""
    found = []
    for queue in Queue:
        pushes = [index for index in flow.members[PRODUCER[queue]] if queue in flow.pushes[index]]
        pops = sum(queue in flow.pops[index] for index in flow.members[CONSUMER[queue]])
        if (left := len(pushes) - pops) > 0:
            found.append((f"{left} {queue} token{'s' * (left > 1)} left over", pushes[-1]))
    return found


def starved(flow: Flow) -> list[tuple[int, Queue]]:
    """For each queue that lacks a push, the first pop without one, in program order."""
    found = []
    for queue in Queue:
        pushes = sum(queue in flow.pushes[index] for index in flow.members[PRODUCER[queue]])
        pops = [index for index in flow.members[CONSUMER[queue]] if queue in flow.pops[index]]
        found += [(index, queue) for index in pops[pushes : pushes + 1]]
    return sorted(found)


def verify_tokens(target: Target, program: Sequence[Instruction], flow: Flow) -> None:
    """Raise `SimulationError` on tokens that a queue lacks, keeps at FINISH or cannot hold."""
    for index, queue in starved(flow):
        raise SimulationError(index, program[index], f"nobody pushes the {queue} token it pops")
    for message, last in verify_balance(flow):
        raise SimulationError(
            flow.finish, program[flow.finish], f"{message}, the last pushed by instruction {last}"
        )
    pushed = [sum(queue in queues for queues in flow.pushes) for queue in Queue]
    if max(pushed) > target.token_depth:
        order = schedule(flow, None, through=True).order
        for index, queue in overflows(flow, clocks(flow, order), target.token_depth):
            raise SimulationError(
                index,
                program[index],
                f"its {queue} token may be one too many: the queue holds {target.token_depth}",
            )


Clock = tuple[int, int, int]


def clocks(flow: Flow, order: Sequence[int]) -> list[Clock]:
    """For each instruction, how many of each module's are done before it starts, in every order.

    ``order`` is any order the tokens allow; instructions that it lacks have no clock (zeros).
    """
    start: list[Clock] = [(0, 0, 0)] * len(flow.modules)
    module_clock: list[Clock] = [(0, 0, 0)] * 3
    in_flight: list[list[Clock]] = [[] for _ in Queue]
    popped = [0] * len(Queue)
    for index in order:
        module = flow.modules[index]
        a, b, c = module_clock[module]
        for queue in flow.pops[index]:
            x, y, z = in_flight[queue][popped[queue]]
            popped[queue] += 1
            a, b, c = max(a, x), max(b, y), max(c, z)
        start[index] = (a, b, c)
        after = (a + 1, b, c) if module == 0 else (a, b + 1, c) if module == 1 else (a, b, c + 1)
        module_clock[module] = after
        for queue in flow.pushes[index]:
            in_flight[queue].append(after)
    return start


def overflows(flow: Flow, start: Sequence[Clock], depth: int) -> list[tuple[int, Queue]]:
    """The pushes that find their queue full in some order, with the queue.

    The k-th push is safe if all but ``depth - 1`` of the earlier ones are popped in every order.
    """
    found = []
    for queue in Queue:
        consumer = CONSUMER[queue]
        popped_by = [0]
        for index in flow.members[consumer]:
            popped_by.append(popped_by[-1] + (queue in flow.pops[index]))
        pushed = 0
        for index in flow.members[PRODUCER[queue]]:
            if queue in flow.pushes[index]:
                pushed += 1
                if pushed - popped_by[start[index][consumer]] > depth:
                    found.append((index, queue))
                    break
    return sorted(found)
