"""``vta-stage-weights``: the DMA copies weights into the global buffer before cores need them.

While a layer computes, DDR is often idle; behind it layers follow that wait for nothing but their
weights. So weights are copied into the room that the global buffer has left, in the order in which
they are used, each as early as there is room from then until its last use (prefetching across
layers, GraphTurbo, section 4.4). Weights that several cores or tiles read are also read from DDR
once instead of each time. What finds no room is halved up to twice, and its rest stays in DDR.

Takes ``vta.cluster`` with a global buffer and a DMA, with scratch in its places, before
``vta-insert-semaphores``; leaves further scratch in the global buffer, loads from it, and the
commands of the DMA. Declined, by a rough clock, for weights that would come later than if the cores
read them from DDR, and for those that are read once by a step that would not wait for DDR. Other
programs are left as they are. Option ``most``: the most copies, since a
semaphore counts to 255; 0 stages nothing.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, Region
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from vtac.dialects.intervals import Interval, first_fit
from vtac.dialects.target import Memory
from vtac.dialects.vta import (
    BufferKind,
    BufferOp,
    ClusterOp,
    ComputeOp,
    CopyOp,
    DmaOp,
    LoadOp,
    StepOp,
    integer,
    symbol,
)
from vtac.dialects.vta.attributes import GLOBAL_SCOPE

from .list_schedule import compute_work
from .plan_microops import fresh

MOST_COPIES = 200
"""Copies of a program at most: fewer than a semaphore counts."""

LEAST_BYTES = 4096
"""Smaller pieces are left in DDR: a wait costs more than they do."""

_HALVINGS = 2


@dataclass(frozen=True)
class StageWeightsPass(ModulePass):
    """Copy weights into the global buffer of every vta.cluster that has a DMA.

    most: the most copies.
    """

    name = "vta-stage-weights"

    most: int = MOST_COPIES

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """See the module's docstring."""
        for program in op.body.block.ops:
            if isinstance(program, ClusterOp) and program.target.dma and program.target.gb_bytes:
                stage_weights(program, self.most)


@dataclass
class _Weights:
    """A constant that cores load as weights. uses: the loads, each with its step."""

    buffer: BufferOp
    uses: list[tuple[int, LoadOp]] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.buffer.sym_name.data

    def within(self, size: int, element: int) -> list[tuple[int, LoadOp]]:
        """The uses that lie in the first so many bytes."""
        return [(step, op) for step, op in self.uses if _end(op) * element <= size]


@dataclass(frozen=True)
class _Staged:
    """The first bytes of weights in the global buffer. taken: where and when."""

    weights: _Weights
    taken: Interval

    @property
    def size(self) -> int:
        return self.taken.end - self.taken.start


def stage_weights(program: ClusterOp, most: int = MOST_COPIES) -> None:
    """Stage the weights of one program."""
    staged = _choose(program, most)
    if not staged:
        return
    element = program.target.core.element_bytes(Memory.WGT)
    taken = set(program.buffers())
    copies: dict[int, list[CopyOp]] = {}
    last = list(program.buffers().values())[-1]
    for each in staged:
        name = fresh(f"{each.weights.name}_staged", taken)
        place = GLOBAL_SCOPE, each.taken.start
        live = each.taken.first, each.taken.last
        buffer = BufferOp(name, BufferKind.SCRATCH, each.size, element, place=place, live=live)
        Rewriter.insert_op(buffer, InsertPoint.after(last))
        for _, op in each.weights.within(each.size, element):
            op.properties["buffer"] = symbol(name)
        copy = CopyOp((each.weights.name, 0), (name, 0), each.size)
        copies.setdefault(each.taken.first, []).append(copy)
    _write(program, copies)


def _choose(program: ClusterOp, most: int) -> list[_Staged]:
    """What is staged, in the order in which it is copied."""
    room, element = program.target.gb_bytes, program.target.core.element_bytes(Memory.WGT)
    taken = [
        Interval(place[1], place[1] + op.bytes.value.data, *live)
        for op in program.buffers().values()
        if (place := op.place) and (live := op.lifetime) and place[0] == GLOBAL_SCOPE
    ]
    clock, weights, staged = _Clock(program), _weights(program), list[_Staged]()
    for step in clock.steps:
        direct = 0
        for each in (w for w in weights if w.uses[0][0] == step):
            found = None
            is_worth = clock.gains(each, step, element) and len(staged) < most
            for size in _sizes(each, element) if is_worth else ():
                uses = each.within(size, element)
                earliest = staged[-1].taken.first if staged else 0
                found = _fit(uses, (size, element), earliest, room, taken)
                if found is not None:
                    found = clock.copy(found, step, _read(uses) * element)
                if found is not None:
                    taken.append(found)
                    staged.append(_Staged(each, found))
                    break
            size = 0 if found is None else found.end - found.start
            direct += (_read(each.uses) - _read(each.within(size, element))) * element
        clock.runs(step, direct)
    return staged


class _Clock:
    """When steps begin and copies end, roughly: steps compute or wait for DDR, copies share it.

    starts: of the steps so far, in cycles.
    """

    def __init__(self, program: ClusterOp):
        target = program.target
        self._rate = target.core.timing.port_bytes
        self._units: dict[int, int] = {}
        self._compute: dict[int, int] = {}
        self._inputs: dict[int, int] = {}
        buffers = program.buffers()
        for unit, core in program.cores().items():
            step = 0
            for op in core.body.block.ops:
                if isinstance(op, StepOp):
                    step = op.number.value.data
                    self._units[step], self._compute[step], self._inputs[step] = unit, 0, 0
                elif isinstance(op, ComputeOp) and op.micro_ops is not None:
                    self._compute[step] += compute_work(target.core, op, op.micro_ops).cycles
                elif isinstance(op, LoadOp) and op.memory_id is Memory.INP and op.buffer_name:
                    place = buffers[op.buffer_name].place
                    if place is None or place[0] != GLOBAL_SCOPE:
                        elements = op.sizes[0] * op.sizes[1]
                        self._inputs[step] += elements * target.core.element_bytes(Memory.INP)
        self.steps = sorted(self._units)
        self.starts: dict[int, int] = {}
        self._now = dict.fromkeys(program.cores(), 0)
        self._ddr = _Port()
        self._copied = 0

    def gains(self, weights: _Weights, step: int, element: int) -> bool:
        """Whether weights are read again, or the step that reads them would wait for DDR.

        Other weights a core loads early by itself, without a signal. Where one core works alone, it
        has DDR for itself.
        """
        now, read = self._now[self._units[step]], _read(weights.uses) * element
        is_read_again = read > weights.buffer.bytes.value.data
        loads = self._ddr.end_of(now, (read + self._inputs[step]) // self._rate)
        is_alone = len(set(self._units.values())) == 1
        return not is_alone and (is_read_again or loads > now + self._compute[step])

    def copy(self, taken: Interval, step: int, read: int) -> Interval | None:
        """Let the DMA copy into a place if the copy ends before the step that reads it begins.

        It may end later by the time that DDR saves. read: bytes that loads read of it in all.
        Returns the place from the step on during which the copy begins, None if it is not made.
        """
        size = taken.end - taken.start
        begin = max(self._copied, self.starts.get(taken.first, 0))
        begin = max(self._ddr.end_of(begin, 1) - 1, begin)
        cycles = size // self._rate
        end = self._ddr.end_of(begin, cycles)
        if end > self._now[self._units[step]] + (read - size) // self._rate:
            return None
        self._copied = end
        self._ddr.take(begin, cycles)
        running = [other for other, start in self.starts.items() if start <= begin]
        return replace(taken, first=max([taken.first, *running]))

    def runs(self, step: int, direct: int) -> None:
        """The next step runs, which reads so many bytes of weights from DDR."""
        unit = self._units[step]
        start = self.starts[step] = self._now[unit]
        loads = self._ddr.take(start, (direct + self._inputs[step]) // self._rate)
        self._now[unit] = max(start + self._compute[step], loads)


class _Port:
    """The cycles of DDR's port that are left, in stretches of `_STRETCH` cycles."""

    def __init__(self) -> None:
        self._used: dict[int, int] = {}

    def end_of(self, begin: int, cycles: int) -> int:
        """The cycle in which so many cycles of the port are over, taken from `begin` on."""
        return self._take(begin, cycles, commit=False)

    def take(self, begin: int, cycles: int) -> int:
        """As `end_of`; the cycles are used from now on."""
        return self._take(begin, cycles, commit=True)

    def _take(self, begin: int, cycles: int, *, commit: bool) -> int:
        stretch, end = begin // _STRETCH, begin
        while cycles > 0:
            used = self._used.get(stretch, 0)
            part = min(_STRETCH - used, cycles)
            if part:
                end = max(begin, stretch * _STRETCH + used + part)
                cycles -= part
                if commit:
                    self._used[stretch] = used + part
            stretch += 1
        return end


_STRETCH = 4096
"""Cycles that `_Port` looks at together."""


def _read(uses: Sequence[tuple[int, LoadOp]]) -> int:
    """The elements that loads read."""
    return sum(op.sizes[0] * op.sizes[1] for _, op in uses)


def _sizes(weights: _Weights, element: int) -> Iterator[int]:
    """How many bytes to try to stage: all, and halves of that, each the end of a load."""
    whole = weights.buffer.bytes.value.data
    ends = sorted({_end(op) * element for _, op in weights.uses})
    for halving in range(_HALVINGS + 1):
        size = max((end for end in ends if end <= whole >> halving), default=0)
        if size >= LEAST_BYTES:
            yield size


def _fit(
    uses: Sequence[tuple[int, LoadOp]],
    wanted: tuple[int, int],
    earliest: int,
    room: int,
    taken: Sequence[Interval],
) -> Interval | None:
    """The place from as early as possible until the last use; None if there is none.

    wanted: how many bytes, and the alignment. earliest: the first step. room: bytes of the buffer.
    """
    size, align = wanted
    first, last = min(step for step, _ in uses), max(step for step, _ in uses)
    is_read_again = _read(uses) > max(_end(op) for _, op in uses)
    for step in range(earliest, first + is_read_again):
        start = first_fit(size, align, (step, last), taken)
        if start + size <= room:
            return Interval(start, start + size, step, last)
    return None


def _end(op: LoadOp) -> int:
    """The element of DRAM behind the last one that a load reads."""
    y, x = op.sizes
    return op.dram_base.value.data + (y - 1) * op.stride.value.data + x


def _weights(program: ClusterOp) -> list[_Weights]:
    """The constants that are loaded as weights, and by nothing else, with their uses by step."""
    found = {
        name: _Weights(op)
        for name, op in program.buffers().items()
        if op.kind.data is BufferKind.CONSTANT
    }
    others = set()
    for core in program.cores().values():
        step = 0
        for op in core.body.block.ops:
            if isinstance(op, StepOp):
                step = op.number.value.data
            elif isinstance(op, LoadOp) and op.buffer_name in found:
                if op.memory_id is Memory.WGT:
                    found[op.buffer_name].uses.append((step, op))
                else:
                    others.add(op.buffer_name)
    for weights in found.values():
        weights.uses.sort(key=lambda use: use[0])
    return [w for name, w in found.items() if w.uses and name not in others]


def _write(program: ClusterOp, copies: dict[int, list[CopyOp]]) -> None:
    """Write the stream of the DMA, and number all steps anew: copies stand before their step."""
    markers: dict[int, StepOp] = {
        op.number.value.data: op for core in program.cores().values() for op in core.all_of(StepOp)
    }
    stream: list[Operation] = []
    number = 0
    for step in sorted({*markers, *copies}):
        for copy in copies.get(step, ()):
            stream += [StepOp(number), copy]
            number += 1
        if step in markers:
            markers[step].properties["number"] = integer(number)
            number += 1
    program.body.block.add_op(DmaOp(Region(Block(stream))))
