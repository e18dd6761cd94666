"""Programs of a cluster from which one token, wait or signal is taken away."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from vtac.dialects.target import ClusterTarget, MemoryScope
from vtac.dialects.vta.dma import Signal, Wait
from vtac.dialects.vta.encoding import Instruction, Load, Store
from vtac.sim.cluster.program import scope


def without_one(cluster: ClusterTarget, streams: list[Any]) -> Iterator[tuple[Any, list[Any]]]:
    """What was changed, and the streams without one token, wait, signal, or row of these; a signal
    of the DMA to itself is one, too."""
    for unit, stream in enumerate(streams):
        for index, x in enumerate(stream):
            for less in _less(cluster, x):
                changed = [*stream[:index], *less, *stream[index + 1 :]]
                yield (unit, index, x), [*streams[:unit], changed, *streams[unit + 1 :]]


def _less(cluster: ClusterTarget, x: Any) -> Iterator[list[Any]]:
    if isinstance(x, Wait | Signal):
        yield []
    if not isinstance(x, Instruction):
        return
    for flag in ("pop_prev", "pop_next", "push_prev", "push_next"):
        if getattr(x, flag):
            yield [replace(x, **{flag: False})]
    if isinstance(x, Load | Store) and scope(cluster, x) is MemoryScope.SEMAPHORES:
        yield [replace(x, x_size=0)]
        if x.y_size > 1:
            yield [replace(x, y_size=x.y_size - 1)]
