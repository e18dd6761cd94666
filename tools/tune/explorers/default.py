"""``default``: the point of the default rule and nothing else."""

from collections.abc import Sequence
from typing import ClassVar

from vtac.dialects.te import Point
from vtac.tools.tune.explorers.base import BaseExplorer


class Default(BaseExplorer):
    """Asks the default point only."""

    name: ClassVar[str] = "default"

    def propose(self, count: int) -> Sequence[Point]:
        """Nothing more."""
        return []
