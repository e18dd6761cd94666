"""How many bytes of GB hold what is still needed, over the time of a launch.

As in `sim.timing.occupancy`: a byte is occupied from the start of the step that writes it to the
end of the last one that reads it before it is written anew.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ....dialects.target.windows import GB_BASE
from ....dialects.vta.dma import Copy
from ....dialects.vta.encoding import Store, Transfer
from ...timing.occupancy import Levels, LiveRanges
from .report import ClusterReport

_GRANULE = 8
"""Bytes that count as one: every transfer of GB is a multiple of them."""


def gb_occupancy(report: ClusterReport) -> Levels:
    """The occupied bytes of GB over the cycles of a launch."""
    ranges = LiveRanges(report.cluster.gb_bytes // _GRANULE)
    accesses = sorted(_accesses(report), key=lambda access: access[:3])
    for start, is_write, end, words in accesses:
        if is_write:
            ranges.write(words, start)
        else:
            ranges.read(words, start, end)
    found = ranges.levels()
    return Levels(found.cycles, found.amounts * _GRANULE)


def _accesses(report: ClusterReport) -> Iterator[tuple[int, bool, int, NDArray[np.int64]]]:
    """Of each access to GB: its start, whether it writes, its end, and the granules."""
    program, cluster = report.program, report.cluster
    for unit, stream in enumerate(program.streams):
        timeline = report.timeline(unit)
        starts, ends = timeline.start.tolist(), np.minimum(timeline.end, report.cycles).tolist()
        is_dma = unit == cluster.cores
        for index in range(len(stream)) if is_dma else sorted(program.in_gb[unit]):
            if starts[index] > report.cycles:
                continue
            for first, rows, width, stride, writes in _rectangles(report, stream[index]):
                words = (first - GB_BASE) // _GRANULE + np.arange(rows)[:, None] * (
                    stride // _GRANULE
                )
                words = (words + np.arange(width // _GRANULE)).reshape(-1)
                yield starts[index], writes, ends[index], words


def _rectangles(report: ClusterReport, step: object) -> Iterator[tuple[int, int, int, int, bool]]:
    """First byte, rows, bytes per row, bytes from row to row, and whether they are written."""
    if isinstance(step, Transfer):
        size = report.cluster.core.element_bytes(step.memory)
        shape = (step.y_size, step.x_size * size, step.x_stride * size)
        yield step.dram_base * size, *shape, isinstance(step, Store)
    elif isinstance(step, Copy):
        end = GB_BASE + report.cluster.gb_bytes
        for address, writes in ((step.source, False), (step.destination, True)):
            if GB_BASE <= address < end:
                yield address, 1, step.nbytes, 0, writes
