"""Simulated times of a run of a model: its launches in order, each with its layers."""

import csv
import io
import json
from dataclasses import dataclass

from rich.console import Group

from vtac.sim import TimingReport
from vtac.sim.timing.render import as_csv, as_dict, as_table


@dataclass(frozen=True)
class LaunchProfile:
    """One launch: the function, and the report of its program, whose regions are layers."""

    function: str
    report: TimingReport


@dataclass(frozen=True)
class Profile:
    """The launches of one run, in order. Times of host parts are not included."""

    launches: tuple[LaunchProfile, ...]

    @property
    def cycles(self) -> int:
        """Cycles of all launches, without the time between them."""
        return sum(launch.report.cycles for launch in self.launches)

    @property
    def seconds(self) -> float:
        """Seconds of all launches, at the preset's clock frequency."""
        return sum(launch.report.seconds for launch in self.launches)

    def table(self) -> Group:
        """A table for each launch, for a terminal."""
        if len(self.launches) == 1:
            return as_table(self.launches[0].report)
        parts: list[object] = []
        for number, launch in enumerate(self.launches):
            parts += [f"launch {number}: {launch.function}", as_table(launch.report), ""]
        parts.append(
            f"{len(self.launches)} launches: {self.cycles:,} cycles ({self.seconds * 1e3:.3f} ms)"
        )
        return Group(*parts)  # type: ignore[arg-type]

    def json(self) -> str:
        """Cycles, seconds, and the report of each launch without its events."""
        launches = [{"function": x.function, **as_dict(x.report)} for x in self.launches]
        whole = {"cycles": self.cycles, "seconds": self.seconds, "launches": launches}
        return json.dumps(whole, indent=2) + "\n"

    def csv(self) -> str:
        """For each launch, a line for its program, then one for each layer, in the same columns."""
        stream = io.StringIO()
        writer = csv.writer(stream, lineterminator="\n")
        for number, launch in enumerate(self.launches):
            header, *rows = csv.reader(io.StringIO(as_csv(launch.report)))
            if number == 0:
                writer.writerow(["launch", "function", *header])
            writer.writerows([number, launch.function, *row] for row in rows)
        return stream.getvalue()
