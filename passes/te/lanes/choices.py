"""The possible lanes of a compute.

An element of the machine is a small matrix: BATCH rows of BLOCK columns for activations and
accumulators, BLOCK rows of BLOCK columns for weights. The GEMM core computes acc[b, o] += sum over
k of inp[b, k] * wgt[o, k]. So in a product of two tensors
- b may be an axis of the activations that the weights do not have,
- o an axis of the weights that the activations do not have,
- k an axis of the reduction, which both have,
- and an axis of outputs that both have (a *group*: of a grouped convolution, a channel of a
  depthwise one) may share o and k with other axes if the weights are zero where groups differ:
  diagonal blocks.
The ALU works lane by lane, so there the lanes are any two axes of the outputs. An axis in a lane
must be a subscript of its own wherever it is used. A lane that has no axis repeats one value, and
wastes the rest.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, i8
from xdsl.ir import SSAValue

from vtac.dialects.target import Memory, Target
from vtac.dialects.te import ComputeOp, Read, shaped, yielded

Lane = tuple[tuple[int, int], ...]
"""Axes in a lane, each with how many of its values: the last moves fastest. () repeats one value.

Of a compute they are variables, of a tensor dimensions.
"""


@dataclass(frozen=True)
class TensorLanes:
    """The dimensions of a tensor that lie in the rows and columns of its elements.

    weights: whether elements have BLOCK rows, as the GEMM core reads its second operand, and zeros
    where the axes end.
    """

    rows: Lane
    columns: Lane
    weights: bool = False


@dataclass(frozen=True)
class Factors:
    """The two factors of a compute that is a product, summed or not.

    reads: the numbers of its operands. constant: the second factor where there is one operand.
    """

    reads: tuple[int, ...]
    constant: int | None = None


@dataclass(frozen=True)
class LaneChoice:
    """Lanes of one compute.

    rows, columns: variables in the lanes of the result. depth: those in the lane that the GEMM core
    sums up; None where the ALU computes. group: the axis that shares columns and depth.
    activations, weights: numbers of the operands of a product; weights None for a constant.
    cost: cycles, roughly.
    """

    rows: Lane
    columns: Lane
    cost: int
    depth: Lane | None = None
    group: int | None = None
    activations: int = 0
    weights: int | None = None

    @cached_property
    def counts(self) -> Mapping[int, int]:
        """How many values of each variable lie in a lane."""
        return dict((*self.rows, *self.columns, *(self.depth or ())))

    @property
    def result(self) -> TensorLanes:
        """The lanes of the result: its dimensions are the spatial axes."""
        return TensorLanes(self.rows, self.columns)


def factors_of(compute: ComputeOp) -> Factors | None:
    """The factors of a product of int8 values; None where it is something else.

    An int8 value that is only widened, or summed up, is a product with 1.
    """
    value, args = yielded(compute.body), list[SSAValue](compute.body.block.args)
    if len(compute.reduce):
        owner, accumulator = value.owner, args.pop(0)
        if not isinstance(owner, arith.AddiOp) or accumulator not in owner.operands:
            return None
        value = owner.rhs if owner.lhs is accumulator else owner.lhs
    owner = value.owner
    parts = list(owner.operands) if isinstance(owner, arith.MuliOp) else [value]
    reads, constant = [], None if len(parts) == 2 else 1
    for part in parts:
        factor = part.owner
        if isinstance(factor, arith.ExtSIOp) and factor.input in args:
            reads.append(args.index(factor.input))
        elif isinstance(factor, arith.ConstantOp) and isinstance(factor.value, IntegerAttr):
            constant = factor.value.value.data
        else:
            return None
    if not reads or (constant is not None and not -128 <= constant <= 127):
        return None
    return Factors(tuple(reads), constant)


class Subscripts:
    """How one operand is read: the variables it uses, and those that alone are a subscript."""

    def __init__(self, read: Read):
        self.read = read
        self.shape = shaped(read.value).get_shape()
        uses: dict[int, list[int]] = {}
        for dim, row in enumerate(read.rows):
            for variable, _ in row.terms:
                uses.setdefault(variable, []).append(dim)
        self.used = set(uses)
        self.alone = {v: d[0] for v, d in uses.items() if [read.rows[i].variable for i in d] == [v]}

    def allows(self, variables: Sequence[int]) -> bool:
        """Whether these variables may lie in lanes, as far as this operand is concerned."""
        return all(v in self.alone for v in variables if v in self.used)

    def lane(self, lane: Lane) -> Lane:
        """A lane of the compute as dimensions of this tensor, without the axes it does not have."""
        return tuple((self.alone[v], count) for v, count in lane if v in self.used)


class Chooser:
    """The choices for one compute.

    lanes: those of each operand that another stage makes or that the caller passes in lanes; None
    for a parameter that is packed as the compute needs it. widens: whether a value that is only
    widened is multiplied by 1, which may change its lanes; else `te-legalize-casts` widens it.
    """

    def __init__(
        self,
        compute: ComputeOp,
        target: Target,
        lanes: Sequence[TensorLanes | None],
        widens: bool = True,
    ):
        self.compute, self.target, self.lanes, self.widens = compute, target, lanes, widens
        self.reads = [Subscripts(read) for read in compute.reads]
        self.rank = len(compute.spatial)

    def choices(self, result: TensorLanes | None) -> list[LaneChoice]:
        """All possible choices, the cheapest first.

        result: the lanes that the result must have, if any.
        """
        factors = factors_of(self.compute)
        if factors is not None and factors.constant is not None and not self.widens:
            factors = None
        found = self._of_alu() if factors is None else self._of_product(factors)
        fitting = [c for c in found if result is None or c.result == result]
        return sorted(fitting, key=lambda choice: choice.cost)

    def _of_alu(self) -> Iterator[LaneChoice]:
        for rows, columns in product(self._simple(self.target.batch, True), self._all_columns()):
            variables = [v for v, _ in (*rows, *columns)]
            if len(set(variables)) < len(variables):
                continue
            if all(r.allows(variables) for r in self.reads) and self._agrees(rows, columns):
                yield LaneChoice(rows, columns, self._alu_cost(rows, columns))

    def _agrees(self, rows: Lane, columns: Lane) -> bool:
        return all(
            known is None or known == TensorLanes(read.lane(rows), read.lane(columns))
            for read, known in zip(self.reads, self.lanes, strict=True)
        )

    def _simple(self, count: int, rows: bool) -> list[Lane]:
        """No axis, one axis, or what an operand has."""
        found: dict[Lane, None] = {(): None}
        for read, known in zip(self.reads, self.lanes, strict=True):
            if known is not None:
                variables = {dim: v for v, dim in read.alone.items()}
                lane = known.rows if rows else known.columns
                if all(variables.get(dim, self.rank) < self.rank for dim, _ in lane):
                    found[tuple((variables[dim], size) for dim, size in lane)] = None
        if count > 1:
            found |= dict.fromkeys(((v, count),) for v in range(self.rank))
        return list(found)

    def _all_columns(self) -> list[Lane]:
        return self._simple(self.target.block, False)

    def _alu_cost(self, rows: Lane, columns: Lane) -> int:
        elements = self._outer({**dict(rows), **dict(columns)})
        timing = self.target.timing
        cost = timing.alu_register_cycles * elements
        for read, known in zip(self.reads, self.lanes, strict=True):
            if shaped(read.read.value).element_type == i8:
                size = _elements(read.shape, (*read.lane(rows), *read.lane(columns)))
                cost += timing.beats(size * self.target.element_bytes(Memory.INP))
            elif known is None:
                size = _elements(read.shape, (*read.lane(rows), *read.lane(columns)))
                cost += timing.beats(size * self.target.element_bytes(Memory.ACC))
        return cost

    def _outer(self, counts: Mapping[int, int]) -> int:
        """The number of elements in the iteration domain when so many values lie in lanes."""
        return prod(-(-n // counts.get(v, 1)) for v, n in enumerate(self.compute.extents))

    def _of_product(self, factors: Factors) -> Iterator[LaneChoice]:
        first = factors.reads[0]
        if factors.constant is not None:
            yield from self._with_operands(first, None)
            return
        for x, w in {(first, factors.reads[1]), (factors.reads[1], first)}:
            if self._may_be_weights(w):
                yield from self._with_operands(x, w)

    def _may_be_weights(self, operand: int) -> bool:
        """Whether an operand has, or can have, the layout of weights."""
        known = self.lanes[operand]
        return known is None or known.weights

    def _with_operands(self, x: int, w: int | None) -> Iterator[LaneChoice]:
        """The choices with these activations and weights."""
        a, extents = self.reads[x], self.compute.extents
        used = set() if w is None else self.reads[w].used
        alone = {} if w is None else self.reads[w].alone
        outputs, known = range(self.rank), self.lanes[x]
        rows = [v for v in outputs if v in a.alone or v not in a.used]
        rows = [v for v in rows if v not in used and self.target.batch > 1]
        columns = [v for v in outputs if v not in a.used and (v in alone or v not in used)]
        groups = [v for v in outputs if v in a.alone and (v in alone or v not in used)]
        depths = [v for v in range(self.rank, len(extents)) if self._may_be_depth(v, x, w)]
        for b, o, k, g in product(
            (None, *rows), (None, *columns), (None, *depths), (None, *groups)
        ):
            if b is not None and b in (o, g):
                continue
            if g is None:
                column, depth = _lane(o, self.target.block), _lane(k, self.target.block)
            else:
                sizes = [1 if v is None else extents[v] for v in (o, k)]
                count = self.target.block // max(sizes)
                if count < 2:
                    continue
                column = ((g, count), *_lane(o, sizes[0]))
                depth = ((g, count), *_lane(k, sizes[1]))
            row = _lane(b, self.target.batch)
            if known is not None and known != TensorLanes(a.lane(row), a.lane(depth)):
                continue
            if not self._are_weights(w, column, depth):
                continue
            cost = self._product_cost(x, w, row, column, depth)
            yield LaneChoice(row, column, cost, depth, g, x, w)

    def _are_weights(self, w: int | None, column: Lane, depth: Lane) -> bool:
        """Whether weights that the caller passes in lanes have these."""
        known = None if w is None else self.lanes[w]
        if w is None or known is None:
            return True
        operand = self.reads[w]
        return known == TensorLanes(operand.lane(column), operand.lane(depth), weights=True)

    def _may_be_depth(self, variable: int, x: int, w: int | None) -> bool:
        """Whether both operands have the axis, and one of them zeros where the axis ends."""
        operands = [self.reads[x]] if w is None else [self.reads[x], self.reads[w]]
        if any(variable not in operand.alone for operand in operands):
            return False
        extent = self.compute.extents[variable]
        return any(
            operand.shape[operand.alone[variable]] == extent
            for operand, number in zip(operands, (x, w), strict=False)
            if number is not None and self._may_be_weights(number)
        )

    def _product_cost(self, x: int, w: int | None, rows: Lane, columns: Lane, depth: Lane) -> int:
        counts = dict((*rows, *columns, *depth))
        batch, block = self.target.batch, self.target.block
        a = self.reads[x]
        loaded = _elements(a.shape, (*a.lane(rows), *a.lane(depth))) * batch * block
        if w is not None:
            b = self.reads[w]
            loaded += _elements(b.shape, b.lane((*columns, *depth))) * block * block
        elements = prod(
            -(-n // counts.get(v, 1)) for v, n in enumerate(self.compute.spatial.extents)
        )
        timing = self.target.timing
        compute = timing.gemm_cycles * self._outer(counts) + timing.alu_register_cycles * elements
        return compute + loaded // timing.port_bytes


def _lane(variable: int | None, count: int) -> Lane:
    return () if variable is None else ((variable, count),)


def _elements(shape: Sequence[int], lanes: Lane) -> int:
    """Elements of the machine in a tensor."""
    counts = dict(lanes)
    return prod(-(-size // counts.get(dim, 1)) for dim, size in enumerate(shape))
