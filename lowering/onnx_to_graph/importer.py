"""The import: every node becomes a graph op or is carried whole as ``graph.host``.

The result is ``func.func @main``. Its attributes ``graph.inputs`` and ``graph.outputs`` keep the
ONNX names; each argument has its name in ``graph.name`` and, where dimensions are symbolic, their
names in ``graph.symbols``. The module's ``graph.opsets`` says what the host ops mean, and
``graph.expanded`` the operators of nodes that were written as several others, by name.
"""

import re
from collections.abc import Iterable, Sequence

from onnx import (
    NodeProto,
    SparseTensorProto,
    TensorProto,
    ValueInfoProto,
    helper,
    numpy_helper,
)
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    IntegerAttr,
    ModuleOp,
    NameLoc,
    NoneAttr,
    StringAttr,
    i64,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.utils.exceptions import VerifyException

from vtac.dialects.context import Array, VtacContext, constant_attr, tensor_type
from vtac.dialects.errors import CompileError
from vtac.dialects.graph import ConstantOp, GridAttr, HostOp, integers, set_grid
from vtac.lowering.onnx_to_graph.attributes import import_attribute, import_protobuf
from vtac.lowering.onnx_to_graph.check import (
    LARGE,
    captured_names,
    host_loads,
    opsets_of,
    plain_domain,
    sorted_nodes,
)
from vtac.lowering.onnx_to_graph.load import ModelSource, load_model
from vtac.lowering.onnx_to_graph.node import ConstantResult, Node, Result, StaysOnHostError
from vtac.lowering.onnx_to_graph.node_checks import (
    inferred_problems,
)
from vtac.lowering.onnx_to_graph.operators import CONVERTERS
from vtac.lowering.onnx_to_graph.prepare import KnownTypes, Prepared, prepare, types_with_constants
from vtac.lowering.onnx_to_graph.shapes import Shapes
from vtac.lowering.onnx_to_graph.types import dense_dtype, import_type, widened
from vtac.passes.graph.reasons import Reason, ReasonKind, keep_on_host

FIX_SHAPES = "Symbolic dimensions can be fixed: --shape."
"""The way out for nodes whose shapes are not known."""


def import_model(
    source: ModelSource,
    ctx: VtacContext,
    *,
    shapes: Shapes | None = None,
    known: KnownTypes | None = None,
    calibrated: bool = False,
) -> ModuleOp:
    """A module whose ``@main`` computes what the model does, with weights in ``ctx.resources``.

    source: path, bytes or message; checked as ``load_model`` does.
    shapes: input name to its shape, for inputs with symbolic dimensions.
    known: types of values that shape inference does not find (`unknown_shapes`).
    calibrated: whether samples will calibrate the network. Then operators take the form that the
    quantiser wants: float16 and bfloat16 compute in float32 (`half_floats`), and some operators
    are written as others (`expansions`).
    Raises CompileError with everything that is wrong.
    """
    model = load_model(source)
    prepared = prepare(model, shapes or {}, known or {}, calibrated)
    problems = prepared.problems
    types = types_with_constants(prepared.types, prepared.constants)
    doubtful = inferred_problems(prepared.model, types)
    # Where onnxruntime loads what onnx's inference refuses, onnxruntime is right.
    if problems or (doubtful and not host_loads(model)):
        named = {problem.where for problem in problems}
        raise CompileError([*problems, *(p for p in doubtful if p.where not in named)])
    return _Importer(ctx, prepared).run(prepared.inputs)


def value_hint(name: str) -> str | None:
    """An ONNX name as the name of an SSA value: characters that have no place there become _.

    xDSL drops a trailing ``_123``, so something must stand before it.
    """
    hint = re.sub(r"[^A-Za-z0-9_$.-]", "_", name)
    if not hint:
        return None
    return hint if hint[0].isalpha() else f"v{hint}"


def location(name: str) -> NameLoc:
    """The location of an op: the name of its ONNX node."""
    return NameLoc(StringAttr(name), NoneAttr())


def _strings(values: Iterable[str]) -> ArrayAttr[StringAttr]:
    return ArrayAttr([StringAttr(value) for value in values])


def _argument_attributes(value: ValueInfoProto) -> DictionaryAttr:
    """Name of an input and, if it has symbolic dimensions, their names (empty for known ones).

    A tensor of strings, whose type in the IR has no shape, has its extents here, -1 for unknown
    ones.
    """
    attributes: dict[str, Attribute] = {"graph.name": StringAttr(value.name)}
    symbols = [
        "" if dim.HasField("dim_value") else dim.dim_param or "?"
        for dim in value.type.tensor_type.shape.dim
    ]
    if any(symbols):
        attributes["graph.symbols"] = _strings(symbols)
    tensor = value.type.tensor_type
    if tensor.elem_type == TensorProto.STRING and tensor.HasField("shape"):
        extents = [d.dim_value if d.HasField("dim_value") else -1 for d in tensor.shape.dim]
        attributes["graph.extents"] = ArrayAttr([IntegerAttr(extent, i64) for extent in extents])
    return DictionaryAttr(attributes)


class _Importer:
    """Builds the body of ``@main`` node by node."""

    def __init__(self, ctx: VtacContext, prepared: Prepared):
        self.ctx = ctx
        self.model = model = prepared.model
        self.types = prepared.types
        self.constants = dict(prepared.constants)
        self.outputs = outputs = prepared.outputs
        self.whole, self.operators, self.names = prepared.whole, prepared.operators, prepared.names
        self.opsets = opsets_of(model)
        self.block = Block()
        self.values: dict[str, SSAValue] = {}
        self.arrays: dict[str, Array] = {}
        self.grids: dict[str, GridAttr] = {}
        self.counts: dict[str, int] = {}
        self.read = {name for node in model.graph.node for name in node.input}
        self.read.update(name for node in model.graph.node for name in captured_names(node))
        self.read.update(outputs)

    def run(self, inputs: Sequence[ValueInfoProto]) -> ModuleOp:
        """The module."""
        graph = self.model.graph
        for value in inputs:
            argument = self.block.insert_arg(import_type(value.type), len(self.block.args))
            self._define(value.name, argument)
        for sparse in graph.sparse_initializer:
            name = sparse.values.name
            self._host_constant(name, "sparse_value", sparse, self._type(name))
        for node in sorted_nodes(graph):
            self._node(node)
        results = [self.value(name) for name in self.outputs]
        self.block.add_op(ReturnOp(*results))
        func = FuncOp(
            "main",
            ([a.type for a in self.block.args], [r.type for r in results]),
            Region(self.block),
            arg_attrs=ArrayAttr([_argument_attributes(value) for value in inputs]),
        )
        func.attributes["graph.inputs"] = _strings(value.name for value in inputs)
        func.attributes["graph.outputs"] = _strings(self.outputs)
        opsets = {d: IntegerAttr(v, i64) for d, v in self.opsets.items()}
        attributes: dict[str, Attribute] = {"graph.opsets": DictionaryAttr(opsets)}
        if self.operators:
            named = {name: StringAttr(operator) for name, operator in self.operators.items()}
            attributes["graph.expanded"] = DictionaryAttr(named)
        return ModuleOp([func], attributes)

    def value(self, name: str) -> SSAValue:
        """The SSA value of a name; a constant is made at its first use."""
        if name not in self.values:
            array = self.array(name)
            if array is None:
                tensor = self.constants[name]
                type = helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
                self._host_constant(name, "value", tensor, import_type(type))
            else:
                op = self._new_constant(array, value_hint(name) or "constant")
                self._insert(set_grid(op, self.grids.get(name)), name)
                self._define(name, op.result)
        return self.values[name]

    def array(self, name: str) -> Array | None:
        """The value of a constant; None for anything else."""
        if name not in self.arrays:
            tensor = self.constants.get(name)
            if tensor is None or dense_dtype(tensor.data_type) is None:
                return None
            array = numpy_helper.to_array(tensor)
            if array.size > LARGE:  # it lies in the model and, soon, in the table of resources
                return array
            self.arrays[name] = array
        return self.arrays[name]

    def widened(self, name: str) -> Array | None:
        """The numbers of a constant of any number type; None for anything else (`widened`)."""
        array = self.array(name)
        if array is None and name in self.constants:
            return widened(self.constants[name])
        return array

    def _define(self, name: str, value: SSAValue) -> None:
        self.values[name] = value
        value.name_hint = value_hint(name)

    def _new_constant(self, array: Array, hint: str) -> ConstantOp:
        """A constant, not yet in the block."""
        return ConstantOp(constant_attr(self.ctx, array, hint), tensor_type(array))

    def _insert(self, op: Operation, name: str) -> None:
        op.location = location(name)
        self.block.add_op(op)

    def _type(self, name: str) -> Attribute:
        return import_type(self.types.get(name))

    def _host_constant(
        self,
        name: str,
        attribute: str,
        message: TensorProto | SparseTensorProto,
        type: Attribute,
    ) -> None:
        """A constant of a type that the IR has no tensors of."""
        value = import_protobuf(self.ctx, message, value_hint(name) or "constant")
        op = HostOp("Constant", [], [type], onnx_attributes={attribute: value})
        self._insert(op, name)
        self._define(name, op.outputs[0])

    def _node(self, node: NodeProto) -> None:
        """Convert one node, or keep it whole with the reason."""
        self.counts[node.op_type] = self.counts.get(node.op_type, -1) + 1
        numbered = f"{node.op_type}_{self.counts[node.op_type]}"
        name = node.name or self.names.get(next(filter(None, node.output), ""), numbered)
        standard = plain_domain(node.domain) == ""
        if standard and node.op_type == "Constant" and self._constant(node):
            return
        converter = CONVERTERS.get(node.op_type) if standard else None
        reason = self.whole.get(next(iter(node.output), ""))
        if converter is not None:
            view = Node(
                node,
                self.opsets[""],
                operand_of=self.value,
                constant_of=self.array,
                widened_of=self.widened,
                type_of=self._type,
                used=self.read.__contains__,
                new_constant=self._new_constant,
            )
            try:
                self._convert(converter(view), node, name)
                return
            except StaysOnHostError as refusal:
                hint = FIX_SHAPES if refusal.kind is ReasonKind.SHAPE else ""
                reason = Reason(str(refusal), refusal.kind, hint)
            except VerifyException as refusal:
                reason = Reason(str(refusal), ReasonKind.SHAPE)
        self._host(node, name, reason)

    def _convert(self, result: Result, node: NodeProto, name: str) -> None:
        if isinstance(result, SSAValue):
            self.values[node.output[0]] = result
            return
        if isinstance(result, ConstantResult):
            self.arrays[node.output[0]] = result.array
            if result.grid is not None:
                self.grids[node.output[0]] = result.grid
            return
        ops = [result] if isinstance(result, Operation) else list(result)
        try:
            for op in ops:
                op.verify()
        except VerifyException:
            for op in reversed(ops):
                op.erase()
            raise
        for op in ops:
            self._insert(op, name)
        for output, op in zip(node.output, ops[-len(node.output) :], strict=False):
            self._define(output, op.results[0])

    def _constant(self, node: NodeProto) -> bool:
        """Treat a Constant as a weight, if it is one tensor."""
        attr = node.attribute[0] if len(node.attribute) == 1 else None
        if attr is None or attr.name != "value":
            return False
        self.constants[node.output[0]] = attr.t
        return True

    def _host(self, node: NodeProto, name: str, reason: Reason | None) -> None:
        """Carry a node whole."""
        captured = captured_names(node)
        more: dict[str, Attribute] = {}
        absent = [i for i, n in enumerate(node.input) if not n]
        absent_outputs = [i for i, n in enumerate(node.output) if not n]
        if absent:
            more["absent"] = integers(absent)
        if absent_outputs:
            more["absent_outputs"] = integers(absent_outputs)
        outputs = [output for output in node.output if output]
        op = HostOp(
            node.op_type,
            [self.value(n) for n in node.input if n],
            [self._type(output) for output in outputs],
            domain=plain_domain(node.domain),
            onnx_attributes={
                a.name: import_attribute(self.ctx, a, value_hint(f"{name}.{a.name}") or a.name)
                for a in node.attribute
            },
            captured=[self.value(n) for n in captured],
            captured_names=captured,
            **more,
        )
        if reason is not None:
            keep_on_host(op, reason)
        self._insert(op, name)
        for output, result in zip(outputs, op.outputs, strict=True):
            self._define(output, result)
