"""The rewrite of a kernel of logical tensors into lanes, once these are chosen.

Blocks of the old axes stay axes, in their order; behind them stand the lanes. Elementwise products
and sums of int8 become products with a reduction over the lanes (`choices.factors_of`), since only
the GEMM core reads int8.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import FunctionType, TensorType, i8, i32
from xdsl.ir import Attribute, Block, SSAValue

from vtac.dialects.context import Array, tensor_type
from vtac.dialects.target import Target
from vtac.dialects.te import ComputeOp, KernelOp, Read, Row, YieldOp, scalar_body, shaped
from vtac.passes.te.borders import results_of
from vtac.passes.te.computes import fresh_name
from vtac.passes.te.lanes.choices import LaneChoice, Subscripts, factors_of
from vtac.passes.te.lanes.placing import LanePlacement, place_constant, place_operand, place_result
from vtac.passes.te.lanes.search import KernelStage
from vtac.passes.te.lanes.units import is_zero, unit_axes


@dataclass(frozen=True)
class LaneAssignment:
    """The decisions for a kernel: lanes of each compute, makers of its operands, axes left out.

    dropped: axes of one block that are left out, by compute; None where all axes stay.
    """

    choices: Mapping[ComputeOp, LaneChoice]
    stages: Mapping[ComputeOp, KernelStage]
    dropped: Mapping[ComputeOp, frozenset[int]] | None = None

    def dropped_of(self, compute: ComputeOp) -> frozenset[int]:
        """The axes that a compute loses."""
        return frozenset() if self.dropped is None else self.dropped[compute]


@dataclass
class PackedKernel:
    """The rewrite of one kernel.

    given: for each new parameter the number of the old one, and its placement. constants: what the
    call passes after these. results: the placement of each result.
    """

    kernel: KernelOp
    assignment: LaneAssignment
    target: Target
    given: list[tuple[int, LanePlacement]] = field(default_factory=list)
    constants: list[Array] = field(default_factory=list)
    results: list[LanePlacement] = field(default_factory=list)
    _amounts: set[int] = field(default_factory=set)
    _block: Block = field(default_factory=Block)
    _values: dict[SSAValue, SSAValue] = field(default_factory=dict)
    _numbers: dict[SSAValue, int] = field(default_factory=dict)

    def rewrite(self) -> None:
        """Build the new body beside the old one, and exchange them."""
        old = self.kernel.body.block
        self._numbers = {argument: number for number, argument in enumerate(old.args)}
        self._amounts = {
            self._numbers[read.value]
            for compute in self.kernel.computes
            for read, scalar in zip(compute.reads, _scalars(compute), strict=True)
            if read.value in self._numbers and _is_amount(scalar)
        }
        placed = [self._placements(compute) for compute in self.kernel.computes]
        parameters = self._parameters(placed)
        for compute, placements in zip(self.kernel.computes, placed, strict=True):
            self._compute(compute, placements, parameters)
        batch, block = self.target.batch, self.target.block
        results = results_of(self.kernel)
        for value in results:
            assert isinstance(value.owner, ComputeOp)
            placement = place_result(self.assignment.choices[value.owner], batch, block)
            self.results.append(placement.without(self.assignment.dropped_of(value.owner)))
        self._block.add_op(YieldOp(*(self._values[value] for value in results)))
        self.kernel.properties["function_type"] = FunctionType.from_lists(
            self._block.arg_types, [self._values[value].type for value in results]
        )
        self.kernel.body.detach_block(old)
        old.erase(safe_erase=False)
        self.kernel.body.add_block(self._block)

    def pack(self, number: int, placement: LanePlacement, array: Array) -> Array:
        """The constant that a call passes for an old parameter, in lanes.

        Amounts of shifts are repeated in the lanes that are left over: there an amount of its own
        would keep a block from being shifted by one immediate.
        """
        return placement.pack(array, repeats_last=number in self._amounts)

    def _placements(self, compute: ComputeOp) -> list[LanePlacement]:
        """The placement that each operand must have; results of other stages have it already."""
        choice = self.assignment.choices[compute]
        batch, block = self.target.batch, self.target.block
        found = []
        for number, read in enumerate(compute.reads):
            placement = place_operand(choice, number, Subscripts(read), batch, block)
            found.append(placement.without(self._dropped(compute, number, placement)))
        if choice.depth is not None and choice.weights is None:
            found.append(place_constant(choice, block))
        return found

    def _dropped(self, compute: ComputeOp, number: int, placement: LanePlacement) -> frozenset[int]:
        """The dimensions that an operand has lost: its maker says, or whoever reads a parameter."""
        maker = self.assignment.stages[compute].operands[number]
        if maker is not None:
            return self.assignment.dropped_of(maker.compute)
        if self.assignment.dropped is None:
            return frozenset()
        read, units = compute.reads[number], unit_axes(compute, self.assignment.choices[compute])
        blocks = placement.shape(shaped(read.value).get_shape())
        gone = {d for d, row in enumerate(read.rows) if blocks[d] == 1 and is_zero(row, units)}
        return frozenset(gone - {0} if len(gone) == len(read.rows) else gone)

    def _parameters(
        self, placed: Sequence[Sequence[LanePlacement]]
    ) -> dict[tuple[int | str, LanePlacement], SSAValue]:
        """The new parameters: tensors in the order of the old ones, then constant factors."""
        factors: dict[tuple[str, LanePlacement], Array] = {}
        wanted: dict[tuple[int, LanePlacement], SSAValue] = {}
        for compute, placements in zip(self.kernel.computes, placed, strict=True):
            for read, placement in zip(compute.reads, placements, strict=False):
                number = self._numbers.get(read.value)
                if number is not None:
                    wanted[number, placement] = read.value
            if len(placements) > len(compute.reads):
                value = _constant_factor(compute)
                factors[f"factor {value}", placements[-1]] = placements[-1].pack(
                    np.array(value, np.int8)
                )
        found: dict[tuple[int | str, LanePlacement], SSAValue] = {}
        self.given = sorted(wanted, key=lambda where: where[0])
        for where in self.given:
            tensor, (_, placement) = wanted[where], where
            shape = placement.shape(shaped(tensor).get_shape())
            type = TensorType(shaped(tensor).element_type, shape)
            found[where] = self._parameter(type, tensor.name_hint)
        for key, array in factors.items():
            found[key] = self._parameter(tensor_type(array), "factor")
            self.constants.append(array)
        return found

    def _parameter(self, type: Attribute, hint: str | None) -> SSAValue:
        argument = self._block.insert_arg(type, len(self._block.args))
        argument.name_hint = hint
        return argument

    def _compute(
        self,
        compute: ComputeOp,
        placements: Sequence[LanePlacement],
        parameters: Mapping[tuple[int | str, LanePlacement], SSAValue],
    ) -> None:
        choice = self.assignment.choices[compute]
        axes = _LaneAxes(compute, choice, self.assignment.dropped_of(compute), self.target)
        reads = []
        for number, (read, placement) in enumerate(zip(compute.reads, placements, strict=False)):
            parameter = self._numbers.get(read.value)
            value = (
                self._values[read.value] if parameter is None else parameters[parameter, placement]
            )
            reads.append(Read(value, axes.rows(read, number, placement), read.outside))
        element: Attribute = compute.element_type
        if choice.depth is None:
            body = compute.body.clone()
        else:
            if choice.weights is None:
                key = f"factor {_constant_factor(compute)}", placements[-1]
                reads = [reads[choice.activations], Read(parameters[key], axes.weight_lanes)]
            else:
                reads = [reads[choice.activations], reads[choice.weights]]
            body = scalar_body([i32, i8, i8], _multiply_accumulate)
        starts = choice.depth is not None or len(compute.reduce) > 0
        init = None if compute.init is None else self._values[compute.init]
        identity = 0 if compute.identity is None else compute.identity.value.data
        new = ComputeOp(
            compute.label.data,
            dict(axes.spatial),
            dict(axes.reduce),
            reads,
            body,
            element,
            identity=identity if starts and init is None else None,
            init=init,
        )
        new.location = compute.location
        new.result.name_hint = compute.result.name_hint
        self._block.add_op(new)
        self._values[compute.result] = new.result


class _LaneAxes:
    """The axes of a compute in lanes: the old ones in blocks, then lanes, for both domains."""

    def __init__(
        self, compute: ComputeOp, choice: LaneChoice, dropped: frozenset[int], target: Target
    ):
        self.choice, rank = choice, len(compute.spatial)
        names = [*compute.spatial.names, *compute.reduce.names]
        kept = [v for v in range(len(names)) if v not in dropped]
        self.spatial = [(names[v], self._blocks(compute, v)) for v in kept if v < rank]
        self.reduce = [(names[v], self._blocks(compute, v)) for v in kept if v >= rank]
        self.b, self.o = len(self.spatial), len(self.spatial) + 1
        self.k = len(kept) + 2
        self._places = {v: n + (0 if v < rank else 2) for n, v in enumerate(kept)}
        b, o, k = (fresh_name(lane, names) for lane in ("b", "o", "k"))
        self.spatial += [(b, target.batch), (o, target.block)]
        if choice.depth is not None:
            self.reduce.append((k, target.block))

    def _blocks(self, compute: ComputeOp, variable: int) -> int:
        return -(-compute.extents[variable] // self.choice.counts.get(variable, 1))

    def rows(self, read: Read, number: int, placement: LanePlacement) -> tuple[Row, ...]:
        """The subscripts of an operand: blocks, then lanes. Axes that are gone were always 0."""
        lanes = (self.b, self.o)
        if self.choice.depth is not None:
            activations = number == self.choice.activations
            lanes = (self.b, self.k) if activations else (self.o, self.k)
        outer = [
            Row.of(
                [(self._places[v], c) for v, c in row.terms if v in self._places],
                row.constant,
                row.divisor,
            )
            for dim, row in enumerate(read.rows)
            if dim not in placement.dropped
        ]
        return (*outer, *(Row.of([(lane, 1)]) for lane in lanes))

    @property
    def weight_lanes(self) -> tuple[Row, ...]:
        """The subscripts of weights that are one element."""
        return Row.of([(self.o, 1)]), Row.of([(self.k, 1)])


def _scalars(compute: ComputeOp) -> Sequence[SSAValue]:
    """The arguments of the body that hold the operands."""
    return compute.body.block.args[1 if len(compute.reduce) else 0 :]


def _is_amount(scalar: SSAValue) -> bool:
    """Whether other values are shifted by a scalar, and nothing else is done with it."""
    return bool(scalar.uses) and all(
        isinstance(use.operation, arith.ShRSIOp | arith.ShLIOp) and use.index == 1
        for use in scalar.uses
    )


def _constant_factor(compute: ComputeOp) -> int:
    factors = factors_of(compute)
    assert factors is not None and factors.constant is not None
    return factors.constant


def _multiply_accumulate(acc: SSAValue, a: SSAValue, b: SSAValue) -> SSAValue:
    product = arith.MuliOp(arith.ExtSIOp(a, i32).result, arith.ExtSIOp(b, i32).result)
    return arith.AddiOp(acc, product.result).result
