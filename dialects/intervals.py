"""Places in memory for what has a lifetime: the lowest that nothing takes at the same time.

Taken by decreasing size, this is "greedy by size" of Pisarchyk and Lee, "Efficient Memory
Management for Deep Neural Net Inference" (2020).
"""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Interval:
    """Bytes [start, end) of an area, taken during steps first to last."""

    start: int
    end: int
    first: int
    last: int

    def meets(self, other: "Interval") -> bool:
        """Whether both take a byte during the same step."""
        is_alive = self.first <= other.last and other.first <= self.last
        return is_alive and self.start < other.end and other.start < self.end


def first_fit(size: int, align: int, live: tuple[int, int], taken: Iterable[Interval]) -> int:
    """The lowest aligned offset of ``size`` bytes that nothing takes during a lifetime.

    live: the first and the last step.
    """
    rivals = [other for other in taken if other.first <= live[1] and live[0] <= other.last]
    start = 0
    for other in sorted(rivals, key=lambda other: other.start):
        if start + size <= other.start:
            break
        start = max(start, -(-other.end // align) * align)
    return start
