"""Loops of te, run by NumPy in their order. Shares no code with passes.

`run_loops` executes the loop form (`vtac.tools.tune.evaluate` evaluates computes) and is strict: a
read of an element that is not there, or a write outside a buffer's window, is an error, so a window
that a schedule made too small cannot go unnoticed. All iterations of a perfect nest are looked at
together, those that write the same element one after the other; ``plain`` runs them one by one.
"""

import itertools
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from xdsl.ir import Operation, SSAValue

from vtac.dialects import te
from vtac.tools.tune.evaluate import Array, ScalarBody, wrapped

ABSENT = np.iinfo(np.int64).min
"""In a buffer: there is no element here."""


class Buffer:
    """A tensor's index space, of which some elements are there."""

    def __init__(self, value: SSAValue, window: Sequence[tuple[int, int]], data: Array | None):
        type = value.type
        self.name = value.name_hint
        self.element_type = type.element_type
        self.shape = type.get_shape()
        self.window = list(window)
        self.data = np.full(self.shape, ABSENT) if data is None else np.array(data, np.int64)
        self.boxes: Sequence[te.Box] | None = None
        for (start, length), size in zip(self.window, self.shape, strict=True):
            assert 0 <= start <= start + length <= size, f"window of {self.name}: {self.window}"

    @staticmethod
    def packed(value: SSAValue, data: Array) -> "Buffer":
        """A tensor of which those boxes are there that a packed buffer stores, one by one."""
        shape = value.type.get_shape()
        buffer = Buffer(value, [(0, size) for size in shape], None)
        rest = np.asarray(data, np.int64)
        buffer.boxes = value.type.layout.boxes(shape)
        for box in buffer.boxes:
            region = tuple(slice(start, start + length) for start, length in box)
            count = buffer.data[region].size
            buffer.data[region] = rest[:count].reshape(buffer.data[region].shape)
            rest = rest[count:]
        assert rest.size == 0
        return buffer

    def inside(self, places: Sequence[Array]) -> Array:
        """Which points lie inside the tensor's shape; places are arrays [points], a dimension."""
        result = np.True_
        for at, size in zip(places, self.shape, strict=False):
            result = result & (at >= 0) & (at < size)
        return result

    def read(self, places: Sequence[Array]) -> Array:
        """The elements (or lanes) at points inside the shape; without places there is one point."""
        index = tuple(places) or (None,)
        found = self.data[index]
        assert ABSENT not in found, f"%{self.name} is read where it is not there"
        return found

    def write(self, places: Sequence[Array], values: Array) -> None:
        for at, (start, length) in zip(places, self.window, strict=False):
            inside = start <= at.min() and at.max() < start + length
            assert inside, f"%{self.name} is written outside of {self.window}"
        self.data[tuple(places)] = wrapped(values, self.element_type)


def run_loops(kernel: te.KernelOp, inputs: Sequence[Array], *, plain: bool = False) -> list[Array]:
    """The results of a kernel in loop form. Every element of every result must be written."""
    machine = _Machine(plain)
    parameters = kernel.body.block.args
    for number, argument in enumerate(parameters):
        window = [(0, size) for size in argument.type.get_shape()]
        data = inputs[number] if number < len(inputs) else None
        if te.packing_of(argument) is not None:
            machine.buffers[argument] = Buffer.packed(argument, inputs[number])
        else:
            machine.buffers[argument] = Buffer(argument, window, data)
    machine.run(kernel.body.block.ops)
    results = [machine.buffers[argument] for argument in parameters[len(inputs) :]]
    for result in results:
        assert ABSENT not in result.data, f"result %{result.name} is not written everywhere"
    return [result.data for result in results]


class Statement:
    """A `te.update` or `te.invoke`, looked at once."""

    def __init__(self, op: te.UpdateOp | te.InvokeOp) -> None:
        self.write, self.reads = op.write, op.reads
        self.intrinsic: te.IntrinsicOp | None = None
        self.updates = isinstance(op, te.UpdateOp) and op.accumulate is not None
        self.immediate: int | te.Access | None = None
        if isinstance(op, te.UpdateOp):
            self.body = ScalarBody(op.body)
            return
        intrinsic = self.intrinsic = op.intrinsic
        self.body, self.immediate = ScalarBody(intrinsic.body), op.constant
        self.updates = intrinsic.updates is not None
        self.extents = intrinsic.spatial.extents
        destination, *self.lanes = intrinsic.lanes
        assert [row.variable for row in destination.rows] == list(range(len(self.extents)))
        spatial = list(np.ogrid[tuple(slice(extent) for extent in self.extents)])
        self.taps = [
            [
                (slice(None), *(np.asarray([*spatial, *point][row.variable]) for row in lane.rows))
                for lane in self.lanes
            ]
            for point in itertools.product(*map(range, intrinsic.reduce.extents))
        ]

    def lanes_of(
        self, old: Array | None, sources: Sequence[Array], immediate: Array | None
    ) -> Array:
        """The intrinsic's new elements [points, lanes...]."""
        result = old
        for taps in self.taps:
            arguments = [] if result is None else [result]
            arguments += [array[tap] for array, tap in zip(sources, taps, strict=True)]
            arguments += [] if immediate is None else [immediate]
            result = self.body(arguments)
        return result


class Loop:
    """A `te.for`, looked at once. sizes: of its tiles, if they are listed."""

    def __init__(self, op: te.ForOp) -> None:
        over = op.over
        self.start, self.length = over.start, over.length
        self.tile = tuple(op.body.block.args)
        self.sizes = None if op.sizes is None else np.array(op.sizes.get_values())
        self.step = 1 if op.step is None else op.step.value.data
        self.ops = list(op.body.block.ops)


class _Machine:
    """Runs operations in order. An index is a number, inside a perfect nest an array [points]."""

    def __init__(self, plain: bool) -> None:
        self.plain = plain
        self.buffers: dict[SSAValue, Buffer] = {}
        self.indices: dict[SSAValue, int | Array] = {}
        self.statements: dict[Operation, Statement] = {}
        self.loops: dict[te.ForOp, Loop] = {}
        self.nests: dict[te.ForOp, list[te.ForOp] | None] = {}
        self.windows: dict[Operation, list[te.Range]] = {}

    def loop(self, op: te.ForOp) -> Loop:
        if op not in self.loops:
            self.loops[op] = Loop(op)
        return self.loops[op]

    def window(self, op: te.AllocOp | te.CopyOp) -> list[tuple[int, int]]:
        if op not in self.windows:
            self.windows[op] = op.window
        return [self.known(item.start, item.length) for item in self.windows[op]]

    def run(self, ops) -> None:
        for op in ops:
            getattr(self, "run_" + op.name.removeprefix("te."))(op)

    def run_yield(self, op: te.YieldOp) -> None:
        pass

    def known(self, start: int | SSAValue, length: int | SSAValue) -> tuple:
        return (
            start if isinstance(start, int) else self.indices[start],
            length if isinstance(length, int) else self.indices[length],
        )

    def run_for(self, op: te.ForOp) -> None:
        if op not in self.nests:
            self.nests[op] = None if self.plain else perfect_nest(op)
        nest, loop = self.nests[op], self.loop(op)
        if nest is not None:
            count, outer = 1, []
            for inner in map(self.loop, nest):
                count = self.spread(inner, outer, count)
                outer += inner.tile
            self.run_points(inner.ops[0], count)
            return
        start, length = self.known(loop.start, loop.length)
        sizes = loop.sizes
        if sizes is None:
            sizes = [min(loop.step, length - done) for done in range(0, length, loop.step)]
        for size in sizes:
            self.indices[loop.tile[0]], self.indices[loop.tile[1]] = start, size
            self.run(loop.ops)
            start += size

    def spread(self, loop: Loop, outer: Sequence[SSAValue], points: int) -> int:
        """The loop's tiles at each of the points so far; returns how many points there are now.

        outer: what differs from point to point already.
        """
        start, length = self.known(loop.start, loop.length)
        if loop.sizes is not None:
            counts, steps, sizes = len(loop.sizes), np.cumsum(loop.sizes) - loop.sizes, loop.sizes
        elif isinstance(length, np.ndarray):
            return self.spread_unevenly(loop, outer, start, length)
        else:
            counts = -(-length // loop.step)
            steps = np.arange(counts) * loop.step
            sizes = np.minimum(loop.step, length - steps)
        if counts == 1:
            self.indices[loop.tile[0]], self.indices[loop.tile[1]] = start, length
            return points
        for value in outer:
            if isinstance(index := self.indices[value], np.ndarray):
                self.indices[value] = index.repeat(counts)
        if isinstance(start, np.ndarray):
            start = start.repeat(counts)
        self.indices[loop.tile[0]] = start + np.tile(steps, points)
        self.indices[loop.tile[1]] = np.tile(sizes, points)
        return points * counts

    def spread_unevenly(
        self, loop: Loop, outer: Sequence[SSAValue], start: Array, length: Array
    ) -> int:
        """As `spread`, where points have tiles of different lengths to cut."""
        counts = -(-length // loop.step)
        of = np.repeat(np.arange(len(length)), counts)
        done = (np.arange(len(of)) - np.repeat(np.cumsum(counts) - counts, counts)) * loop.step
        for value in outer:
            if isinstance(index := self.indices[value], np.ndarray):
                self.indices[value] = index[of]
        start = start[of] if isinstance(start, np.ndarray) else start
        self.indices[loop.tile[0]] = start + done
        self.indices[loop.tile[1]] = np.minimum(loop.step, length[of] - done)
        return len(of)

    def run_span(self, op: te.SpanOp) -> None:
        if any(self.indices[length] < 1 for _, _, length in op.terms):
            self.indices[op.start], self.indices[op.length] = 0, 0
            return
        values = [[op.offset.value.data, op.offset.value.data + op.extra.value.data - 1]]
        for coefficient, start, length in op.terms:
            first, count = self.indices[start], self.indices[length]
            values.append([coefficient * first, coefficient * (first + count - 1)])
        low, high = (sum(choose(ends) for ends in values) for choose in (min, max))
        if op.within is not None:
            size = op.within.value.data
            low, high = min(max(low, 0), size), min(high, size - 1)
        self.indices[op.start], self.indices[op.length] = low, max(high - low + 1, 0)

    def run_hull(self, op: te.HullOp) -> None:
        known = [self.known(item.start, item.length) for item in op.ranges]
        ranges = [(s, s + n) for s, n in known if n]
        low = min((s for s, _ in ranges), default=0)
        self.indices[op.start] = low
        self.indices[op.length] = max((e for _, e in ranges), default=low) - low

    def run_unfuse(self, op: te.UnfuseOp) -> None:
        """The pairs one by one, and what contains their tiles."""
        first, count = self.known(op.number, op.count)
        start, length, other, extent = op.ranges.get_values()
        step, inner = op.steps.get_values()
        row = len(range(0, extent, inner))
        pairs = [divmod(pair, row) for pair in range(first, first + count)]
        for values, base, size, by, end in (
            ({a for a, _ in pairs}, start, step, op.outer, length),
            ({b for _, b in pairs}, other, inner, op.inner, extent),
        ):
            low, high = min(values) * size, min((max(values) + 1) * size, end)
            self.indices[by] = base + low
            self.indices[op.results[op.results.index(by) + 1]] = high - low

    def run_alloc(self, op: te.AllocOp) -> None:
        self.buffers[op.buffer] = Buffer(op.buffer, self.window(op), None)

    def run_copy(self, op: te.CopyOp) -> None:
        source, target = self.buffers[op.source], self.buffers[op.target]
        window = self.window(op)
        for (start, length), (first, count) in zip(window, target.window, strict=True):
            assert first <= start and start + length <= first + count
        if op.pads is not None:
            self.load_padded(source, target, window, list(op.pads.get_values()))
            return
        if source.boxes is not None and all(length for _, length in window):
            assert tuple(window) in source.boxes, f"{window} is no box of %{source.name}"
        region = tuple(slice(start, start + length) for start, length in window)
        part = source.data[region]
        assert ABSENT not in part, f"a copy of %{source.name} has holes"
        target.data[region] = wrapped(part, target.element_type)

    def load_padded(self, source, target, window, pads) -> None:
        """Zero where the tensor has no element."""
        ends = (start + length for start, length in window)
        borders = [
            (pad, max(0, end - pad - size))
            for pad, end, size in zip(pads, ends, source.shape, strict=True)
        ]
        region = tuple(slice(start, start + length) for start, length in window)
        part = np.pad(source.data, borders)[region]
        assert ABSENT not in part, f"a copy of %{source.name} has holes"
        target.data[region] = part

    def run_update(self, op: te.UpdateOp) -> None:
        self.run_points(op, 1)

    def run_invoke(self, op: te.InvokeOp) -> None:
        self.run_points(op, 1)

    def place(self, access: te.Access, points: int) -> list[Array]:
        """The subscripts at each point."""
        subscripts = []
        for terms, constant in access.subscripts:
            at = constant + sum(c * self.indices[i] for i, c in terms)
            subscripts.append(at if isinstance(at, np.ndarray) else _constant(points, at))
        return subscripts

    def run_points(self, op: te.UpdateOp | te.InvokeOp, points: int) -> None:
        """Run a statement at all points, those with the same destination in their order."""
        if op not in self.statements:
            self.statements[op] = Statement(op)
        statement = self.statements[op]
        into = self.place(statement.write, points)
        places = [self.place(read, points) for read in statement.reads]
        if isinstance(statement.immediate, te.Access):
            places.append(self.place(statement.immediate, points))
        chosen = np.arange(points)
        if statement.intrinsic is not None:
            happens = np.full(points, True)
            for read, at in zip(statement.reads, places, strict=False):
                happens &= self.buffers[read.buffer].inside(at)
            chosen = np.flatnonzero(happens)
        moves = any(
            read.buffer is statement.write.buffer and not all(map(np.array_equal, at, into))
            for read, at in zip(statement.reads, places, strict=False)
        )
        run = self.run_scalars if statement.intrinsic is None else self.run_lanes
        for turn in turns(into, chosen, one_by_one=moves):
            run(
                statement,
                [at[turn] for at in into],
                [[at[turn] for at in place] for place in places],
                len(turn),
            )

    def run_scalars(
        self, statement: Statement, into: list[Array], places: list[list[Array]], points: int
    ) -> None:
        """Run a `te.update` at points with different destinations."""
        target = self.buffers[statement.write.buffer]
        arguments = [target.read(into)] if statement.updates else []
        for read, at in zip(statement.reads, places, strict=True):
            buffer = self.buffers[read.buffer]
            inside = np.broadcast_to(buffer.inside(at), points)
            if inside.all():
                arguments.append(buffer.read(at))
                continue
            assert read.outside is not None
            values = np.full(points, read.outside, np.int64)
            values[inside] = buffer.read([part[inside] for part in at])
            arguments.append(values)
        target.write(into, statement.body(arguments))

    def run_lanes(
        self, statement: Statement, into: list[Array], places: list[list[Array]], points: int
    ) -> None:
        """Run a `te.invoke` at points with different destinations."""
        target, immediate = self.buffers[statement.write.buffer], statement.immediate
        *_, last = [[], *places]
        if isinstance(immediate, te.Access):
            immediate = self.buffers[immediate.buffer].read(last)[:, None, None]
        sources = [
            self.buffers[read.buffer].read(at)
            for read, at in zip(statement.reads, places, strict=False)
        ]
        sources = [
            source
            if len(source) == points
            else np.broadcast_to(source, (points, *source.shape[1:]))
            for source in sources
        ]
        old = target.read(into) if statement.updates else None
        new = statement.lanes_of(old, sources, immediate)
        target.write(into, new)


@lru_cache(1 << 10)
def _constant(points: int, number: int) -> Array:
    """The same number at each of the points."""
    array = np.full(points, number)
    array.flags.writeable = False
    return array


def perfect_nest(outer: te.ForOp) -> list[te.ForOp] | None:
    """The loops down to a statement with nothing between them, if that is what is there."""
    loops = [outer]
    while True:
        ops = list(loops[-1].body.block.ops)
        if len(ops) != 1:
            return None
        if isinstance(ops[0], te.UpdateOp | te.InvokeOp):
            return loops
        if not isinstance(ops[0], te.ForOp):
            return None
        loops.append(ops[0])


def turns(into: Sequence[Array], chosen: Array, *, one_by_one: bool) -> list[Array]:
    """The chosen points in groups, so that none has a destination twice; in order for each."""
    if len(chosen) < 2 or not into or one_by_one:
        return [chosen[i : i + 1] for i in range(len(chosen))]
    place = np.ravel_multi_index([at[chosen] for at in into], [int(at.max()) + 1 for at in into])
    order = np.argsort(place, kind="stable")
    ordered = place[order]
    first = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    if len(first) == len(chosen):
        return [chosen]
    rank = np.arange(len(ordered)) - np.repeat(first, np.diff(first, append=len(ordered)))
    return [chosen[np.sort(order[rank == turn])] for turn in range(int(rank.max()) + 1)]


def kernel_named(module: Operation, name: str) -> te.KernelOp:
    """The kernel of that name in a module."""
    [found] = [
        op for op in module.walk() if isinstance(op, te.KernelOp) and op.sym_name.data == name
    ]
    return found
