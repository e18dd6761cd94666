"""``exhaustive``: every point that fits, in the order of the knobs' values."""

from collections.abc import Sequence
from itertools import islice
from typing import ClassVar

from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.te import Knobs, Point
from vtac.tools.tune.explorers.base import BaseExplorer
from vtac.tools.tune.protocol import Options, Screen


class Exhaustive(BaseExplorer):
    """Asks every point. Raises `CompileError` where there are more than ``options.limit``."""

    name: ClassVar[str] = "exhaustive"

    def __init__(self, knobs: Knobs, options: Options, screen: Screen) -> None:
        super().__init__(knobs, options, screen)
        if knobs.size > options.limit:
            raise CompileError(
                Problem(
                    "exhaustive search",
                    f"the space has {knobs.size:,} points, and the limit is {options.limit:,}",
                    "Let fewer knobs vary, or raise the limit.",
                )
            )
        self._points = (point for point in knobs.points() if self.accepts(point))

    def propose(self, count: int) -> Sequence[Point]:
        """The next ones."""
        return list(islice(self._points, count))
