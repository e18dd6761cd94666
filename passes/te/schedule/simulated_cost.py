"""The cost of a tiling: its loops are played through with one clock per module.

The formula of `cost` ranks thousands of tilings; it does not see where a module waits for another.
Here the loops of one tiling run as they will on the machine, with three clocks, of the load, the
compute and the store module. A load waits until the last reader of its buffer is done, a product
for its loads, an operation for the store of what it overwrites. What each takes: `Durations`.

All times follow from others by maxima and sums, so that a later start delays everything by as much
(max-plus algebra: Baccelli et al., "Synchronization and Linearity", 1992). Times are therefore kept
relative to the compute module's clock, and those that can delay nothing any more are forgotten:
then the state before a tile, or before a whole loop of tiles, soon comes back, and what followed
from it is known.
"""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from vtac.dialects.target import Target
from vtac.passes.te.schedule.durations import Durations
from vtac.passes.te.schedule.fits import BufferNeeds
from vtac.passes.te.schedule.footprint import Range
from vtac.passes.te.schedule.micro_op_loads import MicroOpCounter
from vtac.passes.te.schedule.structure import Structure
from vtac.passes.te.schedule.tile_steps import (
    ComputeAction,
    Kinds,
    LoadAction,
    ProductAction,
    TileSteps,
)
from vtac.passes.te.schedule.tiling import Tiling


class CostSimulator:
    """Simulates tilings of one kernel; what they have in common is worked out once.

    A kernel of a network is judged as a program of its own: launch is a constant, and fetch shares
    the port with loads there, too.
    """

    def __init__(self, structure: Structure, target: Target):
        self.structure, self.target = structure, target
        self.durations = Durations(structure, target)
        self.needs = BufferNeeds(structure, target, self.durations.regions)
        self._known: dict[object, tuple[int, bool]] = {}

    def cycles(self, tiling: Tiling, limit: int | None = None) -> int:
        """The cycles that a tiling takes, from launch to the last store.

        Where they reach the limit: some number from the limit on that they reach, too.
        """
        key = tiling.key
        found, is_whole = self._known.get(key, (0, False))
        if not is_whole and (limit is None or found < limit):
            found, is_whole = self._known[key] = _Simulation(self, tiling).run(limit)
        return found


class _State(NamedTuple):
    """When the modules and buffers are ready, relative to the clock of the compute module.

    load, store: the other clocks. ready: of each operand of a product, when what is in its buffer
    was loaded. ends: of each, when its other slots were last read, the next one to be loaded first,
    then the one in use. stored: of each accumulator buffer that is stored, when the last store from
    each context is done, the one of the next tile first. requests: those for instructions that
    are still to be made. fetch: when the next of them is.
    """

    load: int
    store: int
    ready: tuple[int, ...]
    ends: tuple[tuple[int, ...], ...]
    stored: tuple[tuple[int, ...], ...]
    requests: int
    fetch: int


_After: TypeAlias = tuple[int, _State, int]
"""How far the compute module's clock has gone, the state then, and the work that was done."""


class _LimitReachedError(Exception):
    """A tiling cannot stay below the limit; it takes at least so many cycles."""

    def __init__(self, cycles: int):
        super().__init__()
        self.cycles = cycles


class _Simulation:
    """One tiling: the clocks of the three modules as its loops run."""

    def __init__(self, simulator: CostSimulator, tiling: Tiling):
        self.rates = simulator.durations.rates
        self.entries = simulator.target.uop_entries
        self.steps = TileSteps(simulator.durations, simulator.needs, tiling)
        self._known: dict[object, _After] = {}
        self._limit: int | None = None
        # The clock of the compute module, and the work that is left.
        self._start_time = self.rates.launch
        self._now, self._left = self._start_time, self.steps.work
        self._first_product = -1
        # As in `_State`.
        self._requests, self._fetch = 0, 0

    def run(self, limit: int | None) -> tuple[int, bool]:
        """The cycles of all tiles, and whether they are exact.

        They are not where a part is sure to lead to `limit` or more: what was computed, and what is
        left of the work that every tiling has.
        """
        self._limit = limit
        try:
            state = self._run(0, (), (), -1, self._start())
        except _LimitReachedError as reached:
            return reached.cycles, False
        stored = self._now + max(state.store, 0)
        if limit is not None and stored >= limit:
            return stored, False
        uops = MicroOpCounter(self.steps, self.entries).count()
        again = (uops.loads - 1) * self.rates.load + self._beats(uops.words - uops.first)
        first = max(self.rates.load + self._beats(uops.first) - self._first_product, 0)
        return stored + again + first, True

    def _beats(self, micro_ops: int) -> int:
        return 4 * micro_ops // self.rates.beat

    def _start(self) -> _State:
        operands, count = self.steps.operands, len(self.steps.buffers)
        return _State(
            0,
            0,
            (0,) * len(operands),
            tuple((0,) * operand.slots for operand in operands),
            ((0,) * self.steps.contexts,) * count,
            self._requests_ahead(),
            self.rates.fetch_ahead.dispatch,
        )

    def _requests_ahead(self) -> int:
        """The requests for instructions after the first until a queue is full, or all are there."""
        ahead = self.rates.fetch_ahead
        if not ahead.beats:
            return 0
        return -(-self.steps.queued(ahead.depth) // ahead.instructions) - 1

    def _run(
        self, level: int, kinds: Kinds, tile: tuple[Range, ...], changed: int, state: _State
    ) -> _State:
        """Run the loops from a level on; returns the state behind them."""
        key = level, kinds, changed, state
        found = self._known.get(key)
        if found is not None:
            gone, after, work = found
            self._now, self._left = self._now + gone, self._left - work
        else:
            before, left = self._now, self._left
            if level == len(self.steps.loops):
                after = self._tile(kinds, tile, changed, state)
            else:
                after = state
                for kind, part in self.steps.kinds[level]:
                    after = self._run(level + 1, (*kinds, kind), (*tile, part), changed, after)
                    changed = level
            self._known[key] = self._now - before, after, left - self._left
        if self._limit is not None and self._now + self._left >= self._limit:
            raise _LimitReachedError(self._now + self._left)
        return after

    def _tile(self, kinds: Kinds, tile: tuple[Range, ...], changed: int, state: _State) -> _State:
        actions, work = self.steps.actions(kinds, tile, changed)
        load, store, compute = state.load, state.store, 0
        self._requests, self._fetch = state.requests, state.fetch
        ready, ends = list(state.ready), [list(part) for part in state.ends]
        stored = [list(part) for part in state.stored]
        for action in actions:
            if isinstance(action, ProductAction):
                if action.buffer >= 0 and stored[action.buffer][0] > compute:
                    compute = stored[action.buffer][0]
                load, compute = self._product(action, load, compute + action.start, ready, ends)
            elif isinstance(action, ComputeAction):
                if action.buffer >= 0 and stored[action.buffer][0] > compute:
                    compute = stored[action.buffer][0]
                if action.after is not None:
                    compute = self._port_free(action.after, load, compute, ends)
                compute += action.cycles
            elif isinstance(action, LoadAction):
                queue = ends[action.operand]
                queue.append(queue.pop(0))
                load = ready[action.operand] = self._loaded(max(load, queue[-1]), action.cycles)
            else:
                store = max(store, compute) + action.cycles
                stored[action.buffer][0] = store
        self._now, self._left = self._now + compute, self._left - work
        return self._relative(load, store, compute, ready, ends, stored)

    def _product(
        self,
        action: ProductAction,
        load: int,
        compute: int,
        ready: list[int],
        ends: list[list[int]],
    ) -> tuple[int, int]:
        """Its loads and instructions; returns the clocks of the load and the compute module."""
        pair = action.activations, action.weights
        inp, wgt = pair
        queues = ends[inp], ends[wgt]
        for step in action.reduction.steps:
            for number, cycles in step.fills:
                queue = queues[number]
                queue.append(free := queue.pop(0))
                start = free if free > load else load
                load = self._loaded(start, cycles) if self._requests else start + cycles
                ready[pair[number]] = load
            start = ready[inp] if ready[inp] > ready[wgt] else ready[wgt]
            if compute > start:
                start = compute
            if self._first_product < 0:
                self._first_product = self._now + start - self._start_time
            compute = queues[0][-1] = queues[1][-1] = start + step.cycles
        return load, compute

    def _port_free(
        self,
        loads: Sequence[tuple[int, int]],
        load: int,
        compute: int,
        ends: Sequence[Sequence[int]],
    ) -> int:
        """When the compute module's load is served that is asked for at its clock.

        loads: those of the load module that follow. It waits only for the last of them for which
        buffers are free; before an earlier one `vta-order-instructions` moves it to a gap.
        """
        if not self.rates.shares_port:
            return compute
        taken = dict[int, int]()
        for operand, cycles in loads:
            slot = taken.get(operand, 0)
            taken[operand] = slot + 1
            load = max(load, ends[operand][slot])
            if load > compute:
                return compute
            load += cycles
        return max(load, compute)

    def _loaded(self, start: int, cycles: int) -> int:
        """When a load is done that starts then and takes so many cycles on a port of its own."""
        end, ahead = start + cycles, self.rates.fetch_ahead
        while self._requests and self._fetch < end:
            first = self._fetch + ahead.latency
            if first + ahead.beats > start:
                # The request waits for the beats that were asked for before it, at most.
                first = max(first, min(end, self._fetch + ahead.waits))
                end += min(ahead.beats, first + ahead.beats - start)
            self._requests -= 1
            self._fetch = first + ahead.beats + ahead.dispatch
        return end

    def _relative(
        self,
        load: int,
        store: int,
        compute: int,
        ready: list[int],
        ends: list[list[int]],
        stored: list[list[int]],
    ) -> _State:
        """The state behind a tile. What can delay nothing any more is as if it were now."""
        moving = [
            queue for queue, operand in zip(ends, self.steps.operands, strict=True) if operand.moves
        ]
        # No load can start before the earliest of the slots that will be loaded next.
        next_load = max(load, min((queue[0] for queue in moving), default=compute))
        return _State(
            next_load - compute,
            max(store - compute, 0),
            tuple([max(time - compute, 0) for time in ready]),
            tuple(
                [
                    tuple([max(time, next_load) - compute for time in queue])
                    if operand.moves
                    else (0,)
                    for queue, operand in zip(ends, self.steps.operands, strict=True)
                ]
            ),
            tuple([tuple([max(t - compute, 0) for t in (*q[1:], q[0])]) for q in stored]),
            self._requests,
            self._fetch - compute if self._requests else 0,
        )
