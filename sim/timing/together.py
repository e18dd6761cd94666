"""Machines that run at the same time, alone or on shared channels."""

from collections.abc import Sequence
from functools import partial
from typing import Protocol

from .channel import NEVER, Transfer
from .channels import ReadChannel, Writes, Writing
from .machine import CoreClock, Timeline


class Referee(Protocol):
    """Decides, in order of time, whether tokens or signals are lost. A `CoreClock` is a referee."""

    @property
    def undecided(self) -> int:
        """The cycle up to which channels may advance before this referee decides; `NEVER` if it has
        nothing to decide."""

    def decide(self) -> None:
        """Decide what `undecided` waits for."""


def run(machines: Sequence[CoreClock]) -> list[Timeline]:
    """Run machines that start in the same cycle and may share channels, each up to its FINISH.

    A machine's number among them is its `unit`. Raises `SimulationError` on a deadlock.
    """
    simulate(machines)
    return [machine.timeline() for machine in machines]


def simulate(machines: Sequence[CoreClock], referees: Sequence[Referee] = ()) -> None:
    """Run machines until each is at its FINISH or nothing can happen any more.

    Machines and their modules run ahead as far as times are known. When none can go on, no machine
    asks for memory before one of the transfers under way is complete, so the channels advance to
    that cycle, in step. ``referees`` decide beside the machines themselves.
    """
    channels = list({id(c): c for machine in machines for c in machine.channels}.values())
    issue = channels[0].issue if len(channels) == 1 else partial(_issue_in_step, channels)
    deciders: Sequence[Referee] = [*machines, *referees]
    for machine in machines:
        machine.launch()
    for machine in machines:
        machine.settle()
    limits = [machine.limit for machine in machines]
    open_until = [referee.undecided for referee in deciders]
    while True:
        limit, undecided = max(limits), min(open_until)
        if (transfer := issue(min(limit, undecided))) is not None:
            changed = transfer.unit
            machines[changed].served(transfer)
        elif undecided <= limit and undecided < NEVER:
            changed = open_until.index(undecided)
            deciders[changed].decide()
        else:
            return
        # Machines meet in channels alone, so no other machine can go on.
        if changed < len(machines):
            machine = machines[changed]
            machine.settle()
            limits[changed], open_until[changed] = machine.limit, machine.undecided
        for number, referee in enumerate(referees, len(machines)):
            open_until[number] = referee.undecided


def _issue_in_step(
    channels: Sequence[ReadChannel | Writes], until: int
) -> Transfer | Writing | None:
    """Issue requests up to a cycle, or until one transfer reaches its stop.

    Channels advance in step, since a transfer that one completes may let a reader ask at another.
    """
    while True:
        first, least, second = channels[0], NEVER, NEVER
        for channel in channels:
            due = channel.due
            if due < least:
                first, least, second = channel, due, least
            elif due < second:
                second = due
        if least > until or least >= NEVER:
            return None
        if (transfer := first.issue(min(until, second))) is not None:
            return transfer
