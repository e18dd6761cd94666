"""Scalar bodies: the block of arith operations that a compute, an update or an intrinsic runs.

A body is one block. Its arguments are the accumulator, if there is one, and then one scalar for
each operand. It ends in ``te.yield`` of the element's new value.
"""

from collections.abc import Callable, Sequence

from xdsl.builder import ImplicitBuilder
from xdsl.dialects import arith
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import irdl_op_definition, traits_def, var_operand_def
from xdsl.traits import IsTerminator, Pure
from xdsl.utils.exceptions import VerifyException

from .operation import TeOperation

SCALAR_OPERATIONS: tuple[type[Operation], ...] = (
    arith.ConstantOp,
    arith.ExtSIOp,
    arith.TruncIOp,
    arith.AddiOp,
    arith.SubiOp,
    arith.MuliOp,
    arith.MaxSIOp,
    arith.MinSIOp,
    arith.ShRSIOp,
    arith.ShLIOp,
)
"""The operations that a body may contain. They wrap around at the width of their type, as the
accelerator does."""

COMBINERS: tuple[type[Operation], ...] = (arith.AddiOp, arith.MaxSIOp, arith.MinSIOp)
"""Operations that may combine a reduction; being associative and commutative, they allow any order
of loops."""


@irdl_op_definition
class YieldOp(TeOperation):
    """Ends a body with the element's value, and a kernel with its results."""

    name = "te.yield"

    values = var_operand_def()

    traits = traits_def(IsTerminator(), Pure())

    assembly_format = "attr-dict ($values^ `:` type($values))?"

    def __init__(self, *values: SSAValue):
        super().__init__(operands=[values])


def scalar_body(types: Sequence[Attribute], build: Callable[..., SSAValue]) -> Region:
    """The body that ``build`` creates; it gets the block's arguments and returns the result.

    Operations are inserted as they are created:
    ``scalar_body([i32, i32], lambda a, b: arith.AddiOp(a, b).result)``.
    """
    block = Block(arg_types=types)
    with ImplicitBuilder(block):
        YieldOp(build(*block.args))
    return Region(block)


def yielded(body: Region) -> SSAValue:
    """The value a body yields."""
    last = body.block.last_op
    if not isinstance(last, YieldOp) or len(last.operands) != 1:
        raise VerifyException("a body ends in te.yield of one value")
    return last.operands[0]


def verify_body(body: Region, arguments: Sequence[Attribute], result: Attribute) -> None:
    """Refuse a body with other arguments, another result type, or operations that are no scalar."""
    if len(body.blocks) != 1:
        raise VerifyException("a body is one block")
    if tuple(body.block.arg_types) != tuple(arguments):
        expected = ", ".join(map(str, arguments))
        found = ", ".join(map(str, body.block.arg_types))
        raise VerifyException(f"the body must take ({expected}), not ({found})")
    value = yielded(body)
    if value.type != result:
        raise VerifyException(f"the body yields {value.type}, but the element is {result}")
    for op in body.block.ops:
        if not isinstance(op, YieldOp) and type(op) not in SCALAR_OPERATIONS:
            raise VerifyException(f"{op.name} is not allowed in a scalar body")


def combiner(body: Region) -> type[Operation]:
    """The operation with which a reduction's body combines its accumulator and another value.

    Raises `VerifyException` unless the body yields ``accumulator (+, max or min) value``, and the
    value does not depend on the accumulator.
    """
    accumulator, owner = body.block.args[0], yielded(body).owner
    uses = list(accumulator.uses)
    if type(owner) not in COMBINERS or len(uses) != 1 or uses[0].operation is not owner:
        raise VerifyException(
            "a reduction yields addi, maxsi or minsi of its accumulator, and uses that only there"
        )
    return type(owner)
