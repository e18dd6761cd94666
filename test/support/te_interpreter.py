"""te, run by NumPy: tensors as whole arrays, loops element by element. Shares no code with passes.

`run_tensors` evaluates a kernel of computes. `run_loops` executes the loop form and is strict: a
read of an element that is not there, or a write outside a buffer's window, is an error, so a window
that a schedule made too small cannot go unnoticed.
"""

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
from xdsl.dialects import arith
from xdsl.ir import Operation, Region, SSAValue

from vtac.dialects import te

Array = np.ndarray

BINARY = {
    arith.AddiOp: lambda a, b: a + b,
    arith.SubiOp: lambda a, b: a - b,
    arith.MuliOp: lambda a, b: a * b,
    arith.MaxSIOp: np.maximum,
    arith.MinSIOp: np.minimum,
    arith.ShRSIOp: lambda a, b: np.where(b < 0, a << np.maximum(-b, 0), a >> np.maximum(b, 0)),
    arith.ShLIOp: lambda a, b: a << b,
}
"""On int64 arrays; the caller wraps. A negative right shift is VTA's left shift."""


def wrap(array: Array, bits: int) -> Array:
    """The low bits, as a signed number."""
    half = 1 << (bits - 1)
    return (np.asarray(array, np.int64) + half) % (2 * half) - half


def evaluate(body: Region, arguments: Sequence[Array]) -> Array:
    """What a scalar body yields, elementwise over arrays."""
    values: dict[SSAValue, Array] = dict(zip(body.block.args, arguments, strict=True))
    for op in body.block.ops:
        if isinstance(op, arith.ConstantOp):
            values[op.result] = np.int64(op.value.value.data)
        elif isinstance(op, te.YieldOp):
            return np.asarray(values[op.values[0]])
        elif isinstance(op, arith.ExtSIOp | arith.TruncIOp):
            values[op.results[0]] = wrap(values[op.operands[0]], op.results[0].type.width.data)
        else:
            left, right = (np.asarray(values[operand], np.int64) for operand in op.operands)
            values[op.results[0]] = wrap(
                BINARY[type(op)](left, right), op.results[0].type.width.data
            )
    raise AssertionError("a body without te.yield")


def run_tensors(kernel: te.KernelOp, inputs: Sequence[Array]) -> list[Array]:
    """The results of a kernel of computes."""
    values: dict[SSAValue, Array] = {
        argument: np.asarray(array, np.int64)
        for argument, array in zip(kernel.body.block.args, inputs, strict=True)
    }
    for op in kernel.body.block.ops:
        if isinstance(op, te.YieldOp):
            return [values[value] for value in op.values]
        assert isinstance(op, te.ComputeOp)
        values[op.result] = _compute(op, values)
    raise AssertionError("a kernel without te.yield")


def _compute(op: te.ComputeOp, values: Mapping[SSAValue, Array]) -> Array:
    shape = op.spatial.extents
    spatial = list(np.ogrid[tuple(slice(extent) for extent in shape)])
    if op.init is not None:
        result = values[op.init]
    else:
        result = np.full(shape, 0 if op.identity is None else op.identity.value.data, np.int64)
    for point in itertools.product(*map(range, op.reduce.extents)):
        arguments = [result] if op.reduce.data else []
        arguments += [
            _gather(values[read.value], read.rows, [*spatial, *point], read.outside)
            for read in op.reads
        ]
        result = np.broadcast_to(evaluate(op.body, arguments), shape)
    return result


def _gather(
    array: Array, rows: Sequence[te.Row], variables: Sequence[Array], outside: int | None
) -> Array:
    index, inside = [], np.True_
    for row, size in zip(rows, array.shape, strict=True):
        at = row.constant + sum(coefficient * variables[v] for v, coefficient in row.terms)
        at, rest = np.divmod(np.asarray(at), row.divisor)
        inside = inside & (rest == 0) & (at >= 0) & (at < size)
        index.append(np.clip(at, 0, size - 1))
    assert outside is not None or np.all(inside)
    found = array[tuple(index)]
    return found if outside is None else np.where(inside, found, outside)


class Buffer:
    """A tensor's index space, of which some elements are there."""

    def __init__(self, value: SSAValue, window: Sequence[tuple[int, int]], data: Array | None):
        type = value.type
        self.name = value.name_hint
        self.bits = type.element_type.width.data
        self.shape = type.get_shape()
        self.window = list(window)
        self.data = np.zeros(self.shape, np.int64) if data is None else np.array(data, np.int64)
        self.there = np.full(self.shape, data is not None)
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
            buffer.there[region] = True
            rest = rest[count:]
        assert rest.size == 0
        return buffer

    def contains(self, index: Sequence[int]) -> bool:
        return all(0 <= at < size for at, size in zip(index, self.shape, strict=False))

    def read(self, index: tuple[int, ...]) -> Array:
        assert np.all(self.there[index]), f"%{self.name}{list(index)} is read but not there"
        return self.data[index]

    def write(self, index: tuple[int, ...], value: Array) -> None:
        for at, (start, length) in zip(index, self.window, strict=False):
            assert start <= at < start + length, f"%{self.name}{list(index)} not in {self.window}"
        self.data[index] = wrap(value, self.bits)
        self.there[index] = True


def run_loops(kernel: te.KernelOp, inputs: Sequence[Array]) -> list[Array]:
    """The results of a kernel in loop form. Every element of every result must be written."""
    machine = _Machine()
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
        assert np.all(result.there), f"result %{result.name} is not written everywhere"
    return [result.data for result in results]


class _Machine:
    def __init__(self) -> None:
        self.buffers: dict[SSAValue, Buffer] = {}
        self.indices: dict[SSAValue, int] = {}
        self.plans: dict[Operation, tuple[te.Access, list[te.Access]]] = {}

    def accesses(self, op) -> tuple[te.Access, list[te.Access]]:
        """Destination and sources of a statement, looked up once."""
        if op not in self.plans:
            self.plans[op] = op.write, op.reads
        return self.plans[op]

    def run(self, ops) -> None:
        for op in ops:
            getattr(self, "run_" + op.name.removeprefix("te."))(op)

    def run_yield(self, op: te.YieldOp) -> None:
        pass

    def known(self, item: te.Range) -> tuple[int, int]:
        parts = (item.start, item.length)
        start, length = (p if isinstance(p, int) else self.indices[p] for p in parts)
        return start, length

    def run_for(self, op: te.ForOp) -> None:
        start, length = self.known(op.over)
        if op.sizes is not None:
            sizes = list(op.sizes.get_values())
        else:
            step = op.step.value.data
            sizes = [min(step, length - done) for done in range(0, length, step)]
        for size in sizes:
            self.indices[op.body.block.args[0]] = start
            self.indices[op.body.block.args[1]] = size
            self.run(op.body.block.ops)
            start += size

    def run_span(self, op: te.SpanOp) -> None:
        values = [[0], [op.offset.value.data, op.offset.value.data + op.extra.value.data - 1]]
        values = values[1:]
        for coefficient, start, length in op.terms:
            first, count = self.indices[start], self.indices[length]
            values.append([coefficient * first, coefficient * (first + count - 1)])
        low, high = (sum(choose(ends) for ends in values) for choose in (min, max))
        if op.within is not None:
            size = op.within.value.data
            low, high = min(max(low, 0), size), min(high, size - 1)
        self.indices[op.start], self.indices[op.length] = low, max(high - low + 1, 0)

    def run_hull(self, op: te.HullOp) -> None:
        ranges = [(s, s + n) for s, n in map(self.known, op.ranges) if n]
        low = min((s for s, _ in ranges), default=0)
        self.indices[op.start] = low
        self.indices[op.length] = max((e for _, e in ranges), default=low) - low

    def run_alloc(self, op: te.AllocOp) -> None:
        window = [self.known(item) for item in op.window]
        self.buffers[op.buffer] = Buffer(op.buffer, window, None)

    def run_copy(self, op: te.CopyOp) -> None:
        source, target = self.buffers[op.source], self.buffers[op.target]
        window = [self.known(item) for item in op.window]
        for (start, length), (first, count) in zip(window, target.window, strict=True):
            assert first <= start and start + length <= first + count
        if op.pads is not None:
            self.load_padded(source, target, window, list(op.pads.get_values()))
            return
        if source.boxes is not None and all(length for _, length in window):
            assert tuple(window) in source.boxes, f"{window} is no box of %{source.name}"
        region = tuple(slice(start, start + length) for start, length in window)
        assert np.all(source.there[region]), f"a copy of %{source.name} has holes"
        target.data[region] = wrap(source.data[region], target.bits)
        target.there[region] = True

    def load_padded(self, source, target, window, pads) -> None:
        """Element by element: zero where the tensor has none."""
        for index in itertools.product(*(range(start, start + n) for start, n in window)):
            at = tuple(i - pad for i, pad in zip(index, pads, strict=True))
            inside = all(0 <= i < size for i, size in zip(at, source.shape, strict=True))
            target.data[index] = source.read(at) if inside else 0
            target.there[index] = True

    def place(self, access: te.Access) -> tuple[int, ...]:
        return tuple(
            constant + sum(c * self.indices[index] for index, c in terms)
            for terms, constant in access.subscripts
        )

    def run_update(self, op: te.UpdateOp) -> None:
        write, reads = self.accesses(op)
        target, place = self.buffers[op.destination], self.place(write)
        arguments = [target.read(place)] if op.accumulate is not None else []
        for read in reads:
            buffer, at = self.buffers[read.buffer], self.place(read)
            if buffer.contains(at):
                arguments.append(buffer.read(at))
            else:
                assert read.outside is not None
                arguments.append(np.int64(read.outside))
        target.write(place, evaluate(op.body, arguments))

    def run_invoke(self, op: te.InvokeOp) -> None:
        write, reads = self.accesses(op)
        places = [self.place(read) for read in reads]
        buffers = [self.buffers[read.buffer] for read in reads]
        if not all(b.contains(at) for b, at in zip(buffers, places, strict=True)):
            return
        intrinsic = op.intrinsic
        target, place = self.buffers[op.destination], self.place(write)
        sources = [b.read(at) for b, at in zip(buffers, places, strict=True)]
        spatial = list(np.ogrid[tuple(slice(extent) for extent in intrinsic.spatial.extents)])
        result = target.read(place) if intrinsic.updates is not None else None
        destination, *lanes = intrinsic.lanes
        assert [row.variable for row in destination.rows] == list(range(len(spatial)))
        for point in itertools.product(*map(range, intrinsic.reduce.extents)):
            arguments = [] if result is None else [result]
            arguments += [
                _gather(array, lane.rows, [*spatial, *point], None)
                for array, lane in zip(sources, lanes, strict=True)
            ]
            if isinstance(op.constant, te.Access):
                table = self.buffers[op.constant.buffer]
                arguments.append(table.read(self.place(op.constant)))
            elif op.constant is not None:
                arguments.append(np.int64(op.constant))
            result = np.broadcast_to(evaluate(intrinsic.body, arguments), intrinsic.spatial.extents)
        target.write(place, result)


def kernel_named(module: Operation, name: str) -> te.KernelOp:
    """The kernel of that name in a module."""
    [found] = [
        op for op in module.walk() if isinstance(op, te.KernelOp) and op.sym_name.data == name
    ]
    return found
