"""Products of matrices neither of which is constant."""

from typing import Any, cast

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    IntegerAttr,
    IntegerType,
    TensorType,
    i8,
    i32,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue, Use
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from vtac.dialects.graph.attributes import packing
from vtac.dialects.graph.network import shape_of, verify_shape
from vtac.dialects.graph.structure import CompositeOp


@irdl_op_definition
class BatchMatMulOp(IRDLOperation):
    """``a`` times the transpose of ``b``, batch entry by batch entry; int8 gives int32.

    The entries lie one below the other: a [batch * M, K], b [batch * R, K], the result
    [batch * M, N]. Of the R rows of an entry of b the first N count: the others fill blocks. (As
    ``nn.batch_matmul`` of TVM, with batches as rows, so that a dense layer may come before it.)

    On the accelerator b lies as weights do: ``#graph.packed<BLOCK, BLOCK, weights>``.
    """

    name = "graph.batch_matmul"

    a = operand_def(TensorType)
    b = operand_def(TensorType)
    batch = prop_def(IntegerAttr[IntegerType])
    result = result_def(TensorType)
    traits = traits_def(Pure())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$a `,` $b attr-dict `:` functional-type(operands, results)"

    def __init__(self, a: SSAValue, b: SSAValue, batch: int, result_type: Attribute):
        super().__init__(
            operands=[a, b],
            result_types=[result_type],
            properties={"batch": IntegerAttr(batch, i64)},
        )

    @property
    def entries(self) -> int:
        """How many matrices each operand holds."""
        return self.batch.value.data

    def verify_(self) -> None:
        """Static matrices whose rows divide into the entries, and whose columns agree."""
        a, b, result = (shape_of(value) or () for value in (self.a, self.b, self.result))
        if not len(a) == len(b) == 2 or DYNAMIC_INDEX in (*a, *b):
            raise VerifyException("batch_matmul multiplies matrices of known shapes")
        if self.entries < 1 or a[0] % self.entries or b[0] % self.entries:
            raise VerifyException(
                f"{a[0]} and {b[0]} rows do not divide into {self.entries} entries"
            )
        if a[1] != b[1]:
            raise VerifyException(f"inner extents differ: {a[1]} and {b[1]}")
        verify_shape(self.result, [a[0], DYNAMIC_INDEX])
        if result[1] > b[0] // self.entries:
            raise VerifyException(
                f"{result[1]} columns need as many rows in each entry of b,"
                f" not {b[0] // self.entries}"
            )
        types = [cast(TensorType[Any], v.type) for v in (self.a, self.b, self.result)]
        elements = [type.get_element_type() for type in types]
        floats = isinstance(elements[0], AnyFloat) and len(set(elements)) == 1
        if not floats and elements != [i8, i8, i32]:
            raise VerifyException("batch_matmul takes int8 to int32, or floats of one type")
        layout = packing(self.b.type)
        if layout is not None and not layout.holds_weights:
            raise VerifyException("b is packed as weights are: <BLOCK, BLOCK, weights>")


def reads_weights(use: Use) -> bool:
    """Whether an operand is read as weights: by a batched product, or inside a composite by one."""
    op = use.operation
    if isinstance(op, CompositeOp):
        return any(reads_weights(inner) for inner in op.body.block.args[use.index].uses)
    return isinstance(op, BatchMatMulOp) and use.index == 1


def weights_of(op: Operation) -> list[SSAValue]:
    """The operands of an op that it reads as weights."""
    return [value for i, value in enumerate(op.operands) if reads_weights(Use(op, i))]
