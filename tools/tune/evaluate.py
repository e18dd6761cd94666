"""Kernels of tensors evaluated by NumPy: the integer reference that tuned programs must agree with.

It shares no code with passes or lowering. Integers wrap around at the width of their type, as the
accelerator's do.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from string import ascii_letters
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, IntegerType
from xdsl.ir import Operation, Region, SSAValue

from vtac.dialects import te

Array: TypeAlias = NDArray[np.int64]

MOST_ELEMENTS = 1 << 24
"""Elements of an operand that are gathered at once."""

_BINARY: Mapping[type[Operation], Callable[[Any, Any], Any]] = {
    arith.AddiOp: np.add,
    arith.SubiOp: np.subtract,
    arith.MuliOp: np.multiply,
    arith.MaxSIOp: np.maximum,
    arith.MinSIOp: np.minimum,
    arith.ShRSIOp: lambda a, b: np.where(b < 0, a << np.maximum(-b, 0), a >> np.maximum(b, 0)),
    arith.ShLIOp: np.left_shift,
}
"""On int64; the caller wraps. A right shift by less than 0 is a left shift, as on the ALU."""


def evaluate_kernel(kernel: te.KernelOp, inputs: Sequence[NDArray[Any]]) -> list[Array]:
    """The results of a kernel of tensors, one int64 array each. inputs: in their order."""
    values: dict[SSAValue, Array] = {
        argument: np.asarray(array, np.int64)
        for argument, array in zip(kernel.body.block.args, inputs, strict=True)
    }
    for compute in kernel.computes:
        values[compute.result] = _compute(compute, values)
    last = kernel.body.block.last_op
    assert isinstance(last, te.YieldOp)
    return [values[value] for value in last.values]


def wrapped(array: Any, type: Any) -> Array:
    """The low bits of integers, as signed numbers of a type."""
    assert isinstance(type, IntegerType)
    return np.asarray(array, np.int64).astype(f"i{type.width.data // 8}").astype(np.int64)


class ScalarBody:
    """A scalar body of a compute or an intrinsic, prepared once; the call works on whole arrays."""

    def __init__(self, body: Region) -> None:
        numbers: dict[SSAValue, int] = {value: n for n, value in enumerate(body.block.args)}
        self._steps: list[tuple[Callable[..., Any], Sequence[int], Any]] = []
        for op in body.block.ops:
            if isinstance(op, te.YieldOp):
                self._result = numbers[op.values[0]]
                return
            operands = [numbers[operand] for operand in op.operands]
            self._steps.append((_function(op), operands, op.results[0].type))
            numbers[op.results[0]] = len(numbers)
        raise AssertionError("a body ends in te.yield")

    def __call__(self, arguments: Sequence[Any]) -> Array:
        """What the body yields, elementwise over int64 arrays that broadcast."""
        values = [np.asarray(argument, np.int64) for argument in arguments]
        for function, operands, type in self._steps:
            values.append(wrapped(function(*(values[operand] for operand in operands)), type))
        return values[self._result]


def _function(op: Operation) -> Callable[..., Any]:
    """What an operation of a scalar body computes on int64; of a cast, the result's width does."""
    if isinstance(op, arith.ConstantOp):
        assert isinstance(op.value, IntegerAttr)
        value = np.int64(op.value.value.data)
        return lambda: value
    return _BINARY.get(type(op), lambda operand: operand)


def _compute(op: te.ComputeOp, values: Mapping[SSAValue, Array]) -> Array:
    shape = op.spatial.extents
    start = np.int64(0 if op.identity is None else op.identity.value.data)
    result = np.full(shape, start) if op.init is None else values[op.init]
    if _is_product(op.body):
        return _product(op, values, result)
    spatial, body = list(np.ogrid[tuple(slice(extent) for extent in shape)]), ScalarBody(op.body)
    for point in itertools.product(*map(range, op.reduce.extents)):
        arguments = [result] if op.reduce.extents else []
        arguments += [_gathered(read, values, [*spatial, *point]) for read in op.reads]
        result = np.broadcast_to(body(arguments), shape)
    return result


def _is_product(body: Region) -> bool:
    """Whether a body adds the product of its two int8 operands to the accumulator."""
    multiplied = [op for op in body.block.ops if isinstance(op, arith.MuliOp)]
    added = [op for op in body.block.ops if isinstance(op, arith.AddiOp)]
    known = (arith.MuliOp, arith.AddiOp, arith.ExtSIOp, te.YieldOp)
    if len(multiplied) != 1 or len(added) != 1 or len(body.block.args) != 3:
        return False
    if not all(isinstance(op, known) for op in body.block.ops):
        return False
    accumulator, *operands = body.block.args
    if any(isinstance(o.type, IntegerType) and o.type.width.data > 8 for o in operands):
        return False
    factors = {_uncast(operand) for operand in multiplied[0].operands}
    summands = set(added[0].operands)
    return factors == set(operands) and summands == {accumulator, multiplied[0].result}


def _uncast(value: SSAValue) -> SSAValue:
    return value.owner.operands[0] if isinstance(value.owner, arith.ExtSIOp) else value


def _product(op: te.ComputeOp, values: Mapping[SSAValue, Array], result: Array) -> Array:
    """A sum of products as products of matrices, exact in float64 (all factors are int8).

    The last reduction axes are summed at once, as many of them as memory allows; the others are
    loops.
    """
    spatial, reduce = op.spatial.extents, op.reduce.extents
    at_once = len(reduce)
    while at_once and any(_size(read, op, at_once) > MOST_ELEMENTS for read in op.reads):
        at_once -= 1
    loops, inner = reduce[: len(reduce) - at_once], reduce[len(reduce) - at_once :]
    grid = list(np.ogrid[tuple(slice(extent) for extent in (*spatial, *inner))])
    outer, last = grid[: len(spatial)], grid[len(spatial) :]
    for point in itertools.product(*map(range, loops)):
        operands = [_gathered(read, values, [*outer, *point, *last]) for read in op.reads]
        total = _contracted(operands, len(spatial))
        result = wrapped(result + total, op.body.block.args[0].type)
    return np.broadcast_to(result, spatial)


def _size(read: te.Read, op: te.ComputeOp, at_once: int) -> int:
    """Elements that are gathered of an operand if so many reduction axes are summed at once."""
    extents, skipped = op.extents, len(op.reduce.extents) - at_once
    first = len(op.spatial.extents)
    used = {v for row in read.rows for v, _ in row.terms if not first <= v < first + skipped}
    return math.prod(extents[v] for v in used)


def _contracted(operands: Sequence[Array], spatial: int) -> Array:
    """The sum over all but the first ``spatial`` dimensions of the product of two arrays."""
    rank = max(operand.ndim for operand in operands)
    arrays = [operand.reshape((1,) * (rank - operand.ndim) + operand.shape) for operand in operands]
    letters = [
        "".join(ascii_letters[dim] for dim in range(rank) if array.shape[dim] > 1)
        for array in arrays
    ]
    kept = [dim for dim in range(spatial) if any(array.shape[dim] > 1 for array in arrays)]
    wanted = "".join(ascii_letters[dim] for dim in kept)
    squeezed = [np.squeeze(array).astype(np.float64) for array in arrays]
    found = np.einsum(f"{','.join(letters)}->{wanted}", *squeezed, optimize=True)
    shape = [max(array.shape[dim] for array in arrays) for dim in range(spatial)]
    # Reduction axes on which neither operand depends would have been summed as if they were 1 long.
    return np.asarray(np.rint(found), np.int64).reshape(shape)


def _gathered(read: te.Read, values: Mapping[SSAValue, Array], variables: Sequence[Any]) -> Array:
    """The elements that a read names, for all values of the variables together."""
    array = values[read.value]
    inside: Any = True
    place, stride = np.int64(0), 1
    for row, size in zip(reversed(read.rows), reversed(array.shape), strict=True):
        at = row.constant + sum(coefficient * variables[v] for v, coefficient in row.terms)
        at, rest = divmod(at, row.divisor) if row.divisor > 1 else (at, 0)
        there = (rest == 0) & (at >= 0) & (at < size)
        if not np.all(there):
            inside, at = inside & there, np.clip(at, 0, size - 1)
        place, stride = place + at * stride, stride * size
    assert read.outside is not None or np.all(inside), "a read outside a tensor has a value"
    found = np.asarray(array.take(place), np.int64)
    if inside is True:
        return found
    return np.where(inside, found, np.int64(read.outside or 0))
