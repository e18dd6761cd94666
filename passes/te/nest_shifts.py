"""``te-nest-shifts``: accumulators are shifted right to an addend's scale, instead of the addend
left.

A residual addend ``b`` enters the accumulators ``a`` of a convolution as ``b * 2^m``, before all of
it is shifted right by ``s >= m``. Floors nest, so

    (a + b * 2^m) >> s  ==  ((a >> m) + b) >> (s - m)

exactly, as long as nothing overflows. The left shift becomes a right shift. Both may be sums of
several products: ``b`` of the high planes of weights, ``a`` of the low ones. Where ``b * 2^m`` is a
multiple of 2^s, because of what its weights are, one shift by s is enough, and the addend is ``b *
2^m >> s``. In blocks of channels where ``b * 2^m`` still is a product with int8 weights the first
shift is by 0, which takes no instruction. And the sum ``a`` no longer starts from the addend: it
may start from its bias (te-place-biases), where the target can copy one.

Takes kernels of tensors whose stages are single operations, after te-fuse-accumulators; looks for a
right shift of products (perhaps with a bias added) that start from a left shift of products. It
stays as it is where the bounds of products, biases and weights do not prove that nothing overflows,
where a channel has s < m, or where that costs no less. Calls for which different forms are best get
kernels of their own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i32
from xdsl.ir import BlockArgument, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from vtac.dialects.context import Array
from vtac.dialects.target import Target, target_at
from vtac.dialects.te import (
    LANES,
    CallOp,
    ComputeOp,
    KernelOp,
    Read,
    Row,
    identity_map,
    rows_of,
    scalar_body,
    shaped,
    yielded,
)
from vtac.passes.te.computes import fresh_label, replace_compute
from vtac.passes.te.epilogue_costs import EpilogueCosts, choose
from vtac.passes.te.legalize_casts import is_product
from vtac.passes.te.parameters import (
    append_parameter,
    drop_parameter,
    kernels_with_calls,
    passed_constant,
)

LARGEST = 1 << 7
"""No int8 value is larger, whatever its sign."""

LIMIT = 1 << 31
"""Sums whose magnitude stays below this do not overflow."""

AT_ONCE, NESTED, IN_BLOCKS, ONE_SHIFT = "at once", "nested", "nested in blocks", "one shift"
"""The names of the forms in recorded choices."""


@dataclass(frozen=True)
class NestShiftsPass(ModulePass):
    """Shift accumulators down to an addend where that costs less."""

    name = "te-nest-shifts"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite every kernel of tensors, if the module has a target."""
        target = target_at(op)
        if target is None:
            return
        rewriter = _Rewriter(ctx, op, target)
        for kernel, calls in kernels_with_calls(op):
            rewriter.rewrite(kernel, calls)


@dataclass(frozen=True)
class _Chain:
    """``shift(bias(sums from left(addends)))``; ``bias`` may be missing.

    Each is a stage that only the next one reads, element by element. addends, sums: products that
    start from each other; the first addend starts from 0, the first sum from ``left``.
    """

    addends: tuple[ComputeOp, ...]
    left: ComputeOp
    sums: tuple[ComputeOp, ...]
    bias: ComputeOp | None
    shift: ComputeOp

    @property
    def rows(self) -> tuple[Row, ...] | None:
        """The subscripts of the amounts, where they are vectors."""
        for stage in (self.left, self.shift):
            if (vector := _vector_of(stage)) is not None:
                return stage.reads[vector].rows
        return None

    @property
    def elements(self) -> int:
        """Hardware elements of each stage."""
        return int(np.prod(self.shift.spatial.extents[:-LANES]))


@dataclass(frozen=True)
class _Rewriter:
    ctx: Context
    module: ModuleOp
    target: Target

    def rewrite(self, kernel: KernelOp, calls: list[CallOp]) -> None:
        """Rewrite the shifts one after the other; calls that need different forms get copies of the
        kernel."""
        for compute in kernel.computes:
            chain = _chain_of(compute)
            if chain is None or not calls:
                continue
            options = partial(self._options, chain)
            calls, wish = choose(self.module, kernel, calls, chain.left, options, self.rewrite)
            if wish != AT_ONCE:
                self._nest(kernel, calls, chain, wish)

    def _options(self, chain: _Chain, call: CallOp) -> dict[str, int]:
        """The forms that are possible for a call, and their costs."""
        costs, elements = EpilogueCosts(self.target), chain.elements
        bias = costs.gemm(elements) + (costs.gemm(elements) if chain.bias is not None else 0)
        start = bias
        if self.target.alu_imm_src and chain.bias is not None:
            start = min(bias, costs.immediate(elements))
        left, shift = (self._cost(stage) for stage in (chain.left, chain.shift))
        options = {AT_ONCE: bias + left + shift}
        amounts = self._operand(chain.shift, call)
        common = self._operand(chain.left, call)
        if amounts is None or common is None or not self._fits(chain, call, common):
            return options
        if self._has_weights(chain, call, amounts):
            options[ONE_SHIFT] = start + shift
            return options
        if np.all(amounts >= common):
            options[NESTED] = start + left + shift
        first = self._first_of_blocks(chain, call, common)
        if first is not None and np.all(amounts >= first) and self._has_weights(chain, call, first):
            shifted = costs.immediate(int(elements * np.mean(first > 0)))
            pieces = 1 + int(np.count_nonzero(np.diff(first[..., 0, 0].ravel())))
            options[IN_BLOCKS] = start + shifted + costs.instructions(elements, pieces) + shift
        return options

    def _first_of_blocks(self, chain: _Chain, call: CallOp, common: Array) -> Array | None:
        """First shifts [..., b, o]: 0 in blocks whose raised addends have int8 weights, too.

        Elsewhere they are the common amount. None where they all are, where amounts are no vector
        of blocks, or where an immediate costs what a vector does.
        """
        costs, vector = EpilogueCosts(self.target), _vector_of(chain.shift)
        if vector is None or costs.immediate(1) >= costs.register(1):
            return None
        rows, shape = chain.shift.reads[vector].rows, shaped(chain.shift.inputs[vector]).get_shape()
        blocks = [row.variable for row in rows[:-LANES]]
        is_high = np.zeros(shape[:-LANES], bool)
        for addend in chain.addends:
            number = _weights_of(addend)
            value = None if number is None else addend.inputs[number]
            if number is None or not isinstance(value, BlockArgument):
                return None
            weights = passed_constant(self.ctx, call, value)
            dims = [row.variable for row in addend.reads[number].rows]
            up: Array | None = common
            if common.ndim:
                up = _along(common, rows, addend.reads[number].rows)
            if up is None or weights is None or any(dims.count(v) != 1 for v in blocks):
                return None
            raised = weights.astype(np.int64) << up
            outside = (raised < -LARGEST) | (raised >= LARGEST)
            order = [dims.index(variable) for variable in blocks]
            rest = [dim for dim in range(len(dims)) if dim not in order]
            is_high |= outside.transpose(*order, *rest).reshape(*shape[:-LANES], -1).any(-1)
        if is_high.all():
            return None
        first: Array = np.where(is_high[..., None, None], common, 0).astype(np.int32)
        return np.array(np.broadcast_to(first, shape))

    def _has_weights(self, chain: _Chain, call: CallOp, down: Array) -> bool:
        return all(self._weights(chain, addend, call, down) is not None for addend in chain.addends)

    def _weights(self, chain: _Chain, addend: ComputeOp, call: CallOp, down: Array) -> Array | None:
        """An addend's weights times 2^m over 2^down, if these are int8 numbers."""
        number = _weights_of(addend)
        value = None if number is None else addend.inputs[number]
        if number is None or not isinstance(value, BlockArgument):
            return None
        old, up = passed_constant(self.ctx, call, value), self._operand(chain.left, call)
        if old is None or up is None:
            return None
        by: Array | None = up - down
        if by is not None and by.ndim:
            assert chain.rows is not None
            by = _along(by, chain.rows, addend.reads[number].rows)
        if by is None:
            return None
        raised = old.astype(np.int64) << np.maximum(by, 0)
        lowered = raised >> np.maximum(-by, 0)
        exact = np.array_equal(lowered << np.maximum(-by, 0), raised)
        fits = lowered.min() >= -LARGEST and lowered.max() < LARGEST
        return lowered.astype(np.int8) if exact and fits else None

    def _cost(self, shift: ComputeOp) -> int:
        elements, costs = int(np.prod(shift.spatial.extents[:-LANES])), EpilogueCosts(self.target)
        constant = _number(shift) is not None
        return costs.immediate(elements) if constant else costs.register(elements)

    def _operand(self, compute: ComputeOp, call: CallOp) -> Array | None:
        """The constant, or the constant vector, that a stage applies."""
        number = _number(compute)
        if number is not None:
            return np.array(number, np.int32)
        vector = _vector_of(compute)
        return None if vector is None else passed_constant(self.ctx, call, compute.inputs[vector])

    def _fits(self, chain: _Chain, call: CallOp, common: Array) -> bool:
        """Whether no sum can leave 32 bits."""
        bias = np.zeros((), np.int32) if chain.bias is None else self._operand(chain.bias, call)
        reaches = [self._reach(addend, call) for addend in chain.addends]
        known = [reach for reach in reaches if reach is not None]
        if bias is None or len(known) < len(reaches):
            return False
        sum_ = LARGEST * LARGEST * sum(int(np.prod(each.reduce.extents)) for each in chain.sums)
        total = sum_ + int(np.abs(bias.astype(int)).max()) + (sum(known) << int(common.max()))
        return total < LIMIT

    def _reach(self, product: ComputeOp, call: CallOp) -> int | None:
        """A bound of a product's magnitude, if one of its factors is constant."""
        arrays = [
            passed_constant(self.ctx, call, value)
            for value in product.inputs
            if isinstance(value, BlockArgument)
        ]
        most = [int(np.abs(array.astype(int)).max()) for array in arrays if array is not None]
        return LARGEST * min(most) * int(np.prod(product.reduce.extents)) if most else None

    def _nest(self, kernel: KernelOp, calls: Sequence[CallOp], chain: _Chain, form: str) -> None:
        """Build a nested form: sums, bias, first shift, addends, and perhaps a second shift."""
        old = chain.sums[0]
        sum_ = ComputeOp(
            old.label.data, old.spatial, old.reduce, old.reads, old.body.clone(), i32, identity=0
        )
        replace_compute(old, sum_)
        last = chain.sums[-1].result if len(chain.sums) > 1 else sum_.result
        accumulators = chain.bias.result if chain.bias is not None else last
        label = fresh_label(kernel, f"{chain.shift.label.data}_first")
        firsts = self._firsts(chain, calls, form)
        result = self._shift(kernel, calls, chain, label, accumulators, firsts)
        unused = [stage.inputs[n] for stage in (chain.left, chain.shift) for n in _vectors(stage)]
        for addend in chain.addends:
            reads = list(addend.reads)
            if form != NESTED:
                number = _weights_of(addend)
                assert number is not None
                unused.append(reads[number].value)
                reads[number] = self._new_weights(kernel, calls, chain, addend, firsts)
            result = self._addend(chain, addend, reads, result)
        if form != ONE_SHIFT:
            amounts = self._operands(chain.shift, calls)
            rest = [a - b for a, b in zip(amounts, firsts, strict=True)]
            label = fresh_label(kernel, f"{chain.shift.label.data}_rest")
            result = self._shift(kernel, calls, chain, label, result, rest)
        Rewriter.replace_op(chain.shift, [], [result])
        Rewriter.erase_op(chain.left)
        for addend in reversed(chain.addends):
            Rewriter.erase_op(addend)
        for parameter in dict.fromkeys(unused):
            if isinstance(parameter, BlockArgument) and not parameter.uses:
                drop_parameter(kernel, calls, parameter)

    def _firsts(self, chain: _Chain, calls: Sequence[CallOp], form: str) -> list[Array]:
        """What each call shifts by before the addends."""
        if form != IN_BLOCKS:
            return self._operands(chain.left if form == NESTED else chain.shift, calls)
        commons = self._operands(chain.left, calls)
        found = [
            self._first_of_blocks(chain, call, common)
            for call, common in zip(calls, commons, strict=True)
        ]
        return [first for first in found if first is not None]

    @staticmethod
    def _addend(chain: _Chain, old: ComputeOp, reads: Sequence[Read], start: SSAValue) -> SSAValue:
        """An addend of these operands before the old shift; it starts from other accumulators."""
        addend = ComputeOp(
            old.label.data, old.spatial, old.reduce, reads, old.body.clone(), i32, init=start
        )
        addend.location = old.location
        addend.result.name_hint = old.result.name_hint
        Rewriter.insert_op(addend, InsertPoint.before(chain.shift))
        return addend.result

    def _new_weights(
        self,
        kernel: KernelOp,
        calls: Sequence[CallOp],
        chain: _Chain,
        addend: ComputeOp,
        downs: Sequence[Array],
    ) -> Read:
        """An addend's weights as a parameter, for which calls pass ``weights * 2^m >> down``."""
        number = _weights_of(addend)
        assert number is not None
        pairs = zip(calls, downs, strict=True)
        found = [self._weights(chain, addend, call, down) for call, down in pairs]
        arrays = [array for array in found if array is not None]
        read = addend.reads[number]
        old = [passed_constant(self.ctx, call, read.value) for call in calls]
        if all(a is not None and np.array_equal(a, b) for a, b in zip(old, arrays, strict=True)):
            return read
        hint = read.value.name_hint or "weights"
        return Read(append_parameter(self.ctx, kernel, calls, arrays, hint), read.rows)

    def _operands(self, compute: ComputeOp, calls: Sequence[CallOp]) -> list[Array]:
        operands = [self._operand(compute, call) for call in calls]
        return [operand for operand in operands if operand is not None]

    def _shift(
        self,
        kernel: KernelOp,
        calls: Sequence[CallOp],
        chain: _Chain,
        label: str,
        x: SSAValue,
        amounts: Sequence[Array],
    ) -> SSAValue:
        """A stage before the old shift that shifts right by a number, or by one vector per call."""
        same = rows_of(identity_map(len(chain.shift.spatial)))
        reads = [Read(x, same)]
        if amounts[0].ndim:
            parameter = append_parameter(self.ctx, kernel, calls, amounts, label)
            assert chain.rows is not None
            reads.append(Read(parameter, chain.rows))
            body = scalar_body([i32, i32], lambda value, by: arith.ShRSIOp(value, by).result)
        else:
            number = IntegerAttr(int(amounts[0]), i32)
            body = scalar_body(
                [i32], lambda value: arith.ShRSIOp(value, arith.ConstantOp(number).result).result
            )
        shift = ComputeOp(label, chain.shift.spatial, {}, reads, body, i32)
        shift.location = chain.shift.location
        shift.result.name_hint = label
        Rewriter.insert_op(shift, InsertPoint.before(chain.shift))
        return shift.result


def _chain_of(shift: ComputeOp) -> _Chain | None:
    """The stages behind a right shift, if they are a residual addition."""
    if not _applies(shift, arith.ShRSIOp):
        return None
    before = _handed_on(shift)
    bias = before if before is not None and _applies(before, arith.AddiOp) else None
    last = before if bias is None else _handed_on(bias)
    sums = _products_to(last)
    if not sums or sums[0].init is None or not _read_once(sums[0].init):
        return None
    left = sums[0].init.owner
    if not isinstance(left, ComputeOp) or not _applies(left, arith.ShLIOp):
        return None
    addends = _products_to(_handed_on(left))
    if not addends or addends[0].identity is None or addends[0].identity.value.data != 0:
        return None
    vectors = [(stage, _vector_of(stage)) for stage in (left, shift)]
    rows = {stage.reads[number].rows for stage, number in vectors if number is not None}
    return _Chain(addends, left, sums, bias, shift) if len(rows) < 2 else None


def _products_to(last: ComputeOp | None) -> tuple[ComputeOp, ...]:
    """Products that start from each other, up to the given stage; none if that is no product.

    All but the last are read once.
    """
    found: list[ComputeOp] = []
    while last is not None and is_product(last):
        found.insert(0, last)
        start = last.init.owner if last.init is not None and _read_once(last.init) else None
        last = start if isinstance(start, ComputeOp) else None
    return tuple(found)


def _weights_of(product: ComputeOp) -> int | None:
    """The number of a product's operand with the lanes (output, input)."""
    lane = len(product.spatial) - 1
    numbers = [n for n, read in enumerate(product.reads) if read.rows[-LANES].variable == lane]
    return numbers[0] if len(numbers) == 1 else None


def _applies(
    compute: ComputeOp, operation: type[arith.AddiOp | arith.ShRSIOp | arith.ShLIOp]
) -> bool:
    """Whether a stage is one operation of accumulators with a constant or a parameter's vector."""
    owner = yielded(compute.body).owner
    if len(compute.reduce) or compute.element_type != i32 or not isinstance(owner, operation):
        return False
    if any(read.outside is not None for read in compute.reads):
        return False
    return _number(compute) is not None or _vector_of(compute) is not None


def _number(compute: ComputeOp) -> int | None:
    """The constant that a stage of one operand applies."""
    owner = yielded(compute.body).owner
    if len(compute.inputs) != 1 or not isinstance(
        owner, arith.AddiOp | arith.ShRSIOp | arith.ShLIOp
    ):
        return None
    constant = owner.rhs.owner
    if owner.lhs is compute.body.block.args[0] and isinstance(constant, arith.ConstantOp):
        return constant.value.value.data if isinstance(constant.value, IntegerAttr) else None
    return None


def _vector_of(compute: ComputeOp) -> int | None:
    """The number of the operand that is a parameter, of two; it is the second of the operation."""
    if len(compute.inputs) != 2:
        return None
    owner, scalars = yielded(compute.body).owner, compute.body.block.args
    for number, value in enumerate(compute.inputs):
        if isinstance(value, BlockArgument) and isinstance(
            owner, arith.AddiOp | arith.ShRSIOp | arith.ShLIOp
        ):
            operands = {owner.lhs, owner.rhs} == set(scalars)
            second = owner.rhs is scalars[number] or isinstance(owner, arith.AddiOp)
            return number if operands and second else None
    return None


def _vectors(compute: ComputeOp) -> list[int]:
    number = _vector_of(compute)
    return [] if number is None else [number]


def _along(vector: Array, rows: Sequence[Row], onto: Sequence[Row]) -> Array | None:
    """A vector [..., b, o], the same for all b, in the dimensions of an operand with those rows."""
    own = [row.variable for row in (*rows[:-LANES], rows[-1])]
    dims = [row.variable for row in onto]
    if np.any(vector != vector[..., :1, :]) or None in own or not set(own) <= set(dims):
        return None
    if len(set(own)) < len(own) or any(dims.count(variable) > 1 for variable in own):
        return None
    order = sorted(range(len(own)), key=lambda dim: dims.index(own[dim]))
    sizes = dict(zip(own, vector[..., 0, :].shape, strict=True))
    found: Array = vector[..., 0, :].transpose(order)
    return found.reshape([sizes.get(variable, 1) for variable in dims])


def _handed_on(compute: ComputeOp) -> ComputeOp | None:
    """The stage that makes the accumulators of another, if nothing else reads them."""
    vector = _vector_of(compute)
    read = compute.reads[0 if vector is None else 1 - vector]
    same = read.rows == rows_of(identity_map(len(compute.spatial)))
    owner = read.value.owner
    return owner if same and isinstance(owner, ComputeOp) and _read_once(read.value) else None


def _read_once(value: SSAValue) -> bool:
    return len(list(value.uses)) == 1
