"""Simulated times of a run of a model: its launches in order, each with its layers."""

import csv
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rich.console import Group

from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.wording import counted
from vtac.sim import TimingReport
from vtac.sim.cluster import ClusterReport
from vtac.sim.cluster.render import as_cluster_csv, as_cluster_dict, as_cluster_table
from vtac.sim.timing.render import as_csv, as_dict, as_table


@dataclass(frozen=True)
class LaunchProfile:
    """One launch: the function, and what the clock says about its program, by layer or by unit."""

    function: str
    timing: TimingReport | ClusterReport

    @property
    def report(self) -> TimingReport:
        """The report of a program of one core. Raises `CompileError` on one of a cluster."""
        if isinstance(self.timing, ClusterReport):
            what = f"is a program for {self.timing.cluster.units} units of a cluster"
            raise CompileError(Problem(f"function {self.function}", what))
        return self.timing

    @property
    def cores(self) -> tuple[TimingReport, ...]:
        """The reports of the cores that it runs on: one, or those of a cluster."""
        found = self.timing
        return found.cores if isinstance(found, ClusterReport) else (found,)

    def table(self) -> Group:
        """Tables for a terminal."""
        found = self.timing
        return as_cluster_table(found) if isinstance(found, ClusterReport) else as_table(found)

    def dict(self) -> Mapping[str, Any]:
        """All numbers, without events."""
        found = self.timing
        return as_cluster_dict(found) if isinstance(found, ClusterReport) else as_dict(found)

    def csv(self) -> str:
        """One line per layer; of a cluster, one per unit."""
        found = self.timing
        return as_cluster_csv(found) if isinstance(found, ClusterReport) else as_csv(found)


@dataclass(frozen=True)
class Profile:
    """The launches of one run, in order. Times of host parts are not included."""

    launches: tuple[LaunchProfile, ...]

    @property
    def cycles(self) -> int:
        """Cycles of all launches, without the time between them."""
        return sum(launch.timing.cycles for launch in self.launches)

    @property
    def seconds(self) -> float:
        """Seconds of all launches, at the preset's clock frequency."""
        return sum(launch.timing.seconds for launch in self.launches)

    def table(self) -> Group:
        """A table for each launch, for a terminal."""
        if len(self.launches) == 1:
            return self.launches[0].table()
        parts: list[object] = []
        for number, launch in enumerate(self.launches):
            parts += [f"launch {number}: {launch.function}", launch.table(), ""]
        launches = counted(len(self.launches), "launch", "launches")
        parts.append(f"{launches}: {self.cycles:,} cycles ({self.seconds * 1e3:.3f} ms)")
        return Group(*parts)  # type: ignore[arg-type]

    def json(self) -> str:
        """Cycles, seconds, and the report of each launch without its events."""
        launches = [{"function": x.function, **x.dict()} for x in self.launches]
        whole = {"cycles": self.cycles, "seconds": self.seconds, "launches": launches}
        return json.dumps(whole, indent=2) + "\n"

    def csv(self) -> str:
        """For each launch, a line for its program, then one for each layer, in the same columns."""
        stream = io.StringIO()
        writer = csv.writer(stream, lineterminator="\n")
        for number, launch in enumerate(self.launches):
            header, *rows = csv.reader(io.StringIO(launch.csv()))
            if number == 0:
                writer.writerow(["launch", "function", *header])
            writer.writerows([number, launch.function, *row] for row in rows)
        return stream.getvalue()
