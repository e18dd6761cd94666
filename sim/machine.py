"""The fast machine: the buffers of one VTA, and each instruction as a few array operations.

The results are those of `ReferenceMachine`, bit for bit. What makes it fast: instructions run from
cached plans (`gemm_plan`, `alu_plan`), products of int8 are summed exactly in float32 by BLAS, rows
of BLOCK int8 values are gathered as single items, and OUT is lazy: a flag an element says that it
equals the low byte of ACC, and only what changes ACC without writing OUT has to save it first.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..dialects.target import Memory, Target
from ..dialects.vta.encoding import (
    Alu,
    AluOpcode,
    Compute,
    Gemm,
    Instruction,
    Load,
    Store,
    Transfer,
)
from .alu_plan import AluPlan, Level, plan_alu
from .elements import (
    Elements,
    Indices,
    Loop,
    Loops,
    decode_kernel,
    elements_of,
    loops_of,
    span,
    sums,
    verify_ranges,
)
from .errors import Fault
from .gemm_plan import MOST_INDICES, GemmPlan, Product, plan_gemm
from .legality import MAX_SHIFT, is_chisel

Rows = NDArray[np.int32]

_PLANS = 4096


class FastMachine:
    """The buffers of one VTA and what each instruction does to them and to DRAM."""

    def __init__(self, target: Target, dram: NDArray[np.uint8], strict: bool) -> None:
        self.target, self.dram, self.strict = target, dram, strict
        self.batch, self.block = target.batch, target.block
        lanes = self.batch * self.block
        self.uop = np.zeros(target.uop_entries, np.uint32)
        self.inp = np.zeros((target.inp_depth + 1, lanes), np.int8)
        self.wgt = np.zeros((target.wgt_depth + 1, self.block * self.block), np.int8)
        self.acc = np.zeros((target.acc_depth, lanes), np.int32)
        self.out = np.zeros((target.acc_depth, lanes), np.int8)
        self.out_lazy = np.zeros(target.acc_depth, bool)
        self.out_written = np.zeros(target.acc_depth, bool)
        item = np.dtype(f"V{self.block}")
        self._inp_rows = self.inp.reshape(-1).view(item)
        self._wgt_rows = self.wgt.reshape(-1).view(item)
        self._buffers: dict[Memory, NDArray[np.uint8]] = {
            Memory.UOP: self.uop.view(np.uint8).reshape(-1, 4),
            Memory.INP: self.inp.view(np.uint8),
            Memory.WGT: self.wgt.view(np.uint8),
            Memory.ACC: self.acc.view(np.uint8),
        }
        self._scratch = _Scratch(self.block)
        self._plans = _plans(target)
        self._run: dict[type[Instruction], Callable[[Any], None]] = {
            Load: self.load,
            Store: self.store,
            Gemm: self.gemm,
            Alu: self.alu,
        }

    def execute(self, instruction: Instruction) -> None:
        """Run one instruction that `legality.objection` has nothing against."""
        if (run := self._run.get(type(instruction))) is not None:
            run(instruction)

    def _dram_rows(self, transfer: Transfer) -> NDArray[np.uint8]:
        """The bytes of a transfer in DRAM: a view [rows, bytes]."""
        size = self.target.element_bytes(transfer.memory)
        return np.ndarray(
            (transfer.y_size, transfer.x_size * size),
            np.uint8,
            self.dram.data,
            transfer.dram_base * size,
            (transfer.x_stride * size, 1),
        )

    def load(self, load: Load) -> None:
        """Rows of DRAM elements into a dense rectangle with a border of zeros."""
        count = load.sram_size if load.y_size else 0
        if count == 0:
            return
        span = slice(load.sram_base, load.sram_base + count)
        rows = self._dram_rows(load)
        if load.memory in (Memory.ACC, Memory.ACC_8BIT):
            self._settle_out(span)
        if load.memory is Memory.ACC_8BIT:
            _fill(self.acc[span], rows.view(np.int8), load, self.batch * self.block)
        else:
            buffer = self._buffers[load.memory]
            _fill(buffer[span], rows, load, buffer.shape[1])

    def store(self, store: Store) -> None:
        """Rows of OUT elements, dense in the buffer, to DRAM."""
        count = store.sram_size
        if count == 0:
            return
        span = slice(store.sram_base, store.sram_base + count)
        if self.strict and not self.out_written[span].all():
            missing = store.sram_base + int(np.argmin(self.out_written[span]))
            raise Fault(f"stores OUT element {missing}, which no GEMM or ALU has written")
        self._settle_out(span)
        rows, values = self._dram_rows(store), self.out[span].view(np.uint8)
        if store.y_size > 1 and store.x_stride < store.x_size:
            for row, value in zip(rows, values.reshape(rows.shape), strict=True):
                row[:] = value
        else:
            rows[:] = values.reshape(rows.shape)

    def _kernel(self, compute: Compute) -> bytes:
        return self.uop[compute.uop_bgn : compute.uop_end].tobytes()

    def gemm(self, gemm: Gemm) -> None:
        """acc[dst] += inp[src] x wgt[wgt] transposed, or with reset acc[dst] = 0."""
        if gemm.micro_ops == 0:
            return
        kernel, loops = self._kernel(gemm), loops_of(gemm)
        if gemm.reset:
            written = self._plans.reset(kernel, loops)
            self._settle_out(written)
            self.acc[written] = 0
            return
        plan, (dst, src, wgt) = self._plans.gemm(kernel, loops)
        inputs = self._inp_rows[src * self.batch :]
        weights = self._wgt_rows[wgt * self.block :]
        for product in plan.products:
            for sources, taps in product.chunks:
                sums = self._scratch.product(inputs, sources, weights, taps)
                if plan.repeats > 1:
                    sums *= np.int32(plan.repeats)
                self._accumulate(product, sums, dst)
        self.out_lazy[dst:][plan.written] = True
        self.out_written[dst:][plan.written] = True

    def _accumulate(self, product: Product, sums: Rows, dst: int) -> None:
        """Add the rows of a product, int32 [b, rows, n], to the accumulators from dst on."""
        block = self.block
        values = sums[:, : product.rows]
        if product.strides is not None:
            values = values.reshape(*product.shape, block)
            shape = [product.shape[axis] for axis in product.order]
            strides = [product.strides[axis] * 4 * block for axis in product.order]
            rows: Rows = np.ndarray(
                (*shape, block),
                np.int32,
                self.acc.data,
                dst * self.batch * block * 4,
                (*strides, 4),
            )
            np.add(rows, values.transpose(*product.order, values.ndim - 1), out=rows)
            return
        assert product.scatter is not None
        rows = self.acc.reshape(-1, block)[dst * self.batch :]
        if product.distinct:
            rows[product.scatter] += values.reshape(-1, block)
        else:
            np.add.at(rows, product.scatter, values.reshape(-1, block))

    def alu(self, alu: Alu) -> None:
        """acc[dst] = op(acc[dst], imm or acc[src]); with `alu_imm_src`, op(acc[src], imm)."""
        if alu.micro_ops == 0:
            return
        plan, base = self._plans.alu(self._kernel(alu), loops_of(alu), alu.use_imm)
        if self.strict and plan.adjacent and not self.target.alu_bypass:
            raise Fault("a micro-op depends on the one before it (no alu_bypass)")
        acc = self.acc[base:]
        for level in plan.levels:
            self._operate(alu, acc, level)
        self.out_lazy[base:][plan.written] = True
        self.out_written[base:][plan.written] = True

    def _operate(self, alu: Alu, acc: Rows, level: Level) -> None:
        """One level: all reads, then all writes; in place where both are slices."""
        dst, src = level.dst, level.src
        left = acc[dst if src is None or not alu.use_imm else src]
        right: Rows | int
        operation = _OPERATIONS[alu.alu_opcode]
        if alu.use_imm:
            right = alu.imm
            if alu.alu_opcode is AluOpcode.SHR:
                operation = np.left_shift if alu.imm < 0 else np.right_shift
                right = abs(alu.imm)
            right = _constant(right, self.acc.size)[: left.size]
            right = right.reshape(left.shape)
        else:
            assert src is not None
            right = acc[src]
            if alu.alu_opcode is AluOpcode.SHR:
                self._verify_amounts(right)
        if isinstance(dst, slice):
            operation(left, right, out=acc[dst])
        else:
            acc[dst] = operation(left, right)

    def _verify_amounts(self, amounts: Rows) -> None:
        low = 0 if is_chisel(self.target) else -MAX_SHIFT
        if amounts.min() < low or amounts.max() > MAX_SHIFT:
            raise Fault(
                f"shift amounts {amounts.min()} to {amounts.max()}, but they go from {low} to"
                f" {MAX_SHIFT}"
            )

    def _settle_out(self, elements: Elements) -> None:
        """Make OUT of these elements true, so that ACC may change without it."""
        lazy = self.out_lazy[elements]
        if not lazy.any():
            return
        if isinstance(elements, slice) and lazy.all():
            np.copyto(self.out[elements], self.acc[elements], casting="unsafe")
        else:
            indices = np.arange(len(self.out_lazy))[elements][lazy]
            self.out[indices] = self.acc[indices].astype(np.int8)
        self.out_lazy[elements] = False


class _Scratch:
    """Products of gathered rows, in memory that is allocated once."""

    def __init__(self, block: int) -> None:
        self.block = block
        self._item = np.dtype(f"V{block}")
        self._memory: dict[str, NDArray[Any]] = {}

    def _array(self, name: str, dtype: Any, count: int) -> NDArray[Any]:
        memory = self._memory.get(name)
        if memory is None or len(memory) < count:
            memory = self._memory[name] = np.zeros(max(count, 4096), dtype)
        return memory[:count]

    def _gather(self, name: str, rows: NDArray[Any], indices: NDArray[np.intp]) -> NDArray[Any]:
        """Rows as float32 [..., BLOCK]; indices beyond the end give the last row, zeros."""
        items = self._array("items", self._item, indices.size)
        rows.take(indices.reshape(-1), out=items, mode="clip")
        values = self._array(name, np.float32, indices.size * self.block)
        np.copyto(values, items.view(np.int8))
        return values

    def product(
        self,
        inputs: NDArray[Any],
        sources: NDArray[np.intp],
        weights: NDArray[Any],
        kernel: NDArray[np.intp],
    ) -> Rows:
        """The sums int32 [b, rows, n] of one chunk of a reduction, exact (see `gemm_plan`)."""
        groups, calls, height, _ = sources.shape
        columns = kernel.shape[1]
        a = self._gather("a", inputs, sources).reshape(groups, calls, height, -1)
        b = self._gather("b", weights, kernel).reshape(groups, 1, columns, -1)
        sums = self._array("sums", np.float32, groups * calls * height * columns)
        np.matmul(a, b.swapaxes(2, 3), out=sums.reshape(groups, calls, height, columns))
        integers = self._array("integers", np.int32, sums.size)
        np.copyto(integers, sums, casting="unsafe")
        return integers.reshape(groups, calls * height, columns)


def _fill(span: NDArray[Any], rows: NDArray[Any], load: Load, width: int) -> None:
    """Write rows into a dense rectangle, zeros around them. ``width``: values an element."""
    if span.shape[0] == load.y_size * load.x_size:
        span.reshape(rows.shape)[:] = rows
        return
    rectangle = span.reshape(-1, load.sram_width * width)
    rectangle[: load.y_pad_0] = 0
    rectangle[load.y_pad_0 + load.y_size :] = 0
    inner = rectangle[load.y_pad_0 : load.y_pad_0 + load.y_size]
    left, right = load.x_pad_0 * width, (load.x_pad_0 + load.x_size) * width
    inner[:, :left] = 0
    inner[:, right:] = 0
    inner[:, left:right] = rows


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
def _constant(value: int, size: int) -> Rows:
    """An array of one value: NumPy's minimum against it is three times that against a scalar."""
    array = np.full(size, value, np.int32)
    array.flags.writeable = False
    return array


class _Plans:
    """The plans of one target, by kernel and loops; kept as long as there are not too many.

    Indices beyond their buffer are refused here, so that what is planned is in range.
    """

    def __init__(self, target: Target) -> None:
        self.target = target
        cached = lru_cache(maxsize=_PLANS)
        self.gemm, self.reset, self.alu = cached(self._gemm), cached(self._reset), cached(self._alu)
        self._relative_gemm = cached(self._plan_gemm)
        self._relative_alu = cached(self._plan_alu)

    def _kernel(
        self, kernel: bytes, loops: Loops, columns: tuple[int, ...], alu: bool
    ) -> tuple[Indices, list[Loop]]:
        """The micro-ops of a kernel, which stay inside the buffers, and its loops."""
        micro_ops, nest = decode_kernel(self.target, kernel), [Loop(*loop) for loop in loops]
        verify_ranges(self.target, micro_ops, nest, columns, alu)
        return micro_ops, nest

    def _gemm(self, kernel: bytes, loops: Loops) -> tuple[GemmPlan, tuple[int, int, int]]:
        micro_ops, _ = self._kernel(kernel, loops, (0, 1, 2), False)
        dst, src, wgt = (int(value) for value in micro_ops.min(axis=0))
        relative = micro_ops - [dst, src, wgt]
        return self._relative_gemm(relative.tobytes(), loops), (dst, src, wgt)

    def _plan_gemm(self, relative: bytes, loops: Loops) -> GemmPlan:
        micro_ops = np.frombuffer(relative, np.intp).reshape(-1, 3)
        nest = [Loop(*loop) for loop in loops]
        return plan_gemm(micro_ops, nest, self.target.batch, self.target.block)

    def _reset(self, kernel: bytes, loops: Loops) -> Elements:
        """The accumulators that a reset clears."""
        return elements_of(span(*self._kernel(kernel, loops, (0,), False), 0))

    def _alu(self, kernel: bytes, loops: Loops, use_imm: bool) -> tuple[AluPlan, int]:
        reads_src = self.target.alu_imm_src or not use_imm
        columns = (0, 1) if reads_src else (0,)
        micro_ops, _ = self._kernel(kernel, loops, columns, True)
        base = int(micro_ops[:, columns].min())
        relative = np.ascontiguousarray(micro_ops[:, columns] - base)
        return self._relative_alu(relative.tobytes(), len(columns), loops, use_imm), base

    def _plan_alu(self, relative: bytes, columns: int, loops: Loops, use_imm: bool) -> AluPlan:
        micro_ops = np.frombuffer(relative, np.intp).reshape(-1, columns)
        outer, inner = (Loop(*loop) for loop in loops)
        if (count := outer.count * inner.count * len(micro_ops)) > MOST_INDICES:
            raise Fault(f"the simulator has no memory for a plan of {count} micro-ops")
        dst, *src = (
            sums(
                np.arange(outer.count) * outer.factors[column],
                np.arange(inner.count) * inner.factors[column],
                micro_ops[:, column],
            ).reshape(-1)
            for column in range(columns)
        )
        if not src:
            return plan_alu(dst, None, reads_dst=True)
        return plan_alu(dst, src[0], reads_dst=not use_imm)


@lru_cache(maxsize=16)
def _plans(target: Target) -> _Plans:
    return _Plans(target)
