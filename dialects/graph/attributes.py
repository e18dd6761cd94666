"""Attributes and types of the graph dialect: ranges, packed layouts, opaque ONNX values."""

import base64
from collections.abc import Sequence

from xdsl.dialects.builtin import FloatAttr, IntAttr, StringAttr, TensorType, f64
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from vtac.dialects.vtac import ResourceAttr

RANGES_ATTRIBUTE = "graph.ranges"
"""Name of the attribute that carries one ``#graph.range`` (or unit) per result of an op."""

PROTOBUF_KINDS = ("TensorProto", "SparseTensorProto", "GraphProto", "TypeProto")
"""The ONNX messages that attributes of nodes may hold."""


@irdl_attr_definition
class RangeAttr(ParametrizedAttribute):
    """``#graph.range<-1.5, 6.0>``: the interval of real values that calibration saw."""

    name = "graph.range"

    lo: FloatAttr
    hi: FloatAttr

    def __init__(self, lo: float | FloatAttr, hi: float | FloatAttr):
        super().__init__(
            lo if isinstance(lo, FloatAttr) else FloatAttr(lo, f64),
            hi if isinstance(hi, FloatAttr) else FloatAttr(hi, f64),
        )

    @property
    def bounds(self) -> tuple[float, float]:
        """Lower and upper end."""
        return self.lo.value.data, self.hi.value.data

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        """Parse ``<lo, hi>``."""
        with parser.in_angle_brackets():
            lo = parser.parse_number()
            parser.parse_punctuation(",")
            return FloatAttr(float(lo), f64), FloatAttr(float(parser.parse_number()), f64)

    def print_parameters(self, printer: Printer) -> None:
        """Print ``<lo, hi>``."""
        with printer.in_angle_brackets():
            printer.print_float(self.lo.value.data, f64)
            printer.print_string(", ")
            printer.print_float(self.hi.value.data, f64)

    def verify(self) -> None:
        """The interval is finite and not empty."""
        lo, hi = self.bounds
        if not float("-inf") < lo <= hi < float("inf"):
            raise VerifyException(f"range must be finite with lo <= hi, not [{lo}, {hi}]")


ACTIVATIONS, WEIGHTS = "activations", "weights"
"""What a packed tensor is for."""


@irdl_attr_definition
class PackedAttr(ParametrizedAttribute):
    """``#graph.packed<1, 16>``: an int8 activation as the accelerator keeps it in DRAM.

    It is the encoding of a tensor type whose shape stays the logical one. A tensor [N, C, H, W]
    lies as [N/BATCH][C/BLOCK][H][W][BATCH][BLOCK], one [N, C] as [N/BATCH][C/BLOCK][BATCH][BLOCK],
    both counts rounded up; spare lanes may hold anything.

    ``#graph.packed<16, 16, weights>``: BLOCK rows per element, and zeros in spare lanes, as the
    machine reads weights.
    """

    name = "graph.packed"

    batch: IntAttr
    block: IntAttr
    role: StringAttr

    def __init__(
        self, batch: int | IntAttr, block: int | IntAttr, role: str | StringAttr = ACTIVATIONS
    ):
        super().__init__(
            batch if isinstance(batch, IntAttr) else IntAttr(batch),
            block if isinstance(block, IntAttr) else IntAttr(block),
            role if isinstance(role, StringAttr) else StringAttr(role),
        )

    @staticmethod
    def weights(block: int) -> "PackedAttr":
        """The layout of activations that are read as weights."""
        return PackedAttr(block, block, WEIGHTS)

    @property
    def holds_weights(self) -> bool:
        """Whether the GEMM core may read it as weights."""
        return self.role.data == WEIGHTS

    def physical_shape(self, logical: Sequence[int]) -> tuple[int, ...]:
        """The shape in DRAM of a tensor of the given logical shape, rank 2 or more."""
        batch, block = self.batch.data, self.block.data
        outer = -(-logical[0] // batch), -(-logical[1] // block)
        return (*outer, *logical[2:], batch, block)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        """Parse ``<batch, block>`` or ``<block, block, weights>``."""
        with parser.in_angle_brackets():
            batch = parser.parse_integer(allow_boolean=False, allow_negative=False)
            parser.parse_punctuation(",")
            block = parser.parse_integer(allow_boolean=False, allow_negative=False)
            role = ACTIVATIONS
            if parser.parse_optional_punctuation(",") is not None:
                parser.parse_keyword(WEIGHTS)
                role = WEIGHTS
        return IntAttr(batch), IntAttr(block), StringAttr(role)

    def print_parameters(self, printer: Printer) -> None:
        """Print ``<batch, block>``, and ``weights`` if that is what they are."""
        role = f", {WEIGHTS}" if self.holds_weights else ""
        with printer.in_angle_brackets():
            printer.print_string(f"{self.batch.data}, {self.block.data}{role}")

    def verify(self) -> None:
        """Both counts are positive, and equal for weights."""
        if self.batch.data < 1 or self.block.data < 1:
            raise VerifyException("batch and block of a packed layout must be positive")
        if self.holds_weights and self.batch != self.block:
            raise VerifyException("an element of weights has as many rows as lanes")


def lies_alike(value: Attribute, read: Attribute) -> bool:
    """Whether a packed matrix of one type can be read as another: the same, or as weights.

    A matrix of one block of channels lies as weights do if an element has one of its rows, and its
    rows fill blocks.
    """
    if value == read:
        return True
    before, after = packing(value), packing(read)
    if before is None or after is None or not after.holds_weights or before.holds_weights:
        return False
    assert isinstance(value, TensorType) and isinstance(read, TensorType)
    rows, channels, *more = value.get_shape()
    return (
        value.get_shape() == read.get_shape()
        and value.element_type == read.element_type
        and not more
        and before.batch.data == 1
        and before.block == after.block
        and channels == before.block.data
        and rows % channels == 0
    )


@irdl_attr_definition
class OpaqueType(ParametrizedAttribute, TypeAttribute):
    """``!graph.opaque<"seq(tensor(float))">``: a value that is no tensor, by its ONNX type."""

    name = "graph.opaque"

    onnx_type: StringAttr

    def __init__(self, onnx_type: str | StringAttr):
        super().__init__(StringAttr(onnx_type) if isinstance(onnx_type, str) else onnx_type)


@irdl_attr_definition
class ProtobufAttr(ParametrizedAttribute):
    """``#graph.protobuf<"GraphProto", "CgR...">``: an ONNX message, in base64 or as a resource.

    It holds what has no readable form in the IR: subgraphs, types, tensors of other element types.
    """

    name = "graph.protobuf"

    kind: StringAttr
    payload: Attribute

    def __init__(self, kind: str | StringAttr, payload: str | Attribute):
        super().__init__(
            StringAttr(kind) if isinstance(kind, str) else kind,
            StringAttr(payload) if isinstance(payload, str) else payload,
        )

    def verify(self) -> None:
        """A known kind of message; the bytes inline or as a resource."""
        if self.kind.data not in PROTOBUF_KINDS:
            raise VerifyException(
                f"'{self.kind.data}' is none of the ONNX messages {', '.join(PROTOBUF_KINDS)}"
            )
        if isinstance(self.payload, ResourceAttr):
            return
        try:
            if not isinstance(self.payload, StringAttr):
                raise ValueError
            base64.b64decode(self.payload.data, validate=True)
        except ValueError as error:
            raise VerifyException("the bytes of a protobuf are base64 or a resource") from error


def packing(type: Attribute) -> PackedAttr | None:
    """The packed layout of a tensor type, if it has one."""
    if isinstance(type, TensorType) and isinstance(type.encoding, PackedAttr):
        return type.encoding
    return None
