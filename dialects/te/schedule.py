"""How a kernel is computed: a list of primitives over handles, applied in order to its loop nest.

The vocabulary is that of TVM (Chen et al., OSDI 2018), the form that of MLIR's transform dialect:
stages and axes are SSA values, and split, fuse and tile invalidate the handles they consume. The
effect of each primitive on the nest is implemented in ``passes/te/primitives``.
"""

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    FlatSymbolRefAttr,
    SymbolRefAttr,
)
from xdsl.ir import Operation, Region, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    prop_def,
    region_def,
    traits_def,
)
from xdsl.traits import IsolatedFromAbove, NoTerminator, SymbolUserOpInterface
from xdsl.utils.exceptions import VerifyException

from .attributes import AxisType, StageType
from .compute import KernelOp
from .operation import TeOperation, declared

STAGE, AXIS = StageType(), AxisType()


class Primitive(TeOperation):
    """One step of a schedule."""

    @property
    def consumed(self) -> Sequence[SSAValue]:
        """The handles that it invalidates."""
        return ()


class SchedulesKernel(SymbolUserOpInterface):
    """The schedule has a handle for each compute of its kernel."""

    def verify(self, op: Operation) -> None:
        """Compare the numbers of handles and computes, unless the kernel is in loop form."""
        assert isinstance(op, ScheduleOp)
        kernel = declared(op, KernelOp, op.kernel.root_reference.data)
        if kernel is None:
            raise VerifyException(f"there is no te.kernel {op.kernel}")
        stages = op.body.block.args
        if not kernel.is_lowered and len(kernel.computes) != len(stages):
            raise VerifyException(
                f"{op.kernel} has {len(kernel.computes)} computes, its schedule {len(stages)}"
            )


@irdl_op_definition
class ScheduleOp(TeOperation):
    """The schedule of one kernel. Its block has one stage handle for each compute, in order."""

    name = "te.schedule"

    kernel = prop_def(FlatSymbolRefAttr)
    body = region_def("single_block")

    traits = traits_def(IsolatedFromAbove(), NoTerminator(), SchedulesKernel())

    assembly_format = "$kernel attr-dict-with-keyword $body"

    def __init__(self, kernel: str, body: Region):
        super().__init__(properties={"kernel": SymbolRefAttr(kernel)}, regions=[body])

    def verify_(self) -> None:
        """There are only primitives, and none of them uses an invalid handle."""
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
