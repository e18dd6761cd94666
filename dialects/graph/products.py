"""Products of matrices: dense layers, and products neither of whose factors is constant."""

from typing import Any, cast

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    BoolAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    TensorType,
    f64,
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
    opt_operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from vtac.dialects.graph.attributes import packing
from vtac.dialects.graph.network import BinaryOp, broadcast, known_extents, shape_of, verify_shape
from vtac.dialects.graph.structure import CompositeOp
from vtac.dialects.graph.traits import Contracts, Linear, WeightedOp


@irdl_op_definition
class GemmOp(WeightedOp):
    """``alpha * A B + beta * C`` with A and B perhaps transposed (ONNX Gemm); int8 gives int32."""

    name = "graph.gemm"
    a = operand_def(TensorType)
    b = operand_def(TensorType)
    c = opt_operand_def(TensorType)
    alpha = prop_def(FloatAttr[AnyFloat])
    beta = prop_def(FloatAttr[AnyFloat])
    trans_a = prop_def(BoolAttr)
    trans_b = prop_def(BoolAttr)
    result = result_def(TensorType)
    traits = traits_def(Pure(), Contracts(), Linear())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$a `,` $b (`bias` $c^)? attr-dict `:` functional-type(operands, results)"

    def __init__(
        self,
        a: SSAValue,
        b: SSAValue,
        c: SSAValue | None,
        result_type: Attribute,
        *,
        alpha: float = 1.0,
        beta: float = 1.0,
        trans_a: bool = False,
        trans_b: bool = False,
    ):
        super().__init__(
            operands=[a, b, c],
            result_types=[result_type],
            properties={
                "alpha": FloatAttr(alpha, f64),
                "beta": FloatAttr(beta, f64),
                "trans_a": BoolAttr.from_bool(trans_a),
                "trans_b": BoolAttr.from_bool(trans_b),
            },
        )

    @property
    def data(self) -> SSAValue:
        """The first factor."""
        return self.a

    @property
    def weights(self) -> SSAValue:
        """The second factor."""
        return self.b

    @property
    def addend(self) -> SSAValue | None:
        """C."""
        return self.c

    @property
    def groups(self) -> int:
        """The number of groups, which is 1: every output reads all channels."""
        return 1

    def products(self) -> int:
        """The inner extent."""
        return known_extents(self.a)[0 if self.trans_a.value.data else -1]

    def verify_(self) -> None:
        """The operands are matrices whose inner extents agree."""
        a, b = list(shape_of(self.a) or ()), list(shape_of(self.b) or ())
        if len(a) != 2 or len(b) != 2:
            raise VerifyException("gemm multiplies matrices: both operands must have rank 2")
        if self.trans_a.value.data:
            a.reverse()
        if self.trans_b.value.data:
            b.reverse()
        if DYNAMIC_INDEX not in (a[1], b[0]) and a[1] != b[0]:
            raise VerifyException(f"inner extents differ: {a[1]} and {b[0]}")
        verify_shape(self.result, [a[0], b[1]])


@irdl_op_definition
class MatMulOp(BinaryOp):
    """Matrix product over the last two dimensions, the others broadcast (ONNX MatMul)."""

    name = "graph.matmul"
    traits = traits_def(Contracts(), Linear())

    def products(self) -> int:
        """The inner extent."""
        return known_extents(self.a)[-1]

    def verify_(self) -> None:
        """As in NumPy: a vector is a row on the left, a column on the right."""
        a, b = list(shape_of(self.a) or ()), list(shape_of(self.b) or ())
        if not a or not b:
            raise VerifyException("matmul multiplies vectors and matrices, not scalars")
        inner = a[-1], b[max(len(b) - 2, 0)]
        if DYNAMIC_INDEX not in inner and inner[0] != inner[1]:
            raise VerifyException(f"inner extents differ: {inner[0]} and {inner[1]}")
        outer = broadcast(a[:-2], b[:-2])
        verify_shape(self.result, [*outer, *a[-2:-1], *(b[-1:] if len(b) > 1 else [])])


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
    traits = traits_def(Pure(), Contracts(), Linear())
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

    def products(self) -> int:
        """The inner extent."""
        return known_extents(self.a)[-1]

    def verify_(self) -> None:
        """Check that shapes are static, that the entries of each operand have equally many rows,
        and that the inner extents and the element types agree."""
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


def lies_as_weights(value: SSAValue, batch: int, block: int) -> bool:
    """Whether int8 [rows, channels] in the layout of activations is in that of weights as well.

    It is where an element has one row, one block holds all channels, and rows fill blocks.
    """
    shape = shape_of(value) or ()
    return batch == 1 and len(shape) == 2 and shape[1] == block and shape[0] % block == 0


def weights_of(op: Operation) -> list[SSAValue]:
    """The operands of an op that it reads as weights."""
    return [value for i, value in enumerate(op.operands) if reads_weights(Use(op, i))]
