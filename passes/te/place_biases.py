"""``te-place-biases``: a constant vector is added to accumulators in the cheapest way.

The ALU adds a vector in two cycles per element, after a reset of one cycle. Two other forms give
the same result, since the order of additions in 32 bits does not matter:

- *product*: the GEMM core adds it. A constant input element with the lanes 1, 127, 127, ... times
  int8 digits gives any number up to some 240,000 in one micro-op; larger ones take more elements.
- *copy*: the accumulators start from it. Where the target's immediate operations may read another
  element (``alu_imm_src``), a copy of the vector replaces the reset, so that it costs nothing.

(docs/vta.md, section 6.) Takes kernels of tensors whose stages are single operations, after
te-fuse-accumulators. The cheapest form by `epilogue_costs` is taken, and recorded on the kernel;
calls whose constants need different forms get kernels of their own. An addition stays where its
accumulators are read elsewhere too, where nothing is cheaper, or, for a product, where a call
passes something that is not constant or not the same for the whole batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i8, i32
from xdsl.ir import BlockArgument, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from vtac.dialects.context import Array
from vtac.dialects.target import Memory, Target, target_at
from vtac.dialects.te import (
    LANES,
    CallOp,
    ComputeOp,
    KernelOp,
    Read,
    Row,
    combiner,
    identity_map,
    rows_of,
    scalar_body,
    shaped,
    yielded,
)
from vtac.passes.te.computes import fresh_label, fresh_name, replace_compute
from vtac.passes.te.epilogue_costs import EpilogueCosts, choose, chosen_form, record_choice
from vtac.passes.te.legalize_casts import multiply_accumulate
from vtac.passes.te.parameters import (
    append_parameter,
    drop_parameter,
    kernels_with_calls,
    passed_constant,
)

LARGEST = 127
"""The largest digit, and the value of every lane of the constant element but the first."""

ADD, PRODUCT, COPY = "add", "product", "copy"
"""The names of the forms in recorded choices."""


@dataclass(frozen=True)
class PlaceBiasesPass(ModulePass):
    """Add constant vectors on the GEMM core, or start from them, where that is cheaper."""

    name = "te-place-biases"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite every kernel of tensors, if the module has a target."""
        target = target_at(op)
        if target is None:
            return
        placer = _Placer(ctx, op, target)
        for kernel, calls in kernels_with_calls(op):
            placer.rewrite(kernel, calls)


@dataclass(frozen=True)
class _Addition:
    """``accumulators + vector``, the vector being a parameter or one number.

    operands: the numbers of both among the stage's (None for a number).
    """

    compute: ComputeOp
    accumulators: int
    vector: int | None

    @property
    def elements(self) -> int:
        """Hardware elements that it computes."""
        return int(np.prod(self.compute.spatial.extents[:-LANES]))

    @property
    def rows(self) -> tuple[Row, ...]:
        """The vector's subscripts; a number is repeated over the lanes."""
        if self.vector is not None:
            return self.compute.reads[self.vector].rows
        rank = len(self.compute.spatial)
        return Row(((rank - 2, 1),)), Row(((rank - 1, 1),))

    @property
    def sum(self) -> ComputeOp:
        """The stage that computes the accumulators to which the bias is added."""
        owner = self.compute.inputs[self.accumulators].owner
        assert isinstance(owner, ComputeOp)
        return owner


@dataclass(frozen=True)
class _Placer:
    ctx: Context
    module: ModuleOp
    target: Target

    def rewrite(self, kernel: KernelOp, calls: list[CallOp]) -> None:
        """Rewrite the additions one after the other; calls that need different forms get copies."""
        for compute in kernel.computes:
            addition = _addition_of(compute)
            if addition is None:
                continue
            options = partial(self._options, addition)
            if calls:
                calls, wish = choose(self.module, kernel, calls, compute, options, self.rewrite)
            else:
                priced = options(None)
                wish = chosen_form(kernel, compute.label.data, priced)
                record_choice(kernel, compute.label.data, priced, wish)
            if wish == COPY:
                self._start_from(kernel, calls, addition)
            elif wish == PRODUCT:
                self._multiply(kernel, calls, addition)

    def _options(self, addition: _Addition, call: CallOp | None) -> dict[str, int]:
        """The forms that are possible for a call (or without one), and their costs."""
        costs, elements = EpilogueCosts(self.target), addition.elements
        reset = costs.gemm(elements)
        vector = addition.compute.inputs[addition.vector] if addition.vector is not None else None
        size = 1 if vector is None else int(np.prod(shaped(vector).get_shape()[:-LANES]))
        load = costs.load(Memory.ACC, size)
        options = {ADD: reset + (costs.register(elements) + load)}
        if vector is None:
            options[ADD] = reset + costs.immediate(elements)
        if self.target.alu_imm_src and _first_sum(addition) is not None:
            options[COPY] = costs.immediate(elements) + load
        values = self._values(addition, call)
        if values is None or np.any(values != values[..., :1, :]):
            return options
        inputs = inputs_needed(values, self.target.block)
        options[PRODUCT] = (
            reset
            + costs.gemm(inputs * elements)
            + costs.load(Memory.INP, inputs)
            + costs.load(Memory.WGT, inputs * size)
        )
        return options

    def _values(self, addition: _Addition, call: CallOp | None) -> Array | None:
        """The numbers that are added, with lanes [..., b, o]; None where they are not known."""
        if addition.vector is None:
            value = _number(addition.compute)
            assert value is not None
            return np.full((self.target.batch, self.target.block), value, np.int32)
        if call is None:
            return None
        return passed_constant(self.ctx, call, addition.compute.inputs[addition.vector])

    def _vector(self, kernel: KernelOp, calls: Sequence[CallOp], addition: _Addition) -> SSAValue:
        """The vector as a parameter."""
        if addition.vector is not None:
            return addition.compute.inputs[addition.vector]
        values = self._values(addition, None)
        assert values is not None
        label = addition.compute.label.data
        return append_parameter(self.ctx, kernel, calls, [values] * len(calls), label, values)

    def _start_from(self, kernel: KernelOp, calls: Sequence[CallOp], addition: _Addition) -> None:
        """Let the first sum start from the vector."""
        first = _first_sum(addition)
        assert first is not None
        vector = self._vector(kernel, calls, addition)
        start = ComputeOp(
            fresh_label(kernel, f"{addition.compute.label.data}_start"),
            first.spatial,
            {},
            [Read(vector, addition.rows)],
            scalar_body([i32], lambda value: value),
            i32,
        )
        start.location = addition.compute.location
        start.result.name_hint = start.label.data
        Rewriter.insert_op(start, InsertPoint.before(first))
        accumulators = addition.sum
        started = ComputeOp(
            first.label.data,
            first.spatial,
            first.reduce,
            first.reads,
            first.body.clone(),
            i32,
            init=start.result,
        )
        replace_compute(first, started)
        last = started if accumulators is first else accumulators
        Rewriter.replace_op(addition.compute, [], [last.result])

    def _multiply(self, kernel: KernelOp, calls: Sequence[CallOp], addition: _Addition) -> None:
        """Add the vector by a product onto the accumulators."""
        compute, batch, block = addition.compute, self.target.batch, self.target.block
        values = []
        for call in calls or (None,):
            known = self._values(addition, call)
            assert known is not None
            values.append(known[..., 0, :])
        inputs = max(inputs_needed(each, block) for each in values)
        digits = [digits_of(each, inputs, block) for each in values]
        label = compute.label.data
        weights = append_parameter(
            self.ctx, kernel, calls, digits[: len(calls)], f"{label}_digits", digits[0]
        )
        ones = np.repeat(lanes_of(inputs, block)[:, None, :], batch, axis=1)
        constant = append_parameter(
            self.ctx, kernel, calls, [ones] * len(calls), f"{label}_ones", ones
        )
        rank, names = len(compute.spatial), set(compute.spatial.names)
        piece = fresh_name("d", names)
        reduce = {piece: inputs, fresh_name("k", {*names, piece}): block}
        b, o, d, k = (Row(((variable, 1),)) for variable in range(rank - 2, rank + 2))
        new = ComputeOp(
            label,
            compute.spatial,
            reduce,
            [Read(constant, (d, b, k)), Read(weights, (*addition.rows[:-LANES], d, o, k))],
            scalar_body([i32, i8, i8], multiply_accumulate),
            i32,
            init=compute.inputs[addition.accumulators],
        )
        vector = None if addition.vector is None else compute.inputs[addition.vector]
        replace_compute(compute, new)
        if isinstance(vector, BlockArgument) and not vector.uses:
            drop_parameter(kernel, calls, vector)


def lanes_of(inputs: int, block: int) -> Array:
    """The constant input elements, int8 [inputs, block]: the value of a digit in each lane."""
    lanes = np.full((inputs, block), LARGEST, np.int8)
    lanes[0, 0] = 1
    return lanes


def lanes_needed(values: Array) -> int:
    """How many lanes, worth 1, 127, 127, ..., it takes to reach all values."""
    most = int(np.abs(np.rint(values / LARGEST)).max())
    return 1 + -(-most // LARGEST)


def inputs_needed(values: Array, block: int) -> int:
    """How many constant input elements it takes to reach all values."""
    return -(-lanes_needed(values) // block)


def digits_of(values: Array, inputs: int, block: int) -> Array:
    """int8 digits [..., inputs, o, lane] for values [..., o]: the weights of the lanes."""
    split = lane_digits(values, inputs * block).reshape(*values.shape, inputs, block)
    return np.ascontiguousarray(np.moveaxis(split, -2, -3))


def lane_digits(values: Array, lanes: int) -> Array:
    """int8 digits [..., lanes] for values [...], where `lanes_of` gives the value of a lane."""
    wide = values.astype(np.int64)
    high = np.rint(wide / LARGEST).astype(np.int64)
    digits = np.zeros((*wide.shape, lanes), np.int8)
    digits[..., 0] = wide - LARGEST * high
    for lane in range(1, lanes):
        digits[..., lane] = np.clip(high, -LARGEST, LARGEST)
        high = high - digits[..., lane]
    assert not high.any(), "the values need more lanes"
    return digits


def _addition_of(compute: ComputeOp) -> _Addition | None:
    """The stage as an addition to a sum that nothing else reads."""
    operation = yielded(compute.body).owner
    if len(compute.reduce) or not isinstance(operation, arith.AddiOp):
        return None
    scalars, own = list(compute.body.block.args), rows_of(identity_map(len(compute.spatial)))
    if len(set(operation.operands)) < 2 or any(read.outside is not None for read in compute.reads):
        return None
    sums = [
        number
        for number, read in enumerate(compute.reads)
        if read.rows == own and _is_sum(read.value) and len(list(read.value.uses)) == 1
    ]
    if len(sums) != 1:
        return None
    if len(scalars) == 1:
        return _Addition(compute, 0, None) if _number(compute) is not None else None
    (other,) = {0, 1} - set(sums)
    read, lanes = compute.reads[other], [len(compute.spatial) - 2, len(compute.spatial) - 1]
    is_vector = [row.variable for row in read.rows[-LANES:]] == lanes
    if not is_vector or not isinstance(read.value, BlockArgument):
        return None
    return _Addition(compute, sums[0], other) if set(operation.operands) == set(scalars) else None


def _number(compute: ComputeOp) -> int | None:
    """The constant of a body that adds one."""
    for op in compute.body.block.ops:
        if isinstance(op, arith.ConstantOp) and isinstance(op.value, IntegerAttr):
            return op.value.value.data
    return None


def _is_sum(value: SSAValue) -> bool:
    """Whether a stage accumulates the value by addition."""
    owner = value.owner
    return (
        isinstance(owner, ComputeOp)
        and len(owner.reduce) > 0
        and owner.element_type == i32
        and combiner(owner.body) is arith.AddiOp
    )


def _first_sum(addition: _Addition) -> ComputeOp | None:
    """The sum at the beginning of the chain of sums that start from each other, if it starts at 0.

    None where something in between is not a sum, or is read elsewhere too.
    """
    current = addition.sum
    while current.init is not None:
        start = current.init
        if not _is_sum(start) or len(list(start.uses)) != 1:
            return None
        assert isinstance(start.owner, ComputeOp)
        current = start.owner
    assert current.identity is not None
    return current if current.identity.value.data == 0 else None
