"""A node that is to be written as several: what it reads, and a writer of the nodes it becomes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, TypeProto, helper, numpy_helper

from vtac.dialects.context import Array
from vtac.lowering.onnx_to_graph.shapes import static_shape
from vtac.lowering.onnx_to_graph.types import dense_dtype


@dataclass
class Site:
    """One node of an ONNX graph, and the nodes that take its place.

    types, constants: of all values of the graph, by name. made: the new constants, by name.
    """

    node: NodeProto
    opset: int
    types: Mapping[str, TypeProto]
    constants: Mapping[str, TensorProto]
    made: dict[str, TensorProto]
    nodes: list[NodeProto] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.attributes: Mapping[str, Any] = {
            a.name: helper.get_attribute_value(a) for a in self.node.attribute
        }

    def has(self, index: int) -> bool:
        """Whether the node has an input at a position."""
        return index < len(self.node.input) and bool(self.node.input[index])

    def wanted(self, index: int) -> str:
        """The name of the output at a position; empty if the node has none there."""
        return self.node.output[index] if index < len(self.node.output) else ""

    def constant(self, index: int) -> Array | None:
        """The value of the input at a position, if the node has one there and it is constant."""
        tensor = self.constants.get(self.node.input[index]) if self.has(index) else None
        if tensor is None or dense_dtype(tensor.data_type) is None:
            return None
        return numpy_helper.to_array(tensor)

    def shape(self, index: int) -> tuple[int, ...] | None:
        """The shape of the float32 input at a position, if it is known, and not empty."""
        if not self.has(index):
            return None
        tensor = self.constants.get(self.node.input[index])
        if tensor is not None:
            return tuple(tensor.dims)
        return self.float_shape(self.node.input[index])

    def float_shape(self, name: str) -> tuple[int, ...] | None:
        """The shape of a float32 value, if it is known, and not empty."""
        type = self.types.get(name)
        if type is None or type.tensor_type.elem_type != TensorProto.FLOAT:
            return None
        shape = static_shape(type)
        return None if shape is None or 0 in shape else tuple(shape)

    def weight(self, array: Array) -> str:
        """Make a constant; returns its name."""
        name = f"{self._name()}.{len(self.made)}.constant"
        self.made[name] = numpy_helper.from_array(np.ascontiguousarray(array), name)
        return name

    def integers(self, numbers: Sequence[int]) -> str:
        """Make a constant of int64; returns its name."""
        return self.weight(np.array(numbers, np.int64))

    def add(self, operator: str, inputs: Sequence[str], output: str = "", **attributes: Any) -> str:
        """Append a node with one output under the node's own name, and return the output's."""
        output = output or f"{self._name()}.part.{len(self.nodes)}"
        self.nodes.append(
            helper.make_node(operator, list(inputs), [output], self.node.name, **attributes)
        )
        return output

    def slice(self, x: str, axis: int, start: int, end: int) -> str:
        """The elements from a start to an end along one axis."""
        if self.opset < 10:
            return self.add("Slice", [x], axes=[axis], starts=[start], ends=[end])
        return self.add("Slice", [x, *(self.integers([n]) for n in (start, end, axis))])

    def clip(self, x: str, low: float, high: float) -> str:
        """The elements within bounds."""
        if self.opset < 11:
            return self.add("Clip", [x], min=low, max=high)
        bounds = (self.weight(np.array(bound, np.float32)) for bound in (low, high))
        return self.add("Clip", [x, *bounds])

    def reshape(self, x: str, shape: Sequence[int], output: str = "") -> str:
        """The same elements in another shape."""
        return self.add("Reshape", [x, self.integers(shape)], output)

    def concat(self, parts: Sequence[str], axis: int, output: str = "") -> str:
        """Tensors side by side."""
        return self.add("Concat", parts, output, axis=axis)

    def repeat(self, x: str, factors: Sequence[int]) -> str:
        """Each element a number of times along each axis."""
        scales = np.array(factors, np.float32)
        if self.opset < 9:
            return self.add("Upsample", [x], mode="nearest", scales=scales.tolist())
        given = self.weight(scales)
        if self.opset < 11:
            return self.add("Upsample" if self.opset < 10 else "Resize", [x, given], mode="nearest")
        region = self.weight(np.zeros(0, np.float32)) if self.opset < 13 else ""
        how = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        return self.add("Resize", [x, region, given], mode="nearest", **how)

    def taken(self, x: str, axis: int, indices: Sequence[int], output: str = "") -> str:
        """Elements along one axis in another order or several times, as slices side by side."""
        breaks = [i for i in range(1, len(indices)) if indices[i] != indices[i - 1] + 1]
        known: dict[tuple[int, int], str] = {}
        parts = []
        for first, last in zip((0, *breaks), (*breaks, len(indices)), strict=True):
            limits = indices[first], indices[last - 1] + 1
            if limits not in known:
                known[limits] = self.slice(x, axis, *limits)
            parts.append(known[limits])
        return self.concat(parts, axis, output)

    def _name(self) -> str:
        return str(next(filter(None, self.node.output)))
