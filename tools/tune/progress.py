"""How a search goes, on standard error: on a terminal a table in place, elsewhere plain lines."""

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.table import Table

from vtac.tools.tune.protocol import Best, Progress, Quiet, Standing, Trial

WIDTH = 240
"""Columns of tables that are written to files and pipes."""


class _Shown:
    """How each kernel stands. Tells ``show`` whenever something changed."""

    def __init__(self, trials: int | None, seconds: float | None) -> None:
        self.started = time.monotonic()
        self.standings: dict[str, Standing] = {}
        self.proofs: dict[str, Best] = {}
        self._trials, self._seconds = trials, seconds

    @property
    def judged(self) -> int:
        """Trials that this run made itself, without those replayed from the database."""
        return sum(s.trials - min(s.replayed, s.trials) for s in self.standings.values())

    @property
    def rate(self) -> float:
        """Trials per second."""
        return self.judged / max(time.monotonic() - self.started, 1e-3)

    def left(self) -> float | None:
        """Seconds until a limit is reached at the present rate; None if there is no limit."""
        found = []
        if self._seconds is not None:
            found.append(self._seconds - (time.monotonic() - self.started))
        if self._trials is not None and self.judged:
            done = sum(standing.trials for standing in self.standings.values())
            found.append((self._trials - done) / self.rate)
        return max(min(found), 0.0) if found else None

    def summary(self) -> str:
        """One line about all kernels."""
        left = self.left()
        rest = "" if left is None else f", {left:,.0f} s left at most"
        return f"{self.judged:,} trials, {self.rate:.1f} per second{rest}"


def output() -> Console:
    """Standard output for tables: as wide as they need unless it is a terminal."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH)


def called(standing: Standing) -> str:
    """What a kernel is called: its first layer, and how many others there are."""
    layers = standing.task.layers
    if not layers:
        return standing.task.name
    return layers[0] + (f" and {len(layers) - 1} more" if len(layers) > 1 else "")


def gain_text(default: int, cycles: int) -> str:
    """How many times fewer cycles."""
    return f"{default / cycles:.4f}"


class _Lines(_Shown):
    """Plain lines. every: one for each batch, else where a better schedule or an end is found."""

    def __init__(
        self, console: Console, trials: int | None, seconds: float | None, every: bool
    ) -> None:
        super().__init__(trials, seconds)
        self._console, self._every = console, every

    def told(self, standing: Standing, trials: Sequence[Trial]) -> None:
        """A line where there is news."""
        before = self.standings.get(standing.task.digest)
        self.standings[standing.task.digest] = standing
        is_better = before is not None and standing.cycles < before.cycles
        has_ended = bool(standing.stopped) and (before is None or not before.stopped)
        if self._every or before is None or is_better or has_ended:
            self._console.print(f"{_line(standing)}  ({self.summary()})", soft_wrap=True)

    def finished(self, standing: Standing, best: Best) -> None:
        """A line about the execution of the best program."""
        told = "proved by execution" if best.proved else f"not proved: {best.problem}"
        self._console.print(f"{called(standing)}: {standing.cycles:,} cycles, {told}")


def _line(standing: Standing) -> str:
    task = standing.task
    found = (
        f"{called(standing)}: {standing.trials} trials, best {standing.cycles:,} of"
        f" {task.default_cycles:,} cycles ({gain_text(task.default_cycles, standing.cycles)})"
    )
    return f"{found}, {standing.stopped}" if standing.stopped else found


class _Live(_Shown):
    """A table with a line per kernel, in place."""

    def __init__(self, live: Live, trials: int | None, seconds: float | None) -> None:
        super().__init__(trials, seconds)
        self._live = live

    def told(self, standing: Standing, trials: Sequence[Trial]) -> None:
        """Draw the table anew."""
        self.standings[standing.task.digest] = standing
        self._live.update(self._table())

    def finished(self, standing: Standing, best: Best) -> None:
        """Mark that the best program was executed."""
        self.standings[standing.task.digest] = standing
        self.proofs[standing.task.digest] = best
        self._live.update(self._table())

    def _table(self) -> Table:
        table = Table(title=self.summary(), title_justify="left")
        table.add_column("kernel", overflow="fold")
        for name in ("trials", "best", "default", "bound", "gain"):
            table.add_column(name, justify="right")
        table.add_column("", overflow="fold")
        for digest, standing in self.standings.items():
            task, proof = standing.task, self.proofs.get(digest)
            state = standing.stopped if proof is None else proof.problem or "proved"
            table.add_row(
                called(standing),
                f"{standing.trials:,}",
                f"{standing.cycles:,}",
                f"{task.default_cycles:,}",
                f"{task.bound:,}",
                gain_text(task.default_cycles, standing.cycles),
                state,
            )
        return table


@contextmanager
def shown_progress(
    trials: int | None, seconds: float | None, *, quiet: bool, verbose: bool
) -> Iterator[Progress]:
    """Who shows the progress of a search with these limits."""
    console = Console(stderr=True, highlight=False)
    if quiet:
        yield Quiet()
    elif console.is_terminal and not verbose:
        with Live(console=console, refresh_per_second=4) as live:
            yield _Live(live, trials, seconds)
    else:
        yield _Lines(console, trials, seconds, verbose)
