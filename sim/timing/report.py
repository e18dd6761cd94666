"""The report of the clock about one program: its cycles, its events, and its accounts."""

import os
from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ...dialects.target import Target, TimingPreset
from .accounts import Account, Accounts
from .channels import Channels
from .machine import CoreClock, Timeline
from .together import run
from .work import WorkColumns, prepare

RULES = 1
"""The version of the clock's rules: cycles that clocks of two versions count do not compare."""


class TimingReport:
    """The run of one program on one machine.

    cycles: from launch to the start of FINISH. labels: one per instruction (the layer it came
    from), or None. Accounts are computed when they are asked for.
    """

    def __init__(
        self,
        target: Target,
        preset: TimingPreset,
        work: WorkColumns,
        timeline: Timeline,
        labels: Sequence[str] | None,
    ) -> None:
        self.target, self.preset = target, preset
        self.work, self.timeline = work, timeline
        self.labels = labels

    @property
    def cycles(self) -> int:
        """From launch to the start of FINISH."""
        return self.timeline.cycles

    @property
    def seconds(self) -> float:
        """The same at the preset's clock."""
        return self.cycles / (self.preset.clock_mhz * 1e6)

    @cached_property
    def events(self) -> NDArray[np.int64]:
        """int64 [n, 4]: instruction, queue (0 load, 1 compute, 2 store), start, end.

        What started by the start of FINISH, in the order in which it ended. The cycle counter is
        cleared then, so the end of FINISH, and of what was still running, is 0; these come last.
        """
        timeline, work = self.timeline, self.work
        rows = np.flatnonzero(timeline.start <= self.cycles)
        running = (timeline.end[rows] > self.cycles) | (rows == work.finish)
        ends = np.where(running, 0, timeline.end[rows])
        order = np.lexsort((work.module[rows], ends, rows == work.finish, running))
        columns = (rows, work.module[rows], timeline.start[rows], ends)
        return np.stack(columns, axis=1)[order]

    @property
    def warnings(self) -> tuple[str, ...]:
        """Losses of data or tokens, which are most likely mistakes of the program."""
        return tuple(
            str(self.work.error(index, reason)) for index, reason in self.timeline.warnings
        )

    @cached_property
    def _accounts(self) -> Accounts:
        return Accounts(self.preset, self.work, self.timeline, self.labels)

    @cached_property
    def total(self) -> Account:
        """The account of the whole program."""
        return self._accounts.total()

    @cached_property
    def regions(self) -> tuple[Account, ...]:
        """The account of each label, in order of first appearance; empty without labels."""
        return self._accounts.by_label()


def preset_for(
    target: Target, preset: "str | os.PathLike[str] | TimingPreset | None" = None
) -> TimingPreset:
    """The rates that ``preset`` names (see `TimingPreset.of`), or the target's own."""
    return target.timing if preset is None else TimingPreset.of(preset)


def estimate(
    target: Target,
    insns: NDArray[np.uint64],
    preset: "str | TimingPreset | None" = None,
    labels: Sequence[str] | None = None,
) -> TimingReport:
    """Time a program, uint64 [N, 2] with absolute DRAM addresses; data play no part.

    preset: a `TimingPreset`, the name of one or the path of a file; None is the target's own.
    labels: for each instruction the region it belongs to. Raises `SimulationError` on a program
    that the machine cannot run (a deadlock, an instruction it does not decode, a transfer that
    never ends or leaves its buffer) and `PresetError` on a bad preset.
    """
    chosen = preset_for(target, preset)
    words = np.ascontiguousarray(insns, np.uint64).reshape(-1, 2)
    if labels is not None and len(labels) != len(words):
        raise ValueError(f"{len(labels)} labels for {len(words)} instructions")
    work = prepare(target, chosen, words)
    return TimingReport(
        target, chosen, work, run([CoreClock(chosen, work, Channels.of(chosen))])[0], labels
    )
