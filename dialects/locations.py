"""Where ops come from: the node of the network after which an op is located."""

from xdsl.dialects.builtin import NameLoc
from xdsl.ir import Operation


def layer_of(op: Operation) -> str:
    """The name of the layer, an ONNX node, that an op comes from; empty if it is not known."""
    return op.location.desc.data if isinstance(op.location, NameLoc) else ""
