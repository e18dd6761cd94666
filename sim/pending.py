"""Sums of products that stay in float32, exactly, until an instruction needs their accumulators.

GEMM instructions add to accumulators, which only an ALU, a reset, a STORE or a LOAD ACC reads. So
sums for the same accumulators are first added to each other, as the contiguous arrays of float32
that BLAS returns, as long as they contain at most `EXACT_PRODUCTS` products. Only then are they
converted to integers and added to ACC, where elements have another order. The moment of that
follows from the program alone. So `Pending` keeps track of waiting sums while instructions are
bound to steps, and returns the steps that do the work whenever the program runs.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .buffers import Buffers
from .gemm_plan import EXACT_PRODUCTS, Placement
from .steps import Multiply, Step, settling, sums_of

MOST_BYTES = 1 << 22
"""Most bytes of sums that wait at one time; beyond that, the oldest are added to ACC."""


@dataclass(slots=True)
class _Sums:
    """Waiting sums: their placement, the number of their products, their elements of ACC [low,
    high). Instances never change, since an earlier state may be restored (see `Pending.restore`).
    """

    values: NDArray[np.float32]
    memory: int
    products: int
    low: int
    high: int
    settle: Step


_Key = tuple[Placement, tuple[int, ...], bool, int]


class Pending:
    """Keeps track of the sums that wait at this point of the program."""

    def __init__(self, buffers: Buffers) -> None:
        self._buffers = buffers
        self._sums: dict[_Key, _Sums] = {}
        self._bytes = 0
        self._memory: list[NDArray[np.float32]] = []
        self._free: list[int] = []

    def clear(self) -> None:
        """Forget all sums, since a program begins."""
        self._sums = {}
        self._bytes = 0
        self._free = list(range(len(self._memory)))

    def state(self) -> tuple[Any, ...]:
        """The waiting sums, for `restore`."""
        return dict(self._sums), list(self._free), len(self._memory)

    def restore(self, state: tuple[Any, ...]) -> None:
        """Go back to the sums that waited when `state` was called."""
        sums, free, known = state
        self._sums = dict(sums)
        self._bytes = sum(waiting.values.nbytes for waiting in sums.values())
        self._free = [*free, *range(known, len(self._memory))]

    def add(
        self, placement: Placement, multiply: Multiply, dst: int, high: int
    ) -> tuple[NDArray[np.float32], bool, list[Step]]:
        """Register the sums of a product for accumulators from ``dst`` to ``high``.

        Returns the array for the sums, whether they are its first, and the steps to run before.
        """
        key = (placement, multiply.shape, multiply.flipped, dst)
        products = multiply.products
        before = []
        old = self._sums.pop(key, None)
        if old is not None and old.products + products > EXACT_PRODUCTS:
            before.append(self._release(old))
            old = None
        if old is not None:
            more = old.products + products
            self._sums[key] = _Sums(old.values, old.memory, more, dst, high, old.settle)
            return old.values, False, before
        memory, values = self._take(multiply)
        self._bytes += values.nbytes
        settle = settling(self._buffers, placement, values, dst)
        self._sums[key] = _Sums(values, memory, products, dst, high, settle)
        return values, True, before

    def settle(self, low: int, high: int) -> list[Step]:
        """The steps to run before an instruction reads elements [low, high) of ACC."""
        return self._settle(
            [key for key, sums in self._sums.items() if sums.low < high and low < sums.high]
        )

    def make_room(self) -> list[Step]:
        """The steps to run because too many bytes wait."""
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

    def _take(self, multiply: Multiply) -> tuple[int, NDArray[np.float32]]:
        count = math.prod(multiply.shape)
        fitting = [place for place in self._free if len(self._memory[place]) >= count]
        if fitting:
            memory = min(fitting, key=lambda place: len(self._memory[place]))
            self._free.remove(memory)
        else:
            memory = len(self._memory)
            self._memory.append(np.zeros(1 << (count - 1).bit_length(), np.float32))
        return memory, sums_of(self._memory[memory], multiply.shape, multiply.flipped)
