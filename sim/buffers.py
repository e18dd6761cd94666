"""The memories of one VTA as arrays, the views that run its instructions, and scratch memory.

Steps share scratch memory for intermediate results; BLAS packs operands into memory of its own.
"""

import math
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..dialects.target import Memory, Target

Rows = NDArray[np.int32]


class Buffers:
    """The buffers of a target, with DRAM behind them.

    INP and WGT have an element of zeros behind their last, for the holes of a plan. OUT is lazy:
    where `out_lazy` says so, it equals the low byte of ACC and is not written itself.
    """

    def __init__(self, target: Target) -> None:
        self.target = target
        self.batch, self.block = target.batch, target.block
        lanes = self.batch * self.block
        self.uop = np.zeros(target.uop_entries, np.uint32)
        self.inp = np.zeros((target.inp_depth + 1, lanes), np.int8)
        self.wgt = np.zeros((target.wgt_depth + 1, self.block * self.block), np.int8)
        self.acc = np.zeros((target.acc_depth, lanes), np.int32)
        self.out = np.zeros((target.acc_depth, lanes), np.int8)
        self.out_lazy = np.zeros(target.acc_depth, bool)
        self.out_written = np.zeros(target.acc_depth, bool)
        self.dram = np.zeros(0, np.uint8)
        item = np.dtype(f"V{self.block}")
        self.inp_rows = self.inp.reshape(-1).view(item)
        self.wgt_rows = self.wgt.reshape(-1).view(item)
        self.loaded: dict[Memory, NDArray[Any]] = {
            Memory.UOP: self.uop.view(np.uint8).reshape(-1, 4),
            Memory.INP: self.inp.view(np.uint8),
            Memory.WGT: self.wgt.view(np.uint8),
            Memory.ACC: self.acc.view(np.uint8),
            Memory.ACC_8BIT: self.acc,
        }
        self.scratch = Scratch()

    def clear(self, dram: NDArray[np.uint8]) -> None:
        """Set the buffers to their state at launch, on a DRAM image.

        Undefined contents are zeros.
        """
        self.dram = dram
        for buffer in (self.uop, self.inp, self.wgt, self.acc, self.out):
            buffer.fill(0)
        self.out_lazy.fill(False)
        self.out_written.fill(False)


class Scratch:
    """Named memory for intermediate results, which all steps of a machine share."""

    def __init__(self) -> None:
        self._memory: dict[str, NDArray[Any]] = {}

    def array(self, name: str, dtype: Any, shape: tuple[int, ...]) -> NDArray[Any]:
        """An array whose contents any other user of the name may overwrite."""
        count = math.prod(shape)
        memory = self._memory.get(name)
        if memory is None or len(memory) < count:
            grown = max(count, 4096, 0 if memory is None else 2 * len(memory))
            memory = self._memory[name] = np.zeros(grown, dtype)
        return memory[:count].reshape(shape)


@cache
def touch_blas_memory() -> None:
    """Make BLAS touch the memory that it packs operands into, once per process.

    Before BLAS has computed a larger product, products of some shapes take two to three times as
    long (OpenBLAS on Zen: 9 instead of 27 GFLOP/s), as if its kernels read pages behind the packed
    operands that no one has touched yet. The call takes less than a millisecond.
    """
    np.matmul(np.ones((256, 384), np.float32), np.ones((384, 64), np.float32))
