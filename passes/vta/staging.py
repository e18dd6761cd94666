"""Which weights the DMA brings to the global buffer, where, and when: the analysis of
``vta-stage-weights``.

Weights are staged in *pieces* of a few loads each, in the order in which steps read them. A piece
takes the lowest free bytes of the global buffer from a step until its last reader is done; the
earlier that step, the more copies find DDR idle. A rough clock says when steps begin and end and
which cycles of DDR they leave idle. A copy that would come later than its reader is not made: the
cores then read DDR themselves.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from vtac.dialects.intervals import Interval, first_fit
from vtac.dialects.vta import (
    BufferKind,
    BufferOp,
    ClusterOp,
    ComputeOp,
    LoadOp,
    StepOp,
)
from vtac.dialects.vta.attributes import GLOBAL_SCOPE

from .list_schedule import compute_work

LEAST_BYTES = 4096
"""Smaller constants are left in DDR: a wait costs more than they do."""

PIECE_BYTES = 1 << 15
"""Pieces end with the first load behind so many bytes."""

MOST_SIGNALS = 240
"""Steps of a core that wait for copies, or that copies wait for: a semaphore counts to 255."""

_STRETCH = 4096
"""Cycles that `_Port` looks at together."""


@dataclass(frozen=True)
class ConstantPiece:
    """Some bytes of a constant that cores load as weights.

    start, end: bytes of the constant. uses: the loads that read them, each with its step, by step.
    read: bytes that the loads read in all.
    """

    constant: str
    start: int
    end: int
    uses: Sequence[tuple[int, LoadOp]]
    read: int

    @property
    def size(self) -> int:
        """Bytes."""
        return self.end - self.start

    @property
    def steps(self) -> tuple[int, int]:
        """The first and the last step that reads it."""
        return self.uses[0][0], self.uses[-1][0]


@dataclass(frozen=True)
class Staged:
    """A piece that the DMA copies. taken: its bytes of the global buffer, and its life in steps,
    from the one in front of which the copy stands."""

    piece: ConstantPiece
    taken: Interval


def choose(
    program: ClusterOp, most: int, *, early: bool = False, late: bool = False
) -> list[Staged]:
    """What is staged, in the order in which it is copied; at most so many copies.

    early: whether cores are taken to read weights during their step before, too; weights that are
    there in time that way are left in DDR, and make room for later ones. late: copies wait for
    steps even where the rough clock finds DDR idle.
    """
    core = program.target.core
    element = core.element_bytes(core.system.weights)
    clock, room = _Clock(program, early, late), _Room(program, element)
    staged = list[Staged]()
    by_step: dict[int, list[ConstantPiece]] = {}
    for piece in pieces(program):
        by_step.setdefault(piece.steps[0], []).append(piece)
    for step in clock.steps:
        direct, near, earliest = 0, 0, staged[-1].taken.first if staged else clock.steps[0]
        wanted = by_step.get(step, [])
        waits = clock.waits(step, sum(piece.read for piece in wanted))
        for piece in wanted:
            found = None
            if early:
                waits = clock.waits(step, direct + piece.read)
            is_worth = waits or piece.read > piece.size
            is_worth = is_worth and not clock.is_alone and len(staged) < most
            if is_worth and clock.can_signal():
                found = room.earliest(piece, earliest)
            if found is not None:
                found = clock.copy(found, step, piece.read)
            if found is None:
                direct += piece.read
                continue
            near += piece.read
            room.take(found)
            clock.tie([found.first - 1, *(use for use, _ in piece.uses)])
            staged.append(Staged(piece, found))
            earliest = found.first
        clock.runs(step, direct, near)
    return staged


def pieces(program: ClusterOp) -> Iterator[ConstantPiece]:
    """The pieces of the constants that are loaded as weights, and by nothing else."""
    core = program.target.core
    element = core.element_bytes(core.system.weights)
    for buffer, uses in _weights(program):
        if buffer.bytes.value.data < LEAST_BYTES:
            continue
        start = end = 0
        held: list[tuple[int, LoadOp]] = []
        for use in sorted(uses, key=lambda use: use[1].dram_base.value.data):
            begin = use[1].dram_base.value.data * element
            if held and begin >= end and end - start >= PIECE_BYTES:
                yield _piece(buffer, start, end, held, element)
                held = []
            start = start if held else begin
            end = max(end, _end(use[1]) * element)
            held.append(use)
        if held:
            yield _piece(buffer, start, end, held, element)


def _piece(
    buffer: BufferOp, start: int, end: int, uses: Sequence[tuple[int, LoadOp]], element: int
) -> ConstantPiece:
    read = sum(op.sizes[0] * op.sizes[1] for _, op in uses) * element
    ordered = sorted(uses, key=lambda use: use[0])
    return ConstantPiece(buffer.sym_name.data, start, end, ordered, read)


def _end(op: LoadOp) -> int:
    """The element of DRAM behind the last one that a load reads."""
    y, x = op.sizes
    return op.dram_base.value.data + (y - 1) * op.stride.value.data + x


def _weights(program: ClusterOp) -> Iterator[tuple[BufferOp, list[tuple[int, LoadOp]]]]:
    """The constants that are loaded as weights alone, with their loads, each with its step."""
    buffers = program.buffers()
    found: dict[str, list[tuple[int, LoadOp]]] = {
        name: [] for name, op in buffers.items() if op.kind.data is BufferKind.CONSTANT
    }
    others = set()
    for core in program.cores().values():
        step = 0
        for op in core.body.block.ops:
            if isinstance(op, StepOp):
                step = op.number.value.data
            elif isinstance(op, LoadOp) and op.buffer_name in found:
                if op.memory_id is core.target.system.weights:
                    found[op.buffer_name].append((step, op))
                else:
                    others.add(op.buffer_name)
    return ((buffers[n], uses) for n, uses in found.items() if uses and n not in others)


class _Room:
    """The bytes of the global buffer that are free, step by step."""

    def __init__(self, program: ClusterOp, align: int):
        self._size, self._align = program.target.gb_bytes, align
        self._taken = [
            Interval(place[1], place[1] + op.bytes.value.data, *live)
            for op in program.buffers().values()
            if (place := op.place) and (live := op.lifetime) and place[0] == GLOBAL_SCOPE
        ]

    def earliest(self, piece: ConstantPiece, earliest: int) -> Interval | None:
        """Room for a piece from as early as possible until its last use; None if there is none.

        What is free from a step on is free from later ones on, too: the search is binary.
        """
        first, last = piece.steps
        low, high = earliest, max(first, earliest)
        while low < high:
            middle = (low + high) // 2
            if self._fit(piece.size, middle, last) is None:
                low = middle + 1
            else:
                high = middle
        return self._fit(piece.size, low, last)

    def take(self, taken: Interval) -> None:
        """Take bytes from now on."""
        self._taken.append(taken)

    def _fit(self, size: int, first: int, last: int) -> Interval | None:
        start = first_fit(size, self._align, (first, last), self._taken)
        return Interval(start, start + size, first, last) if start + size <= self._size else None


@dataclass
class _Clock:
    """When steps begin and end, and copies end, roughly: steps compute or wait for DDR.

    early: whether a core reads weights while its step before runs. late: whether copies wait for
    steps where DDR is idle. steps: in emission order.
    """

    program: ClusterOp
    early: bool
    late: bool
    steps: list[int] = field(init=False)
    _units: dict[int, int] = field(default_factory=dict)
    _compute: dict[int, int] = field(default_factory=dict)
    _inputs: dict[int, int] = field(default_factory=dict)
    _tied: dict[int, set[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        timing, machine = self.program.target.timing, self.program.target.core
        rate = timing.core.port_bytes * timing.ddr_channels / timing.ddr_beat_cycles
        self._rate, self._ddr, self._copied = rate, _Port(), 0
        for unit, core in self.program.cores().items():
            step = 0
            for op in core.body.block.ops:
                if isinstance(op, StepOp):
                    step = op.number.value.data
                    self._units[step], self._compute[step], self._inputs[step] = unit, 0, 0
                elif isinstance(op, ComputeOp) and op.micro_ops is not None:
                    work = compute_work(machine, op, op.micro_ops)
                    self._compute[step] += work.cycles
                elif isinstance(op, LoadOp) and op.memory_id is machine.system.activations:
                    self._inputs[step] += self._ddr_bytes(op)
        self.steps = sorted(self._units)
        self.is_alone = len(set(self._units.values())) == 1
        # When the step before each one is over, as far as steps have run.
        self._over = dict.fromkeys(self.steps[:1], 0)
        self._now = dict.fromkeys(self.program.cores(), 0)
        # When the last step of each core began, and the bytes of weights that it holds.
        self._began = dict.fromkeys(self.program.cores(), 0)
        self._held = dict.fromkeys(self.program.cores(), 0)
        self._depth = machine.wgt_depth * machine.element_bytes(machine.system.weights)

    def tie(self, steps: Iterable[int]) -> None:
        """Steps wait for a copy, or a copy waits for them."""
        for step in steps:
            if step in self._units:
                self._tied.setdefault(self._units[step], set()).add(step)

    def can_signal(self) -> bool:
        """Whether no semaphore between a core and the DMA can count too far."""
        return all(len(steps) < MOST_SIGNALS for steps in self._tied.values())

    def _ddr_bytes(self, op: LoadOp) -> int:
        place = self.program.buffers()[op.buffer_name].place if op.buffer_name else None
        elements = op.sizes[0] * op.sizes[1]
        is_near = place is not None and place[0] == GLOBAL_SCOPE
        machine = self.program.target.core
        return 0 if is_near else elements * machine.element_bytes(op.memory_id)

    def _cycles(self, size: int) -> int:
        return int(size / self._rate)

    def waits(self, step: int, read: int) -> bool:
        """Whether a step would wait for DDR if it read so many bytes of weights there."""
        return self._loaded(step, read, self._ddr.end_of) > (
            self._now[self._units[step]] + self._compute[step]
        )

    def _loaded(self, step: int, read: int, transfer: Callable[[int, int], int]) -> int:
        """The cycle in which a step has read so many bytes of weights from DDR, and its inputs.

        If it reads early: what fits beside the weights of the core's step before is read while that
        one runs.
        transfer: the end of so many cycles of DDR that begin in a cycle.
        """
        unit = self._units[step]
        early = min(read, self._depth - self._held[unit]) if self.early else 0
        there = max(transfer(self._began[unit], self._cycles(early)), self._now[unit])
        return transfer(there, self._cycles(read - early + self._inputs[step]))

    def copy(self, taken: Interval, step: int, read: int) -> Interval | None:
        """Let the DMA copy into a place if the copy ends before the step that reads it begins.

        It may end later by the time that DDR saves. read: bytes that loads read of it in all.
        Where DDR is idle, a copy stands where there is room first, behind the copy before, unless
        copies are late: a later place would let the DMA wait for a step, and when that is over is
        known only roughly.
        Returns the place from the step on in front of which the copy stands, None if it is not
        made.
        """
        size = taken.end - taken.start
        free = max(self._copied, self._over.get(taken.first, 0))
        begin = max(self._ddr.end_of(free, 1) - 1, free)
        cycles = self._cycles(size)
        latest = self._now[self._units[step]] + self._cycles(read - size)
        is_free = begin - free <= _STRETCH and not self.late
        positions = [(taken.first, begin)] if is_free else self._positions(taken.first, begin)
        for first, start in positions:
            if (end := self._ddr.end_of(start, cycles)) <= latest:
                self._copied = end
                self._ddr.take(start, cycles)
                return replace(taken, first=first)
        return None

    def _positions(self, earliest: int, begin: int) -> list[tuple[int, int]]:
        """Steps in front of which a copy may stand that finds DDR idle in a cycle, best first.

        Each with the cycle in which the copy then starts. Copies start when the step before is
        over: too early, they take DDR from the steps at hand; too late, the DMA idles. So the step
        whose cycle is nearest comes first.
        """
        before, behind = (earliest, self._over.get(earliest, 0)), None
        for step, over in self._over.items():
            if step > before[0] and over <= begin:
                before = step, over
            elif step > before[0] and over > begin:
                behind = step, over
                break
        down = before[0], begin
        if behind is None or behind[1] - begin > begin - before[1]:
            return [down]
        return [behind, down]

    def runs(self, step: int, direct: int, near: int) -> None:
        """The next step runs, which reads so many bytes of weights from DDR, and from near by."""
        unit = self._units[step]
        loads = self._loaded(step, direct, self._ddr.take)
        self._began[unit] = self._now[unit]
        self._now[unit] = max(self._now[unit] + self._compute[step], loads)
        self._held[unit] = min(direct + near, self._depth)
        self._over[step + 1] = max(self._over[step], self._now[unit])


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
