"""Primitives on a whole stage: where it is computed, where its value lives, what computes it."""

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, FlatSymbolRefAttr, IntegerAttr, SymbolRefAttr, i64
from xdsl.ir import SSAValue
from xdsl.irdl import eq, irdl_op_definition, operand_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from .attributes import Scope, ScopeAttr
from .operation import integer
from .schedule import AXIS, STAGE, Primitive


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
                "operand_number": integer(operand_number),
                "scope": ScopeAttr(scope),
                "slots": integer(slots),
            },
            result_types=[STAGE],
        )


@irdl_op_definition
class CacheWriteOp(Primitive):
    """Computes a stage in a buffer of another scope, and copies the values to their place.

    The copy may narrow the values. The result is a handle of the stage that computes; the handle
    that was there before stands for the copy.
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
            properties={"scope": ScopeAttr(scope), "slots": integer(slots)},
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
            operands=[stage], properties={"scope": ScopeAttr(scope), "slots": integer(slots)}
        )


class _StageAtAxis(Primitive):
    stage = operand_def(eq(STAGE))
    axis = operand_def(eq(AXIS))

    def __init__(self, stage: SSAValue, axis: SSAValue):
        super().__init__(operands=[stage, axis])


@irdl_op_definition
class ComputeAtOp(_StageAtAxis):
    """Computes a stage inside a loop of its reader: each iteration computes what it reads."""

    name = "te.compute_at"
    assembly_format = "$stage `,` $axis attr-dict"


@irdl_op_definition
class ComputeWithOp(_StageAtAxis):
    """Computes a result of the kernel in the tiles of another with the same axes.

    As in Halide's ``compute_with``. Each iteration computes the tile that has the other's indices.
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
    """Writes an elementwise stage over the operand that it reads: both share one buffer."""

    name = "te.in_place"

    stage = operand_def(eq(STAGE))
    operand_number = prop_def(IntegerAttr.constr(i64))

    assembly_format = "$stage `operand` $operand_number attr-dict"

    def __init__(self, stage: SSAValue, operand_number: int = 0):
        super().__init__(operands=[stage], properties={"operand_number": integer(operand_number)})


@irdl_op_definition
class TensorizeOp(Primitive):
    """Replaces a stage's statement and lane loops by intrinsics, after a proof that they are equal.

    The loops from the axis inward become parts of the instruction (``hardware``). Several
    intrinsics run one after the other on the same destination and together equal the statement.
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
        """There is at least one intrinsic."""
        if not self.intrinsics.data:
            raise VerifyException("tensorize needs an intrinsic")


@irdl_op_definition
class DmaOp(_StageAtAxis):
    """Replaces the loops of a stage, from the axis inward, by one transfer, after a proof.

    The stage copies from DRAM to a scratchpad, perhaps with a border of zeros, or from ACC to DRAM.
    It must equal one of the module's intrinsics that lower to load and store.
    """

    name = "te.dma"
    assembly_format = "$stage `at` $axis attr-dict"


@irdl_op_definition
class PadOp(Primitive):
    """Lets the DMA of a cached operand write what its reader reads outside the tensor.

    The buffer grows by that border, which the pads of the LOAD write. The reader then multiplies
    border elements like all others instead of leaving them out.
    """

    name = "te.pad"

    cache = operand_def(eq(STAGE))

    assembly_format = "$cache attr-dict"

    def __init__(self, cache: SSAValue):
        super().__init__(operands=[cache])
