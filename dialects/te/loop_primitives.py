"""Primitives on the loops of a stage: handles, tiles, order, copies of a body."""

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, IntegerAttr, StringAttr, i64
from xdsl.ir import SSAValue
from xdsl.irdl import (
    eq,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from .operation import integer, integer_array, string
from .schedule import AXIS, STAGE, Primitive


@irdl_op_definition
class AxesOp(Primitive):
    """Handles on the loops of a stage that no primitive has changed: spatial, then reduction axes.

    The names must be those of the stage's axes.
    """

    name = "te.axes"

    stage = operand_def(eq(STAGE))
    names = prop_def(ArrayAttr[StringAttr])
    axes = var_result_def(eq(AXIS))

    def __init__(self, stage: SSAValue, names: Sequence[str]):
        super().__init__(
            operands=[stage],
            properties={"names": ArrayAttr(map(string, names))},
            result_types=[AXIS] * len(names),
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
        """There is one handle for each name."""
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
    """Cuts an axis into tiles of ``factor`` (the last may be shorter), or of the given sizes."""

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
                "factor": None if factor is None else integer(factor),
                "sizes": None if sizes is None else integer_array(sizes),
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
    """Splits two axes by their factors and moves both outer loops outside (loop tiling)."""

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
            properties={"factors": integer_array(factors)},
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
    """Fuses two neighbouring loops into one over the pairs of their tiles, in row-major order.

    Either both are spatial or both are reductions. Their ranges are known and their tiles even; a
    loop that runs once may have any range.
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
    """Permutes loops of one stage: they fill the places they have now in the order given."""

    name = "te.reorder"

    axes = var_operand_def(eq(AXIS))

    assembly_format = "$axes attr-dict"

    def __init__(self, *axes: SSAValue):
        super().__init__(operands=[axes])

    def verify_(self) -> None:
        """No axis occurs twice."""
        if len(set(self.axes)) != len(self.axes):
            raise VerifyException("an axis stands twice in the new order")


@irdl_op_definition
class JoinOp(Primitive):
    """Fuses neighbouring loops of several stages over the same range into one loop around them.

    An iteration of the new loop runs the stages' bodies one after the other. A value that one stage
    computes for another must not cross iterations. The stages keep their inner loops.
    """

    name = "te.join"

    axes = var_operand_def(eq(AXIS))

    assembly_format = "$axes attr-dict"

    def __init__(self, *axes: SSAValue):
        super().__init__(operands=[axes])

    @property
    def consumed(self) -> Sequence[SSAValue]:
        """All axes."""
        return tuple(self.axes)

    def verify_(self) -> None:
        """There are at least two axes, none of them twice."""
        if len(self.axes) < 2 or len(set(self.axes)) != len(self.axes):
            raise VerifyException("join takes two or more different axes")


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
    """Makes virtual threads of a loop's iterations: each inner loop runs once for all of them."""

    name = "te.vthread"
    assembly_format = "$axis attr-dict"


@irdl_op_definition
class UnrollOp(_OfAxis):
    """Replaces a loop by its iterations, one after the other."""

    name = "te.unroll"
    assembly_format = "$axis attr-dict"
