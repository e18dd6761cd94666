"""Machines that run at the same time, alone or on shared channels."""

from collections.abc import Sequence
from functools import partial

from .channel import NEVER, Transfer
from .channels import ReadChannel, WriteChannel, Writing
from .machine import Machine, Timeline


def run(machines: Sequence[Machine]) -> list[Timeline]:
    """Run machines that start in the same cycle and may share channels, each up to its FINISH.

    A machine's number among them is its `unit`. Machines and their modules run ahead as far as
    times are known. When none can go on, no machine asks for memory before one of the transfers
    under way is complete, so the channels advance to that cycle, in step. Raises `SimulationError`
    on a deadlock.
    """
    channels = list({id(c): c for machine in machines for c in machine.channels}.values())
    issue = channels[0].issue if len(channels) == 1 else partial(_issue_in_step, channels)
    for machine in machines:
        machine.launch()
    while True:
        for machine in machines:
            machine.settle()
        limit = max(machine.limit for machine in machines)
        first = min(machines, key=lambda machine: machine.undecided)
        undecided = first.undecided
        if (transfer := issue(min(limit, undecided))) is not None:
            machines[transfer.unit].served(transfer)
        elif undecided <= limit and undecided < NEVER:
            first.decide()
        else:
            return [machine.timeline() for machine in machines]


def _issue_in_step(
    channels: Sequence[ReadChannel | WriteChannel], until: int
) -> Transfer | Writing | None:
    """Issue requests up to a cycle, or until one transfer reaches its stop.

    Channels advance in step, since a transfer that one completes may let a reader ask at another.
    """
    while True:
        first, *others = sorted(channels, key=_due)
        if first.due > until or first.due >= NEVER:
            return None
        if (transfer := first.issue(min(until, others[0].due))) is not None:
            return transfer


def _due(channel: ReadChannel | WriteChannel) -> int:
    return channel.due
