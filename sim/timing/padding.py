"""The machine that writes a load's zeros, one element per cycle, beside the data.

In order: the rows above; the elements to the left and right of each row of data; the rows below.
It pauses in every cycle in which a beat of the same load is written.
"""

from collections.abc import Sequence

from .work import Pads

_PORT_TO_WRITE = 2
_PORT_TO_WRITE_UOP = 1


def padding_idle(pads: Pads, start: int, uop: bool, spans: Sequence[tuple[int, int]]) -> int:
    """The first cycle in which the padding machine is idle, for a load that starts in cycle
    `start`.

    spans: the load's beats, as (cycle before the first, cycle of the last) without gaps; in order
    unless they come from several channels.
    """
    delay = _PORT_TO_WRITE_UOP if uop else _PORT_TO_WRITE
    written = [(served + 1 + delay, end + delay) for served, end in sorted(spans)]
    at = start if uop else start + 1
    at = _after(at, pads.above, written)
    # With nothing beside the data it walks over the rows on its way down, data or not.
    at = at + pads.rows if pads.rows else _after(at, pads.beside, written)
    return _after(at, pads.below, written)


def _after(at: int, count: int, written: Sequence[tuple[int, int]]) -> int:
    """The first cycle after `count` cycles without a beat, from cycle `at` on."""
    if count == 0:
        return at
    for first, last in written:
        if last < at:
            continue
        if (free := first - at) > 0:
            if count <= free:
                break
            count -= free
        at = last + 1
    return at + count
