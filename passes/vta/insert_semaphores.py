"""``vta-insert-semaphores``: orders the units of a cluster by signals and waits.

The meaning of a cluster's program is its *emission order*: the steps of all units, by number, one
after the other. The units run side by side and wait for each other only by semaphores. So every
pair of steps on different units that touch the same bytes with a write between them needs an order.
The pass walks the steps in order with one clock for each unit, which counts the steps of every unit
that are known to be done (vector clocks: Fidge 1988, Mattern 1989). An edge is added only where the
clock does not imply the order, and merges the clock of its source. The k-th edge between two units
therefore has both its ends behind those of the edge before, which is what a counting semaphore
needs: the k-th wait takes the k-th signal.

An edge is a signal behind the last instruction of its source and a wait in front of the first of
its target. Signals are stores, and a store module works in order, so a signal counts once all
stores of its step are done. All its loads are done then, too, since each brings what a store of the
step depends on. The waits of a step are one LOAD of neighbouring semaphores if possible, its
signals one STORE; those of the DMA are commands of their own.

Takes ``vta.cluster`` with scratch in its places, before SRAM buffers have theirs; leaves waits and
signals as loads and stores on a buffer of kind ``semaphore``, and no ``vta.step``.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects.builtin import LocationAttr, ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from vtac.dialects.target import ClusterTarget, Memory, windows
from vtac.dialects.vta import (
    AllocOp,
    ClusterOp,
    CopyOp,
    CoreOp,
    DmaOp,
    LoadOp,
    SignalOp,
    StepOp,
    StoreOp,
    TransferOp,
    WaitOp,
    integer,
    integers,
    memory_attr,
    semaphore_buffer,
    symbol,
)

from .accesses import Access, Accesses, Order, Space
from .plan_microops import fresh

Positions = NDArray[np.int32]


@dataclass(frozen=True)
class InsertSemaphoresPass(ModulePass):
    """Order the units of every vta.cluster by signals and waits."""

    name = "vta-insert-semaphores"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """See the module's docstring."""
        for program in op.body.block.ops:
            if isinstance(program, ClusterOp):
                insert_semaphores(program)


@dataclass(frozen=True)
class EmissionStep:
    """A step of the emission order: its number, its unit, and the instructions."""

    number: int
    unit: int
    ops: tuple[TransferOp | CopyOp, ...]


def insert_semaphores(program: ClusterOp) -> None:
    """Insert the signals and waits of one program."""
    steps = sorted(_steps(program), key=lambda step: step.number)
    edges = edges_between(steps, program)
    _Writer(program).write(edges)
    for core in program.cores().values():
        for marker in core.all_of(StepOp):
            Rewriter.erase_op(marker)
    for op in [] if program.dma is None else list(program.dma.body.block.ops):
        if isinstance(op, StepOp):
            Rewriter.erase_op(op)


def _steps(program: ClusterOp) -> Iterator[EmissionStep]:
    """The steps of all units, those of each unit in order."""
    streams: dict[int, CoreOp | DmaOp] = dict(program.cores())
    if program.dma is not None:
        streams[program.target.cores] = program.dma
    for unit, stream in streams.items():
        number, ops = -1, list[TransferOp | CopyOp]()
        for op in stream.body.block.ops:
            if isinstance(op, StepOp):
                if ops:
                    yield EmissionStep(number, unit, tuple(ops))
                number, ops = op.number.value.data, []
            elif isinstance(op, TransferOp | CopyOp) and number >= 0:
                ops.append(op)
        if ops:
            yield EmissionStep(number, unit, tuple(ops))


@dataclass(frozen=True)
class Edge:
    """An order between two steps of different units."""

    source: EmissionStep
    target: EmissionStep


def edges_between(steps: Sequence[EmissionStep], program: ClusterOp) -> list[Edge]:
    """The edges that order all steps in conflict, by the number of their target."""
    stored = {
        op.target_place[0] if isinstance(op, CopyOp) else op.buffer_name
        for step in steps
        for op in step.ops
        if isinstance(op, StoreOp | CopyOp)
    }
    accesses = Accesses(
        program.target.core, program.buffers(), [name for name in stored if name is not None]
    )
    units = program.target.units
    history = _History(accesses, units)
    clocks = np.zeros((units, units), np.int32)
    done: list[list[tuple[EmissionStep, Positions]]] = [[] for _ in range(units)]
    edges = []
    before: EmissionStep | None = None
    for step in steps:
        now, needs = clocks[step.unit], history.visit(step, len(done[step.unit]) + 1)
        if isinstance(step.ops[0], CopyOp) and before is not None:
            # A copy runs ahead as far as the emission order says, and no further.
            needs[before.unit] = max(needs[before.unit], len(done[before.unit]))
        needs[step.unit] = 0
        # The latest step first: it may imply the others.
        waits = [unit for unit in range(units) if needs[unit] > now[unit]]
        for unit in sorted(waits, key=lambda unit: -done[unit][needs[unit] - 1][0].number):
            if needs[unit] > now[unit]:
                source, known = done[unit][needs[unit] - 1]
                edges.append(Edge(source, step))
                np.maximum(now, known, out=now)
        before = before if isinstance(step.ops[0], CopyOp) else step
        now[step.unit] = len(done[step.unit]) + 1
        done[step.unit].append((step, now.copy()))
    return edges


class _History:
    """For each byte the last step of each unit that read it, and that wrote it.

    Steps of a unit are counted from 1; bytes in the units of `Accesses`.
    """

    def __init__(self, accesses: Accesses, units: int):
        self._accesses, self._units = accesses, units
        self._last: dict[tuple[Space, bool], Positions] = {}

    def visit(self, step: EmissionStep, position: int) -> Positions:
        """The steps of each unit that must be done before a step; records the step itself."""
        needs = np.zeros(self._units, np.int32)
        touched = dict(self._touched(step))
        for (space, writes), mask in touched.items():
            first = int(mask.argmax())
            end = len(mask) - int(mask[::-1].argmax())
            inside = mask[first:end]
            for wrote in (True, False) if writes else (True,):
                last = self._of(space, wrote)[:, first:end]
                np.maximum(needs, last[:, inside].max(axis=1), out=needs)
        for (space, writes), mask in touched.items():
            self._of(space, writes)[step.unit, mask] = position
        return needs

    def _touched(self, step: EmissionStep) -> Mapping[tuple[Space, bool], NDArray[np.bool_]]:
        """Which bytes of each space a step reads (False) and writes (True)."""
        found: dict[tuple[Space, bool], NDArray[np.bool_]] = {}
        for op in step.ops:
            for space, elements, writes in self._dram(op):
                key = space, writes
                if key not in found:
                    found[key] = np.zeros(self._accesses.size(space), np.bool_)
                found[key][elements] = True
        return found

    def _dram(self, op: TransferOp | CopyOp) -> Iterator[Access]:
        """What an instruction or a command touches of memories that units share."""
        if isinstance(op, CopyOp):
            size = op.size.value.data
            for (name, offset), writes in ((op.source_place, False), (op.target_place, True)):
                access = self._accesses.of_bytes(name, offset, size, writes)
                if access is not None:
                    yield access
            return
        buffer, memory, place = op.buffer_name, op.memory_id, op.dram_base.value.data
        assert buffer is not None
        rows = (*op.sizes, op.stride.value.data)
        for access in self._accesses.of_transfer(memory, 0, 0, buffer, place, rows):
            if not isinstance(access.space, Memory | Order):
                yield access

    def _of(self, space: Space, writes: bool) -> Positions:
        """The last step of each unit at each byte, [units, bytes]."""
        key = space, writes
        if key not in self._last:
            self._last[key] = np.zeros((self._units, self._accesses.size(space)), np.int32)
        return self._last[key]


@dataclass
class _Writer:
    """Writes edges as instructions of the cores."""

    program: ClusterOp
    target: ClusterTarget = field(init=False)
    name: str = field(init=False)

    def __post_init__(self) -> None:
        self.target = self.program.target
        self.name = fresh("semaphores", set(self.program.buffers()))

    def write(self, edges: Sequence[Edge]) -> None:
        """Insert signals behind the sources of edges, and waits in front of the targets."""
        if not edges:
            return
        self._declare()
        sites = {unit: _free_site(core) for unit, core in self.program.cores().items()}
        signals: dict[int, tuple[EmissionStep, list[int]]] = {}
        waits: dict[int, tuple[EmissionStep, list[int]]] = {}
        for edge in edges:
            signals.setdefault(edge.source.number, (edge.source, []))[1].append(edge.target.unit)
            waits.setdefault(edge.target.number, (edge.target, []))[1].append(edge.source.unit)
        for step, units in signals.values():
            last = step.ops[-1]
            if isinstance(last, CopyOp):
                Rewriter.insert_op([SignalOp(u) for u in sorted(units)], InsertPoint.after(last))
                continue
            for first, count in runs(units, own=step.unit):
                signal = self._signal(step.unit, first, count, last.location)
                Rewriter.insert_op(signal, InsertPoint.after(last))
        for step, units in waits.values():
            if step.unit == self.target.cores:
                waiting = [WaitOp(unit) for unit in sorted(units)]
                Rewriter.insert_op(waiting, InsertPoint.before(step.ops[0]))
                continue
            for first, count in runs(units, own=step.unit):
                wait = self._wait(step.unit, first, count, sites[step.unit], step.ops[0].location)
                sites[step.unit] += 1
                Rewriter.insert_op(wait, InsertPoint.after(_marker(step)))

    def _declare(self) -> None:
        size = windows.semaphores_end(self.target.cores) - windows.SEMAPHORE_BASE
        buffers = list(self.program.buffers().values())
        declaration = semaphore_buffer(self.name, size)
        point = InsertPoint.after(buffers[-1])
        Rewriter.insert_op(declaration, point)

    def _signal(self, unit: int, first: int, count: int, location: LocationAttr) -> StoreOp:
        """The STORE with which a unit signals to so many units, from a first one on."""
        core = self.target.core
        element = core.element_bytes(core.system.results)
        number = self.target.semaphore_number(unit, first)
        stride = windows.SEMAPHORE_BYTES * (self.target.cores + 1) // element
        return StoreOp.create(
            properties={
                "sram_base": integer(0),
                "buffer": symbol(self.name),
                "dram_base": integer(number * windows.SEMAPHORE_BYTES // element),
                "size": integers(count, 1),
                "stride": integer(stride),
            },
            location=location,
        )

    def _wait(
        self, unit: int, first: int, count: int, site: int, location: LocationAttr
    ) -> Sequence[Operation]:
        """The LOAD with which a unit waits for so many units, and the elements that it fills."""
        core = self.target.core
        memory = core.system.activations
        element = core.element_bytes(memory)
        number = self.target.semaphore_number(first, unit)
        alloc = AllocOp.of(memory, site, 1, count, location)
        load = LoadOp.create(
            operands=[alloc.buffer],
            properties={
                "memory": memory_attr(memory),
                "sram_base": integer(0),
                "buffer": symbol(self.name),
                "dram_base": integer(number * windows.SEMAPHORE_BYTES // element),
                "size": integers(count, 1),
                "stride": integer(windows.SEMAPHORE_BYTES // element),
            },
            location=location,
        )
        return alloc, load


def runs(units: Sequence[int], own: int) -> Iterator[tuple[int, int]]:
    """The first unit and the number of units of each stretch of neighbours, in rising order.

    A stretch may contain `own`, whose semaphore for itself counts nothing.
    """
    wanted = sorted(set(units))
    while wanted:
        first = end = wanted[0]
        while end in wanted or (end == own and end + 1 in wanted):
            end += 1
        yield first, end - first
        wanted = [unit for unit in wanted if unit >= end]


def _marker(step: EmissionStep) -> Operation:
    """The ``vta.step`` in front of a step's instructions."""
    op: Operation | None = step.ops[0]
    while op is not None and not isinstance(op, StepOp):
        op = op.prev_op
    assert op is not None
    return op


def _free_site(core: CoreOp) -> int:
    """The first number that no SRAM buffer of a core has as its site."""
    return max((alloc.site.value.data for alloc in core.all_of(AllocOp)), default=-1) + 1
