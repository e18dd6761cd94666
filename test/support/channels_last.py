"""ONNX models with channels last, as tf2onnx exports them, made of models with channels first.

Every tensor of rank 3 or more is held as [N, spatial..., C]. What ONNX defines on channels first
(convolutions, poolings, batch norms, resizing) stands between two transposes; all else has its
axes renumbered. A dense layer behind a Flatten has its weights in the order of the new tensor.
"""

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import helper, numpy_helper, shape_inference

AS_THEY_ARE = frozenset(
    "Relu Neg Abs Clip LeakyRelu HardSigmoid HardSwish Sigmoid Tanh Exp Identity".split()  # noqa: SIM905
)
BROADCASTING = frozenset({"Add", "Sub", "Mul", "Div", "Max", "Min", "PRelu"})
ALONG_AXIS = frozenset({"Concat", "Split", "Softmax"})
REDUCING = frozenset({"ReduceMean", "ReduceSum"})
ROUNDING = frozenset({"QuantizeLinear", "DequantizeLinear"})


def last(rank: int) -> list[int]:
    """The permutation from channels first to channels last."""
    return [0, *range(2, rank), 1]


def first(rank: int) -> list[int]:
    """The permutation from channels last to channels first."""
    return [0, rank - 1, *range(1, rank - 1)]


class _Converter:
    def __init__(self, model: onnx.ModelProto):
        inferred = shape_inference.infer_shapes(model, strict_mode=True).graph
        self.constants = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
        values = (*inferred.input, *inferred.value_info, *inferred.output)
        self.shapes = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in values}
        self.graph = model.graph
        self.nodes: list[onnx.NodeProto] = []
        self.made: list[onnx.TensorProto] = []

    def rank(self, name: str) -> int:
        return len(self.shapes[name]) if name in self.shapes else self.constants[name].ndim

    def constant(self, array: np.ndarray) -> str:
        name = f"made{len(self.made)}"
        self.made.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def transpose(self, name: str, order: Sequence[int], result: str) -> str:
        node = helper.make_node("Transpose", [name], [result], name=f"t_{result}", perm=order)
        self.nodes.append(node)
        return result

    def convert(self, node: onnx.NodeProto) -> None:
        """Append a node, with what it needs around it."""
        node = onnx.NodeProto.FromString(node.SerializeToString())
        kind, rank = node.op_type, self.rank(node.input[0])
        if kind in BROADCASTING:  # a constant with fewer axes may stand first
            rank = max(map(self.rank, node.input))
        axes = first(rank)
        if rank < 3 or kind in AS_THEY_ARE or (kind in ROUNDING and not self._by_channel(node)):
            self.nodes.append(node)
        elif kind in BROADCASTING:
            for i, name in enumerate(node.input):
                if name in self.constants and self.constants[name].size > 1:
                    array = self.constants[name]
                    array = array.reshape((1,) * (rank - array.ndim) + array.shape)
                    node.input[i] = self.constant(array.transpose(last(rank)))
            self.nodes.append(node)
        elif kind in ALONG_AXIS:
            for attribute in node.attribute:
                if attribute.name == "axis":
                    attribute.i = last(rank).index(attribute.i % rank)
            self.nodes.append(node)
        elif kind in REDUCING:
            self._reduce(node, rank)
        elif kind == "Slice" and len(node.input) > 3:
            given = self.constants[node.input[3]]
            node.input[3] = self.constant(np.array([last(rank).index(a % rank) for a in given]))
            self.nodes.append(node)
        elif kind == "Pad":
            pads = self.constants[node.input[1]].reshape(2, rank)
            node.input[1] = self.constant(pads[:, last(rank)].reshape(-1))
            self.nodes.append(node)
        elif kind == "Flatten":
            self._flatten(node)
        else:
            self._between(node, axes)

    def _by_channel(self, node: onnx.NodeProto) -> bool:
        return self.constants[node.input[1]].size > 1 or node.input[0] in self.constants

    def _reduce(self, node: onnx.NodeProto, rank: int) -> None:
        keeps = True
        for attribute in node.attribute:
            keeps = keeps and not (attribute.name == "keepdims" and attribute.i == 0)
            if attribute.name == "axes":
                attribute.ints[:] = [last(rank).index(a % rank) for a in attribute.ints]
        if len(node.input) > 1:
            given = self.constants[node.input[1]]
            node.input[1] = self.constant(np.array([last(rank).index(a % rank) for a in given]))
        after = self.rank(node.output[0])
        assert keeps or after in (2, rank - 1)
        self.nodes.append(node)

    def _flatten(self, node: onnx.NodeProto) -> None:
        shape = self.shapes[node.input[0]]
        users = [n for n in self.graph.node if node.output[0] in n.input]
        dense = all(n.op_type == "Gemm" and n.input[1] in self.constants for n in users)
        if not dense or not users:
            name = self.transpose(node.input[0], first(len(shape)), f"{node.output[0]}_in")
            node.input[0] = name
            self.nodes.append(node)
            return
        for user in users:
            weights = self.constants[user.input[1]]
            order = np.arange(weights.shape[1]).reshape(shape[1:])
            order = np.moveaxis(order, 0, -1).reshape(-1)
            user.input[1] = self.constant(weights[:, order])
        self.nodes.append(node)

    def _between(self, node: onnx.NodeProto, axes: list[int]) -> None:
        for i, name in enumerate(node.input):
            if name in self.shapes and self.rank(name) >= 3:
                node.input[i] = self.transpose(
                    name, first(self.rank(name)), f"{node.output[0]}_in{i}"
                )
        self.nodes.append(node)
        for i, name in enumerate(list(node.output)):
            if self.rank(name) >= 3:
                node.output[i] = f"{name}_out"
                self.transpose(node.output[i], last(self.rank(name)), name)


def channels_last(model: onnx.ModelProto) -> onnx.ModelProto:
    """A model with the same nodes that takes, passes on and returns tensors with channels last."""
    build = _Converter(model)
    for node in model.graph.node:
        build.convert(node)
    result = onnx.ModelProto.FromString(model.SerializeToString())
    del result.graph.node[:]
    del result.graph.value_info[:]
    result.graph.node.extend(build.nodes)
    result.graph.initializer.extend(build.made)
    for value in (*result.graph.input, *result.graph.output):
        extents = build.shapes[value.name]
        kept = [extents[axis] for axis in last(len(extents))] if len(extents) >= 3 else extents
        type = value.type.tensor_type.elem_type
        value.CopyFrom(helper.make_tensor_value_info(value.name, type, kept))
    onnx.checker.check_model(result, full_check=True)
    return result
