"""From graph ops to an ONNX model of standard operators: host parts, calibration, oracles."""

from collections.abc import Mapping, Sequence
from typing import Any

import onnx
from onnx import ModelProto, NodeProto, helper
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, ModuleOp, StringAttr
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import SymbolTable

from vtac.dialects import graph
from vtac.dialects.context import Array, VtacContext
from vtac.dialects.errors import CompileError, Problem
from vtac.lowering.graph_to_onnx import (
    arrangements,
    float_ops,
    host_ops,
    integer_ops,
    products,
    unfolding,
    wide_ops,
)
from vtac.lowering.graph_to_onnx.builder import ElementOrder, OnnxBuilder, place_of, value_info
from vtac.lowering.onnx_to_graph.attributes import export_attribute, subgraphs
from vtac.lowering.onnx_to_graph.types import export_type

OPSET = 19
"""The opset of models without operators carried whole; those keep their own."""

IR_VERSION = 8
"""The least IR version written: initialisers need not be inputs."""

_CONVERTERS: Mapping[type[Operation], Any] = {
    **float_ops.named_operators(),
    graph.ActivationOp: float_ops.activation,
    graph.AddBiasOp: integer_ops.add_bias,
    graph.AveragePoolOp: float_ops.average_pool,
    graph.BatchMatMulOp: products.batch_matmul,
    graph.BatchNormOp: float_ops.batch_norm,
    graph.ClipOp: float_ops.clip,
    graph.ConcatOp: arrangements.concat,
    graph.ConvOp: float_ops.conv,
    graph.DepthToSpaceOp: arrangements.depth_to_space,
    graph.DequantizeOp: integer_ops.dequantize,
    graph.FakeQuantizeOp: integer_ops.fake_quantize,
    graph.GemmOp: float_ops.gemm,
    graph.GlobalAveragePoolOp: float_ops.same("GlobalAveragePool"),
    graph.HardSwishOp: arrangements.hard_swish,
    graph.HostOp: host_ops.host,
    graph.JoinBytesOp: integer_ops.join_bytes,
    graph.MatMulOp: float_ops.matmul,
    graph.MaxOp: arrangements.extreme,
    graph.MaxPoolOp: float_ops.max_pool,
    graph.MinOp: arrangements.extreme,
    graph.MultiplyShiftOp: wide_ops.multiply_shift,
    graph.PackOp: integer_ops.pack,
    graph.PadOp: arrangements.pad,
    graph.QuantizeOp: integer_ops.quantize,
    graph.RequantizeOp: integer_ops.requantize,
    graph.RequantizePlanesOp: wide_ops.requantize_planes,
    graph.RescaleOp: integer_ops.rescale,
    graph.ReshapeOp: float_ops.reshape,
    graph.ShiftLeftOp: integer_ops.shift_left,
    graph.ShiftRightByOp: wide_ops.shift_right_by,
    graph.SliceOp: arrangements.slice_,
    graph.SplitBytesOp: integer_ops.split_bytes,
    graph.SumPoolOp: float_ops.sum_pool,
    graph.TakeChannelsOp: arrangements.take_channels,
    graph.TransposeOp: arrangements.transpose,
    graph.UnfoldOp: unfolding.unfold,
    graph.UnpackOp: integer_ops.unpack,
    graph.UpsampleOp: arrangements.upsample,
}

Opsets = Mapping[str, int] | DictionaryAttr


def build_model(
    ops: Sequence[Operation],
    inputs: Sequence[SSAValue],
    outputs: Sequence[SSAValue],
    names: Mapping[SSAValue, str],
    ctx: VtacContext,
    opsets: Opsets,
    *,
    output_names: Sequence[str] | None = None,
    weights: dict[str, Array] | None = None,
) -> ModelProto:
    """An ONNX model that computes ``outputs`` from ``inputs`` with ``ops``, which are in order.

    Constants that the ops use become initialisers, wherever they are defined. Values of a packed
    type cross the border in their layout in DRAM. Composites and called functions are inlined.

    names: what to call values; inputs and outputs without a name get one from their hint.
    opsets: what ``graph.host`` ops mean (the module's ``graph.opsets``).
    output_names: other names for the outputs, in order; they may repeat a value.
    weights: where arrays of large constants go, by name (`vtac.lowering.onnx_to_graph.weights`);
    None: all constants lie in the model.
    Raises CompileError for an input of unknown type and for what ONNX cannot express.
    """
    versions = _versions(opsets)
    versions[""] = _default_opset(ops, versions.get(""), ctx)
    wanted = list(output_names or [names.get(value, "") for value in outputs])
    names = {**{v: n for v, n in zip(outputs, wanted, strict=True) if n}, **names}
    builder = OnnxBuilder(ctx, versions[""], names, wanted, weights)
    infos = []
    for value in inputs:
        name = names.get(value) or builder.fresh(value.name_hint or "input")
        type = export_type(value.type)
        if type is None:
            raise CompileError(Problem(f"value '{name}'", "its type is unknown to the compiler"))
        is_packed = graph.packing(value.type) is not None
        builder.define(value, name, ElementOrder.PACKED if is_packed else ElementOrder.PLAIN)
        infos.append(value_info(name, type))
    emit(builder, ops)
    results = _outputs(builder, inputs, outputs, wanted)
    proto = onnx.GraphProto(name="graph", input=infos, output=results, node=builder.nodes)
    proto.initializer.extend(builder.initializers)
    imports = [helper.make_opsetid(domain, version) for domain, version in versions.items()]
    version = max(IR_VERSION, helper.find_min_ir_version_for(imports, ignore_unknown=True))
    return ModelProto(ir_version=version, opset_import=imports, producer_name="vtac", graph=proto)


def host_model(
    module: ModuleOp,
    ctx: VtacContext,
    *,
    extra_outputs: Mapping[str, SSAValue] | None = None,
    weights: dict[str, Array] | None = None,
) -> ModelProto:
    """The whole network ``@main`` as an ONNX model with the names of the original.

    extra_outputs: further values to compute, by the names they get (for calibration). weights: as
    in `build_model`.
    """
    func = SymbolTable.lookup_symbol(module, "main")
    if not isinstance(func, FuncOp):
        raise CompileError(Problem("module", "it has no function @main"))
    block = func.body.block
    last = block.last_op
    assert isinstance(last, ReturnOp)
    extra = dict(extra_outputs or {})
    arguments: list[SSAValue] = list(block.args)
    called = _names(func, "graph.inputs", "input", len(arguments))
    return build_model(
        list(block.ops)[:-1],
        arguments,
        [*last.arguments, *extra.values()],
        dict(zip(arguments, called, strict=True)),
        ctx,
        opsets_of(module),
        output_names=[
            *_names(func, "graph.outputs", "output", len(last.arguments)),
            *extra,
        ],
        weights=weights,
    )


def opsets_of(module: ModuleOp) -> DictionaryAttr:
    """The opsets of the host ops of a network, as `build_model` takes them."""
    opsets = module.attributes.get("graph.opsets", DictionaryAttr({}))
    assert isinstance(opsets, DictionaryAttr)
    return opsets


def _names(func: FuncOp, attribute: str, default: str, count: int) -> list[str]:
    found = func.attributes.get(attribute)
    if isinstance(found, ArrayAttr):
        return [name.data for name in found.data if isinstance(name, StringAttr)]
    return [f"{default}_{i}" for i in range(count)]


def emit(builder: OnnxBuilder, ops: Sequence[Operation]) -> None:
    """Append the nodes of ops, bodies of composites and called functions included."""
    for op in ops:
        if isinstance(op, graph.CompositeOp):
            _inline(builder, op.body.block, op.inputs, op.outputs)
        elif isinstance(op, CallOp):
            callee = SymbolTable.lookup_symbol(op, op.callee)
            if not isinstance(callee, FuncOp) or callee.is_declaration:
                raise CompileError(Problem(place_of(op), f"{op.callee} has no body"))
            _inline(builder, callee.body.block, op.arguments, op.res)
        elif type(op) in _CONVERTERS:
            builder.convert(op, _CONVERTERS[type(op)])
        elif not isinstance(op, graph.ConstantOp):
            raise CompileError(Problem(place_of(op), "this op has no meaning in ONNX"))


def _inline(
    builder: OnnxBuilder, body: Block, operands: Sequence[SSAValue], results: Sequence[SSAValue]
) -> None:
    for argument, operand in zip(body.args, operands, strict=True):
        builder.alias(argument, operand)
    *ops, last = body.ops
    emit(builder, ops)
    for result, value in zip(results, last.operands, strict=True):
        builder.bind(result, value)


def _outputs(
    builder: OnnxBuilder,
    inputs: Sequence[SSAValue],
    outputs: Sequence[SSAValue],
    wanted: Sequence[str],
) -> list[onnx.ValueInfoProto]:
    """Value infos of the outputs; an Identity where a value has another name already."""
    infos, used = [], {builder.stored_name(value) for value in inputs}
    for value, name in zip(outputs, wanted, strict=True):
        known = builder.stored_name(value)
        if known != name and (name or known in used or builder.is_weight(known)):
            known = builder.add("Identity", [known], name)
        used.add(known)
        infos.append(value_info(known, export_type(value.type)))
    return infos


def _versions(opsets: Opsets) -> dict[str, int]:
    if isinstance(opsets, DictionaryAttr):
        return {
            domain: version.value.data
            for domain, version in opsets.data.items()
            if isinstance(version, IntegerAttr)
        }
    return dict(opsets)


def _default_opset(ops: Sequence[Operation], version: int | None, ctx: VtacContext) -> int:
    """``OPSET``, unless an operator carried whole means something else there."""
    if version is None:
        return OPSET
    for op in ops:
        if isinstance(op, graph.HostOp) and not _same_since(op, version, ctx):
            return version
    return OPSET


def _same_since(op: graph.HostOp, version: int, ctx: VtacContext) -> bool:
    """Whether an operator, with those in its subgraphs, is the same in both opsets."""
    node = NodeProto(op_type=op.op_type.data, domain=op.domain.data)
    if node.op_type in ("If", "Loop", "Scan", "SequenceMap"):
        node.attribute.extend(
            export_attribute(ctx, name, attr) for name, attr in op.onnx_attributes.data.items()
        )
    return _unchanged(node, version)


def _unchanged(node: NodeProto, version: int) -> bool:
    inner = (n for g in subgraphs(node.attribute) for n in g.node)
    if node.domain not in ("", "ai.onnx"):
        return all(_unchanged(n, version) for n in inner)
    if not all(onnx.defs.has(node.op_type, v, "") for v in (version, OPSET)):
        return False
    first, second = (onnx.defs.get_schema(node.op_type, v, "") for v in (version, OPSET))
    return first.since_version == second.since_version and all(
        _unchanged(n, version) for n in inner
    )
