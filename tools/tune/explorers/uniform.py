"""``random``: points drawn uniformly over the values of each knob; those that fit are judged."""

from collections.abc import Sequence
from typing import ClassVar

from vtac.dialects.te import Point
from vtac.tools.tune.explorers.base import BaseExplorer


class Uniform(BaseExplorer):
    """Random points that fit."""

    name: ClassVar[str] = "random"

    def propose(self, count: int) -> Sequence[Point]:
        """So many of them."""
        return self.at_random(count)
