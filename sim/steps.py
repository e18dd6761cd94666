"""Steps: single instructions bound to the buffers, so that running one is NumPy work only.

A step takes no arguments. All that follows from the instruction and its micro-ops (views, index
arrays, scratch memory) is made with the step. Callers have checked that the instruction is legal.
"""

import math
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..dialects.target import Memory
from ..dialects.vta.encoding import Alu, AluOpcode, Load, Store, Transfer
from .alu_plan import AluPlan, Grid, Level
from .buffers import Buffers, Rows, Scratch
from .elements import Elements, Indices
from .errors import Fault
from .gemm_plan import Chunk, Placement
from .legality import MAX_SHIFT

Step = Callable[[], bool | None]
"""Runs an instruction. True says that other micro-ops came than those that later steps expect."""


def nothing() -> None:
    """The step of an instruction without effect."""


def in_turn(*steps: Step | None) -> Step:
    """Several steps as one; some may be None, and only the last may report other micro-ops."""
    several = [step for step in steps if step is not None]
    if len(several) < 2:
        return several[0] if several else nothing
    *before, last = several

    def all_of_them() -> bool | None:
        for step in before:
            step()
        return last()

    return all_of_them


class _Stripe:
    """The bytes of a transfer in DRAM: rows at a distance, or one run where they are dense."""

    def __init__(self, transfer: Transfer, size: int, dense: bool) -> None:
        rows, width, stride = transfer.y_size, transfer.x_size * size, transfer.x_stride * size
        if dense and stride == width:
            rows, width = 1, rows * width
        self.first = transfer.dram_base * size
        self.last = self.first + width
        self.shape = (width,) if rows == 1 else (rows, width)
        self.strides = (stride, 1)
        self.overlaps = rows > 1 and stride < width

    def of(self, dram: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """The bytes of DRAM that the transfer moves, as a view, [rows, width] or [width]."""
        if len(self.shape) == 1:
            return dram[self.first : self.last]
        return np.ndarray(self.shape, np.uint8, dram, self.first, self.strides)


class LoadStep:
    """LOAD: rows of DRAM into a dense rectangle, zeros around them."""

    def __init__(self, buffers: Buffers, load: Load) -> None:
        buffer = buffers.loaded[load.memory]
        width = buffer.shape[1]
        whole = buffer[load.sram_base : load.sram_base + load.sram_size]
        inner = whole.reshape(-1, load.sram_width * width)
        inner = inner[load.y_pad_0 : load.y_pad_0 + load.y_size]
        inner = inner[:, load.x_pad_0 * width : (load.x_pad_0 + load.x_size) * width]
        padded = inner.size < whole.size
        size = buffers.target.element_bytes(load.memory)
        self._buffers, self._stripe = buffers, _Stripe(load, size, dense=not padded)
        self._whole = whole if padded else None
        self._inner = inner.reshape(self._stripe.shape)
        self._signed = load.memory is Memory.ACC_8BIT

    def __call__(self) -> None:
        """Load."""
        rows: NDArray[Any] = self._stripe.of(self._buffers.dram)
        if self._signed:
            rows = rows.view(np.int8)
        if self._whole is not None:
            self._whole.fill(0)
        np.copyto(self._inner, rows)


class MicroOpStep:
    """LOAD of micro-ops, which reports whether they differ from those of the previous run.

    If they do, ``restore`` brings back what was known about the buffers when the step was made, so
    that all later instructions can be bound anew.
    """

    def __init__(self, buffers: Buffers, load: Load, restore: Callable[[], None]) -> None:
        self._load, self._restore = LoadStep(buffers, load), restore
        self._words = buffers.uop[load.sram_base : load.sram_base + load.sram_size]
        self._known: bytes | None = None

    def __call__(self) -> bool:
        """Load and compare."""
        self._load()
        words = self._words.tobytes()
        if words == self._known:
            return False
        self._known = words
        self._restore()
        return True


class StoreStep:
    """STORE: rows of OUT, or of the low bytes of ACC where `lazy`, to DRAM."""

    def __init__(self, buffers: Buffers, store: Store, lazy: bool) -> None:
        size = buffers.target.element_bytes(store.memory)
        self._buffers, self._stripe = buffers, _Stripe(store, size, dense=True)
        span = slice(store.sram_base, store.sram_base + store.sram_size)
        values = buffers.acc[span] if lazy else buffers.out[span]
        self._values: NDArray[Any] = values.reshape(self._stripe.shape)

    def __call__(self) -> None:
        """Store; where rows overlap, the last one wins."""
        rows = self._stripe.of(self._buffers.dram).view(np.int8)
        if not self._stripe.overlaps:
            np.copyto(rows, self._values, casting="unsafe")
            return
        for row, value in zip(rows, self._values, strict=True):
            np.copyto(row, value, casting="unsafe")


class SaveStep:
    """Copies elements of ACC to OUT that have not been copied yet, before ACC changes."""

    def __init__(self, buffers: Buffers, elements: Elements) -> None:
        self._acc, self._out, self._elements = buffers.acc, buffers.out, elements

    def __call__(self) -> None:
        """Save."""
        if isinstance(self._elements, slice):
            np.copyto(self._out[self._elements], self._acc[self._elements], casting="unsafe")
        else:
            self._out[self._elements] = self._acc[self._elements].astype(np.int8)


class ResetStep:
    """GEMM with reset: accumulators become zero."""

    def __init__(self, buffers: Buffers, elements: Elements) -> None:
        self._acc, self._elements = buffers.acc, elements

    def __call__(self) -> None:
        """Reset."""
        self._acc[self._elements] = 0


class _Gather:
    """Rows of BLOCK int8 values, gathered as single items, as float32: [..., rows, k x BLOCK], or
    where ``transposed`` [..., k x BLOCK, rows].
    """

    def __init__(
        self, scratch: Scratch, name: str, indices: Indices, block: int, transposed: bool
    ) -> None:
        self._indices = indices.reshape(-1)
        self._items = scratch.array("items", np.dtype(f"V{block}"), self._indices.shape)
        self._bytes = self._items.view(np.int8).reshape(*indices.shape[:-1], -1)
        if not transposed:
            self.values = self._floats = scratch.array(name, np.float32, self._bytes.shape)
            return
        *outer, rows, depth = self._bytes.shape
        self.values = scratch.array(name, np.float32, (*outer, depth, rows))
        self._floats = self.values.swapaxes(-1, -2)

    def __call__(self, rows: NDArray[Any]) -> None:
        """Gather; indices beyond the end give the last row, which is zeros."""
        rows.take(self._indices, out=self._items, mode="clip")
        np.copyto(self._floats, self._bytes)


def sums_of(
    memory: NDArray[np.float32], shape: tuple[int, ...], flipped: bool
) -> NDArray[np.float32]:
    """Sums [b, blocks, calls, rows, n] at the start of a vector; where they are ``flipped``, the
    last two axes are the other way round in memory.
    """
    values = memory[: math.prod(shape)]
    if not flipped:
        return values.reshape(shape)
    *outer, rows, columns = shape
    return values.reshape(*outer, columns, rows).swapaxes(-1, -2)


_FEW_ROWS = 64
"""Rows of inputs up to which the products are computed transposed (see `Multiply`)."""


class Multiply:
    """The sums of one chunk of a reduction, exact in float32 (see `gemm_plan`).

    Both operands of BLAS have the reduction where its kernels for small matrices read it fastest:
    last in the left operand, next to last in the right one. This is up to three times as fast as a
    transposed right operand. The right operand is transposed when it is cast, which costs several
    times what casting alone does. So with few rows of inputs, which are then quick to transpose,
    the weights are on the left, and the sums are computed as [..., n, rows].

    The first elements in INP and WGT are arguments of its methods. Sums have the `shape` [b,
    blocks, calls, rows, n] (see `sums_of`); `sums` is scratch memory for them, and
    `operands` are the matrices that BLAS is given.
    """

    def __init__(self, buffers: Buffers, chunk: Chunk) -> None:
        block, scratch = buffers.block, buffers.scratch
        groups, _, calls, height, depth = chunk.src.shape
        _, blocks, _, columns, _ = chunk.wgt.shape
        self.flipped = calls == 1 and height <= _FEW_ROWS and height < blocks * columns
        self._buffers = buffers
        self._inputs = _Gather(scratch, "inputs", chunk.src, block, self.flipped)
        self._weights = _Gather(scratch, "weights", chunk.wgt, block, not self.flipped)
        self.products = depth * block
        self.shape = (groups, blocks, calls, height, columns)
        count = math.prod(self.shape)
        self.sums = sums_of(scratch.array("sums", np.float32, (count,)), self.shape, self.flipped)
        # Axes of extent 1 are left out, for speed.
        self._outer = tuple(0 if extent == 1 else slice(None) for extent in self.shape[:3])
        inputs, weights = self._inputs.values[self._outer], self._weights.values[self._outer]
        self.operands = (weights, inputs) if self.flipped else (inputs, weights)

    def into(self, sums: NDArray[np.float32], src: int, wgt: int) -> Step:
        """The step that gathers from elements ``src`` and ``wgt`` on and multiplies, into
        ``sums``."""
        inputs = self._buffers.inp_rows[src * self._buffers.batch :]
        weights = self._buffers.wgt_rows[wgt * self._buffers.block :]
        out = sums.swapaxes(-1, -2) if self.flipped else sums
        return partial(self._multiply, inputs, weights, out[self._outer])

    def onto(self, sums: NDArray[np.float32], src: int, wgt: int) -> Step:
        """The step that multiplies as `into` does, and adds the products to ``sums``."""
        add = partial(np.add, sums, self.sums, out=sums)
        return in_turn(self.into(self.sums, src, wgt), add)

    def _multiply(
        self, inputs: NDArray[Any], weights: NDArray[Any], out: NDArray[np.float32]
    ) -> None:
        self._inputs(inputs)
        self._weights(weights)
        np.matmul(*self.operands, out=out)


def settling(
    buffers: Buffers,
    placement: Placement,
    sums: NDArray[np.float32],
    dst: int,
    repeats: int = 1,
) -> Step:
    """The step that adds sums [b, blocks, calls, rows, n], ``repeats`` times, to accumulators from
    ``dst``. They are converted and brought into the order of the accumulators at once, so that the
    addition works on long runs.
    """
    block, shape, order = buffers.block, placement.shape, placement.order
    groups, blocks, calls, height, columns = sums.shape
    real = math.prod(shape) * block // (groups * blocks * columns)
    rows = sums.reshape(groups, blocks, calls * height, columns)[:, :, :real]
    values = rows.reshape(*shape, block).transpose(*order, len(shape))
    assert np.may_share_memory(values, sums), "a view: sums are computed later"
    integers = buffers.scratch.array("integers", np.int32, values.shape)
    # Counts wrap as sums do.
    times = None if repeats == 1 else np.array(repeats & 0xFFFFFFFF, np.uint32).view(np.int32)
    add = _addition(buffers, placement, integers, dst)

    def settle() -> None:
        np.copyto(integers, values, casting="unsafe")
        if times is not None:
            np.multiply(integers, times, out=integers)
        add()

    return settle


def _addition(buffers: Buffers, placement: Placement, values: Rows, dst: int) -> Step:
    """The step that adds rows, in the order of the placement, to ACC."""
    block, size = buffers.block, 4 * buffers.block
    if placement.strides is not None:
        rows: Rows = np.ndarray(
            values.shape,
            np.int32,
            buffers.acc.data,
            dst * buffers.batch * size,
            (*(placement.strides[axis] * size for axis in placement.order), 4),
        )
        return partial(np.add, rows, values, out=rows)
    rows = buffers.acc.reshape(-1, block)[dst * buffers.batch :]
    scatter, distinct, values = placement.scatter, placement.distinct, values.reshape(-1, block)
    assert scatter is not None

    def add() -> None:
        if distinct:
            rows[scatter] += values
        else:
            np.add.at(rows, scatter, values)

    return add


class AluStep:
    """ALU: acc[dst] = op(acc[dst], imm or acc[src]); with `alu_imm_src`, op(acc[src], imm)."""

    def __init__(self, buffers: Buffers, alu: Alu, plan: AluPlan, base: int) -> None:
        acc = buffers.acc[base:]
        self._levels: list[Callable[[], object]] = []
        for level in plan.levels:
            if alu.alu_opcode is AluOpcode.SHR and not alu.use_imm and level.src is not None:
                low = 0 if buffers.target.shr_sign_of_imm else -MAX_SHIFT
                self._levels.append(partial(_verify_amounts, acc, level.src, low))
            self._levels.append(_operation(alu, acc, level))

    def __call__(self) -> None:
        """Operate, one level after the other."""
        for operate in self._levels:
            operate()


def _operation(alu: Alu, acc: Rows, level: Level) -> Callable[[], object]:
    """One level: all reads, then all writes; in place on views where there are any."""
    dst, src = level.dst, level.src
    operation, amount = _OPERATIONS[alu.alu_opcode], alu.imm
    if alu.use_imm and alu.alu_opcode is AluOpcode.SHR:
        operation, amount = (np.left_shift if amount < 0 else np.right_shift), abs(amount)
    left = dst if src is None or not alu.use_imm else src
    if level.grids is not None:
        views = [_view(acc, grid) for grid in level.grids]
        out, other = views[0], views[-1]
        if alu.use_imm:
            return partial(operation, other, _constant(amount, other.shape), out=out)
        return partial(operation, out, other, out=out)

    def operate() -> None:
        values = acc[left]
        acc[dst] = operation(values, amount if src is None or alu.use_imm else acc[src])

    return operate


def _view(acc: Rows, grid: Grid) -> Rows:
    """The elements of a grid, as a view."""
    size = acc[0].nbytes
    strides = (*(step * size for step in grid.steps), acc.itemsize)
    shape = (*grid.shape, acc.shape[1])
    return np.ndarray(shape, np.int32, acc.data, grid.first * size, strides)


def _verify_amounts(acc: Rows, src: Elements, low: int) -> None:
    amounts = acc[src]
    if amounts.min() < low or amounts.max() > MAX_SHIFT:
        raise Fault(
            f"shift amounts {amounts.min()} to {amounts.max()}, but they go from {low} to"
            f" {MAX_SHIFT}"
        )


def _shift(left: Rows, amounts: Rows, out: Rows | None = None) -> Rows:
    """Arithmetic shift right; left where the amount is negative."""
    shifted_left = left << np.maximum(-amounts, 0)
    result: Rows = np.where(amounts < 0, shifted_left, left >> np.maximum(amounts, 0))
    if out is not None:
        out[:] = result
    return result


_OPERATIONS: dict[AluOpcode, Callable[..., Any]] = {
    AluOpcode.MIN: np.minimum,
    AluOpcode.MAX: np.maximum,
    AluOpcode.ADD: np.add,
    AluOpcode.SHR: _shift,
    AluOpcode.MUL: np.multiply,
}


@lru_cache(maxsize=64)
def _constant(value: int, shape: tuple[int, ...]) -> Rows:
    """An array of one value: NumPy's minimum against it is three times that against a scalar."""
    array = np.full(shape, value, np.int32)
    array.flags.writeable = False
    return array
