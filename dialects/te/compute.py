"""What is computed: kernels of tensor expressions, the constants and calls around them.

`te.compute` is to te what ``linalg.generic`` is to MLIR, with named axes and explicit extents (the
tensor expressions of Halide and TVM). It says nothing about order or place; schedules do.
"""

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import (
    AffineMapAttr,
    ArrayAttr,
    DenseArrayBase,
    FlatSymbolRefAttr,
    FunctionType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    StringAttr,
    SymbolNameConstraint,
    SymbolRefAttr,
    TensorType,
    i32,
    i64,
)
from xdsl.dialects.utils import parse_func_op_like, print_func_op_like
from xdsl.ir import Attribute, Operation, Region, SSAValue, TypedAttribute
from xdsl.irdl import (
    AttrSizedOperandSegments,
    irdl_op_definition,
    opt_operand_def,
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
from xdsl.traits import (
    IsolatedFromAbove,
    Pure,
    SymbolOpInterface,
    SymbolUserOpInterface,
)
from xdsl.utils.exceptions import VerifyException

from .affine import map_of, rows_of
from .attributes import SUPPORTED_ELEMENTS, DomainAttr, Outside, outside_value, shaped
from .body import YieldOp, combiner, verify_body
from .operation import TeOperation, declared
from .packing import packing_of
from .reads import Read, outside_attr, parse_read, print_read


@irdl_op_definition
class ConstantOp(TeOperation):
    """A constant tensor: a dense attribute, or a resource with its numbers outside the text."""

    name = "te.constant"

    value = prop_def(Attribute)
    result = result_def(TensorType)

    traits = traits_def(Pure())

    def __init__(self, value: Attribute, type: Attribute):
        super().__init__(properties={"value": value}, result_types=[type])

    @classmethod
    def parse(cls, parser: Parser) -> "ConstantOp":
        """Parse the attribute, and the type unless the attribute has it."""
        value = parser.parse_attribute()
        if isinstance(value, TypedAttribute):
            return cls(value, value.get_type())
        parser.parse_punctuation(":")
        return cls(value, parser.parse_type())

    def print(self, printer: Printer) -> None:
        """Print the attribute, and the type unless the attribute has it."""
        printer.print_string(" ")
        printer.print_attribute(self.value)
        if not isinstance(self.value, TypedAttribute):
            printer.print_string(" : ")
            printer.print_attribute(self.result.type)

    def verify_(self) -> None:
        """If the attribute has a type, it is that of the result."""
        if isinstance(self.value, TypedAttribute) and self.value.get_type() != self.result.type:
            raise VerifyException(f"constant of {self.value.get_type()} yields {self.result.type}")


class CallsKernel(SymbolUserOpInterface):
    """The callee is a kernel, of tensors with this signature or lowered to buffers."""

    def verify(self, op: Operation) -> None:
        """Check operand and result types against the kernel."""
        assert isinstance(op, CallOp)
        kernel = declared(op, KernelOp, op.callee.root_reference.data)
        if kernel is None:
            raise VerifyException(f"there is no te.kernel {op.callee}")
        given = [*op.arguments.types, *op.outputs.types]
        wanted = [*kernel.function_type.inputs, *kernel.function_type.outputs]
        if list(map(_tensor_of, given)) != list(map(_tensor_of, wanted)):
            raise VerifyException(f"the call of {op.callee} does not fit {kernel.function_type}")


def _tensor_of(type: Attribute) -> Attribute:
    """The type that a call passes for a parameter of this type; packed ones are one-dimensional."""
    if not isinstance(type, MemRefType):
        return type
    layout = packing_of(type)
    shape = type.shape if layout is None else [layout.size(type.get_shape())]
    return TensorType(type.element_type, shape)


@irdl_op_definition
class CallOp(TeOperation):
    """Runs a kernel; its location is the layer it comes from. Equal layers share a kernel.

    Once the kernel is lowered to buffers, its last parameters are the results.

    core: number of the core of a cluster that runs it; absent for core 0. parts: into how many
    parts ``te-cut-calls`` is to cut each dimension of the results, part by part on cores of their
    own: ``te.call @k(%x) parts [1, 1, 4, 1, 1, 1] : ..``.
    """

    name = "te.call"

    callee = prop_def(FlatSymbolRefAttr)
    core = opt_prop_def(IntegerAttr.constr(i64))
    parts = opt_prop_def(DenseArrayBase.constr(i64))
    arguments = var_operand_def(TensorType)
    outputs = var_result_def(TensorType)

    traits = traits_def(CallsKernel(), Pure())

    assembly_format = (
        "$callee `(` $arguments `)` (`core` $core^)? (`parts` $parts^)? attr-dict `:`"
        " functional-type($arguments, $outputs)"
    )

    def __init__(
        self,
        callee: str,
        arguments: Sequence[SSAValue],
        result_types: Sequence[Attribute],
        core: int = 0,
        parts: Sequence[int] | None = None,
    ):
        super().__init__(
            operands=[arguments],
            properties={
                "callee": SymbolRefAttr(callee),
                "core": IntegerAttr(core, i64) if core else None,
                "parts": None if parts is None else DenseArrayBase.from_list(i64, parts),
            },
            result_types=result_types,
        )

    @property
    def unit(self) -> int:
        """The number of the core that runs it."""
        return 0 if self.core is None else int(self.core.value.data)

    def set_core(self, core: int) -> None:
        """Let a core run it."""
        self.properties.pop("core", None)
        if core:
            self.properties["core"] = IntegerAttr(core, i64)

    def verify_(self) -> None:
        """Cores are counted from 0; a dimension has at least one part."""
        if self.unit < 0:
            raise VerifyException(f"there is no core {self.unit}")
        counts = () if self.parts is None else self.parts.get_values()
        if any(count < 1 for count in counts):
            raise VerifyException("a dimension has at least one part")


@irdl_op_definition
class KernelOp(TeOperation):
    """A fused group of computes over tensors; later a loop nest over buffers.

    In the first form it takes and returns tensors. In the second (`is_lowered`) every parameter is
    a memref, inputs then outputs, and nothing is returned.
    """

    name = "te.kernel"

    sym_name = prop_def(SymbolNameConstraint())
    function_type = prop_def(FunctionType)
    body = region_def("single_block")

    traits = traits_def(IsolatedFromAbove(), SymbolOpInterface())

    def __init__(self, sym_name: str, function_type: FunctionType, body: Region):
        super().__init__(
            properties={"sym_name": StringAttr(sym_name), "function_type": function_type},
            regions=[body],
        )

    @property
    def is_lowered(self) -> bool:
        """Whether this is the form with loops and buffers."""
        return not self.function_type.outputs.data

    @property
    def computes(self) -> list["ComputeOp"]:
        """The computes, in order: the stages that a schedule's arguments stand for."""
        return [op for op in self.body.block.ops if isinstance(op, ComputeOp)]

    @classmethod
    def parse(cls, parser: Parser) -> "KernelOp":
        """Parse like a function."""
        name, inputs, outputs, region, extra, arg_attrs, res_attrs = parse_func_op_like(
            parser, reserved_attr_names=("sym_name", "function_type")
        )
        if arg_attrs is not None or res_attrs is not None:
            parser.raise_error("parameters and results of a te.kernel have no attributes")
        kernel = cls(name, FunctionType.from_lists(inputs, outputs), region)
        if extra is not None:
            kernel.attributes |= extra.data
        return kernel

    def print(self, printer: Printer) -> None:
        """Print like a function."""
        print_func_op_like(
            printer,
            self.sym_name,
            self.function_type,
            self.body,
            self.attributes,
            reserved_attr_names=("sym_name", "function_type"),
            print_empty_outputs=False,
        )

    def verify_(self) -> None:
        """Parameters, results and the names of the computes."""
        if tuple(self.body.block.arg_types) != self.function_type.inputs.data:
            raise VerifyException("the kernel's block must take the kernel's parameters")
        last = self.body.block.last_op
        if not isinstance(last, YieldOp):
            raise VerifyException("a kernel ends in te.yield")
        if tuple(last.values.types) != self.function_type.outputs.data:
            raise VerifyException("te.yield must return the kernel's results")
        kind = MemRefType if self.is_lowered else TensorType
        for type in self.function_type.inputs:
            if not isinstance(type, kind):
                raise VerifyException(f"parameter {type} of a kernel that works on {kind.name}s")
            if isinstance(type, MemRefType) and (layout := packing_of(type)) is not None:
                layout.boxes(type.get_shape())
        labels = [compute.label.data for compute in self.computes]
        if twice := {label for label in labels if labels.count(label) > 1}:
            raise VerifyException(f"two computes are called {', '.join(sorted(twice))}")


@irdl_op_definition
class ComputeOp(TeOperation):
    """A tensor as an expression of others.

    spatial, reduce: the iteration domain. The result has one dimension for each spatial axis.
    inputs, maps, outside: one read for each operand; maps are over (spatial..., reduce...).
    identity, init: if there are reduction axes, what the accumulator starts from: one constant for
        all elements, or a tensor of the result's shape.
    body: one block; see ``body.py``.
    """

    name = "te.compute"

    label = prop_def(StringAttr)
    spatial = prop_def(DomainAttr)
    reduce = prop_def(DomainAttr)
    maps = prop_def(ArrayAttr[AffineMapAttr])
    outside = prop_def(ArrayAttr[Outside])
    identity = opt_prop_def(IntegerAttr.constr(i32))
    inputs = var_operand_def(TensorType)
    init = opt_operand_def(TensorType)
    body = region_def("single_block")
    result = result_def(TensorType)

    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    traits = traits_def(Pure())

    def __init__(
        self,
        label: str,
        spatial: DomainAttr | Mapping[str, int],
        reduce: DomainAttr | Mapping[str, int],
        reads: Sequence[Read],
        body: Region,
        element_type: Attribute,
        *,
        identity: int | None = None,
        init: SSAValue | None = None,
    ):
        spatial = spatial if isinstance(spatial, DomainAttr) else DomainAttr(spatial)
        reduce = reduce if isinstance(reduce, DomainAttr) else DomainAttr(reduce)
        variables = len(spatial) + len(reduce)
        super().__init__(
            operands=[[read.value for read in reads], init],
            properties={
                "label": StringAttr(label),
                "spatial": spatial,
                "reduce": reduce,
                "maps": ArrayAttr(map_of(read.rows, variables) for read in reads),
                "outside": outside_attr(reads),
                "identity": None if identity is None else IntegerAttr(identity, i32),
            },
            regions=[body],
            result_types=[TensorType(element_type, spatial.extents)],
        )

    @property
    def reads(self) -> list[Read]:
        """The operands with their subscripts, ``init`` not among them."""
        return [
            Read(value, rows_of(map), outside_value(outside))
            for value, map, outside in zip(
                self.segments[0], self.maps.data, self.outside.data, strict=True
            )
        ]

    @property
    def extents(self) -> tuple[int, ...]:
        """Extents of all axes: spatial, then reduction."""
        return self.spatial.extents + self.reduce.extents

    @property
    def element_type(self) -> IntegerType:
        """Element type of the result."""
        element = shaped(self.result).element_type
        assert isinstance(element, IntegerType)
        return element

    @classmethod
    def parse(cls, parser: Parser) -> "ComputeOp":
        """Parse ``"name" (h = 8) reduce (k = 3) ins (%x[h + k] : t) identity 0 {...} -> t``."""
        label = parser.parse_str_literal()
        with parser.in_parens():
            spatial = DomainAttr(DomainAttr.parse_axes(parser))
        reduce = DomainAttr(())
        if parser.parse_optional_keyword("reduce"):
            with parser.in_parens():
                reduce = DomainAttr(DomainAttr.parse_axes(parser))
        parser.parse_keyword("ins")
        names = spatial.names + reduce.names
        reads = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, lambda: parse_read(parser, names)
        )
        identity, init = None, None
        if parser.parse_optional_keyword("identity"):
            identity = parser.parse_integer(allow_boolean=False)
        elif parser.parse_optional_keyword("init"):
            operand = parser.parse_unresolved_operand()
            parser.parse_punctuation(":")
            init = parser.resolve_operand(operand, parser.parse_type())
        body = parser.parse_region()
        parser.parse_punctuation("->")
        position = parser.pos
        type = parser.parse_type()
        if not isinstance(type, TensorType):
            parser.raise_error("a compute returns a tensor", position, parser.pos)
        attributes = parser.parse_optional_attr_dict()
        compute = cls(
            label, spatial, reduce, reads, body, type.element_type, identity=identity, init=init
        )
        if compute.result.type != type:
            parser.raise_error(
                f"the axes make {compute.result.type}, not {type}", position, parser.pos
            )
        compute.attributes |= attributes
        return compute

    def print(self, printer: Printer) -> None:
        """Print what `parse` reads."""
        printer.print_string(" ")
        printer.print_string_literal(self.label.data)
        for keyword, domain in (("", self.spatial), ("reduce ", self.reduce)):
            if domain is self.spatial or len(domain):
                printer.print_string(f" {keyword}(")
                domain.print_axes(printer)
                printer.print_string(")")
        names = self.spatial.names + self.reduce.names
        printer.print_string("\n    ins (")
        printer.print_list(
            self.reads, lambda read: print_read(printer, read, names), ",\n         "
        )
        printer.print_string(")")
        if self.identity is not None:
            printer.print_string(f" identity {self.identity.value.data}")
        if self.init is not None:
            printer.print_string(" init ")
            printer.print_operand(self.init)
            printer.print_string(" : ")
            printer.print_attribute(self.init.type)
        printer.print_string(" ")
        printer.print_region(self.body)
        printer.print_string(" -> ")
        printer.print_attribute(self.result.type)
        printer.print_op_attributes(self.attributes)

    def verify_(self) -> None:
        """Shapes, subscripts, start of a reduction, body."""
        if shaped(self.result).get_shape() != self.spatial.extents:
            raise VerifyException(
                f"the spatial axes make {self.spatial.extents}, not {self.result.type}"
            )
        if common := set(self.spatial.names) & set(self.reduce.names):
            raise VerifyException(f"axis {', '.join(sorted(common))} is both spatial and reduced")
        if not len(self.inputs) == len(self.maps) == len(self.outside):
            raise VerifyException("every operand needs a map and an entry in outside")
        elements: list[Attribute] = [self.element_type] if self.reduce.data else []
        for number, read in enumerate(self.reads):
            self._verify_read(number, read)
            elements.append(shaped(read.value).element_type)
        for element in (*elements, self.element_type):
            if element not in SUPPORTED_ELEMENTS:
                raise VerifyException(f"elements are i8 or i32, not {element}")
        verify_body(self.body, elements, self.element_type)
        self._verify_start()

    def _verify_read(self, number: int, read: Read) -> None:
        shape, names = shaped(read.value).get_shape(), self.spatial.names + self.reduce.names
        if self.maps.data[number].data.num_dims != len(names) or len(read.rows) != len(shape):
            raise VerifyException(
                f"operand {number} is {read.value.type}; its map must take {len(names)} axes and"
                f" give {len(shape)} subscripts"
            )
        if read.outside is not None:
            return
        for dim, (row, size) in enumerate(zip(read.rows, shape, strict=True)):
            low, high = row.interval(self.extents)
            if row.divisor > 1:
                raise VerifyException(
                    f"operand {number} is read at a quotient in dimension {dim}, which may leave a"
                    " remainder, but has no outside value"
                )
            if low < 0 or high >= size:
                raise VerifyException(
                    f"operand {number} is read at {low} to {high} in dimension {dim} of {size},"
                    " but has no outside value"
                )

    def _verify_start(self) -> None:
        starts = (self.identity is not None) + (self.init is not None)
        if starts != (1 if self.reduce.data else 0):
            raise VerifyException(
                "a reduction starts from an identity or an init, anything else from neither"
            )
        if self.init is not None and self.init.type != self.result.type:
            raise VerifyException(f"init is {self.init.type}, the result {self.result.type}")
        if self.reduce.data:
            combiner(self.body)
