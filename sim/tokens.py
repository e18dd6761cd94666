"""Modules, dependence tokens, and the orders they allow.

Modules run their own instructions in order and exchange tokens through queues (`System`); the k-th
pop of a queue matches its k-th push (technical report, section 2.3). Tokens carry no data,
so the orders a program allows follow from its flags alone: `schedule` picks one of them, `clocks`
says what holds in all of them (vector clocks: Mattern, "Virtual Time and Global States of
Distributed Systems", 1989).
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from ..dialects.target import Module, Queue, System, Target
from ..dialects.vta.encoding import Finish, Instruction, Load, Store, opcode_of
from .errors import SimulationError


def module_of(instruction: Instruction, system: System) -> Module:
    """The module whose queue an instruction goes to."""
    if isinstance(instruction, Store):
        return system.stores
    if isinstance(instruction, Load):
        return system.moves[instruction.memory]
    return system.runs[opcode_of(instruction).name]


@dataclass(frozen=True)
class Flow:
    """The tokens of a program; all lists are in program order.

    `pops` and `pushes` are queues; `members` has the instructions of each module, in order.
    """

    system: System
    modules: list[Module]
    pops: list[tuple[Queue, ...]]
    pushes: list[tuple[Queue, ...]]
    members: tuple[list[int], ...]
    finish: int

    @classmethod
    def of(cls, program: Sequence[Instruction], system: System) -> "Flow":
        """The flow of a program. Flags towards a module that does not exist do nothing."""
        modules, pops, pushes = [], [], []
        members: tuple[list[int], ...] = tuple([] for _ in system.modules)
        for index, x in enumerate(program):
            module = module_of(x, system)
            modules.append(module)
            members[module].append(index)
            pops.append(system.pops[module, x.pop_prev, x.pop_next])
            pushes.append(system.pushes[module, x.push_prev, x.push_next])
        finish = next((i for i, x in enumerate(program) if isinstance(x, Finish)), -1)
        return cls(system, modules, pops, pushes, members, finish)


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
    count = len(flow.members)
    tokens, done, room = [0] * len(flow.system.queues), [0] * count, [queue_depth or total] * count
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
    for queue in flow.system.queues:
        pushes = [index for index in flow.members[queue.source] if queue in flow.pushes[index]]
        pops = sum(queue in flow.pops[index] for index in flow.members[queue.sink])
        if (left := len(pushes) - pops) > 0:
            found.append((f"{left} {queue} token{'s' * (left > 1)} left over", pushes[-1]))
    return found


def starved(flow: Flow) -> list[tuple[int, Queue]]:
    """For each queue that lacks a push, the first pop without one, in program order."""
    found = []
    for queue in flow.system.queues:
        pushes = sum(queue in flow.pushes[index] for index in flow.members[queue.source])
        pops = [index for index in flow.members[queue.sink] if queue in flow.pops[index]]
        found += [(index, queue) for index in pops[pushes : pushes + 1]]
    return sorted(found)


def verify_tokens(
    target: Target, program: Sequence[Instruction], flow: Flow, order: Sequence[int]
) -> None:
    """Raise `SimulationError` on tokens that a queue lacks, keeps at FINISH or cannot hold.

    order: one that the tokens allow; it may end before all instructions have run.
    """
    for index, queue in starved(flow):
        raise SimulationError(index, program[index], f"nobody pushes the {queue} token it pops")
    for message, last in verify_balance(flow):
        raise SimulationError(
            flow.finish, program[flow.finish], f"{message}, the last pushed by instruction {last}"
        )
    pushed = [sum(queue in queues for queues in flow.pushes) for queue in flow.system.queues]
    if max(pushed) > target.token_depth:
        if len(order) < len(program):
            order = schedule(flow, None, through=True).order
        for index, queue in overflows(flow, clocks(flow, order), target.token_depth):
            raise SimulationError(
                index,
                program[index],
                f"its {queue} token may be one too many: the queue holds {target.token_depth}",
            )


Clock = tuple[int, ...]
"""How many instructions of each module are done."""


def clocks(flow: Flow, order: Sequence[int]) -> list[Clock]:
    """For each instruction, how many of each module's are done before it starts, in every order.

    ``order`` is any order the tokens allow; instructions that it lacks have no clock (zeros).
    """
    nothing: Clock = (0,) * len(flow.members)
    start = [nothing] * len(flow.modules)
    module_clock = [nothing] * len(flow.members)
    in_flight: list[list[Clock]] = [[] for _ in flow.system.queues]
    popped = [0] * len(in_flight)
    for index in order:
        module = flow.modules[index]
        clock = module_clock[module]
        for queue in flow.pops[index]:
            clock = tuple(map(max, clock, in_flight[queue][popped[queue]]))
            popped[queue] += 1
        start[index] = clock
        after = (*clock[:module], clock[module] + 1, *clock[module + 1 :])
        module_clock[module] = after
        for queue in flow.pushes[index]:
            in_flight[queue].append(after)
    return start


def overflows(flow: Flow, start: Sequence[Clock], depth: int) -> list[tuple[int, Queue]]:
    """The pushes that find their queue full in some order, with the queue.

    The k-th push is safe if all but ``depth - 1`` of the earlier ones are popped in every order.
    """
    found = []
    for queue in flow.system.queues:
        popped_by = [0]
        for index in flow.members[queue.sink]:
            popped_by.append(popped_by[-1] + (queue in flow.pops[index]))
        pushed = 0
        for index in flow.members[queue.source]:
            if queue in flow.pushes[index]:
                pushed += 1
                if pushed - popped_by[start[index][queue.sink]] > depth:
                    found.append((index, queue))
                    break
    return sorted(found)
