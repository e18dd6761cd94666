"""From graph ops to ONNX: ``build_model`` for any set of ops, ``host_model`` for a network."""

from vtac.lowering.graph_to_onnx.model import OPSET, build_model, host_model, opsets_of

__all__ = ["OPSET", "build_model", "host_model", "opsets_of"]
