"""Computes of te, run by NumPy: tensors as whole arrays. Shares no code with passes."""

import itertools
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from xdsl.dialects import arith
from xdsl.ir import Region, SSAValue

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

SIGNED = {bits: np.dtype(f"i{bits // 8}") for bits in (8, 16, 32, 64)}


def wrap(array: Array, bits: int) -> Array:
    """The low bits, as a signed number."""
    return np.asarray(array, np.int64).astype(SIGNED[bits]).astype(np.int64)


class Body:
    """A scalar body, looked at once: what it yields, elementwise over arrays."""

    def __init__(self, body: Region) -> None:
        number: dict[SSAValue, int] = {v: i for i, v in enumerate(body.block.args)}
        self.steps: list[tuple[Callable[..., Array], list[int], int]] = []
        for op in body.block.ops:
            if isinstance(op, te.YieldOp):
                self.result = number[op.values[0]]
                return
            bits = op.results[0].type.width.data
            function = BINARY.get(type(op), lambda a: a)
            if isinstance(op, arith.ConstantOp):
                value = np.int64(op.value.value.data)
                function = lambda value=value: value  # noqa: E731
            self.steps.append((function, [number[operand] for operand in op.operands], bits))
            number[op.results[0]] = len(number)
        raise AssertionError("a body without te.yield")

    def __call__(self, arguments: Sequence[Array]) -> Array:
        values = [np.asarray(argument, np.int64) for argument in arguments]
        for function, operands, bits in self.steps:
            values.append(wrap(function(*(values[operand] for operand in operands)), bits))
        return values[self.result]


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
    body, reads = Body(op.body), op.reads
    for point in itertools.product(*map(range, op.reduce.extents)):
        arguments = [result] if op.reduce.data else []
        arguments += [
            _gather(values[read.value], read.rows, [*spatial, *point], read.outside)
            for read in reads
        ]
        result = np.broadcast_to(body(arguments), shape)
    return result


def _gather(
    array: Array, rows: Sequence[te.Row], variables: Sequence[Array | int], outside: int | None
) -> Array:
    inside: Array | bool = True
    place, stride = np.int64(0), 1
    for row, size in zip(reversed(rows), reversed(array.shape), strict=True):
        at = row.constant + sum(coefficient * variables[v] for v, coefficient in row.terms)
        at, rest = divmod(at, row.divisor) if row.divisor > 1 else (at, 0)
        there = (rest == 0) & (at >= 0) & (at < size)
        if not np.all(there):
            inside, at = inside & there, np.clip(at, 0, size - 1)
        place, stride = place + at * stride, stride * size
    assert outside is not None or np.all(inside)
    found = array.take(place)
    return found if inside is True else np.where(inside, found, outside)
