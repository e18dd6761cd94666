"""``te-legalize-casts``: int8 becomes int32 only where the machine can do it, on the GEMM core.

Nothing but GEMM (and a load that not every VTA has) brings int8 values into the accumulators. So a
stage that widens outside a product becomes, or reads, a contraction with the identity matrix over
the lanes: ``y[b, o] = sum over k of x[b, k] * identity[o, k]``, one cycle per element. Where
another stage of the kernel has just narrowed the value, the reader takes the accumulators instead.

Takes kernels of tensors. Leaves no ``extsi`` outside products. Kernels may gain a parameter for the
identity matrix, which every call passes.
"""

from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i8, i32
from xdsl.ir import Block, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from vtac.dialects.te import (
    ComputeOp,
    KernelOp,
    Read,
    Row,
    YieldOp,
    identity_map,
    rows_of,
    scalar_body,
    shaped,
    yielded,
)
from vtac.passes.te.computes import fresh_label, fresh_name, replace_compute
from vtac.passes.te.intervals import INT8, interval_of_scalar
from vtac.passes.te.parameters import add_constant_parameter


@dataclass(frozen=True)
class LegalizeCastsPass(ModulePass):
    """Widen int8 to int32 on the GEMM core."""

    name = "te-legalize-casts"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite every kernel of tensors."""
        for kernel in op.ops:
            if isinstance(kernel, KernelOp) and not kernel.is_lowered:
                _Legalizer(ctx, op, kernel).run()


@dataclass
class _Legalizer:
    ctx: Context
    module: ModuleOp
    kernel: KernelOp

    def run(self) -> None:
        """Rewrite the computes in order; the results of rewrites are legal."""
        for compute in self.kernel.computes:
            widened = [] if is_product(compute) else _widened_inputs(compute)
            if not widened:
                continue
            if _moves_one_input(compute) and not _is_narrowed_here(compute.inputs[0]):
                compute = self._widen_first(compute)
            if _sums_one_input(compute) and not _is_narrowed_here(compute.inputs[0]):
                self._contract(compute)
                continue
            wide: dict[int, SSAValue] = {}
            for number in widened:
                value = compute.inputs[number]
                narrowed = _is_narrowed_here(value)
                wide[number] = self._unnarrow(value) if narrowed else self._cast(compute, number)
            _read_wide(compute, wide)
        _drop_unused(self.kernel)

    def _identity_matrix(self, value: SSAValue) -> SSAValue:
        lanes = shaped(value).get_shape()[-1]
        matrix = np.eye(lanes, dtype=np.int8)
        for op in self.kernel.body.block.args:
            if op.name_hint == "identity" and shaped(op).get_shape() == (lanes, lanes):
                return op
        return add_constant_parameter(self.ctx, self.module, self.kernel, matrix, "identity")

    def _contract(self, compute: ComputeOp) -> None:
        """``acc + extsi(x)`` or ``extsi(x)``: the same sum, through the identity matrix."""
        (read,) = compute.reads
        reduce = dict(compute.reduce)
        lane = fresh_name("k", {*compute.spatial.names, *compute.reduce.names})
        reduce[lane] = shaped(read.value).get_shape()[-1]
        out, inner = len(compute.spatial) - 1, len(compute.spatial) + len(reduce) - 1
        rows = (*read.rows[:-1], Row(((inner, 1),)))
        read = Read(read.value, rows, read.outside)
        new = self._product(
            compute.label.data, dict(compute.spatial), reduce, read, out, compute.init
        )
        replace_compute(compute, new)

    def _widen_first(self, compute: ComputeOp) -> ComputeOp:
        """``trunci(extsi(x))``, where elements move: a stage that widens them, before a store."""
        label = fresh_label(self.kernel, f"{compute.label.data}_moved")
        body = scalar_body([i8], lambda x: arith.ExtSIOp(x, i32).result)
        wide = ComputeOp(label, compute.spatial, {}, compute.reads, body, i32)
        wide.location, wide.result.name_hint = compute.location, label
        self.kernel.body.block.insert_op_before(wide, compute)
        own = Read(wide.result, rows_of(identity_map(len(compute.spatial))))
        body = scalar_body([i32], lambda x: arith.TruncIOp(x, i8).result)
        store = ComputeOp(compute.label.data, compute.spatial, {}, [own], body, i8)
        replace_compute(compute, store)
        return wide

    def _product(
        self,
        label: str,
        spatial: dict[str, int],
        reduce: dict[str, int],
        read: Read,
        out: int,
        init: SSAValue | None = None,
    ) -> ComputeOp:
        inner = len(spatial) + len(reduce) - 1
        matrix = Read(self._identity_matrix(read.value), (Row(((out, 1),)), Row(((inner, 1),))))
        return ComputeOp(
            label,
            spatial,
            reduce,
            [read, matrix],
            scalar_body([i32, i8, i8], multiply_accumulate),
            i32,
            identity=0 if init is None else None,
            init=init,
        )

    def _cast(self, compute: ComputeOp, number: int) -> SSAValue:
        """A stage of its own that holds the whole operand as int32."""
        value = compute.inputs[number]
        shape = shaped(value).get_shape()
        names = compute.spatial.names
        if len(names) != len(shape):
            names = tuple(f"i{dim}" for dim in range(len(shape)))
        spatial = dict(zip(names, shape, strict=True))
        lane = fresh_name("k", names)
        rows = tuple(Row(((dim, 1),)) for dim in (*range(len(shape) - 1), len(shape)))
        label = fresh_label(self.kernel, f"{compute.label.data}_cast")
        cast = self._product(label, spatial, {lane: shape[-1]}, Read(value, rows), len(shape) - 1)
        cast.location = compute.location
        cast.result.name_hint = label
        block = self.kernel.body.block
        block.insert_op_before(cast, compute)
        return cast.result

    def _unnarrow(self, value: SSAValue) -> SSAValue:
        """The accumulators from which this kernel narrows an int8 value, with the value's
        numbers."""
        narrowing = value.owner
        assert isinstance(narrowing, ComputeOp)
        cut = yielded(narrowing.body).owner
        assert isinstance(cut, arith.TruncIOp)
        low, high = interval_of_scalar(cut.input, narrowing)
        exact = INT8[0] <= low and high <= INT8[1]
        if exact and _only_narrows(narrowing):
            return narrowing.inputs[0]
        label = fresh_label(self.kernel, f"{narrowing.label.data}_wide")
        body = _widened_body(narrowing, exact)
        stage = ComputeOp(label, narrowing.spatial, {}, narrowing.reads, body, i32)
        stage.location = narrowing.location
        stage.result.name_hint = label
        self.kernel.body.block.insert_op_before(stage, narrowing)
        store = ComputeOp(
            narrowing.label.data,
            narrowing.spatial,
            {},
            [Read(stage.result, rows_of(identity_map(len(narrowing.spatial))))],
            scalar_body([i32], lambda x: arith.TruncIOp(x, i8).result),
            i8,
        )
        replace_compute(narrowing, store)
        return stage.result


def is_product(compute: ComputeOp) -> bool:
    """Whether the body is ``acc + extsi(a) * extsi(b)``: what the GEMM core computes."""
    args = list(compute.body.block.args)
    if len(compute.reduce) == 0 or len(args) != 3:
        return False
    sum_ = yielded(compute.body).owner
    if not isinstance(sum_, arith.AddiOp) or args[0] not in sum_.operands:
        return False
    product = (sum_.rhs if sum_.lhs is args[0] else sum_.lhs).owner
    if not isinstance(product, arith.MuliOp):
        return False
    factors = [operand.owner for operand in product.operands]
    sources = [factor.input for factor in factors if isinstance(factor, arith.ExtSIOp)]
    return len(sources) == 2 and set(sources) == set(args[1:])


def multiply_accumulate(acc: SSAValue, a: SSAValue, b: SSAValue) -> SSAValue:
    """The body of a product."""
    product = arith.MuliOp(arith.ExtSIOp(a, i32).result, arith.ExtSIOp(b, i32).result)
    return arith.AddiOp(acc, product.result).result


def _widened_inputs(compute: ComputeOp) -> list[int]:
    """Numbers of the operands whose scalar the body only widens."""
    start = 1 if len(compute.reduce) else 0
    return [
        number
        for number, arg in enumerate(compute.body.block.args[start:])
        if arg.uses and all(isinstance(use.operation, arith.ExtSIOp) for use in arg.uses)
    ]


def _sums_one_input(compute: ComputeOp) -> bool:
    """Whether it is ``acc + extsi(x)`` or ``extsi(x)``, lane by lane."""
    if len(compute.inputs) != 1:
        return False
    lane = compute.reads[0].rows[-1].variable
    if lane != len(compute.spatial) - 1:
        return False
    result, args = yielded(compute.body), compute.body.block.args
    if len(compute.reduce) == 0:
        return isinstance(result.owner, arith.ExtSIOp) and result.owner.input is args[0]
    if not isinstance(result.owner, arith.AddiOp):
        return False
    if compute.identity is not None and compute.identity.value.data != 0:
        return False
    (other,) = [value for value in result.owner.operands if value is not args[0]]
    return isinstance(other.owner, arith.ExtSIOp) and other.owner.input is args[1]


def _moves_one_input(compute: ComputeOp) -> bool:
    """Whether it is ``trunci(extsi(x))``, lane by lane, of other elements than its own."""
    if len(compute.reduce) or len(compute.inputs) != 1:
        return False
    (read,) = compute.reads
    rank = len(compute.spatial)
    if read.rows[-1].variable != rank - 1 or read.outside not in (None, 0):
        return False
    cut = yielded(compute.body).owner
    if not isinstance(cut, arith.TruncIOp) or not isinstance(cut.input.owner, arith.ExtSIOp):
        return False
    is_own = cut.input.owner.input is compute.body.block.args[0]
    return is_own and (read.outside is not None or read.rows != rows_of(identity_map(rank)))


def _is_narrowed_here(value: SSAValue) -> bool:
    """Whether an elementwise stage of the kernel made this int8 value by truncation."""
    owner = value.owner
    return (
        isinstance(owner, ComputeOp)
        and len(owner.reduce) == 0
        and isinstance(yielded(owner.body).owner, arith.TruncIOp)
    )


def _only_narrows(compute: ComputeOp) -> bool:
    """Whether the stage truncates one tensor, element by element."""
    (read, *others) = compute.reads
    cut = yielded(compute.body).owner
    assert isinstance(cut, arith.TruncIOp)
    same = read.rows == rows_of(identity_map(len(compute.spatial)))
    return not others and same and cut.input is compute.body.block.args[0]


def _widened_body(narrowing: ComputeOp, exact: bool) -> Region:
    """The body without its truncation; two shifts replace a truncation that can change values."""
    old, scalars = narrowing.body.block, dict[SSAValue, SSAValue]()
    block = Block(arg_types=old.arg_types)
    scalars.update(zip(old.args, block.args, strict=True))
    cut = yielded(narrowing.body).owner
    assert isinstance(cut, arith.TruncIOp)
    for op in old.ops:
        if op is not cut and op is not old.last_op:
            block.add_op(op.clone(scalars))
    value = scalars[cut.input]
    if not exact:
        amount = arith.ConstantOp(IntegerAttr(24, i32))
        left = arith.ShLIOp(value, amount.result)
        right = arith.ShRSIOp(left.result, amount.result)
        block.add_ops([amount, left, right])
        value = right.result
    block.add_op(YieldOp(value))
    return Region(block)


def _read_wide(compute: ComputeOp, wide: dict[int, SSAValue]) -> None:
    """Let a compute read int32 tensors for some operands, without widening them."""
    start = 1 if len(compute.reduce) else 0
    reads = [
        Read(wide.get(number, read.value), read.rows, read.outside)
        for number, read in enumerate(compute.reads)
    ]
    old = compute.body.block
    types = [i32 if n - start in wide else arg.type for n, arg in enumerate(old.args)]
    block = Block(arg_types=types)
    scalars: dict[SSAValue, SSAValue] = dict(zip(old.args, block.args, strict=True))
    for op in old.ops:
        if isinstance(op, arith.ExtSIOp) and scalars[op.input].type == i32:
            scalars[op.result] = scalars[op.input]
        else:
            block.add_op(op.clone(scalars))
    new = ComputeOp(
        compute.label.data,
        compute.spatial,
        compute.reduce,
        reads,
        Region(block),
        compute.element_type,
        identity=None if compute.identity is None else compute.identity.value.data,
        init=compute.init,
    )
    replace_compute(compute, new)


def _drop_unused(kernel: KernelOp) -> None:
    """Erase stages that nothing reads any more."""
    for compute in reversed(kernel.computes):
        if not compute.result.uses:
            Rewriter.erase_op(compute)
