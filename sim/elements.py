"""Computes the elements that a kernel touches inside the two hardware loops.

An index of micro-op u in iteration (i, j) is ``u + i * factor_out + j * factor_in``; each loop adds
to dst, src and wgt independently.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ..dialects.target import Target
from ..dialects.vta.encoding import Alu, Compute, EncodingError, Gemm, decode_micro_ops
from .errors import Fault

Indices = NDArray[np.intp]
Elements = Indices | slice

_MANY = 1 << 16
"""From this number of indices on, equal ones are merged first."""

COLUMNS = ("dst", "src", "wgt")
"""The order of the indices of a micro-op."""


@dataclass(frozen=True)
class Loop:
    """One hardware loop: iterations, and what each adds to dst, src and wgt."""

    count: int
    dst: int
    src: int
    wgt: int

    @property
    def factors(self) -> tuple[int, int, int]:
        """What an iteration adds to each index of a micro-op, in the order of `COLUMNS`."""
        return self.dst, self.src, self.wgt


Loops = tuple[tuple[int, int, int, int], tuple[int, int, int, int]]
"""The fields of both loops, outer first: a key that is cheap to make and to hash."""


def loops_of(compute: Compute) -> Loops:
    """The loops of an instruction."""
    wgt_out, wgt_in = 0, 0
    if isinstance(compute, Gemm):
        wgt_out, wgt_in = compute.wgt_factor_out, compute.wgt_factor_in
    return (
        (compute.iter_out, compute.dst_factor_out, compute.src_factor_out, wgt_out),
        (compute.iter_in, compute.dst_factor_in, compute.src_factor_in, wgt_in),
    )


def columns_of(target: Target, compute: Compute) -> tuple[int, ...]:
    """The indices of a micro-op that an instruction uses."""
    if isinstance(compute, Alu):
        return (0, 1) if target.alu_imm_src or not compute.use_imm else (0,)
    return (0,) if compute.reset else (0, 1, 2)


@lru_cache(maxsize=1024)
def decode_kernel(target: Target, kernel: bytes) -> Indices:
    """The indices [n, 3] of the micro-ops of a kernel. Raises `Fault` on reserved bits."""
    try:
        result = decode_micro_ops(target, np.frombuffer(kernel, np.uint32)).astype(np.intp)
    except EncodingError as error:
        raise Fault(f"in its kernel, {error}") from None
    result.flags.writeable = False
    return result


def verify_ranges(
    target: Target, micro_ops: Indices, loops: Sequence[Loop], columns: Sequence[int], alu: bool
) -> None:
    """Raise `Fault` where an index that is used goes beyond its buffer."""
    buffers = (
        ("ACC", target.acc_depth),
        ("ACC", target.acc_depth) if alu else ("INP", target.inp_depth),
        ("WGT", target.wgt_depth),
    )
    highest: list[int] = micro_ops.max(axis=0).tolist()
    for column in columns:
        name, depth = buffers[column]
        last = highest[column]
        for loop in loops:
            last += (loop.count - 1) * loop.factors[column]
        if last >= depth:
            first = int(micro_ops[:, column].min())
            raise Fault(out_of_range(name, first, last, depth))


def out_of_range(name: str, low: int, high: int, depth: int) -> str:
    """The message of a fault: indices of a kernel lie beyond a buffer."""
    return f"{name} indices {low} to {high}, but the buffer has {depth} elements"


def span(micro_ops: Indices, loops: Sequence[Loop], column: int) -> Indices:
    """The distinct values of one index, in order."""
    result = micro_ops[:, column]
    for loop in loops:
        if (step := loop.factors[column]) and loop.count > 1:
            if loop.count * len(result) > _MANY:
                result = distinct(result)
            result = (np.arange(0, loop.count * step, step)[:, None] + result).reshape(-1)
    return distinct(result)


def touched(micro_ops: Indices, loops: Sequence[Loop], column: int) -> Elements:
    """The distinct values of one index, as a slice where they are consecutive."""
    result = span(micro_ops, loops, column)
    first, last = int(result[0]), int(result[-1])
    return slice(first, last + 1) if last - first + 1 == len(result) else result


def distinct(indices: Indices) -> Indices:
    """Indices in order, each once: quicker than `numpy.unique` where they lie near each other."""
    first = indices.min()
    marks = np.zeros(int(indices.max() - first) + 1, bool)
    marks[indices - first] = True
    result: Indices = np.flatnonzero(marks) + first
    return result


def sums(*vectors: Indices) -> Indices:
    """All sums of one element from each vector: an array with an axis for each."""
    total = np.zeros((), np.intp)
    for vector in vectors:
        total = total[..., None] + vector
    return total


def grid_of(lists: Sequence[Indices]) -> tuple[int, int] | None:
    """Rows and columns into which lists of one length split, with constant steps along both, if
    any."""
    columns = min(_run(indices) for indices in lists)
    if len(lists[0]) % columns:
        return None
    for indices in lists:
        grid = indices.reshape(-1, columns)
        for axis in (0, 1):
            steps = np.diff(grid, axis=axis)
            if steps.size and (steps != steps[0, 0]).any():
                return None
    return len(lists[0]) // columns, columns


def _run(indices: Indices) -> int:
    """How many indices at the start are one step apart."""
    steps = np.diff(indices)
    breaks = np.flatnonzero(steps != steps[0]) if len(steps) else steps
    return int(breaks[0]) + 1 if len(breaks) else len(indices)


def elements_of(indices: Indices) -> Elements:
    """Indices as a slice where they are consecutive."""
    first, count = int(indices[0]), len(indices)
    if int(indices[-1]) - first + 1 == count and (np.diff(indices) == 1).all():
        return slice(first, first + count)
    return np.ascontiguousarray(indices)
