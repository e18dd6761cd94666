"""``weights-from-activations``: factors that the accelerator makes are read as weights as they lie.

The second factor of a product of activations is read as weights, whose layout the host makes, so
that it ends one launch and begins another. But a matrix [rows, BLOCK] of int8 lies in DRAM as
weights do: BLOCK rows of one block of channels are an element of weights, row by row. So a factor
that a dense layer makes needs no host if each of its blocks of channels is a matrix of its own.
(VTA.md, section 6, has the stores scatter the elements instead.)

Takes quantised functions, and products (``graph.batch_matmul``) both of whose factors are columns
of results of dense layers, as queries and keys are. Each entry becomes a sum of products, one for
each block of inner channels; the layer of the second factor becomes one layer for each block. They
stay as they are on targets with several rows per element, where rows or inner channels do not fill
blocks, where there would be more than `MOST_BLOCKS`, and where the layers of the blocks, each of
which reads all rows, take more cycles than they save: a launch, the crossing of both factors, and
the packing of one on the host.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr, TensorType, i8, i32
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from vtac.dialects.context import Array
from vtac.dialects.graph import (
    AddBiasOp,
    AddOp,
    BatchMatMulOp,
    ConcatOp,
    DequantizeOp,
    GemmOp,
    RequantizeOp,
    ReshapeOp,
    SliceOp,
    TransposeOp,
    is_static,
    known_extents,
)
from vtac.dialects.target import Target, target_at
from vtac.passes.graph.codegen import first_host_model, functions_of_host
from vtac.passes.graph.constants import constant_of, new_constant
from vtac.passes.graph.cost import bytes_of
from vtac.passes.graph.host_model import HostModel, HostRates
from vtac.passes.graph.machine_work import alu_cycles, gemm_micro_ops
from vtac.passes.graph.reasons import NOTE, Reason, ReasonKind, keep_on_host
from vtac.passes.te.schedule.cost import Rates

MOST_BLOCKS = 64
"""The most blocks of inner channels of all entries of one product."""

JOINS = Reason("the host puts the results of a product's entries together", ReasonKind.LAYOUT)


@dataclass(frozen=True)
class WeightsFromActivationsPass(HostRates, ModulePass):
    """Take products of activations apart, so that no host has to pack a factor.

    compare: whether a product stays as it is where that takes fewer cycles.
    """

    name = "weights-from-activations"

    compare: bool = True

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the products of each function that has no codegen."""
        target = target_at(op)
        if target is None or target.batch != 1:
            return
        host = first_host_model(ctx, target).with_options(self) if self.compare else None
        for function in functions_of_host(op):
            for product in list(function.walk()):
                if isinstance(product, BatchMatMulOp):
                    rewriter = _Product(ctx, target, product)
                    if rewriter.is_possible() and rewriter.is_worth_it(host):
                        rewriter.rewrite()
            _erase_unread(function)


@dataclass(frozen=True, eq=False)
class _Columns:
    """An operand of a product: for each entry, a rectangle of a dense layer's result.

    layer: the end of the dense layer. starts: the first row and column of each entry.
    """

    layer: RequantizeOp
    starts: Sequence[tuple[int, int]]


@dataclass
class _Product:
    """One product. parts: the matrices [rows, BLOCK] of the second factor that exist by now, by
    first row and column."""

    ctx: Context
    target: Target
    op: BatchMatMulOp
    parts: dict[tuple[int, int], SSAValue] = field(default_factory=dict)

    def is_possible(self) -> bool:
        """Whether both operands have the form that this takes, and the result leaves as int32."""
        block, entries = self.target.block, self.op.entries
        rows, inner = known_extents(self.op.b)
        if rows // entries % block or inner % block or entries * inner // block > MOST_BLOCKS:
            return False
        if known_extents(self.op.result)[1] != rows // entries or self._ending() is None:
            return False
        if any(_columns_of(value, entries) is None for value in (self.op.a, self.op.b)):
            return False
        gemm = self._b.layer.acc.owner
        vectors = (self._b.layer.bias, self._b.layer.shift)
        if not isinstance(gemm, GemmOp) or gemm.c is not None or not gemm.trans_b.value.data:
            return False
        if any(constant_of(self.ctx, value) is None for value in (gemm.b, *vectors)):
            return False
        starts = [column for columns in (self._a, self._b) for _, column in columns.starts]
        return not any(start % block for start in starts)

    def is_worth_it(self, host: HostModel | None) -> bool:
        """Whether less is lost on the machine than the host and the crossing take.

        host: how fast the host is; None where costs do not count. A note on the layer says so
        where it is not.
        """
        if host is None:
            return True
        lost = self._cycles_of_parts() - self._cycles_of_layer()
        factors, weights = bytes_of([self.op.a, self.op.b]), bytes_of([self.op.b])
        saved = host.cycles_a_launch + 2 * factors / host.bytes_a_cycle
        saved += host.cycles_an_op + 2 * weights / host.bytes_a_cycle
        if lost > saved:
            text = f"as weights where it lies: {lost:,.0f} cycles more, {saved:,.0f} saved"
            self._b.layer.attributes[NOTE] = StringAttr(text)
        return lost <= saved

    def _cycles_of_parts(self) -> float:
        """The layers of all blocks: each loads its rows and its weights, and then computes."""
        compute, rows, weights = self._cycles_of_block()
        return self._blocks() * max(compute, rows + weights)

    def _cycles_of_layer(self) -> float:
        """The layer that makes them all: the rows are loaded once."""
        compute, rows, weights = self._cycles_of_block()
        return max(self._blocks() * compute, rows + self._blocks() * weights)

    def _blocks(self) -> int:
        return self.op.entries * known_extents(self.op.b)[1] // self.target.block

    def _cycles_of_block(self) -> tuple[float, float, float]:
        """For one block of channels: compute, loads of rows, loads of weights."""
        gemm, end = self._b.layer.acc.owner, self._b.layer
        assert isinstance(gemm, GemmOp), "asked before"
        rates, block = Rates.of(self.target), self.target.block
        share = block / known_extents(end.result)[1]
        micro_ops = gemm_micro_ops(gemm, self.target) * rates.gemm
        compute = share * (micro_ops + alu_cycles(end, self.target, rates))
        rows, inner = known_extents(self.op.b)[0] // self.op.entries, known_extents(gemm.a)[1]
        return compute, rows * inner / rates.beat, inner * block / rates.beat

    @property
    def _a(self) -> _Columns:
        found = _columns_of(self.op.a, self.op.entries)
        assert found is not None, "asked before"
        return found

    @property
    def _b(self) -> _Columns:
        found = _columns_of(self.op.b, self.op.entries)
        assert found is not None, "asked before"
        return found

    def _ending(self) -> tuple[AddBiasOp, DequantizeOp] | None:
        """The bias and the conversion through which the result leaves, if it is read so alone."""
        for use in self.op.result.uses:
            bias = use.operation
            if not isinstance(bias, AddBiasOp) or not self.op.result.has_one_use():
                return None
            readers = [each.operation for each in bias.result.uses]
            real = readers[0] if len(readers) == 1 else None
            if isinstance(real, DequantizeOp) and len(real.scales) == 1:
                return bias, real
        return None

    def rewrite(self) -> None:
        """Insert products of the entries in place of the product."""
        ending = self._ending()
        assert ending is not None, "asked before"
        bias, real = ending
        entries, block = self.op.entries, self.target.block
        rows, inner = known_extents(self.op.a)[0] // entries, known_extents(self.op.a)[1]
        count = known_extents(self.op.b)[0] // entries
        type, floats = TensorType(i32, [rows, count]), real.result.type
        assert isinstance(floats, TensorType)
        made = []
        for (row, column), place in zip(self._a.starts, self._b.starts, strict=True):
            terms = []
            for channel in range(0, inner, block):
                a = self._cut(self._a.layer.result, (row, column + channel), (rows, block))
                b = self._part(place[0], place[1] + channel, count)
                terms.append(self._insert(BatchMatMulOp(a, b, 1, type)))
            acc = terms[0]
            for term in terms[1:]:
                acc = self._insert(AddOp(acc, term, type))
            acc = self._insert(AddBiasOp(acc, bias.bias, type))
            result = TensorType(floats.element_type, [rows, count])
            scales, zero = real.scales.get_values(), real.zero_point.value.data
            made.append(self._insert(DequantizeOp(acc, scales, zero, result)))
        joined = ConcatOp(made, 0, floats)
        keep_on_host(joined, JOINS)
        real.result.replace_all_uses_with(self._insert(joined))
        for op in (real, bias, self.op):
            Rewriter.erase_op(op)

    def _part(self, row: int, column: int, rows: int) -> SSAValue:
        """A block of channels of the second factor, from a layer of its own."""
        if (row, column) not in self.parts:
            layer, block = self._b.layer, self.target.block
            gemm = layer.acc.owner
            assert isinstance(gemm, GemmOp), "asked before"
            x = self._cut(gemm.a, (row, 0), (rows, known_extents(gemm.a)[1]))
            vectors = [self._constant(value, column) for value in (gemm.b, layer.bias, layer.shift)]
            weights, bias, shift = vectors
            type = TensorType(i32, [rows, block])
            acc = self._insert(GemmOp(x, weights, None, type, trans_b=True), layer)
            end = RequantizeOp(
                acc,
                bias,
                shift,
                TensorType(i8, [rows, block]),
                lo=layer.lo.value.data,
                hi=layer.hi.value.data,
                scale=layer.scale.value.data,
                zero_point=layer.zero_point.value.data,
            )
            self.parts[row, column] = self._insert(end, layer)
        return self.parts[row, column]

    def _constant(self, value: SSAValue, first: int) -> SSAValue:
        """The entries of a constant for one block of channels."""
        array = constant_of(self.ctx, value)
        assert array is not None, "asked before"
        part = np.ascontiguousarray(array[first : first + self.target.block])
        return self._insert(new_constant(self.ctx, part, value.name_hint, self.op))

    def _cut(self, x: SSAValue, start: tuple[int, int], extents: tuple[int, int]) -> SSAValue:
        """A rectangle of int8."""
        if tuple(known_extents(x)) == extents:
            return x
        return self._insert(SliceOp(x, list(start), [1, 1], TensorType(i8, extents)))

    def _insert(self, op: Operation, source: Operation | None = None) -> SSAValue:
        """Insert an op before the product, at the location of another op or of the product."""
        op.location = (source or self.op).location
        block = self.op.parent
        assert block is not None
        block.insert_op_before(op, self.op)
        return op.results[0]


def _columns_of(value: SSAValue, entries: int) -> _Columns | None:
    """The layer of which an operand is a rectangle for each entry; None if it is another value."""
    moves = []
    while isinstance(value.owner, ReshapeOp | TransposeOp):
        if not is_static(value):
            return None
        moves.append(value.owner)
        value = value.owner.x
    layer = value.owner
    if not isinstance(layer, RequantizeOp) or len(known_extents(value)) != 2:
        return None
    shape = known_extents(value)
    places: Array = np.arange(int(np.prod(shape))).reshape(shape)
    for move in reversed(moves):
        if isinstance(move, TransposeOp):
            places = places.transpose(move.permutation.get_values())
        else:
            places = places.reshape(known_extents(move.result))
    starts = []
    for entry in np.split(places, entries):
        row, column = divmod(int(entry[0, 0]), shape[1])
        expected = np.arange(len(entry))[:, None] * shape[1] + np.arange(entry.shape[1])
        if not np.array_equal(entry, entry[0, 0] + expected):
            return None
        if column + entry.shape[1] > shape[1]:
            return None
        starts.append((row, column))
    return _Columns(layer, starts)


def _erase_unread(function: FuncOp) -> None:
    """Erase moves, layers and constants that nothing reads any more."""
    for op in reversed(list(function.walk())):
        kinds = GemmOp | ReshapeOp | RequantizeOp | TransposeOp
        if isinstance(op, kinds) and not op.results[0].uses:
            Rewriter.erase_op(op)
