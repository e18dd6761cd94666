"""Sums of products that wait, exact in float32, until somebody needs their accumulators.

GEMM instructions add to accumulators, and nobody looks at these before an ALU, a reset, a STORE or
a LOAD ACC does. So sums that go to the same places are first added to each other: contiguous
arrays of float32, as BLAS leaves them, as long as no more than `EXACT_PRODUCTS` come together.
They are converted and added to ACC, which lie elsewhere and in another order, only then.

When that is follows from the program alone. So this is a book kept while instructions are bound to
steps; the steps that it gives out do the work, each time the program runs.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .buffers import Buffers
from .gemm_plan import EXACT_PRODUCTS, Placement
from .steps import Step, settling

MOST_BYTES = 1 << 22
"""Memory of sums that wait at one time; beyond, the oldest are added to ACC."""


@dataclass(slots=True)
class _Sums:
    """Sums that wait: where, of how many products, and their elements of ACC [low, high).

    Never changed: what waits may have to be brought back (see `Pending.restore`).
    """

    values: NDArray[np.float32]
    memory: int
    products: int
    low: int
    high: int
    settle: Step


_Key = tuple[Placement, tuple[int, ...], int]


class Pending:
    """The sums that wait at this point of the program."""

    def __init__(self, buffers: Buffers) -> None:
        self._buffers = buffers
        self._sums: dict[_Key, _Sums] = {}
        self._bytes = 0
        self._memory: list[NDArray[np.float32]] = []
        self._free: list[int] = []

    def clear(self) -> None:
        """Nothing waits: a program begins."""
        self._sums = {}
        self._bytes = 0
        self._free = list(range(len(self._memory)))

    def state(self) -> tuple[Any, ...]:
        """What waits, to go back to."""
        return dict(self._sums), list(self._free), len(self._memory)

    def restore(self, state: tuple[Any, ...]) -> None:
        """Go back to what waited then."""
        sums, free, known = state
        self._sums = dict(sums)
        self._bytes = sum(waiting.values.nbytes for waiting in sums.values())
        self._free = [*free, *range(known, len(self._memory))]

    def add(
        self, placement: Placement, shape: tuple[int, ...], products: int, dst: int, high: int
    ) -> tuple[NDArray[np.float32], bool, list[Step]]:
        """Where sums of a shape belong, of so many products, to elements from ``dst`` to ``high``.

        Also whether they are the first there, and what has to be done before.
        """
        key = (placement, shape, dst)
        before = []
        old = self._sums.pop(key, None)
        if old is not None and old.products + products > EXACT_PRODUCTS:
            before.append(self._release(old))
            old = None
        if old is not None:
            more = old.products + products
            self._sums[key] = _Sums(old.values, old.memory, more, dst, high, old.settle)
            return old.values, False, before
        memory, values = self._take(shape)
        self._bytes += values.nbytes
        settle = settling(self._buffers, placement, values, dst)
        self._sums[key] = _Sums(values, memory, products, dst, high, settle)
        return values, True, before

    def settle(self, low: int, high: int) -> list[Step]:
        """What has to be done before somebody looks at elements [low, high) of ACC."""
        return self._settle(
            [key for key, sums in self._sums.items() if sums.low < high and low < sums.high]
        )

    def make_room(self) -> list[Step]:
        """What has to be done because too much waits."""
        steps = []
        while self._bytes > MOST_BYTES:
            steps += self._settle([next(iter(self._sums))])
        return steps

    def _settle(self, keys: list[_Key]) -> list[Step]:
        return [self._release(self._sums.pop(key)) for key in keys]

    def _release(self, sums: _Sums) -> Step:
        self._free.append(sums.memory)
        self._bytes -= sums.values.nbytes
        return sums.settle

    def _take(self, shape: tuple[int, ...]) -> tuple[int, NDArray[np.float32]]:
        count = math.prod(shape)
        fitting = [place for place in self._free if len(self._memory[place]) >= count]
        if fitting:
            memory = min(fitting, key=lambda place: len(self._memory[place]))
            self._free.remove(memory)
        else:
            memory = len(self._memory)
            self._memory.append(np.zeros(1 << (count - 1).bit_length(), np.float32))
        return memory, self._memory[memory][:count].reshape(shape)
