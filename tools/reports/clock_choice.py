"""What the clock tried on a cluster, and what it chose."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class ClockChoice:
    """One choice of the clock.

    what: is chosen, such as a plan. cycles: those of each alternative that was tried, by its name,
    at least one, in the order of the trials.
    """

    what: str
    cycles: Mapping[str, int]

    @property
    def chosen(self) -> str:
        """The alternative that takes the fewest cycles, of equal ones the first."""
        return min(self.cycles, key=self.cycles.__getitem__)

    @property
    def text(self) -> str:
        """What was tried and chosen, in one line."""
        others = "; ".join(
            f"{name}: {count:,}" for name, count in self.cycles.items() if name != self.chosen
        )
        chosen = f"{self.chosen}, {self.cycles[self.chosen]:,} cycles"
        return f"{self.what}, chosen by the clock: {chosen} ({others})"
