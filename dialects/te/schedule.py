"""How a kernel is computed: a list of primitives over handles, applied in order to its loop nest.

The vocabulary is TVM's (Chen et al., OSDI 2018), the form that of MLIR's transform dialect: stages
and axes are SSA values, and a handle that split, fuse or tile has used up is dead. What each
primitive does to the nest is in ``passes/te/primitives``.
"""

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    FlatSymbolRefAttr,
    IntegerAttr,
    StringAttr,
    SymbolRefAttr,
    i64,
)
from xdsl.ir import Attribute, Operation, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    eq,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove, NoTerminator, SymbolTable, SymbolUserOpInterface
from xdsl.utils.exceptions import VerifyException

from .attributes import AxisType, Scope, ScopeAttr, StageType
from .compute import KernelOp

STAGE, AXIS = StageType(), AxisType()


def _integer(value: int) -> IntegerAttr:
    return IntegerAttr(value, i64)


def _integers(values: Sequence[int]) -> DenseArrayBase:
    return DenseArrayBase.from_list(i64, list(values))


class Primitive(IRDLOperation):
    """One step of a schedule."""

    @property
    def consumed(self) -> Sequence[SSAValue]:
        """The handles that are dead afterwards."""
        return ()


class SchedulesKernel(SymbolUserOpInterface):
    """The schedule has a handle for each compute of its kernel."""

    def verify(self, op: Operation) -> None:
        """Count the stages, as long as the kernel still has its computes."""
        assert isinstance(op, ScheduleOp)
        kernel = SymbolTable.lookup_symbol(op, op.kernel)
        if not isinstance(kernel, KernelOp):
            raise VerifyException(f"there is no te.kernel {op.kernel}")
        stages = op.body.block.args
        if not kernel.is_lowered and len(kernel.computes) != len(stages):
            raise VerifyException(
                f"{op.kernel} has {len(kernel.computes)} computes, its schedule {len(stages)}"
            )


@irdl_op_definition
class ScheduleOp(IRDLOperation):
    """The schedule of one kernel. The block has one stage handle a compute, in their order."""

    name = "te.schedule"

    kernel = prop_def(FlatSymbolRefAttr)
    body = region_def("single_block")

    traits = traits_def(IsolatedFromAbove(), NoTerminator(), SchedulesKernel())

    assembly_format = "$kernel attr-dict-with-keyword $body"

    def __init__(self, kernel: str, body: Region):
        super().__init__(properties={"kernel": SymbolRefAttr(kernel)}, regions=[body])

    def verify_(self) -> None:
        """Only primitives, and none uses a dead handle."""
        dead: dict[SSAValue, str] = {}
        for arg in self.body.block.args:
            if arg.type != STAGE:
                raise VerifyException(f"a schedule's block takes stages, not {arg.type}")
        for step in self.body.block.ops:
            if not isinstance(step, Primitive):
                raise VerifyException(f"{step.name} is no scheduling primitive")
            for operand in step.operands:
                if operand in dead:
                    name = f" %{operand.name_hint}" if operand.name_hint else ""
                    raise VerifyException(
                        f"{step.name} uses the handle{name}, which {dead[operand]} has used up"
                    )
            dead |= dict.fromkeys(step.consumed, step.name)


@irdl_op_definition
class AxesOp(Primitive):
    """Handles on the loops of a stage: spatial, then reduction axes; before anything is done to it.

    The names must be those of the stage's axes.
    """

    name = "te.axes"

    stage = operand_def(eq(STAGE))
    names = prop_def(ArrayAttr[StringAttr])
    axes = var_result_def(eq(AXIS))

    def __init__(self, stage: SSAValue, names: Sequence[str]):
        super().__init__(
            operands=[stage],
            properties={"names": ArrayAttr(StringAttr(name) for name in names)},
            result_types=[[AXIS] * len(names)],
        )
        for axis, name in zip(self.axes, names, strict=True):
            axis.name_hint = name

    @classmethod
    def parse(cls, parser: Parser) -> "AxesOp":
        """Parse ``%conv (h, w, kh)``."""
        stage = parser.resolve_operand(parser.parse_unresolved_operand(), STAGE)
        names = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_identifier)
        return cls(stage, names)

    def print(self, printer: Printer) -> None:
        """Print what `parse` reads."""
        printer.print_string(" ")
        printer.print_operand(self.stage)
        printer.print_string(f" ({', '.join(name.data for name in self.names)})")

    def verify_(self) -> None:
        """A handle a name."""
        if len(self.names) != len(self.axes):
            raise VerifyException(f"{len(self.names)} names for {len(self.axes)} axes")


@irdl_op_definition
class InitOp(Primitive):
    """A stage handle on the statement that sets what a reduction starts from."""

    name = "te.init"

    stage = operand_def(eq(STAGE))
    init = result_def(eq(STAGE))

    assembly_format = "$stage attr-dict"

    def __init__(self, stage: SSAValue):
        super().__init__(operands=[stage], result_types=[STAGE])


@irdl_op_definition
class SplitOp(Primitive):
    """Cuts an axis into tiles of ``factor``, the last perhaps shorter, or of the given sizes."""

    name = "te.split"

    axis = operand_def(eq(AXIS))
    factor = opt_prop_def(IntegerAttr.constr(i64))
    sizes = opt_prop_def(DenseArrayBase.constr(i64))
    outer = result_def(eq(AXIS))
    inner = result_def(eq(AXIS))

    assembly_format = "$axis (`factor` $factor^)? (`sizes` $sizes^)? attr-dict"

    def __init__(
        self, axis: SSAValue, *, factor: int | None = None, sizes: Sequence[int] | None = None
    ):
        super().__init__(
            operands=[axis],
            properties={
                "factor": None if factor is None else _integer(factor),
                "sizes": None if sizes is None else _integers(sizes),
            },
            result_types=[AXIS, AXIS],
        )

    @property
    def consumed(self) -> Sequence[SSAValue]:
        """The axis."""
        return (self.axis,)

    def verify_(self) -> None:
        """A factor or sizes, positive."""
        if (self.factor is None) == (self.sizes is None):
            raise VerifyException("a split has a factor or sizes")
        parts = self.sizes.get_values() if self.sizes is not None else [self._factor()]
        if not len(parts) or min(parts) < 1:
            raise VerifyException("tiles are at least 1 long")

    def _factor(self) -> int:
        return self.factor.value.data if self.factor is not None else 0


@irdl_op_definition
class TileOp(Primitive):
    """Splits two axes by their factors and moves the outer loops outside: a blocked pair."""

    name = "te.tile"

    first = operand_def(eq(AXIS))
    second = operand_def(eq(AXIS))
    factors = prop_def(DenseArrayBase.constr(i64))
    first_outer = result_def(eq(AXIS))
    second_outer = result_def(eq(AXIS))
    first_inner = result_def(eq(AXIS))
    second_inner = result_def(eq(AXIS))

    assembly_format = "$first `,` $second `factors` $factors attr-dict"

    def __init__(self, first: SSAValue, second: SSAValue, factors: Sequence[int]):
        super().__init__(
            operands=[first, second],
            properties={"factors": _integers(factors)},
            result_types=[AXIS] * 4,
        )

    @property
    def consumed(self) -> Sequence[SSAValue]:
        """Both axes."""
        return (self.first, self.second)

    def verify_(self) -> None:
        """Two positive factors, two axes."""
        factors = self.factors.get_values()
        if len(factors) != 2 or min(factors) < 1:
            raise VerifyException("tile takes two factors of at least 1")
        if self.first is self.second:
            raise VerifyException("tile takes two different axes")


@irdl_op_definition
class FuseOp(Primitive):
    """Makes one loop of two neighbours, of which one runs once.

    The loop form has one axis a loop, so axes that both have several iterations stay two loops.
    """

    name = "te.fuse"

    outer = operand_def(eq(AXIS))
    inner = operand_def(eq(AXIS))
    fused = result_def(eq(AXIS))

    assembly_format = "$outer `,` $inner attr-dict"

    def __init__(self, outer: SSAValue, inner: SSAValue):
        super().__init__(operands=[outer, inner], result_types=[AXIS])

    @property
    def consumed(self) -> Sequence[SSAValue]:
        """Both axes."""
        return (self.outer, self.inner)


@irdl_op_definition
class ReorderOp(Primitive):
    """Permutes loops of one stage: the places they have now are filled in the order given."""

    name = "te.reorder"

    axes = var_operand_def(eq(AXIS))

    assembly_format = "$axes attr-dict"

    def __init__(self, *axes: SSAValue):
        super().__init__(operands=[axes])

    def verify_(self) -> None:
        """No axis twice."""
        if len(set(self.axes)) != len(self.axes):
            raise VerifyException("an axis stands twice in the new order")


@irdl_op_definition
class CacheReadOp(Primitive):
    """Reads an operand of a stage through a buffer in a scope. The result is the copying stage."""

    name = "te.cache_read"

    stage = operand_def(eq(STAGE))
    operand_number = prop_def(IntegerAttr.constr(i64))
    scope = prop_def(ScopeAttr)
    slots = prop_def(IntegerAttr.constr(i64))
    cache = result_def(eq(STAGE))

    assembly_format = "$stage `operand` $operand_number `scope` $scope `slots` $slots attr-dict"

    def __init__(self, stage: SSAValue, operand_number: int, scope: Scope, slots: int = 1):
        super().__init__(
            operands=[stage],
            properties={
                "operand_number": _integer(operand_number),
                "scope": ScopeAttr(scope),
                "slots": _integer(slots),
            },
            result_types=[STAGE],
        )


@irdl_op_definition
class CacheWriteOp(Primitive):
    """Computes a stage in a buffer of a scope, and copies (narrows) it to where it was.

    The result is the computing stage; the old handle is the copy.
    """

    name = "te.cache_write"

    stage = operand_def(eq(STAGE))
    scope = prop_def(ScopeAttr)
    slots = prop_def(IntegerAttr.constr(i64))
    cache = result_def(eq(STAGE))

    assembly_format = "$stage `scope` $scope `slots` $slots attr-dict"

    def __init__(self, stage: SSAValue, scope: Scope, slots: int = 1):
        super().__init__(
            operands=[stage],
            properties={"scope": ScopeAttr(scope), "slots": _integer(slots)},
            result_types=[STAGE],
        )


@irdl_op_definition
class SetScopeOp(Primitive):
    """Puts the value of a stage that is no result of the kernel into a scope."""

    name = "te.set_scope"

    stage = operand_def(eq(STAGE))
    scope = prop_def(ScopeAttr)
    slots = prop_def(IntegerAttr.constr(i64))

    assembly_format = "$stage `scope` $scope `slots` $slots attr-dict"

    def __init__(self, stage: SSAValue, scope: Scope, slots: int = 1):
        super().__init__(
            operands=[stage], properties={"scope": ScopeAttr(scope), "slots": _integer(slots)}
        )


class _StageAtAxis(Primitive):
    stage = operand_def(eq(STAGE))
    axis = operand_def(eq(AXIS))

    def __init__(self, stage: SSAValue, axis: SSAValue):
        super().__init__(operands=[stage, axis])


@irdl_op_definition
class ComputeAtOp(_StageAtAxis):
    """Computes a stage inside a loop of its reader, no more of it than is read there."""

    name = "te.compute_at"
    assembly_format = "$stage `,` $axis attr-dict"


@irdl_op_definition
class ComputeWithOp(_StageAtAxis):
    """Computes a result of the kernel in the tiles of another with the same axes.

    (Halide's ``compute_with``.) It has no reader there, so the tile at hand is what is computed.
    """

    name = "te.compute_with"
    assembly_format = "$stage `,` $axis attr-dict"


@irdl_op_definition
class InlineOp(Primitive):
    """Substitutes an elementwise stage into its readers."""

    name = "te.inline"

    stage = operand_def(eq(STAGE))

    assembly_format = "$stage attr-dict"

    def __init__(self, stage: SSAValue):
        super().__init__(operands=[stage])

    @property
    def consumed(self) -> Sequence[SSAValue]:
        """The stage."""
        return (self.stage,)


@irdl_op_definition
class InPlaceOp(Primitive):
    """Writes a stage over the operand it reads, element by element: both share a buffer."""

    name = "te.in_place"

    stage = operand_def(eq(STAGE))
    operand_number = prop_def(IntegerAttr.constr(i64))

    assembly_format = "$stage `operand` $operand_number attr-dict"

    def __init__(self, stage: SSAValue, operand_number: int = 0):
        super().__init__(operands=[stage], properties={"operand_number": _integer(operand_number)})


class _OfAxis(Primitive):
    axis = operand_def(eq(AXIS))

    def __init__(self, axis: SSAValue):
        super().__init__(operands=[axis])

    @property
    def consumed(self) -> Sequence[SSAValue]:
        """The axis."""
        return (self.axis,)


@irdl_op_definition
class VthreadOp(_OfAxis):
    """Makes virtual threads of a loop's iterations: each loop inside runs once, for all of them."""

    name = "te.vthread"
    assembly_format = "$axis attr-dict"


@irdl_op_definition
class UnrollOp(_OfAxis):
    """Replaces a loop by its iterations, one after the other."""

    name = "te.unroll"
    assembly_format = "$axis attr-dict"


@irdl_op_definition
class TensorizeOp(Primitive):
    """Replaces a stage's statement and lane loops by intrinsics that are proved to be equal.

    The loops from the axis inward become parts of the instruction (``hardware``). Several
    intrinsics run one after another on the same destination; together they equal the statement.
    """

    name = "te.tensorize"

    stage = operand_def(eq(STAGE))
    axis = operand_def(eq(AXIS))
    intrinsics = prop_def(ArrayAttr[FlatSymbolRefAttr])

    assembly_format = "$stage `at` $axis `by` $intrinsics attr-dict"

    def __init__(self, stage: SSAValue, axis: SSAValue, intrinsics: Sequence[str]):
        super().__init__(
            operands=[stage, axis],
            properties={"intrinsics": ArrayAttr(SymbolRefAttr(name) for name in intrinsics)},
        )

    def verify_(self) -> None:
        """At least one intrinsic."""
        if not self.intrinsics.data:
            raise VerifyException("tensorize needs an intrinsic")


@irdl_op_definition
class DmaOp(_StageAtAxis):
    """Replaces the loops of a stage that copies or narrows, from the axis inward, by one copy."""

    name = "te.dma"
    assembly_format = "$stage `at` $axis attr-dict"


PRIMITIVES: tuple[type[Primitive], ...] = (
    AxesOp,
    InitOp,
    SplitOp,
    TileOp,
    FuseOp,
    ReorderOp,
    CacheReadOp,
    CacheWriteOp,
    SetScopeOp,
    ComputeAtOp,
    ComputeWithOp,
    InlineOp,
    InPlaceOp,
    VthreadOp,
    UnrollOp,
    TensorizeOp,
    DmaOp,
)
"""Every primitive of a schedule."""

HANDLES: tuple[type[Attribute], ...] = (StageType, AxisType)
"""The types of handles."""
