"""``te-nest-shifts``: accumulators are shifted right to an addend's scale, instead of the addend
left.

A residual addend ``b`` enters the accumulators ``a`` of a convolution as ``b * 2^m``, before all of
it is shifted right by ``s >= m``. Floors nest, so

    (a + b * 2^m) >> s  ==  ((a >> m) + b) >> (s - m)

exactly, as long as nothing overflows. The left shift becomes a right shift. Where ``b * 2^m`` is a
multiple of 2^s, because of what its weights are, one shift by s is enough, and the addend is ``b *
2^m >> s``. And the sum ``a`` no longer starts from the addend: it may start from its bias
(te-place-biases), where the target can copy one.

Takes kernels of tensors whose stages are single operations, after te-fuse-accumulators; looks for a
right shift of a product (perhaps with a bias added) that starts from a left shift of a product. It
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
from vtac.dialects.target import TARGET_ATTRIBUTE, Target
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

AT_ONCE, NESTED, ONE_SHIFT = "at once", "nested", "one shift"
"""The names of the forms in recorded choices."""


@dataclass(frozen=True)
class NestShiftsPass(ModulePass):
    """Shift accumulators down to an addend where that costs less."""

    name = "te-nest-shifts"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite every kernel of tensors, if the module has a target."""
        target = op.attributes.get(TARGET_ATTRIBUTE)
        if not isinstance(target, Target):
            return
        rewriter = _Rewriter(ctx, op, target)
        for kernel, calls in kernels_with_calls(op):
            rewriter.rewrite(kernel, calls)


@dataclass(frozen=True)
class _Chain:
    """``shift(bias(sum from left(addend)))``; ``bias`` may be missing.

    Each is a stage that only the next one reads, element by element.
    """

    addend: ComputeOp
    left: ComputeOp
    sum: ComputeOp
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
    def weights(self) -> int | None:
        """The number of the addend's operand with the lanes (output, input)."""
        lane = len(self.addend.spatial) - 1
        numbers = [n for n, r in enumerate(self.addend.reads) if r.rows[-LANES].variable == lane]
        return numbers[0] if len(numbers) == 1 else None

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
                self._nest(kernel, calls, chain, again=wish == NESTED)

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
        if self._weights(chain, call) is not None:
            options[ONE_SHIFT] = start + shift
        elif np.all(amounts >= common):
            options[NESTED] = start + left + shift
        return options

    def _weights(self, chain: _Chain, call: CallOp) -> Array | None:
        """The addend's weights times 2^m over 2^s, if these are int8 numbers."""
        number = chain.weights
        value = None if number is None else chain.addend.inputs[number]
        if number is None or not isinstance(value, BlockArgument):
            return None
        old = passed_constant(self.ctx, call, value)
        up, down = self._operand(chain.left, call), self._operand(chain.shift, call)
        if old is None or up is None or down is None:
            return None
        by: Array | None = up - down
        if by is not None and by.ndim:
            assert chain.rows is not None
            by = _along(by, chain.rows, chain.addend.reads[number].rows)
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
        weights = [
            passed_constant(self.ctx, call, value)
            for value in chain.addend.inputs
            if isinstance(value, BlockArgument)
        ]
        if bias is None or not any(array is not None for array in weights):
            return False
        most = min(int(np.abs(array.astype(int)).max()) for array in weights if array is not None)
        addend = LARGEST * most * int(np.prod(chain.addend.reduce.extents))
        sum_ = LARGEST * LARGEST * int(np.prod(chain.sum.reduce.extents))
        total = sum_ + int(np.abs(bias.astype(int)).max()) + (addend << int(common.max()))
        return total < LIMIT

    def _nest(
        self, kernel: KernelOp, calls: Sequence[CallOp], chain: _Chain, *, again: bool
    ) -> None:
        """Build the nested form: sum, bias, first shift, addend, and perhaps a second shift."""
        old = chain.sum
        sum_ = ComputeOp(
            old.label.data, old.spatial, old.reduce, old.reads, old.body.clone(), i32, identity=0
        )
        replace_compute(old, sum_)
        accumulators = chain.bias.result if chain.bias is not None else sum_.result
        label = fresh_label(kernel, f"{chain.shift.label.data}_first")
        commons = self._operands(chain.left if again else chain.shift, calls)
        first = self._shift(kernel, calls, chain, label, accumulators, commons)
        reads = list(chain.addend.reads)
        unused = [stage.inputs[n] for stage in (chain.left, chain.shift) for n in _vectors(stage)]
        if not again:
            assert chain.weights is not None
            unused.append(reads[chain.weights].value)
            reads[chain.weights] = self._new_weights(kernel, calls, chain)
        addend = ComputeOp(
            chain.addend.label.data,
            chain.addend.spatial,
            chain.addend.reduce,
            reads,
            chain.addend.body.clone(),
            i32,
            init=first,
        )
        addend.location = chain.addend.location
        addend.result.name_hint = chain.addend.result.name_hint
        Rewriter.insert_op(addend, InsertPoint.before(chain.shift))
        result: SSAValue = addend.result
        if again:
            amounts = self._operands(chain.shift, calls)
            rest = [a - b for a, b in zip(amounts, commons, strict=True)]
            label = fresh_label(kernel, f"{chain.shift.label.data}_rest")
            result = self._shift(kernel, calls, chain, label, result, rest)
        Rewriter.replace_op(chain.shift, [], [result])
        Rewriter.erase_op(chain.left)
        Rewriter.erase_op(chain.addend)
        for parameter in dict.fromkeys(unused):
            if isinstance(parameter, BlockArgument) and not parameter.uses:
                drop_parameter(kernel, calls, parameter)

    def _new_weights(self, kernel: KernelOp, calls: Sequence[CallOp], chain: _Chain) -> Read:
        """The addend's weights as a parameter, for which calls pass ``weights * 2^m >> s``."""
        number = chain.weights
        assert number is not None
        arrays = [array for call in calls if (array := self._weights(chain, call)) is not None]
        read = chain.addend.reads[number]
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
    sum_ = before if bias is None else _handed_on(bias)
    if sum_ is None or not is_product(sum_) or sum_.init is None or not _read_once(sum_.init):
        return None
    left = sum_.init.owner
    if not isinstance(left, ComputeOp) or not _applies(left, arith.ShLIOp):
        return None
    addend = _handed_on(left)
    if addend is None or not is_product(addend):
        return None
    if addend.identity is None or addend.identity.value.data != 0:
        return None
    vectors = [(stage, _vector_of(stage)) for stage in (left, shift)]
    rows = {stage.reads[number].rows for stage, number in vectors if number is not None}
    return _Chain(addend, left, sum_, bias, shift) if len(rows) < 2 else None


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
