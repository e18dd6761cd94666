"""From an ONNX model to a module of graph ops: ``import_model`` and ``load_model``."""

from vtac.lowering.onnx_to_graph.importer import import_model
from vtac.lowering.onnx_to_graph.load import ModelSource, load_model
from vtac.lowering.onnx_to_graph.shapes import symbols_of_several_extents
from vtac.lowering.onnx_to_graph.unknown_shapes import values_of_unknown_shape

__all__ = [
    "ModelSource",
    "import_model",
    "load_model",
    "symbols_of_several_extents",
    "values_of_unknown_shape",
]
