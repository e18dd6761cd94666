"""Dynamically quantised layers as float layers, where samples calibrate the network.

DynamicQuantizeLinear takes the scale of each activation from its own numbers. Samples say as much,
so the activation stays real and is calibrated like any other; weights stay integers on their grid::

    (MatMulInteger(q, wq, z, wz) as float) * (s * ws)  becomes  MatMul(x, ws * (wq - wz))

and so for ConvInteger. Parts of the chain that have other readers stay as they are.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from vtac.dialects.context import Array
from vtac.lowering.onnx_to_graph.check import captured_names, plain_domain
from vtac.lowering.onnx_to_graph.rewriting import replace_nodes

LAYERS = {"ConvInteger": "Conv", "MatMulInteger": "MatMul"}
"""Sums of integer products, and the float layers that they stand for."""

_CHAIN = frozenset({"Cast", "DynamicQuantizeLinear", "Mul", *LAYERS})
"""Operators that are erased once nothing reads them."""


def undo_dynamic_quantisation(model: ModelProto, constants: Mapping[str, TensorProto]) -> None:
    """Rewrite the main graph in place. constants: by name, those of nodes and initialisers."""
    graph = _Graph.of(model.graph, constants)
    if not graph.scales:
        return
    replace_nodes(model.graph, graph.parts)
    _drop_unused(model.graph)


@dataclass
class _Graph:
    """A graph as the rewrite reads it.

    makers: of each value. scales: by the name of a scale that DynamicQuantizeLinear makes, its
    node. stored: the same by the name of the integers.
    """

    graph: GraphProto
    constants: Mapping[str, TensorProto]
    makers: Mapping[str, NodeProto]
    scales: Mapping[str, NodeProto]
    stored: Mapping[str, NodeProto]

    @staticmethod
    def of(graph: GraphProto, constants: Mapping[str, TensorProto]) -> "_Graph":
        """The makers of a graph's values."""
        dynamic = [n for n in graph.node if n.op_type == "DynamicQuantizeLinear"]
        dynamic = [n for n in dynamic if plain_domain(n.domain) == "" and len(n.output) == 3]
        makers = {name: node for node in graph.node for name in node.output if name}
        scales = {node.output[1]: node for node in dynamic}
        return _Graph(graph, constants, makers, scales, {node.output[0]: node for node in dynamic})

    def parts(self, node: NodeProto) -> list[NodeProto] | None:
        """The nodes that replace a node: a layer for the end of a chain, the operand for a
        dequantisation."""
        if plain_domain(node.domain) != "":
            return None
        if node.op_type == "DequantizeLinear" and node.input[0] in self.stored:
            source = self.stored[node.input[0]]
            if list(node.input) == list(source.output):
                return [helper.make_node("Identity", source.input, node.output, node.name)]
        return self._layer(node) if node.op_type == "Mul" else None

    def _layer(self, last: NodeProto) -> list[NodeProto] | None:
        """The float layer that ends in a product with both scales."""
        factors = self._factors(last)
        layers = [n for n in map(self._integer_layer, factors) if n is not None]
        if len(layers) != 1 or len(factors) != 3:
            return None
        (layer,) = layers
        source = self.stored[layer.input[0]]
        rest = [name for name in factors if self._integer_layer(name) is None]
        steps = [name for name in rest if name != source.output[1]]
        if len(steps) != 1 or steps[0] not in self.constants:
            return None
        weights = self._weights(layer, numpy_helper.to_array(self.constants[steps[0]]))
        if weights is None:
            return None
        made = helper.make_node(
            LAYERS[layer.op_type],
            [source.input[0], weights.output[0]],
            last.output,
            layer.name or last.name,
        )
        made.attribute.extend(layer.attribute)
        return [weights, made]

    def _factors(self, node: NodeProto) -> list[str]:
        """The three factors of a product of products, however they are nested."""
        names = list(node.input)
        for name in node.input:
            maker = self.makers.get(name)
            if maker is not None and maker.op_type == "Mul":
                names.remove(name)
                names += maker.input
        return names

    def _integer_layer(self, name: str) -> NodeProto | None:
        """The layer whose sums a value is, as floats; its activations are quantised as it says."""
        cast = self.makers.get(name)
        if cast is None or cast.op_type != "Cast" or cast.attribute[0].i != TensorProto.FLOAT:
            return None
        layer = self.makers.get(cast.input[0])
        if layer is None or layer.op_type not in LAYERS or layer.input[0] not in self.stored:
            return None
        source = self.stored[layer.input[0]]
        return layer if list(layer.input[2:3]) == [source.output[2]] else None

    def _weights(self, layer: NodeProto, steps: Array) -> NodeProto | None:
        """The dequantisation of constant weights, one scale in all or one per output channel."""
        tensor = self.constants.get(layer.input[1])
        zero = self.constants.get(layer.input[3]) if len(layer.input) > 3 else None
        if tensor is None or (len(layer.input) > 3 and layer.input[3] and zero is None):
            return None
        convolves = layer.op_type == "ConvInteger"
        rank = len(tensor.dims)
        axis = 0 if convolves else rank - 1
        behind = rank - 2 if convolves else 0
        count = tensor.dims[axis]
        stored = numpy_helper.to_array(tensor if zero is None else zero)
        zeros = np.zeros((), stored.dtype) if zero is None else stored
        if steps.size != 1:
            if steps.ndim <= behind:
                return None
            spread = [1] * steps.ndim
            spread[steps.ndim - 1 - behind] = count
            if list(steps.shape) != spread:
                return None
        if zeros.size not in (1, count) or not (steps > 0).all():
            return None
        single = steps.size == zeros.size == 1
        shape = () if single else (count,)
        name = f"{layer.output[0]}.weights"
        inputs = [layer.input[1]]
        for label, array in (("scale", steps.astype(np.float32)), ("zero", zeros)):
            whole = np.ascontiguousarray(np.broadcast_to(array.reshape(-1), shape or (1,)))
            inputs.append(f"{name}.{label}")
            made = numpy_helper.from_array(whole.reshape(shape), inputs[-1])
            self.graph.initializer.append(made)
        return helper.make_node("DequantizeLinear", inputs, [name], name, axis=axis)


def _drop_unused(graph: GraphProto) -> None:
    """Erase the remains of chains that nothing reads, in place."""
    while True:
        read = {name for node in graph.node for name in (*node.input, *captured_names(node))}
        read.update(output.name for output in graph.output)
        unused = [n for n in graph.node if n.op_type in _CHAIN and not read & {*n.output}]
        if not unused:
            return
        for node in unused:
            graph.node.remove(node)
