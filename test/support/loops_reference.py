"""What loops of te mean, plainly: every iteration in Python, every element a small NumPy array.

The oracle for the lowering to vta. Shares nothing with it: windows are ignored (buffers have the
shape of the whole tensor), loops are run one by one, taps are looked at one by one.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, SSAValue
from xdsl.traits import SymbolTable

from vtac.dialects import te
from vtac.dialects.context import VtacContext, constant_value

Array = NDArray[np.generic]

ALU = {
    te.Instruction.ADD: np.add,
    te.Instruction.MAX: np.maximum,
    te.Instruction.MIN: np.minimum,
    te.Instruction.MUL: np.multiply,
}


def evaluate_function(ctx: VtacContext, module: ModuleOp, inputs: Sequence[Array]) -> list[Array]:
    """The results of the module's accelerator function."""
    (function,) = [op for op in module.body.block.ops if isinstance(op, FuncOp)]
    values: dict[SSAValue, Array] = dict(zip(function.body.block.args, inputs, strict=True))
    for op in function.body.block.ops:
        if isinstance(op, te.ConstantOp):
            values[op.result] = constant_value(ctx, op.value, op.result.type)
        elif isinstance(op, te.CallOp):
            kernel = SymbolTable.lookup_symbol(module, op.callee)
            assert isinstance(kernel, te.KernelOp)
            outputs = [_empty(result) for result in op.outputs]
            given = [values[argument] for argument in op.arguments] + outputs
            arrays = {
                parameter: array
                if te.packing_of(parameter) is None
                else _unpacked(parameter, array)
                for parameter, array in zip(kernel.body.block.args, given, strict=True)
            }
            _Kernel(arrays).run(kernel.body.block)
            values |= dict(zip(op.outputs, outputs, strict=True))
        elif isinstance(op, ReturnOp):
            return [values[value] for value in op.arguments]
    raise AssertionError("the function returns nothing")


def _empty(value: SSAValue) -> Array:
    type = te.shaped(value)
    width = type.element_type.bitwidth  # type: ignore[attr-defined]
    return np.full(type.get_shape(), 77, f"i{width // 8}")


def _unpacked(parameter: SSAValue, array: Array) -> Array:
    """The tensor of a packed buffer; noise where nothing is stored."""
    layout, tensor, at = te.packing_of(parameter), _empty(parameter), 0
    assert layout is not None
    for box in layout.boxes(tensor.shape):
        part = tensor[tuple(slice(start, start + length) for start, length in box)]
        part[...] = array[at : at + part.size].reshape(part.shape)
        at += part.size
    return tensor


class _Kernel:
    def __init__(self, arrays: dict[SSAValue, Array]):
        self.arrays = arrays
        self.numbers: dict[SSAValue, int] = {}
        self.parsed: dict[te.InvokeOp, tuple[te.Instruction, te.Access, list[te.Access]]] = {}

    def range(self, item: te.Range) -> tuple[int, int]:
        if item.bounds is not None:
            return item.bounds
        assert item.values is not None
        return self.numbers[item.values[0]], self.numbers[item.values[1]]

    def run(self, block: Block) -> None:
        for op in block.ops:
            if isinstance(op, te.ForOp):
                for tile in op.tiles(*self.range(op.over)):
                    self.numbers |= dict(zip(op.body.block.args, tile, strict=True))
                    self.run(op.body.block)
            elif isinstance(op, te.SpanOp):
                pairs = [self.range(te.Range(a, b)) for _, a, b in op.terms]
                self.numbers |= dict(zip(op.results, op.evaluate(pairs), strict=True))
            elif isinstance(op, te.HullOp):
                pairs = [self.range(item) for item in op.ranges]
                self.numbers |= dict(zip(op.results, op.evaluate(pairs), strict=True))
            elif isinstance(op, te.UnfuseOp):
                pairs = op.evaluate(self.numbers[op.number], self.numbers[op.count])
                self.numbers |= dict(zip(op.results, sum(pairs, ()), strict=True))
            elif isinstance(op, te.AllocOp):
                self.arrays[op.buffer] = _empty(op.buffer)
            elif isinstance(op, te.CopyOp):
                window = tuple(slice(s, s + n) for s, n in map(self.range, op.window))
                source, target = self.arrays[op.source], self.arrays[op.target]
                if op.pads is not None:
                    grown = zip(te.integers(op.pads), source.shape, target.shape, strict=True)
                    borders = [(low, max(0, end - low - size)) for low, size, end in grown]
                    source = np.pad(source, borders)
                part = source[window]
                target[window] = part.astype(target.dtype)
            elif isinstance(op, te.InvokeOp):
                self.invoke(op)

    def place(self, access: te.Access) -> tuple[int, ...] | None:
        place = tuple(
            constant + sum(by * self.numbers[value] for value, by in terms)
            for terms, constant in access.subscripts
        )
        shape = self.arrays[access.buffer].shape
        inside = all(0 <= at < size for at, size in zip(place, shape, strict=False))
        return place if inside else None

    def invoke(self, op: te.InvokeOp) -> None:
        if op not in self.parsed:
            self.parsed[op] = op.intrinsic.instruction, op.write, op.reads
        instruction, into, reads = self.parsed[op]
        places = [self.place(read) for read in reads]
        write = self.place(into)
        assert write is not None
        if None in places:
            return
        acc = self.arrays[into.buffer]
        sources = [
            self.arrays[read.buffer][place].astype(np.int32)
            for read, place in zip(reads, places, strict=True)
        ]
        immediate = op.constant
        if isinstance(immediate, te.Access):
            entry = self.place(immediate)
            assert entry is not None
            immediate = int(self.arrays[immediate.buffer][entry])
        acc[write] = result(instruction, acc[write], sources, immediate)


def result(
    instruction: te.Instruction,
    acc: Array,
    sources: Sequence[Array],
    immediate: int | None,
) -> Array:
    """The new value of one element."""
    if instruction is te.Instruction.RESET:
        return np.zeros_like(acc)
    if instruction is te.Instruction.GEMM:
        return acc + sources[0] @ sources[1].T
    operand = np.int32(immediate) if immediate is not None else sources[0]
    if instruction is te.Instruction.SHR:
        return np.where(operand < 0, acc << np.maximum(-operand, 0), acc >> np.maximum(operand, 0))
    return ALU[instruction](acc, operand)


def named(module: ModuleOp, arrays: Sequence[Array]) -> Mapping[str, Array]:
    """The arguments of the accelerator function by name."""
    (function,) = [op for op in module.body.block.ops if isinstance(op, FuncOp)]
    names = [argument.name_hint or "" for argument in function.body.block.args]
    return dict(zip(names, arrays, strict=True))
