"""Ops that compute nothing of ours: constants, ONNX operators for the host, composites."""

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseIntOrFPElementsAttr,
    DictionaryAttr,
    StringAttr,
    TensorType,
)
from xdsl.dialects.utils import AbstractYieldOperation
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    BaseAttr,
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_op_definition,
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
from xdsl.traits import IsolatedFromAbove, IsTerminator, Pure, SingleBlockImplicitTerminator
from xdsl.utils.exceptions import VerifyException

from vtac.dialects.graph.attributes import lies_alike
from vtac.dialects.graph.traits import ServesOthers
from vtac.dialects.vtac import ResourceAttr


@irdl_op_definition
class ConstantOp(IRDLOperation):
    """A constant tensor: inline up to 64 elements, a ``#vtac.resource`` above."""

    name = "graph.constant"
    value = prop_def(BaseAttr(ResourceAttr) | BaseAttr(DenseIntOrFPElementsAttr))
    result = result_def(TensorType)
    traits = traits_def(Pure(), ServesOthers())

    def __init__(self, value: Attribute, result_type: Attribute):
        super().__init__(properties={"value": value}, result_types=[result_type])

    @classmethod
    def parse(cls, parser: Parser) -> "ConstantOp":
        """``dense<...> : type`` or ``#vtac.resource<...> : type``, then other attributes."""
        value = parser.parse_attribute()
        if isinstance(value, DenseIntOrFPElementsAttr):
            type: Attribute = value.type
        else:
            parser.parse_punctuation(":")
            type = parser.parse_type()
        op = cls(value, type)
        op.attributes.update(parser.parse_optional_attr_dict())
        return op

    def print(self, printer: Printer) -> None:
        """The value with its type once."""
        printer.print_string(" ")
        printer.print_attribute(self.value)
        if isinstance(self.value, ResourceAttr):
            printer.print_string(" : ")
            printer.print_attribute(self.result.type)
        printer.print_op_attributes(self.attributes)

    def verify_(self) -> None:
        """An inline value has the type of the result."""
        if isinstance(self.value, DenseIntOrFPElementsAttr) and self.value.type != self.result.type:
            raise VerifyException(f"value is {self.value.type}, result is {self.result.type}")


@irdl_op_definition
class HostOp(IRDLOperation):
    """An ONNX operator that has no op of its own in this dialect; it runs on the host.

    inputs: the operands, present ones only; ``absent`` lists the positions of the optional inputs
    left empty. captured: values of the outer graph that its subgraphs read, named by
    ``captured_names``. outputs may be unnamed in ONNX: ``absent_outputs`` lists those positions.
    onnx_attributes: by name; tensors, subgraphs and types are kept as serialised protobufs.
    """

    name = "graph.host"
    inputs = var_operand_def()
    captured = var_operand_def()
    op_type = prop_def(StringAttr)
    domain = prop_def(StringAttr)
    onnx_attributes = prop_def(DictionaryAttr)
    absent = opt_prop_def(Attribute)
    absent_outputs = opt_prop_def(Attribute)
    captured_names = opt_prop_def(ArrayAttr[StringAttr])
    outputs = var_result_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True), ParsePropInAttrDict())
    assembly_format = (
        "$op_type `(` $inputs `)` (`captures` `(` $captured^ `:` type($captured) `)`)?"
        " attr-dict `:` functional-type($inputs, $outputs)"
    )

    def __init__(
        self,
        op_type: str,
        inputs: Sequence[SSAValue],
        output_types: Sequence[Attribute],
        *,
        domain: str = "",
        onnx_attributes: Mapping[str, Attribute] | None = None,
        captured: Sequence[SSAValue] = (),
        captured_names: Sequence[str] = (),
        **more: Attribute,
    ):
        properties: dict[str, Attribute] = {
            "op_type": StringAttr(op_type),
            "domain": StringAttr(domain),
            "onnx_attributes": DictionaryAttr(dict(onnx_attributes or {})),
            **more,
        }
        if captured_names:
            properties["captured_names"] = ArrayAttr(map(StringAttr, captured_names))
        super().__init__(
            operands=[list(inputs), list(captured)],
            result_types=[list(output_types)],
            properties=properties,
        )

    def verify_(self) -> None:
        """Each captured value has a name."""
        names = self.captured_names.data if self.captured_names else ()
        if len(names) != len(self.captured):
            raise VerifyException("each captured value needs a name in captured_names")


@irdl_op_definition
class YieldOp(AbstractYieldOperation[Attribute]):
    """Ends the body of a composite."""

    name = "graph.yield"
    traits = traits_def(IsTerminator())


@irdl_op_definition
class CompositeOp(IRDLOperation):
    """A matched pattern: its name, and the ops it matched as a body (BYOC, section 3.1).

    codegen, region: set by ``annotate`` and ``merge-regions``; without them the composite stays on
    the host.
    """

    name = "graph.composite"
    inputs = var_operand_def()
    pattern = prop_def(StringAttr)
    codegen = opt_prop_def(StringAttr)
    body = region_def("single_block")
    outputs = var_result_def()
    traits = traits_def(IsolatedFromAbove(), SingleBlockImplicitTerminator(YieldOp), Pure())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = (
        "$pattern `(` $inputs `)` attr-dict `:` functional-type(operands, results) $body"
    )

    def __init__(
        self,
        pattern: str,
        inputs: Sequence[SSAValue],
        output_types: Sequence[Attribute],
        body: Region | Block,
        codegen: str | None = None,
    ):
        super().__init__(
            operands=[list(inputs)],
            result_types=[list(output_types)],
            properties={
                "pattern": StringAttr(pattern),
                "codegen": StringAttr(codegen) if codegen else None,
            },
            regions=[body if isinstance(body, Region) else Region(body)],
        )

    def verify_(self) -> None:
        """The body takes the inputs and yields the outputs."""
        block = self.body.block
        pairs = list(zip(block.args, self.inputs, strict=False))
        if len(block.args) != len(self.inputs) or not all(
            lies_alike(value.type, argument.type) for argument, value in pairs
        ):
            raise VerifyException("the body's arguments must have the types of the inputs")
        last = block.last_op
        if not isinstance(last, YieldOp) or [v.type for v in last.arguments] != [
            v.type for v in self.outputs
        ]:
            raise VerifyException("the body must yield values of the types of the outputs")
