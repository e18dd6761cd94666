"""Accounts for the cycles of a program: for each module, its work and its waiting by cause.

Every cycle of a module before FINISH is counted under exactly one cause. Before an instruction
starts its module waits for fetch to dispatch it (or, if fetch stood before a full queue, for a
place in one), then for its tokens (counted under the one that came last), and one cycle passes for
the start. A load's cycles are beats, then padding, and the rest is waiting for DRAM; a LOAD UOP
counts as a whole as micro-op load; a STORE's handshakes are waiting for DRAM, its beats and
element reads are not.
"""

import enum
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...dialects.target import INSTRUCTION_BYTES, Module, TimingPreset
from ..legality import Column
from .channel import ACC, FETCH, INP, UOP, WGT
from .machine import CHANNEL_OF, Timeline
from .work import InstructionKind, WorkColumns


class Cause(enum.Enum):
    """The causes of a module's cycles: kinds of work first, then kinds of waiting."""

    GEMM = "gemm"
    RESET = "gemm reset"
    ALU = "alu"
    TRANSFER = "transfer"
    PADDING = "padding"
    SYNC = "sync"
    MICRO_OPS = "micro-op load"
    DRAM = "dram"
    SEMAPHORE = "semaphore"
    LOAD_TO_COMPUTE = "load to compute token"
    COMPUTE_TO_LOAD = "compute to load token"
    COMPUTE_TO_STORE = "compute to store token"
    STORE_TO_COMPUTE = "store to compute token"
    FETCH = "fetch"
    FULL_QUEUE = "full queue"
    START = "start"
    OVER = "nothing left"

    @property
    def work(self) -> bool:
        """Whether it is work, not waiting."""
        return _PLACE[self] < _PLACE[Cause.MICRO_OPS]


_PLACE = {cause: place for place, cause in enumerate(Cause)}
_CLASSES = {"instruction": FETCH, "uop": UOP, "inp": INP, "wgt": WGT, "acc": ACC}
_KINDS = {
    "uop": InstructionKind.UOP,
    "inp": InstructionKind.INP,
    "wgt": InstructionKind.WGT,
    "acc": InstructionKind.ACC,
    "out": InstructionKind.STORE,
}

CLASSES = (*_CLASSES, "out")
"""The classes in which DRAM bytes are counted."""


@dataclass(frozen=True)
class Account:
    """The cycles and bytes of a program, or of the instructions of one label.

    cycles: of the whole program; for a label, the compute module's time from the end of the
    previous instruction to the end of each of its own, so that labels add up to the program. start,
    end: when its first instruction started and its last ended. modules: cycles by cause. computes:
    the module of products. nbytes: DRAM bytes by class. gb_nbytes: the same of a cluster's global
    buffer. bounds: lower bounds of
    the cycles by resource; no machine of these rates is faster. Instructions that had not ended at
    FINISH are not part of them.
    """

    label: str
    instructions: int
    cycles: int
    start: int
    end: int
    modules: Mapping[Module, Mapping[Cause, int]]
    computes: Module
    nbytes: Mapping[str, int]
    gb_nbytes: Mapping[str, int]
    gemm_micro_ops: int
    reset_micro_ops: int
    alu_micro_ops: int
    macs: int
    gemm_utilisation: float
    bounds: Mapping[str, int]

    @property
    def lower_bound(self) -> int:
        """The larger of the compute module's micro-ops and bytes over bandwidth, in cycles."""
        return max(self.bounds.values())

    @property
    def bound_by(self) -> str:
        """Which of the bounds is the largest: compute, reads or writes."""
        return max(self.bounds, key=lambda key: self.bounds[key])

    @property
    def ratio(self) -> float:
        """Cycles over the lower bound; 1 is perfect, infinite where there is nothing to do.

        A label may come out below 1: its loads run in the time of others.
        """
        return self.cycles / self.lower_bound if self.lower_bound else float("inf")

    def busy(self, module: Module) -> int:
        """Cycles in which a module worked."""
        return sum(cycles for cause, cycles in self.modules[module].items() if cause.work)


class Accounts:
    """The accounts of one run, whole and by label."""

    def __init__(
        self,
        preset: TimingPreset,
        work: WorkColumns,
        timeline: Timeline,
        labels: Sequence[str] | None,
    ) -> None:
        self._preset, self._work, self._timeline = preset, work, timeline
        self._started = timeline.start <= timeline.cycles
        self._ended = timeline.end <= timeline.cycles
        self._ended[work.finish] = True
        self._before = self._previous_ends()
        self._causes = self._by_cause()
        self._labels = labels
        self._in_gb = np.zeros(len(work.kind), np.bool_)
        self._in_gb[list(work.in_gb)] = True

    def total(self) -> Account:
        """The whole program."""
        return self._account("", self._started, whole=True)

    def by_label(self) -> tuple[Account, ...]:
        """One account per label, in the order in which labels first appear; none without labels."""
        if self._labels is None:
            return ()
        numbers: dict[str, int] = {}
        column = np.array([numbers.setdefault(x, len(numbers)) for x in self._labels], np.int64)
        return tuple(
            self._account(label, self._started & (column == number))
            for label, number in numbers.items()
        )

    def _previous_ends(self) -> Column:
        """The end of the instruction before, on the same module."""
        before = np.zeros(len(self._work.kind), np.int64)
        for module in self._work.target.system.modules:
            members = np.flatnonzero((self._work.module == module) & self._started)
            before[members[1:]] = self._timeline.end[members[:-1]]
        return before

    def _by_cause(self) -> NDArray[np.int64]:
        """Cycles [causes, n] of each instruction that started and of the wait before it."""
        result = np.zeros((len(Cause), len(self._started)), np.int64)
        rows = np.flatnonzero(self._started)
        self._add_waits(result, rows)
        self._add_durations(result, rows)
        return result

    def _add_waits(self, result: NDArray[np.int64], rows: NDArray[np.intp]) -> None:
        timeline = self._timeline
        before, decision = self._before[rows], timeline.start[rows] - 1
        present = np.clip(timeline.dispatched[rows] + 1, before, decision)
        full = self._full_between(before, present)
        result[_PLACE[Cause.FULL_QUEUE]][rows] = full
        result[_PLACE[Cause.FETCH]][rows] = present - before - full
        result[_PLACE[Cause.START]][rows] = 1
        result[self._last_token()[rows], rows] += decision - present

    def _full_between(self, first: Column, last: Column) -> Column:
        """Cycles from `first` on and before `last` in which fetch stood before a full queue."""
        if not self._timeline.full:
            return np.zeros(len(first), np.int64)
        cycles = np.stack([first, last])
        flat = itertools.chain.from_iterable(self._timeline.full)
        spans = np.fromiter(flat, np.int64, 2 * len(self._timeline.full)).reshape(-1, 2)
        passed = np.concatenate([[0], np.cumsum(spans[:, 1] - spans[:, 0])])
        count = np.searchsorted(spans[:, 0], cycles, side="right")
        ahead = np.where(count > 0, spans[np.maximum(count, 1) - 1, 1] - cycles, 0)
        before = passed[count] - np.maximum(ahead, 0)
        between: Column = before[1] - before[0]
        return between

    def _last_token(self) -> Column:
        """For each instruction the place of the token that came last (of anything if none did)."""
        last = np.full(len(self._started), _PLACE[Cause.START], np.int64)
        edges = self._timeline.edges
        edges = edges[np.argsort(self._timeline.end[edges[:, 0]], kind="stable")]
        queues = self._work.target.system.queues
        places = np.array([_PLACE[Cause(f"{queue} token")] for queue in queues], np.int64)
        last[edges[:, 1]] = places[edges[:, 2]]
        return last

    def _add_durations(self, result: NDArray[np.int64], rows: NDArray[np.intp]) -> None:
        work, timeline = self._work, self._timeline
        duration = np.minimum(timeline.end[rows], timeline.cycles) - timeline.start[rows]
        kind, ideal = work.kind[rows], self._preset.ideal_memory
        plain = {
            InstructionKind.GEMM: Cause.GEMM,
            InstructionKind.RESET: Cause.RESET,
            InstructionKind.ALU: Cause.ALU,
            InstructionKind.SYNC: Cause.SYNC,
            InstructionKind.FINISH: Cause.SYNC,
            InstructionKind.UOP: Cause.MICRO_OPS,
            InstructionKind.WAIT: Cause.SEMAPHORE,
            InstructionKind.SIGNAL: Cause.SYNC,
        }
        for what, cause in plain.items():
            result[_PLACE[cause]][rows] += np.where(kind == what, duration, 0)
        padding = np.zeros(len(work.kind), np.int64)
        for index, pads in work.pads.items():
            padding[index] = pads.elements
        load = np.isin(kind, (InstructionKind.INP, InstructionKind.WGT, InstructionKind.ACC))
        beats = np.minimum(np.where(load & (not ideal), work.beats[rows], 0), duration)
        zeros = np.minimum(np.where(load, padding[rows], 0), duration - beats)
        store = kind == InstructionKind.STORE
        shaken = self._preset.store_request_cycles * work.handshakes[rows]
        shaken = np.minimum(np.where(store & (not ideal), shaken, 0), duration)
        result[_PLACE[Cause.PADDING]][rows] = zeros
        result[_PLACE[Cause.TRANSFER]][rows] = np.where(store, duration - shaken, beats)
        result[_PLACE[Cause.DRAM]][rows] = np.where(load, duration - beats - zeros, shaken)

    def _account(self, label: str, chosen: NDArray[np.bool_], whole: bool = False) -> Account:
        work, timeline = self._work, self._timeline
        modules = {}
        for module in self._work.target.system.modules:
            sums = self._causes[:, chosen & (work.module == module)].sum(axis=1)
            if whole:
                sums[_PLACE[Cause.OVER]] = timeline.cycles - int(sums.sum())
            modules[module] = {c: n for c, n in zip(Cause, sums.tolist(), strict=True) if n}
        rows = np.flatnonzero(chosen)
        ends = np.minimum(timeline.end[rows], timeline.cycles)
        cycles = sum(modules[work.target.system.computes].values())
        micro_ops = {
            kind: int(work.micro_ops[chosen & (work.kind == kind)].sum())
            for kind in (InstructionKind.GEMM, InstructionKind.RESET, InstructionKind.ALU)
        }
        gemms = micro_ops[InstructionKind.GEMM]
        return Account(
            label=label,
            instructions=len(rows),
            cycles=cycles,
            start=int(timeline.start[rows].min(initial=timeline.cycles)),
            end=int(ends.max(initial=0)),
            modules=modules,
            computes=work.target.system.computes,
            nbytes=self._nbytes(chosen),
            gb_nbytes=self._moved(chosen & self._in_gb) if work.in_gb else {},
            gemm_micro_ops=gemms,
            reset_micro_ops=micro_ops[InstructionKind.RESET],
            alu_micro_ops=micro_ops[InstructionKind.ALU],
            macs=gemms * work.target.batch * work.target.block**2,
            gemm_utilisation=gemms * self._preset.gemm_cycles / cycles if cycles else 0.0,
            bounds=self._bounds(chosen & self._ended),
        )

    def _nbytes(self, chosen: NDArray[np.bool_]) -> dict[str, int]:
        """DRAM bytes by class, those of the instructions themselves included."""
        fetched = {"instruction": int(chosen.sum()) * INSTRUCTION_BYTES}
        return fetched | self._moved(chosen & ~self._in_gb)

    def _moved(self, chosen: NDArray[np.bool_]) -> dict[str, int]:
        """Bytes that LOADs and STOREs move, by class."""
        work = self._work
        return {
            name: int(work.nbytes[chosen & (work.kind == kind)].sum())
            for name, kind in _KINDS.items()
        }

    def _bounds(self, chosen: NDArray[np.bool_]) -> dict[str, int]:
        work, preset = self._work, self._preset
        compute = chosen & np.isin(
            work.kind, (InstructionKind.GEMM, InstructionKind.RESET, InstructionKind.ALU)
        )
        cycles = int((work.duration[compute] - preset.compute_overhead).sum())
        if preset.ideal_memory:
            return {"compute": cycles, "reads": 0, "writes": 0}
        nbytes = self._nbytes(chosen)
        channels = [0] * preset.read_channels
        for name, reader in _CLASSES.items():
            channels[CHANNEL_OF[preset.read_channels][reader]] += nbytes[name]
        return {
            "compute": cycles,
            "reads": -(-max(channels) // preset.port_bytes),
            "writes": -(-nbytes["out"] // preset.port_bytes),
        }
