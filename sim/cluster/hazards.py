"""The hazard checker of a cluster: whether every order of all its modules gives the same result.

As `sim.hazards`, over the modules of all cores and the DMA, with semaphores beside the token queues
and two memories that units share. Also found: reads of GB that nothing has written, and copies of
the DMA that overlap although one needs the other.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from ...dialects.target import ClusterTarget, Memory, MemoryScope
from ...dialects.vta.dma import Copy
from ...dialects.vta.encoding import Store, Transfer
from ..errors import Fault
from ..footprint import DRAM, DramMap, Footprints, Touch, units_of
from ..hazards import MOST_RACES, Hazard, HazardKind, HazardReport, shared_memories
from ..legality import whole_inp_loads
from ..races import AccessHistory, Race, SharedSpace
from .errors import ClusterError, name_of
from .flow import Clock, ClusterFlow, balance, clocks, deadlock_reason, overflows, schedule
from .gb_record import GbRecord
from .program import ClusterProgram, decode_cluster


@dataclass(frozen=True)
class ClusterHazard(Hazard):
    """One hazard; `steps` are the unit and the place of each step that it concerns."""

    steps: tuple[tuple[int, int], ...] = ()


def check_cluster(
    cluster: ClusterTarget,
    streams: Sequence[NDArray[np.uint64]],
    dram: NDArray[np.uint8] | None = None,
) -> HazardReport:
    """Check a program, one stream per unit, for every order that tokens and semaphores allow.

    ``dram``, the image before it runs, holds the micro-ops; without it, a GEMM or ALU counts as
    touching whole buffers. It never raises on a bad program; faults stand in the report.
    """
    report = HazardReport(exact=dram is not None)
    try:
        program = decode_cluster(cluster, streams, None if dram is None else len(dram))
    except ClusterError as error:
        places = ((error.unit, error.index),) if error.index >= 0 else ()
        report.hazards.append(ClusterHazard(HazardKind.INVALID, str(error), steps=places))
        return report
    _ClusterChecker(program, dram, report).run()
    return report


class _ClusterChecker:
    """The analyses of one program, in the order in which they build on each other."""

    def __init__(
        self, program: ClusterProgram, dram: NDArray[np.uint8] | None, report: HazardReport
    ) -> None:
        self._program, self._dram, self._report = program, dram, report
        self._cluster = program.cluster
        self._flow = ClusterFlow.of(program)

    def run(self) -> None:
        """Fill the report."""
        for unit, instructions in enumerate(self._program.cores):
            for index in whole_inp_loads(self._cluster.core, instructions):
                name = name_of(self._cluster, unit, index, instructions[index])
                self._report.warnings.append(
                    f"{name} fills the whole INP buffer: with 256-beat bursts the Chisel design may"
                    " lose its data"
                )
        for message, step in balance(self._flow):
            self._add(HazardKind.LEFTOVER, f"{message}: {self._name(step)}", step)
        order = self._check_deadlocks()
        if order is None:
            return
        start = clocks(self._flow, order)
        for step, queue in overflows(self._flow, start):
            name, depth = self._flow.queue_name(queue), self._flow.depth(queue)
            message = f"the {name} of {self._name(step)} may be one too many for {depth}"
            self._add(HazardKind.OVERFLOW, message, step)
        self._check_finish(start)
        self._check_written(order)
        races = _ClusterRaces(self._program, self._flow, self._dram, start)
        for first, second, message in races.find(order):
            if not message:
                message = races.describe(first, second, self._name(first), self._name(second))
            kind = HazardKind.RACE if first >= 0 else HazardKind.INVALID
            self._add(kind, message, *(step for step in (first, second) if step >= 0))
        for unit, undefined in races.undefined_micro_ops():
            self._report.warnings.append(
                f"micro-op {undefined} of {self._cluster.unit_name(unit)} runs before any LOAD has"
                " written it: it is undefined at launch, and taken for zeros here"
            )

    def _name(self, step: int) -> str:
        unit, index = self._flow.place_of(step)
        return name_of(self._cluster, unit, index, self._program.streams[unit][index])

    def _add(self, kind: HazardKind, message: str, *steps: int) -> None:
        places = tuple(self._flow.place_of(step) for step in steps)
        self._report.hazards.append(ClusterHazard(kind, message, steps=places))

    def _check_deadlocks(self) -> list[int] | None:
        """An order in which every step runs, if tokens and semaphores allow one."""
        flow, depth, total = self._flow, self._cluster.core.queue_depth, len(self._flow.modules)
        result = schedule(flow, depth, through=True)
        if len(result.order) == total:
            return result.order
        unlimited = schedule(flow, None, through=True)
        never = len(unlimited.order) < total
        stuck = unlimited if never else result
        steps = [step for step, _ in stuck.blocked] or stuck.full
        names = "; ".join(map(self._name, steps))
        self._add(HazardKind.DEADLOCK, f"{deadlock_reason(flow, stuck, depth)}: {names}", *steps)
        return None if never else unlimited.order

    def _check_finish(self, start: Sequence[Clock]) -> None:
        """Every store, copy and wait must be done before some FINISH starts."""
        flow, program = self._flow, self._program
        for module, members in enumerate(flow.members):
            done = max(start[finish][module] for finish in flow.finishes)
            for step in members[done:]:
                unit, index = flow.place_of(step)
                x = program.streams[unit][index]
                moves = isinstance(x, Store | Copy) and (not isinstance(x, Store) or x.x_size > 0)
                if moves or index in program.waits[unit]:
                    self._add(
                        HazardKind.FINISH,
                        f"no FINISH waits for {self._name(step)}: no tokens or signals lead from"
                        " there to one",
                        step,
                    )
                    break

    def _check_written(self, order: Sequence[int]) -> None:
        if not self._cluster.gb_bytes:
            return
        record = GbRecord(self._cluster)
        for step in order:
            unit, index = self._flow.place_of(step)
            x = self._program.streams[unit][index]
            if isinstance(x, Transfer | Copy) and (address := record.touch(x)) is not None:
                message = f"{self._name(step)} reads byte {address:#x} of GB, which nothing has"
                self._add(HazardKind.UNWRITTEN, f"{message} written before", step)


class _ClusterRaces:
    """Unordered pairs of accesses to one element or byte, one of them a write."""

    def __init__(
        self,
        program: ClusterProgram,
        flow: ClusterFlow,
        dram: NDArray[np.uint8] | None,
        start: Sequence[Clock],
    ) -> None:
        self._program, self._flow, self._start = program, flow, start
        self._cluster, target = program.cluster, program.cluster.core
        self._cores = [program.without_signals(unit) for unit in range(self._cluster.cores)]
        copies = [c for c in program.commands if isinstance(c, Copy)]
        written = [_pretended(copy.destination, copy.nbytes) for copy in copies]
        self._places = DramMap(target, [*chain.from_iterable(self._cores), *written])
        self._footprints = [Footprints(target, dram, self._places) for _ in self._cores]
        modules = len(target.system.modules)
        dma = modules * self._cluster.cores
        shared: list[tuple[int, bool]] = [(dma, True), (dma, False)] if copies else []
        spaces: dict[Hashable, SharedSpace] = {}
        for unit in range(self._cluster.cores):
            first = modules * unit
            for memory, space in shared_memories(target):
                ways = [(first + module, writes) for module, writes in space.ways]
                spaces[unit, memory] = SharedSpace(space.size, ways)
            shared += [(first + module, writes) for module, writes in target.system.dram_ways]
        spaces[DRAM] = SharedSpace(self._places.size, shared)
        self._history = AccessHistory(spaces, frozenset([dma]))
        self._found: dict[tuple[int, int], tuple[Hashable, Race]] = {}

    def find(self, order: Sequence[int]) -> list[tuple[int, int, str]]:
        """The races in an order that tokens and semaphores allow: earlier step, later step, "".

        A fault of a kernel of micro-ops is (-1, step, what is wrong), and ends the search.
        """
        rank = [0] * len(self._flow.members)
        for step in order:
            module = self._flow.modules[step]
            rank[module] += 1
            unit, index = self._flow.place_of(step)
            try:
                for space, elements, writes in self._touches(unit, index):
                    name: Hashable = space if space == DRAM else (unit, space)
                    for race in self._history.access(
                        name, module, writes, elements, rank[module], self._start[step]
                    ):
                        first = self._flow.members[race.module][race.rank - 1]
                        self._found.setdefault((first, step), (name, race))
            except Fault as fault:
                return [*((*pair, "") for pair in self._found), (-1, step, str(fault))]
            if len(self._found) >= MOST_RACES:
                break
        return [(*pair, "") for pair in self._found]

    def undefined_micro_ops(self) -> list[tuple[int, int]]:
        """For each core that runs micro-ops which no LOAD has written, the first of them."""
        return [
            (u, found.undefined[0]) for u, found in enumerate(self._footprints) if found.undefined
        ]

    def _touches(self, unit: int, index: int) -> list[Touch]:
        if unit < self._cluster.cores:
            return list(self._footprints[unit].touches(self._cores[unit][index]))
        command = self._program.commands[index]
        if not isinstance(command, Copy):
            return []
        ends = ((command.source, False), (command.destination, True))
        found = [
            (self._places.elements(_pretended(at, command.nbytes)), writes) for at, writes in ends
        ]
        return [(DRAM, elements, writes) for elements, writes in found if elements is not None]

    def describe(self, first: int, second: int, name: str, other: str) -> str:
        """What a race is about."""
        space, race = self._found[first, second]
        low, high = int(race.elements.min()), int(race.elements.max())
        what = units_of(space[1] if isinstance(space, tuple) else DRAM)
        if space == DRAM:
            low = self._places.address(low)
            high = self._places.address(high) + self._places.granule - 1
            scope = self._cluster.scope_of(low, low + 1) or MemoryScope.DDR
            what, where = f"{scope} bytes", f"{low:#x} to {high:#x}"
        else:
            where = f"{low} to {high}"
        modules = self._flow.modules
        lead = f"{self._flow.module_name(modules[first])} to"
        if modules[first] == modules[second]:
            missing = "no SIGNAL of the DMA stands between them"
        else:
            target = self._flow.module_name(modules[second])
            missing = (
                f"no tokens or signals from {lead} {target} make the second wait for the first"
            )
        return f"{name} and {other} touch {what} {where}, and one of them writes, but {missing}"


def _pretended(address: int, nbytes: int) -> Store:
    """The bytes of a COPY as those of a STORE, for `DramMap`."""
    return Store(
        memory=Memory.UOP,
        sram_base=0,
        dram_base=address // 4,
        y_size=1,
        x_size=nbytes // 4,
        x_stride=nbytes // 4,
    )
