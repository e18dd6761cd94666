"""What a kernel is made of, as far as scheduling cares: decided from structure, never from names.

A *product* is a sum over two int8 operands with a common lane: the GEMM core computes it. A
*reduction* over accumulators and an *elementwise* operation are the ALU's. A *store* narrows
accumulators to a result of the kernel. Anything else the default rule does not know.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import cached_property

from xdsl.dialects import arith
from xdsl.dialects.builtin import DenseArrayBase, i8, i32
from xdsl.ir import BlockArgument, Operation, SSAValue

from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.target import Memory
from vtac.dialects.te import (
    LANES,
    ComputeOp,
    KernelOp,
    Read,
    Row,
    YieldOp,
    combiner,
    identity_map,
    rows_of,
    shaped,
    yielded,
)
from vtac.passes.te.legalize_casts import is_product


class StageRole(Enum):
    """What computes a stage."""

    PRODUCT = auto()
    REDUCTION = auto()
    ELEMENTWISE = auto()
    STORE = auto()


ALU_NAMES: Mapping[type[Operation], str] = {
    arith.AddiOp: "add",
    arith.MaxSIOp: "max",
    arith.MinSIOp: "min",
    arith.MuliOp: "mul",
    arith.ShLIOp: "shr",
    arith.ShRSIOp: "shr",
}
"""The standard intrinsic behind an operation; shifting left is shifting right by less than 0."""


@dataclass(frozen=True)
class ScheduledStage:
    """One compute and its place in the kernel.

    number: its position among the computes.
    in_place: the number of the operand whose buffer it takes over, if any; for a sum or another
        reduction that of the tensor it starts from is ``INIT``.
    buffer: stages with the same number share an accumulator buffer.
    intrinsic: for the ALU, the name of the intrinsic.
    """

    number: int
    compute: ComputeOp
    role: StageRole
    in_place: int | None = None
    buffer: int = -1
    intrinsic: str = ""

    @cached_property
    def reads(self) -> Sequence[Read]:
        """The operands with their subscripts."""
        return self.compute.reads

    @cached_property
    def init(self) -> SSAValue | None:
        """The tensor that a sum starts from, if it does."""
        return self.compute.init

    @property
    def has_immediate(self) -> bool:
        """Whether the ALU takes a constant rather than a second accumulator."""
        return self.intrinsic.endswith("_imm")

    @property
    def copies(self) -> bool:
        """Whether it repeats a tensor, which accumulators then start from."""
        return self.intrinsic == "copy"

    @cached_property
    def table_axes(self) -> list[int]:
        """The axes along which an immediate changes: each value is an instruction."""
        tables = [read for read in self.reads if is_table(self.compute, read)]
        return sorted({v for read in tables for row in read.rows for v, _ in row.terms})

    @cached_property
    def extents(self) -> tuple[int, ...]:
        """Extents of the spatial axes before the lanes."""
        return self.compute.spatial.extents[:-LANES]

    @cached_property
    def taps(self) -> tuple[int, ...]:
        """Extents of the reduction axes that are loops, the lane of a product not among them."""
        extents = self.compute.reduce.extents
        return extents[:-1] if self.role is StageRole.PRODUCT else extents

    @cached_property
    def own_rows(self) -> tuple[Row, ...]:
        """The subscripts of the tensor that a reduction starts from: its own axes."""
        return tuple(Row(((axis, 1),)) for axis in range(len(self.compute.spatial)))

    def operand(self, lane: int) -> int:
        """Number of the operand of a product whose element ends in lanes (lane, k)."""
        last = len(self.compute.extents) - 1
        for number, read in enumerate(self.reads):
            if [row.variable for row in read.rows[-LANES:]] == [lane, last]:
                return number
        raise AssertionError("a product has both operands")

    @cached_property
    def windows(self) -> set[int]:
        """The reduction axes, by number, that move a window of an operand, as kernel taps do."""
        spatial = len(self.compute.spatial)
        rows = [row for read in self.reads for row in read.rows if row.variable is None]
        return {v - spatial for row in rows for v, _ in row.terms if v >= spatial}

    def taps_of(self, operand: int, windows: bool) -> frozenset[int]:
        """The reduction axes, by number, on which an operand depends.

        windows: also those that only move its window, as the taps of a kernel do.
        """
        found = self._taps_of.get((operand, windows))
        if found is None:
            found = self._taps_of[operand, windows] = self._find_taps(operand, windows)
        return found

    @cached_property
    def _taps_of(self) -> dict[tuple[int, bool], frozenset[int]]:
        return {}

    def _find_taps(self, operand: int, windows: bool) -> frozenset[int]:
        spatial = len(self.compute.spatial)
        rows = [row for row in self.reads[operand].rows if windows or row.variable is not None]
        found = {variable - spatial for row in rows for variable, _ in row.terms}
        return frozenset(tap for tap in found if 0 <= tap < len(self.taps))

    @cached_property
    def activations(self) -> int:
        """Number of the product's operand with lanes (b, k)."""
        return self.operand(len(self.compute.spatial) - 2)

    @cached_property
    def weights(self) -> int:
        """Number of the product's operand with lanes (o, k)."""
        return self.operand(len(self.compute.spatial) - 1)


INIT = -1
"""In ``ScheduledStage.in_place``: the tensor that a sum starts from."""


@dataclass(frozen=True)
class Structure:
    """A kernel's stages, in order, and which of them are its results.

    readers: see `readers_of`.
    """

    stages: Sequence[ScheduledStage]
    roots: Sequence[ScheduledStage]
    readers: tuple[int, int] = (1, 1)

    def readers_by(self, memory: Memory) -> int:
        """How many cores share the memory from which loads into a scratchpad come."""
        return self.readers[memory is not Memory.INP]

    @property
    def root(self) -> ScheduledStage:
        """The result whose tiles all others follow."""
        return self.roots[-1]

    @property
    def products(self) -> list[ScheduledStage]:
        """The stages of the GEMM core, the one with the most work first."""
        found = [stage for stage in self.stages if stage.role is StageRole.PRODUCT]
        return sorted(found, key=_work, reverse=True)

    @cached_property
    def root_axes(self) -> Mapping[int, Sequence[set[int]]]:
        """For each stage, by number and axis: the axes of the root that its position depends on."""
        found: dict[int, list[set[int]]] = {
            root.number: [{axis} for axis in range(len(root.extents))] for root in self.roots
        }
        for stage in reversed(self.stages):
            own = found[stage.number]
            reads = [(read.value, read.rows) for read in stage.reads]
            if stage.init is not None:
                reads.append((stage.init, stage.own_rows))
            for value, rows in reads:
                maker = self.stage_of(value)
                if maker is None:
                    continue
                known = found.setdefault(maker.number, [set() for _ in maker.extents])
                for axes, row in zip(known, rows[:-LANES], strict=True):
                    axes |= axes_of_row(row, own)
        return found

    @cached_property
    def epilogue(self) -> Sequence[ScheduledStage]:
        """The elementwise stages in place, one after the other, that end in the only result."""
        chain: list[ScheduledStage] = []
        reader = self.root
        while len(self.roots) == 1 and (maker := self._handed_on(reader)) is not None:
            chain.insert(0, maker)
            reader = maker
        return chain

    def _handed_on(self, reader: ScheduledStage) -> ScheduledStage | None:
        """The elementwise stage just before one that works in its buffer, or stores it."""
        operand = 0 if reader.role is StageRole.STORE else reader.in_place
        if operand is None or reader.role not in (StageRole.STORE, StageRole.ELEMENTWISE):
            return None
        read = reader.reads[operand]
        maker = self.stage_of(read.value)
        same = read.rows == rows_of(identity_map(len(reader.compute.spatial)))
        if maker is None or not same or maker.number != reader.number - 1:
            return None
        in_place = maker.role is StageRole.ELEMENTWISE and maker.in_place is not None
        return maker if in_place and len(list(maker.compute.result.uses)) == 1 else None

    def stage_of(self, value: SSAValue) -> ScheduledStage | None:
        """The stage that makes a tensor; None for parameters."""
        return self._makers.get(value)

    @cached_property
    def _makers(self) -> Mapping[SSAValue, ScheduledStage]:
        return {stage.compute.result: stage for stage in self.stages}

    def vectors(self, stage: ScheduledStage) -> list[int]:
        """Operands of an ALU stage that come from main memory."""
        if stage.role not in (StageRole.ELEMENTWISE, StageRole.REDUCTION):
            return []
        return [
            number
            for number, read in enumerate(stage.reads)
            if self.stage_of(read.value) is None and not is_table(stage.compute, read)
        ]


def axes_of_row(row: Row, own: Sequence[set[int]]) -> set[int]:
    """The axes of the root that a subscript depends on, by those of the stage's axes."""
    axes: set[int] = set()
    for variable, _ in row.terms:
        if variable < len(own):
            axes |= own[variable]
    return axes


def is_table(compute: ComputeOp, read: Read) -> bool:
    """Whether an operand is an immediate from a table: a parameter, the same for all lanes."""
    lanes = range(len(compute.spatial) - LANES, len(compute.spatial))
    return isinstance(read.value, BlockArgument) and not any(
        variable in lanes for row in read.rows for variable, _ in row.terms
    )


def _work(stage: ScheduledStage) -> int:
    total = 1
    for extent in (*stage.extents, *stage.taps):
        total *= extent
    return total


READERS_ATTRIBUTE = "te.readers"
"""The attribute of a kernel with what `readers_of` returns, if that is not (1, 1)."""


def readers_of(kernel: KernelOp) -> tuple[int, int]:
    """How many cores of a cluster read the memories of activations and of constants at a time.

    While so many read, each gets that part of the memory's bandwidth.
    """
    readers = kernel.attributes.get(READERS_ATTRIBUTE)
    if not isinstance(readers, DenseArrayBase):
        return 1, 1
    activations, constants = (int(count) for count in readers.get_values())
    return activations, constants


def structure_of(kernel: KernelOp, layer: str) -> Structure:
    """Classify a kernel's stages and plan which share a buffer.

    Raises `CompileError` for a stage that the default rule cannot place.
    """
    stages: list[ScheduledStage] = []
    last = kernel.body.block.last_op
    assert isinstance(last, YieldOp)
    results = set(last.values)
    places = {op: place for place, op in enumerate(kernel.body.block.ops)}
    made: dict[SSAValue, ScheduledStage] = {}
    for number, compute in enumerate(kernel.computes):
        role = _role(compute, layer)
        if (role is StageRole.STORE) != (compute.result in results):
            raise _unknown(compute, layer, "an int8 value is made and used inside one kernel")
        if role is StageRole.STORE and compute.inputs[0] not in made:
            raise _unknown(compute, layer, "nothing computed to store")
        stages.append(_placed(number, compute, role, made, places))
        made[compute.result] = stages[-1]
    roots = [stage for stage in stages if stage.role is StageRole.STORE]
    if not roots or len({stage.compute.spatial.extents for stage in roots}) > 1:
        what = "the results of one kernel must have one shape"
        raise CompileError(Problem(layer, what, "Compute them in programs of their own."))
    return Structure(stages, roots, readers_of(kernel))


def _role(compute: ComputeOp, layer: str) -> StageRole:
    operations = [op for op in compute.body.block.ops if type(op) in ALU_NAMES]
    if is_product(compute):
        if _has_lanes_of_product(compute):
            return StageRole.PRODUCT
        raise _unknown(compute, layer, "a product without the lanes of the GEMM core")
    if isinstance(yielded(compute.body).owner, arith.TruncIOp) and not operations:
        return StageRole.STORE
    if compute.element_type != i32 or any(
        shaped(read.value).element_type == i8 for read in compute.reads
    ):
        raise _unknown(compute, layer, "int8 values in the ALU")
    if _copies(compute):
        return StageRole.ELEMENTWISE
    if len(operations) != 1:
        raise _unknown(compute, layer, f"a body of {len(operations)} operations")
    return StageRole.REDUCTION if len(compute.reduce) else StageRole.ELEMENTWISE


def _copies(compute: ComputeOp) -> bool:
    """Whether it repeats a tensor: what accumulators may start from."""
    return not len(compute.reduce) and yielded(compute.body) in compute.body.block.args


def _has_lanes_of_product(compute: ComputeOp) -> bool:
    rank, last = len(compute.spatial), len(compute.extents) - 1
    lanes = [[row.variable for row in read.rows[-LANES:]] for read in compute.reads]
    return sorted(map(str, lanes)) == sorted(map(str, [[rank - 2, last], [rank - 1, last]]))


def _unknown(compute: ComputeOp, layer: str, what: str) -> CompileError:
    return CompileError(
        Problem(
            layer,
            f'stage "{compute.label.data}" has {what}, which the default schedule cannot place',
            "Write a te.schedule for this kernel.",
        )
    )


def _placed(
    number: int,
    compute: ComputeOp,
    role: StageRole,
    made: Mapping[SSAValue, ScheduledStage],
    places: Mapping[Operation, int],
) -> ScheduledStage:
    """The stage with the buffer it works in: its operand's where that is read for the last time.

    made: the stages before it, by their results. places: of the kernel's operations in its block. A
    buffer of its own has the number of the stage.
    """
    if role is StageRole.STORE:
        return ScheduledStage(number, compute, role)
    intrinsic, in_place, buffer = "", None, number
    if role is not StageRole.PRODUCT:
        intrinsic = _intrinsic(compute)
    if role is StageRole.ELEMENTWISE:
        candidates = list(enumerate(compute.reads))
    else:
        candidates = [] if compute.init is None else [(INIT, _same(compute, compute.init))]
    for operand, read in candidates:
        maker = made.get(read.value)
        if maker is not None and _may_overwrite(compute, operand, read, places):
            in_place, buffer = operand, maker.buffer
            break
    return ScheduledStage(number, compute, role, in_place, buffer, intrinsic)


def _same(compute: ComputeOp, value: SSAValue) -> Read:
    return Read(value, rows_of(identity_map(len(compute.spatial))))


def _intrinsic(compute: ComputeOp) -> str:
    if len(compute.reduce):
        return ALU_NAMES[combiner(compute.body)]
    if _copies(compute):
        return "copy"
    (operation,) = [op for op in compute.body.block.ops if type(op) in ALU_NAMES]
    name = ALU_NAMES[type(operation)]
    constant = any(isinstance(value.owner, arith.ConstantOp) for value in operation.operands)
    constant = constant or any(is_table(compute, read) for read in compute.reads)
    return f"{name}_imm" if constant else name


def _may_overwrite(
    compute: ComputeOp, operand: int, read: Read, places: Mapping[Operation, int]
) -> bool:
    """Whether nothing reads the operand after this stage, and this stage only where it writes."""
    if read.rows != rows_of(identity_map(len(compute.spatial))):
        return False
    if read.value.type != compute.result.type:
        return False
    uses = [use.operation for use in read.value.uses]
    if uses.count(compute) != 1 or (operand > 0 and not _commutes(compute)):
        return False
    return all(places[use] <= places[compute] for use in uses)


def _commutes(compute: ComputeOp) -> bool:
    last = yielded(compute.body).owner
    return isinstance(last, arith.AddiOp | arith.MaxSIOp | arith.MinSIOp | arith.MuliOp)
