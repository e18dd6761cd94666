"""Shapes: symbolic dimensions fixed by the user, onnx's own inference, and what that lacks."""

from collections.abc import Mapping, Sequence, Set
from operator import index

import onnx
from onnx import ModelProto, TensorProto, TensorShapeProto, TypeProto, ValueInfoProto

from vtac.dialects.errors import CompileError, Problem
from vtac.lowering.onnx_to_graph.check import is_symbol

_MOST = 1 << 31
"""Above the largest extent that a shape may have."""

Shapes = Mapping[str, Sequence[int]]

SHAPE_KEEPING = frozenset({"Binarizer", "Imputer", "Normalizer", "Scaler"})
"""Operators of ``ai.onnx.ml`` whose result has the shape of their operand; onnx does not infer
it."""


def network_inputs(model: ModelProto) -> list[ValueInfoProto]:
    """The inputs that are no initialisers, which a user feeds."""
    constants = {t.name for t in model.graph.initializer}
    constants.update(s.values.name for s in model.graph.sparse_initializer)
    return [i for i in model.graph.input if i.name not in constants]


def fix_shapes(model: ModelProto, inputs: Sequence[str], shapes: Shapes) -> None:
    """Give inputs the shapes the user names; a symbol fixed by one input is fixed everywhere.

    A symbol that two shapes fix differently is no common one: onnxruntime runs such inputs. It is
    then unknown wherever no shape is given (`symbols_of_several_extents`).
    inputs: the names a shape may be given for. Raises CompileError for unknown names and for
    shapes that contradict the model. ``model`` is changed in place.
    """
    problems: list[Problem] = []
    by_name = {i.name: i for i in model.graph.input if i.name in inputs}
    for name, shape in shapes.items():
        if name not in by_name:
            known = ", ".join(by_name) or "none"
            problems.append(
                Problem(f"shape of '{name}'", "the model has no such input", f"Inputs: {known}.")
            )
            continue
        extents = _extents(shape)
        if extents is None:
            what = f"{shape!r} is no sequence of whole numbers"
            problems.append(Problem(f"shape of '{name}'", what))
        elif not all(0 <= extent < _MOST for extent in extents):
            what = f"{extents} is negative" if min(extents) < 0 else f"{extents} is too large"
            problems.append(Problem(f"shape of '{name}'", what))
        elif fault := _misfit(by_name[name], extents):
            problems.append(Problem(f"shape of '{name}'", fault))
    if problems:
        raise CompileError(problems)
    symbols = _extents_of_symbols(model, shapes)
    for name, shape in shapes.items():
        _fix_input(by_name[name], shape)
    for value in [*model.graph.input, *model.graph.output, *model.graph.value_info]:
        if value.type.HasField("tensor_type") and value.type.tensor_type.HasField("shape"):
            for dim in value.type.tensor_type.shape.dim:
                if dim.dim_param in symbols:
                    _fix_dimension(dim, {extent for _, extent in symbols[dim.dim_param]})


def symbols_of_several_extents(model: ModelProto, shapes: Shapes) -> list[str]:
    """What a user should know of symbols to which shapes of inputs give several extents.

    shapes: as `fix_shapes` accepts them. A text for each such symbol names its extents and inputs.
    """
    return [
        f"dimension '{symbol}' is "
        + ", ".join(f"{extent} in '{name}'" for name, extent in found)
        + ": it is taken for no common extent"
        for symbol, found in _extents_of_symbols(model, shapes).items()
        if len({extent for _, extent in found}) > 1
    ]


def _extents_of_symbols(model: ModelProto, shapes: Shapes) -> dict[str, list[tuple[str, int]]]:
    """The extents that shapes give to the symbols of a model, each with the input that has it."""
    found: dict[str, list[tuple[str, int]]] = {}
    for value in model.graph.input:
        dims = value.type.tensor_type.shape.dim
        for dim, extent in zip(dims, shapes.get(value.name, ()), strict=False):
            if is_symbol(dim.dim_param):
                found.setdefault(dim.dim_param, []).append((value.name, extent))
    return found


def _fix_dimension(dim: TensorShapeProto.Dimension, extents: Set[int]) -> None:
    """Give a dimension the only extent of its symbol; of several, none is known to be its own."""
    if len(extents) == 1:
        dim.dim_value = next(iter(extents))
    else:
        dim.Clear()


def _extents(shape: Sequence[int]) -> list[int] | None:
    """The numbers of a shape that a user gives; None if they are none."""
    try:
        return [index(extent) for extent in shape]
    except TypeError:
        return None


def _misfit(value: ValueInfoProto, shape: list[int]) -> str:
    """How a shape contradicts what the model says of an input; empty if it does not."""
    if not value.type.HasField("tensor_type"):
        return "it is no tensor"
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        return ""
    told = [
        dim.dim_param or (dim.dim_value if dim.HasField("dim_value") else "?")
        for dim in tensor.shape.dim
    ]
    fits = len(told) == len(shape) and all(
        isinstance(known, str) or known == extent for known, extent in zip(told, shape, strict=True)
    )
    return "" if fits else f"{shape} does not fit the model's {_text(told)}"


def _fix_input(value: ValueInfoProto, shape: Sequence[int]) -> None:
    """Give an input a shape that it can have."""
    tensor = value.type.tensor_type
    tensor.ClearField("shape")
    tensor.shape.dim.extend(TensorShapeProto.Dimension(dim_value=extent) for extent in shape)


def _text(dims: Sequence[int | str]) -> str:
    return f"[{', '.join(map(str, dims))}]"


def infer_types(model: ModelProto) -> dict[str, TypeProto]:
    """The type of every value of the main graph that shape inference finds.

    Results of operators of `SHAPE_KEEPING` are declared in the model.
    """
    types = _inferred(model)
    while _declare_kept_shapes(model, types):
        types = _inferred(model)
    return types


def _declare_kept_shapes(model: ModelProto, types: Mapping[str, TypeProto]) -> bool:
    """Declare results that have the shape of an operand whose shape is known; whether there are
    any."""
    declared = {value.name: value for value in [*model.graph.value_info, *model.graph.output]}
    found = False
    for node in model.graph.node:
        if node.domain != "ai.onnx.ml" or node.op_type not in SHAPE_KEEPING:
            continue
        before, after = types.get(node.input[0]), types.get(node.output[0])
        if before is None or not before.tensor_type.HasField("shape"):
            continue
        if after is not None and after.tensor_type.HasField("shape"):
            continue
        name = node.output[0]
        type = (declared.get(name) or model.graph.value_info.add(name=name)).type
        type.CopyFrom(before)
        if node.op_type in ("Normalizer", "Scaler"):
            type.tensor_type.elem_type = TensorProto.FLOAT
        found = True
    return found


def _inferred(model: ModelProto) -> dict[str, TypeProto]:
    """What onnx infers."""
    try:
        inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
    except (onnx.shape_inference.InferenceError, RuntimeError, ValueError) as error:
        raise CompileError(Problem("shape inference", " ".join(str(error).split()))) from error
    graph = inferred.graph
    return {v.name: v.type for v in [*graph.value_info, *graph.output, *graph.input]}


def static_shape(type: TypeProto | None) -> tuple[int, ...] | None:
    """The shape of a dense tensor all of whose dimensions are known; None for anything else."""
    if type is None or not type.HasField("tensor_type") or not type.tensor_type.HasField("shape"):
        return None
    dims = type.tensor_type.shape.dim
    if not all(d.HasField("dim_value") for d in dims):
        return None
    return tuple(d.dim_value for d in dims)
