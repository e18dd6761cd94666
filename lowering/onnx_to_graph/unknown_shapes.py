"""Finds values of fixed shape whose shape onnx's inference does not find.

onnx infers no shapes through operators of other domains and through some of its own. The result of
such an operator still has a fixed shape if the shapes of its operands are fixed and the shape does
not depend on elements. Then running the model on a sample reveals it.
"""

from collections.abc import Mapping, Set

from onnx import NodeProto, TypeProto

from vtac.lowering.onnx_to_graph.check import captured_names, sorted_nodes
from vtac.lowering.onnx_to_graph.load import ModelSource, load_model
from vtac.lowering.onnx_to_graph.prepare import KnownTypes, prepare
from vtac.lowering.onnx_to_graph.shapes import Shapes, static_shape

_BY_VALUE = frozenset(
    {"Compress", "If", "NonMaxSuppression", "NonZero", "StringSplit", "Unique", "StringNormalizer"}
)
"""Operators whose results have shapes that depend on numbers, or on which branch is taken."""

_BY_OPERAND: Mapping[str, tuple[int, ...]] = {
    "Loop": (0, 1),
    "SequenceAt": (1,),
    **dict.fromkeys(("ConstantOfShape", "Range"), (0, 1, 2)),
    **dict.fromkeys(
        ("CenterCropPad", "Expand", "OneHot", "Pad", "Reshape", "Tile", "TopK"), (1, 3)
    ),
    **dict.fromkeys(("Resize", "Slice", "Split", "Squeeze", "Unsqueeze", "Upsample"), (1, 2, 3, 4)),
    **dict.fromkeys(("ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum"), (1,)),
    **dict.fromkeys(("HammingWindow", "HannWindow", "BlackmanWindow"), (0,)),
    **dict.fromkeys(("DFT", "STFT", "MelWeightMatrix"), (1, 2, 3)),
}
"""Operands that must be constant for the shape of the result to be fixed, by their positions."""


def values_of_unknown_shape(
    source: ModelSource, shapes: Shapes | None = None, known: KnownTypes | None = None
) -> list[str]:
    """Names of values of the main graph whose fixed shape only running the model can tell.

    shapes, known: as for `import_model`. Values that depend on such a value are left out; a caller
    asks again once it knows these types.
    """
    model = load_model(source)
    own = {name for node in model.graph.node for name in node.output}
    prepared = prepare(model, shapes or {}, known or {}, calibrated=False)
    constants = prepared.constants.keys()
    open_values: set[str] = set()
    found: list[str] = []
    for node in sorted_nodes(prepared.model.graph):
        missing = [name for name in node.output if name and _is_open(prepared.types.get(name))]
        if not missing:
            continue
        open_values.update(missing)
        reads = {*filter(None, node.input), *captured_names(node)}
        if reads & (open_values - set(missing)) or not _is_fixed(node, constants):
            continue
        found += [name for name in missing if name in own]
    return found


def _is_open(type: TypeProto | None) -> bool:
    """Whether a value is a tensor, as far as known, of a shape that is not known."""
    tensor = type is None or type.WhichOneof("value") in (None, "tensor_type")
    return tensor and static_shape(type) is None


def _is_fixed(node: NodeProto, constants: Set[str]) -> bool:
    """Whether the shapes of a node's operands, which are fixed, fix those of its results."""
    if node.op_type in _BY_VALUE:
        return False
    deciding = (i for i in _BY_OPERAND.get(node.op_type, ()) if i < len(node.input))
    return all(not node.input[i] or node.input[i] in constants for i in deciding)
