"""What became of a machine: the cycles of the network on it, or why there are none."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Outcome:
    """What became of a machine.

    cycles: of all launches of one run of the network; None if there are none. why: the reason for
    that. macs: multiply-accumulates of the nodes on the accelerator. host_nodes, host_macs: the
    nodes left to the host, and theirs. millis: the time it took. is_lasting: whether another try
    would end the same way; one that took too long would perhaps not.
    """

    cycles: int | None
    why: str = ""
    macs: int = 0
    host_nodes: int = 0
    host_macs: int = 0
    millis: int = 0
    is_lasting: bool = True


def comparable(outcomes: Sequence[Outcome]) -> list[int]:
    """The places of the outcomes whose cycles can be compared.

    These are the machines on which the accelerator computes most of the network: another one, which
    leaves layers to the host, has fewer cycles only because it does less.
    """
    most = max((each.macs for each in outcomes if each.cycles is not None), default=0)
    return [
        place
        for place, each in enumerate(outcomes)
        if each.cycles is not None and each.macs == most
    ]
