"""A model made ready for import: small, in forms that converters know, its values typed.

Everything here rewrites ONNX by ONNX: functions are inlined, fused and quantised operators taken
apart, constants folded, shapes fixed and inferred.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from onnx import GraphProto, ModelProto, TensorProto, TypeProto, ValueInfoProto, helper

from vtac.dialects.errors import Problem
from vtac.lowering.onnx_to_graph.attributes import subgraphs
from vtac.lowering.onnx_to_graph.block_products import widen_products
from vtac.lowering.onnx_to_graph.ceiling import correct_ceiling
from vtac.lowering.onnx_to_graph.check import large_constants, opsets_of, skeleton
from vtac.lowering.onnx_to_graph.computed_constants import compute_constants
from vtac.lowering.onnx_to_graph.constant_branches import take_branches
from vtac.lowering.onnx_to_graph.dynamic_quantisation import undo_dynamic_quantisation
from vtac.lowering.onnx_to_graph.expansions.expand import expand
from vtac.lowering.onnx_to_graph.explicit_transposes import make_pads_explicit
from vtac.lowering.onnx_to_graph.fold import fold_constants
from vtac.lowering.onnx_to_graph.functions import inline_functions
from vtac.lowering.onnx_to_graph.fused_operators import split_fused
from vtac.lowering.onnx_to_graph.half_floats import widen_half_floats
from vtac.lowering.onnx_to_graph.integer_operators import take_apart
from vtac.lowering.onnx_to_graph.node_checks import layer_problems, number_problems
from vtac.lowering.onnx_to_graph.operators import CONVERTERS
from vtac.lowering.onnx_to_graph.shapes import Shapes, fix_shapes, infer_types, network_inputs
from vtac.lowering.onnx_to_graph.sparse_constants import make_dense
from vtac.passes.graph.reasons import Reason

ROUNDS = 64
"""The most rounds of folding. Each may reveal shapes that let the next one fold more."""

KnownTypes = Mapping[str, TypeProto]
"""Types of values by name that shape inference does not find."""


@dataclass(frozen=True)
class Prepared:
    """A model whose large constants are mere inputs, and x of every value.

    constants: by name, the large ones included. inputs: what a user feeds, with shapes fixed.
    outputs: the names of the results. whole: why nodes are not taken apart that might have been, by
    the name of their first result. operators: of nodes that were written as several others, by the
    names of the nodes. names: of nodes without a name, by each output, where nodes were written as
    others. problems: nodes whose operands do not fit together; then none is written as others.
    """

    model: ModelProto
    types: Mapping[str, TypeProto]
    constants: Mapping[str, TensorProto]
    inputs: Sequence[ValueInfoProto]
    outputs: Sequence[str]
    whole: Mapping[str, Reason]
    operators: Mapping[str, str]
    names: Mapping[str, str]
    problems: Sequence[Problem]


def types_with_constants(
    types: Mapping[str, TypeProto], constants: Mapping[str, TensorProto]
) -> dict[str, TypeProto]:
    """The types of values and of constants, by name."""
    given = {
        name: helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
        for name, tensor in constants.items()
    }
    return {**types, **given}


def prepare(model: ModelProto, shapes: Shapes, known: KnownTypes, calibrated: bool) -> Prepared:
    """A checked model, ready for import; see `import_model` for the arguments."""
    inputs = network_inputs(model)
    small = inline_functions(skeleton(model))
    _name_all(small.graph)
    weights = {t.name: t for t in model.graph.initializer} | large_constants(model.graph, 0)
    made = make_dense(small)
    split_fused(small)
    made |= widen_products(small, weights)
    if calibrated:
        undo_dynamic_quantisation(small, weights)
    whole = take_apart(small, weights)
    fix_shapes(small, [i.name for i in inputs], shapes)
    _tell(small.graph, known)
    types = _settle(small)
    constants = {t.name: t for t in [*model.graph.initializer, *small.graph.initializer]}
    constants |= large_constants(model.graph) | made
    computed = compute_constants(small, constants, CONVERTERS)
    if computed is not None:
        constants |= computed
        types = infer_types(small)
    if calibrated and widen_half_floats(small, types, constants, CONVERTERS.__contains__):
        types = infer_types(small)
    names: Mapping[str, str] = {}
    operators: Mapping[str, str] = {}
    typed = types_with_constants(types, constants)
    problems = layer_problems(small, typed) + number_problems(small, typed, constants)
    expanded = None
    if not problems:
        expanded = expand(small, opsets_of(small)[""], types, constants, calibrated)
    if expanded is not None:
        constants |= expanded.constants
        types = infer_types(small)
        names, operators = expanded.names, expanded.operators
    fixed = {i.name: i for i in small.graph.input}
    outputs = [output.name for output in model.graph.output]
    fed = [fixed[i.name] for i in inputs]
    return Prepared(small, types, constants, fed, outputs, whole, operators, names, problems)


def _name_all(graph: GraphProto) -> None:
    """Name every one of a Split's outputs, in place: onnxruntime crashes where one has no name."""
    for node in graph.node:
        for inner in subgraphs(node.attribute):
            _name_all(inner)
        if node.op_type == "Split" and not all(node.output):
            known = next(filter(None, node.output), "split")
            for index, name in enumerate(node.output):
                node.output[index] = name or f"{known}.unused.{index}"


def _tell(graph: GraphProto, known: KnownTypes) -> None:
    """Declare the types of values, in place; shape inference goes on from there."""
    declared = {value.name: value for value in [*graph.value_info, *graph.output]}
    for name, type in known.items():
        (declared.get(name) or graph.value_info.add(name=name)).type.CopyFrom(type)


def _settle(model: ModelProto) -> dict[str, TypeProto]:
    """Fold and correct until nothing changes; the types of all values."""
    types = infer_types(model)
    for _ in range(ROUNDS):
        if make_pads_explicit(model, types):
            types = infer_types(model)
        if not (
            correct_ceiling(model, types) or fold_constants(model, types) or take_branches(model)
        ):
            break
        types = infer_types(model)
    return types
