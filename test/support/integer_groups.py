"""Accelerator functions of integer graph ops, each value with its answer by plain NumPy.

A method of `IntegerFunction` adds an op and computes what it means, with nothing shared with the
compiler: windows are gathered tap by tap, accumulators are int64 and wrapped at the end. `lower`
takes such a function down to loops; `answers` packs inputs (spare lanes hold noise) and unpacks.
"""

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np
from verifier import Verifier
from xdsl.dialects.builtin import ModuleOp, NameLoc, NoneAttr, StringAttr, TensorType, i8, i32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass

from vtac.dialects import graph
from vtac.dialects.context import VtacContext, constant_attr, tensor_type
from vtac.dialects.target import TARGET_ATTRIBUTE, Target
from vtac.lowering.graph_to_te import GraphToTePass
from vtac.passes.te.apply_schedule import TeApplySchedule
from vtac.passes.te.block_immediates import BlockImmediatesPass
from vtac.passes.te.correct_borders import CorrectBordersPass
from vtac.passes.te.declare_intrinsics import TeDeclareIntrinsics
from vtac.passes.te.drop_clips import DropClipsPass
from vtac.passes.te.extremes_first import ExtremesFirstPass
from vtac.passes.te.fill_lanes import FillLanesPass
from vtac.passes.te.fuse_accumulators import FuseAccumulatorsPass
from vtac.passes.te.insert_copies import InsertCopiesPass
from vtac.passes.te.legalize_casts import LegalizeCastsPass
from vtac.passes.te.narrow_bands import NarrowBandsPass
from vtac.passes.te.nest_shifts import NestShiftsPass
from vtac.passes.te.place_biases import PlaceBiasesPass
from vtac.passes.te.schedule.te_schedule import TeSchedulePass
from vtac.passes.te.share_tiles import ShareTilesPass
from vtac.passes.te.split_bodies import SplitBodiesPass
from vtac.passes.te.split_windows import SplitWindowsPass
from vtac.passes.te.te_to_loops import TeToLoops

Array = np.ndarray[Any, np.dtype[Any]]

REWRITES: Sequence[type[ModulePass]] = (
    FillLanesPass,
    InsertCopiesPass,
    NarrowBandsPass,
    LegalizeCastsPass,
    FuseAccumulatorsPass,
    SplitBodiesPass,
)
LOOPS: Sequence[type[ModulePass]] = (
    DropClipsPass,
    NestShiftsPass,
    CorrectBordersPass,
    PlaceBiasesPass,
    BlockImmediatesPass,
    ExtremesFirstPass,
    SplitWindowsPass,
    ShareTilesPass,
    TeSchedulePass,
    TeToLoops,
    TeDeclareIntrinsics,
    TeApplySchedule,
)


class IntegerFunction:
    """A function with ``codegen = "vta"`` under construction."""

    def __init__(self, target: Target, seed: int = 0):
        self.ctx, self.target = VtacContext(), target
        self.random = np.random.default_rng(seed)
        self.block = Block()
        self.values: dict[SSAValue, Array] = {}
        self.inputs: list[SSAValue] = []
        self.count = 0

    def packed(self, shape: Sequence[int], element: Any) -> TensorType:
        return TensorType(element, shape, graph.PackedAttr(self.target.batch, self.target.block))

    def input(self, *shape: int) -> SSAValue:
        return self._argument(shape, self.packed(shape, i8))

    def weights(self, *shape: int) -> SSAValue:
        """An input that lies as weights do."""
        layout = graph.PackedAttr.weights(self.target.block)
        return self._argument(shape, TensorType(i8, shape, layout))

    def _argument(self, shape: Sequence[int], type: TensorType) -> SSAValue:
        value = self.block.insert_arg(type, len(self.block.args))
        self.values[value] = self.random.integers(-128, 128, shape, np.int8)
        self.inputs.append(value)
        value.name_hint = f"x{len(self.inputs)}"
        return value

    def constant(self, array: Array) -> SSAValue:
        op = graph.ConstantOp(constant_attr(self.ctx, array), tensor_type(array))
        self.block.add_op(op)
        self.values[op.result] = array
        return op.result

    def _add(self, op: Operation, *answers: Array) -> SSAValue:
        self.count += 1
        op.location = NameLoc(StringAttr(f"layer{self.count}"), NoneAttr())
        self.block.add_op(op)
        for result, answer in zip(op.results, answers, strict=True):
            assert result.type.get_shape() == answer.shape
            self.values[result] = answer
        return op.results[0]

    def conv(self, x: SSAValue, out: int, kernel: Sequence[int], **window: Any) -> SSAValue:
        """With random weights, perhaps below a bound, perhaps equal along some dimensions."""
        group, pad = window.pop("group", 1), window.pop("pad_value", 0)
        largest = window.pop("weights_below", 128)
        equal = window.pop("equal_along", ())
        numbers = numbers_of(len(kernel), **window)
        channels = self.values[x].shape[1]
        w = self.random.integers(-128, largest, (out, channels // group, *kernel), np.int8)
        for dimension in equal:
            w = np.repeat(w.take([0], dimension), w.shape[dimension], dimension)
        answer = convolve(self.values[x], w, group, pad, **numbers)
        type = self.packed(answer.shape, i32)
        numbers.update(group=group, pad_value=pad)
        return self._add(graph.ConvOp(x, self.constant(w), None, type, **numbers), answer)

    def gemm(self, x: SSAValue, out: int) -> SSAValue:
        w = self.random.integers(-128, 128, (out, self.values[x].shape[1]), np.int8)
        answer = (self.values[x].astype(np.int64) @ w.T.astype(np.int64)).astype(np.int32)
        op = graph.GemmOp(x, self.constant(w), None, self.packed(answer.shape, i32), trans_b=True)
        return self._add(op, answer)

    def batch_matmul(self, a: SSAValue, b: SSAValue, batch: int, columns: int) -> SSAValue:
        entries = [np.split(self.values[value].astype(np.int64), batch) for value in (a, b)]
        parts = [left @ right[:columns].T for left, right in zip(*entries, strict=True)]
        answer = np.concatenate(parts).astype(np.int32)
        return self._add(graph.BatchMatMulOp(a, b, batch, self.packed(answer.shape, i32)), answer)

    def sum_pool(self, x: SSAValue, kernel: Sequence[int], **window: Any) -> SSAValue:
        pad = window.pop("pad_value", 0)
        numbers = numbers_of(len(kernel), **window)
        answer = np.zeros((), np.int64)
        for part in taps(self.values[x].astype(np.int64), kernel, pad, **numbers).values():
            answer = answer + part
        numbers.update(graph.pad_property(pad))
        op = graph.SumPoolOp(x, self.packed(answer.shape, i32), kernel=kernel, **numbers)
        return self._add(op, answer.astype(np.int32))

    def max_pool(self, x: SSAValue, kernel: Sequence[int], **window: Any) -> SSAValue:
        numbers = numbers_of(len(kernel), **window)
        parts = taps(self.values[x], kernel, -128, **numbers)
        answer = np.maximum.reduce(list(parts.values()))
        op = graph.MaxPoolOp(x, self.packed(answer.shape, i8), kernel=kernel, **numbers)
        return self._add(op, answer)

    def shift_left(self, x: SSAValue, amounts: Sequence[int]) -> SSAValue:
        amount = np.array(amounts, np.int32)
        answer = self.values[x].astype(np.int32) << per_channel(amount, self.values[x])
        type = self.packed(answer.shape, i32)
        return self._add(graph.ShiftLeftOp(x, self.constant(amount), type), answer)

    def add(self, a: SSAValue, b: SSAValue) -> SSAValue:
        answer = self.values[a] + self.values[b]
        return self._add(graph.AddOp(a, b, self.packed(answer.shape, i32)), answer)

    def requantize(
        self,
        acc: SSAValue,
        *,
        shift: str = "channel",
        lo: int = -128,
        hi: int = 127,
        shifts: Sequence[int] | None = None,
        largest_bias: int | None = None,
    ) -> SSAValue:
        """Biases and shifts (unless given) that leave results spread over int8."""
        values = self.values[acc]
        channels = values.shape[1]
        bits = int(np.ceil(np.log2(np.abs(values.astype(np.int64)).max() + 2)))
        most = max(bits - 6, 0)
        amounts = self.random.integers(max(most - 2, 0), most + 1, channels).astype(np.int32)
        if shift == "one":
            amounts[:] = most
        if shift == "block":
            amounts = np.repeat(amounts[:: self.target.block], self.target.block)[:channels]
        amounts = amounts if shifts is None else np.array(shifts, np.int32)
        bound = largest_bias or 1 << min(max(bits - 1, 1), 30)
        bias = self.random.integers(-bound, bound, channels).astype(np.int32)
        if shift == "one" and self.random.random() < 0.5:
            bias[:] = self.random.integers(-5, 5)
        total = values.astype(np.int64) + per_channel(bias, values)
        answer = np.clip(total >> per_channel(amounts, values), lo, hi).astype(np.int8)
        op = graph.RequantizeOp(
            acc,
            self.constant(bias),
            self.constant(amounts),
            self.packed(answer.shape, i8),
            lo=lo,
            hi=hi,
            scale=1.0,
        )
        return self._add(op, answer)

    def byte_planes(self, acc: SSAValue, *, with_bias: bool = True) -> list[SSAValue]:
        values = self.values[acc]
        bias = self.random.integers(-(1 << 20), 1 << 20, values.shape[1]).astype(np.int32)
        bias = bias if with_bias else 0 * bias
        total = values + per_channel(bias, values)
        acc = self._add(
            graph.AddBiasOp(acc, self.constant(bias), self.packed(values.shape, i32)), total
        )
        planes = [(total >> 8 * number).astype(np.int8) for number in range(4)]
        op = graph.SplitBytesOp(acc, self.packed(values.shape, i8))
        self._add(op, *planes)
        return list(op.planes)

    def reshape(self, x: SSAValue, *shape: int) -> SSAValue:
        answer = self.values[x].reshape(shape)
        element = x.type.element_type
        return self._add(graph.ReshapeOp(x, self.packed(shape, element)), answer)

    def concat(self, values: Sequence[SSAValue], axis: int) -> SSAValue:
        answer = np.concatenate([self.values[value] for value in values], axis)
        return self._add(graph.ConcatOp(values, axis, self.packed(answer.shape, i8)), answer)

    def slice(self, x: SSAValue, starts: Sequence[int], shape: Sequence[int]) -> SSAValue:
        taken = tuple(slice(start, start + n) for start, n in zip(starts, shape, strict=True))
        type, ones = self.packed(shape, i8), [1] * len(shape)
        return self._add(graph.SliceOp(x, starts, ones, type), self.values[x][taken])

    def fuse(self, *results: SSAValue) -> list[SSAValue]:
        """Everything so far becomes the body of one composite."""
        body, types = self.block, list(self.block.arg_types)
        self.block = Block(arg_types=types)
        body.add_op(graph.YieldOp(*results))
        self.inputs = list(self.block.args)
        for before, after in zip(body.args, self.inputs, strict=True):
            self.values[after] = self.values[before]
        composite = graph.CompositeOp(
            "vta.group", self.inputs, [value.type for value in results], body
        )
        self._add(composite, *(self.values[value] for value in results))
        return list(composite.outputs)

    def finish(self, *results: SSAValue) -> ModuleOp:
        self.results = results
        self.block.add_op(ReturnOp(*results))
        types = [value.type for value in self.inputs], [value.type for value in results]
        function = FuncOp("vta_0", types, Region(self.block), "private")
        function.attributes["codegen"] = StringAttr("vta")
        module = ModuleOp([function], {TARGET_ATTRIBUTE: self.target})
        module.verify()
        return module

    def apply(self, module: ModuleOp, passes: Sequence[type[ModulePass]]) -> None:
        verifier = Verifier()
        for each in passes:
            each().apply(self.ctx, module)
            verifier.verify(module)

    def lower(self, module: ModuleOp) -> None:
        """Down to loops of intrinsics and copies."""
        self.apply(module, [GraphToTePass, *REWRITES, *LOOPS])

    def packed_inputs(self, rank: int) -> list[Array]:
        layouts = [graph.packing(value.type) for value in self.inputs]
        return [
            self.pack(self.values[value], rank, layout)
            for value, layout in zip(self.inputs, layouts, strict=True)
        ]

    def pack(self, array: Array, rank: int, layout: graph.PackedAttr) -> Array:
        """In the accelerator's layout, with noise in spare lanes unless it is for weights."""
        batch, block = layout.batch.data, layout.block.data
        n, c, *spatial = array.shape
        spatial += [1] * (rank - len(spatial))
        outs, ins = -(-n // batch), -(-c // block)
        padded = self.random.integers(-128, 128, (outs * batch, ins * block, *spatial), np.int8)
        padded *= not layout.holds_weights
        padded[:n, :c] = array.reshape(n, c, *spatial)
        split = padded.reshape(outs, batch, ins, block, *spatial)
        return np.ascontiguousarray(np.moveaxis(split, (1, 3), (-2, -1)))

    def unpack(self, array: Array, shape: Sequence[int]) -> Array:
        n, c = shape[:2]
        outs, ins, *middle, batch, block = array.shape
        plain = np.moveaxis(array, (-2, -1), (1, 3)).reshape(outs * batch, ins * block, *middle)
        return plain[:n, :c].reshape(shape)

    def answers(
        self, module: ModuleOp, run: Callable[[ModuleOp, list[Array]], Sequence[Array]], rank: int
    ) -> list[tuple[Array, Array]]:
        """Run the lowered module on the packed inputs: each result, and what it should be."""
        outputs = run(module, self.packed_inputs(rank))
        exact = [self.values[value] for value in self.results]
        return [(self.unpack(o, e.shape), e) for o, e in zip(outputs, exact, strict=True)]

    def check(
        self, module: ModuleOp, run: Callable[[ModuleOp, list[Array]], Sequence[Array]], rank: int
    ) -> None:
        """Run the lowered module on the packed inputs; every result must be exact."""
        for found, exact in self.answers(module, run, rank):
            np.testing.assert_array_equal(found, exact)


def numbers_of(
    rank: int,
    strides: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
) -> dict[str, Any]:
    return {
        "strides": strides or [1] * rank,
        "pads": pads or [0] * (2 * rank),
        "dilations": dilations or [1] * rank,
    }


def taps(
    x: Array,
    kernel: Sequence[int],
    pad: int,
    *,
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
) -> dict[tuple[int, ...], Array]:
    """For each tap of a window, the elements that all windows have under it."""
    rank = len(kernel)
    around = [(0, 0), (0, 0), *((pads[i], pads[rank + i]) for i in range(rank))]
    padded = np.pad(x, around, constant_values=pad)
    reach = [dilations[i] * (kernel[i] - 1) + 1 for i in range(rank)]
    outs = [(padded.shape[2 + i] - reach[i]) // strides[i] + 1 for i in range(rank)]
    found = {}
    for tap in product(*map(range, kernel)):
        slices = []
        for i in range(rank):
            start = dilations[i] * tap[i]
            slices.append(slice(start, start + strides[i] * (outs[i] - 1) + 1, strides[i]))
        found[tap] = padded[(slice(None), slice(None), *slices)]
    return found


def convolve(x: Array, w: Array, group: int, pad: int, **numbers: Any) -> Array:
    """Direct convolution in int64, wrapped to int32."""
    out, inner = w.shape[0], w.shape[1]
    total: Array = np.zeros((), np.int64)
    for tap, part in taps(x.astype(np.int64), w.shape[2:], pad, **numbers).items():
        weights = w[(slice(None), slice(None), *tap)].astype(np.int64)
        n, _, *spatial = part.shape
        grouped = part.reshape(n, group, inner, -1)
        blocks = weights.reshape(group, out // group, inner)
        product_ = np.einsum("ngis,goi->ngos", grouped, blocks)
        total = total + product_.reshape(n, out, *spatial)
    return total.astype(np.int32)


def per_channel(vector: Array, like: Array) -> Array:
    return vector.reshape(1, -1, *(1 for _ in like.shape[2:]))
