"""Host parts with every exported operator, over varied shapes, types and attributes.

All nodes of one opset stand side by side in one model, so that one C program has them all.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper, shape_inference

from vtac.runtime.package import HOST, Output, Package, Step, Value, lifetimes

Array = np.ndarray[Any, np.dtype[Any]]


def package_of(model: onnx.ModelProto, shapes: dict[str, tuple[int, tuple[int, ...]]]) -> Package:
    """A package whose one step runs a model on the host. shapes: ONNX type and shape by name."""
    inputs = tuple(entry.name for entry in model.graph.input)
    outputs = tuple(entry.name for entry in model.graph.output)
    steps = (Step(HOST, "host_0", inputs, outputs),)
    spans = lifetimes(inputs, outputs, steps)
    values = tuple(
        Value(
            name,
            f"tensor({TensorProto.DataType.Name(shapes[name][0]).lower()})",
            shapes[name][1],
            first=spans[name][0],
            last=spans[name][1],
        )
        for name in (*inputs, *outputs)
    )
    results = tuple(Output(name, name) for name in outputs)
    return Package(None, inputs, results, values, steps, {"host_0": model.SerializeToString()})


@dataclass
class Operators:
    """A model under construction. rough: outputs that floats round differently (docs/export.md)."""

    opset: int
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(11))
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    weights: list[onnx.TensorProto] = field(default_factory=list)
    feeds: dict[str, Array] = field(default_factory=dict)
    rough: set[str] = field(default_factory=set)

    def input(self, array: Array) -> str:
        """An input of the model with these elements."""
        name = f"x{len(self.feeds)}"
        self.feeds[name] = array
        return name

    def floats(self, *shape: int, scale: float = 2.0) -> str:
        """A float input."""
        return self.input(self.rng.normal(0, scale, shape).astype(np.float32))

    def doubles(self, *shape: int) -> str:
        """A float64 input."""
        return self.input(self.rng.normal(0, 100, shape))

    def integers(self, *shape: int, dtype: str = "int8") -> str:
        """An input over the whole range of a type; of 32 and 64 bits near zero."""
        limits = np.iinfo(dtype)
        low, high = max(limits.min, -(2**20)), min(limits.max, 2**20)
        return self.input(self.rng.integers(low, high, shape, endpoint=True).astype(dtype))

    def weight(self, value: Any, dtype: Any = np.int64) -> str:
        """A constant."""
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.array(value, dtype), name))
        return name

    def add(
        self,
        op: str,
        inputs: Sequence[str],
        *,
        rough: bool = False,
        outputs: int = 1,
        **attributes: Any,
    ) -> str:
        """A node; the name of its first output."""
        names = [f"y{len(self.nodes)}_{number}" for number in range(outputs)]
        title = f"{op}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), names, title, **attributes))
        if rough:
            self.rough.update(names)
        return names[0]

    def package(self) -> Package:
        """The model as a package."""
        types = {n: helper.np_dtype_to_tensor_dtype(a.dtype) for n, a in self.feeds.items()}
        shapes = {n: (types[n], a.shape) for n, a in self.feeds.items()}
        inputs = [helper.make_tensor_value_info(n, *shape) for n, shape in shapes.items()]
        outputs = [onnx.ValueInfoProto(name=o) for node in self.nodes for o in node.output]
        graph = helper.make_graph(self.nodes, "g", inputs, outputs, self.weights)
        imports = [helper.make_opsetid("", self.opset)]
        model = helper.make_model(graph, opset_imports=imports, ir_version=8)
        model = shape_inference.infer_shapes(model, data_prop=True)
        for entry in model.graph.output:
            tensor = entry.type.tensor_type
            extents = tuple(extent.dim_value for extent in tensor.shape.dim)
            shapes[entry.name] = tensor.elem_type, extents
        return package_of(model, shapes)


def add_moves(b: Operators) -> None:
    """Operators that move elements."""
    for dtype in ("int8", "int32", "uint8", "int64"):
        b.add("Transpose", [b.integers(2, 3, 4, 5, dtype=dtype)], perm=[0, 2, 3, 1])
    b.add("Transpose", [b.floats(1, 4, 1, 6, 2)], perm=[4, 1, 0, 3, 2])
    b.add("Transpose", [b.floats(3, 4)])
    b.add("Concat", [b.floats(2, 1, 3), b.floats(2, 4, 3), b.floats(2, 2, 3)], axis=1)
    b.add("Concat", [b.integers(2, 3), b.integers(2, 3)], axis=1 if b.opset < 11 else -1)
    b.add("Gather", [b.integers(3, 5, 2), b.weight([[4, 0], [1, 2]])], axis=1)
    b.add("Gather", [b.floats(6), b.weight(3)], axis=0)
    b.add("Expand", [b.floats(3, 1, 2), b.weight([2, 3, 4, 2])])
    b.add("Tile", [b.integers(2, 3), b.weight([2, 3])])
    b.add("DepthToSpace", [b.floats(2, 8, 3, 2)], blocksize=2)
    b.add("SpaceToDepth", [b.floats(2, 3, 4, 6)], blocksize=2)
    flat = b.add("Flatten", [b.add("Identity", [b.floats(2, 3, 4)])], axis=2)
    b.add("Reshape", [b.add("Relu", [flat]), b.weight([4, -1])])


def add_new_moves(b: Operators) -> None:
    """Moves whose parameters are operands in late opsets."""
    x = b.floats(5, 6, 7)
    limits = [([1, 2], [4, 6], [0, 2], [1, 2]), ([-1, 5], [-9, 0], [0, 1], [-1, -2])]
    for starts, ends, axes, steps in limits:
        b.add("Slice", [x, *(b.weight(v) for v in (starts, ends, axes, steps))])
    b.add("Slice", [x, b.weight([1]), b.weight([3])])
    b.add("Gather", [b.integers(3, 5, 2), b.weight([[4, 0], [-1, -5]])], axis=1)
    b.add("DepthToSpace", [b.floats(2, 8, 3, 2)], blocksize=2, mode="CRD")
    b.add("Split", [b.floats(2, 7, 3), b.weight([3, 4])], outputs=2, axis=1)
    b.add("Split", [b.integers(6, 2)], outputs=3, num_outputs=3)
    b.add("Squeeze", [b.floats(1, 3, 1), b.weight([0])])
    b.add("Unsqueeze", [b.floats(3, 2), b.weight([0, 3])])
    b.add("Pad", [b.integers(2, 3), b.weight([1, 0, 2, 3]), b.weight(-7, np.int8)])
    b.add("Pad", [b.floats(4, 5), b.weight([-1, 2, 1, -2]), b.weight(1.5, np.float32)])
    b.add("Pad", [b.floats(2, 3, 4), b.weight([2, 1]), "", b.weight([1])])
    scales = b.weight([1, 1, 2, 3], np.float32)
    attributes = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    b.add("Resize", [b.floats(1, 2, 3, 2), "", scales], mode="nearest", **attributes)


def add_old_moves(b: Operators) -> None:
    """Moves whose parameters are attributes in early opsets."""
    b.add("Slice", [b.floats(5, 6)], starts=[1, -3], ends=[4, 100], axes=[0, 1])
    b.add("Split", [b.floats(2, 7)], outputs=2, split=[3, 4], axis=1)
    b.add("Squeeze", [b.floats(1, 3, 1)], axes=[2])
    b.add("Unsqueeze", [b.floats(3)], axes=[0])
    b.add("Pad", [b.floats(2, 3)], pads=[1, 0, 2, 3], value=-2.0)
    b.add("Upsample", [b.floats(1, 2, 2, 3), b.weight([1, 1, 2, 2], np.float32)])
    b.add("Clip", [b.floats(3, 3)], min=-1.0, max=0.5)
    b.add("ReduceSum", [b.floats(2, 3, 4)], axes=[1], rough=True)
    b.add("ReduceMax", [b.floats(2, 3, 4)], axes=[0, 2], keepdims=0)
    for axis in (0, 1, 2):
        b.add("Softmax", [b.floats(2, 3, 4)], axis=axis, rough=True)


def add_arithmetic(b: Operators) -> None:
    """Operators on each element, with operands that broadcast."""
    for op in ("Add", "Sub", "Mul", "Div"):
        b.add(op, [b.floats(2, 3, 4), b.floats(3, 1)])
        b.add(op, [b.doubles(4), b.weight(0.3, np.float64)])
    for op in ("Add", "Sub", "Mul"):
        for dtype in ("int32", "int64"):
            b.add(op, [b.integers(2, 5, dtype=dtype), b.integers(5, dtype=dtype)])
    for op in ("Abs", "Ceil", "Floor", "Neg", "Reciprocal", "Relu", "Softsign", "Sign"):
        b.add(op, [b.floats(3, 4)], rough=op == "Softsign")
    b.add("Floor", [b.doubles(5, 5)])
    b.add("Sqrt", [b.input(b.rng.uniform(0, 9, 20).astype(np.float32))])
    b.add("Neg", [b.integers(7, dtype="int32")])
    b.add("Abs", [b.integers(7, dtype="int32")])
    b.add("LeakyRelu", [b.floats(9)], alpha=0.1)
    b.add("PRelu", [b.floats(2, 3, 4), b.floats(3, 1)])
    b.add("HardSigmoid", [b.floats(50, scale=4.0)], alpha=0.3, beta=0.4)
    b.add("ThresholdedRelu", [b.floats(9)], alpha=0.7)
    for op in ("Exp", "Sigmoid", "Tanh", "Erf", "Softplus", "Elu", "Selu"):
        b.add(op, [b.floats(6, 7)], rough=True)
    for op in ("Sin", "Cos", "Tan", "Atan"):
        b.add(op, [b.floats(6, 7, scale=0.5)], rough=True)
    b.add("Log", [b.input(b.rng.uniform(0.1, 9, 20).astype(np.float32))], rough=True)
    b.add("Pow", [b.floats(6, 7), b.weight(2.0, np.float32)], rough=True)
    for op in ("Max", "Min", "Sum", "Mean"):
        b.add(op, [b.floats(2, 3), b.floats(3), b.floats(2, 1)], rough=op in ("Sum", "Mean"))
    for op in ("Equal", "Greater", "Less"):
        b.add(op, [b.integers(40, dtype="int32"), b.integers(1, dtype="int32")])
    same = b.add("Less", [b.floats(2, 3), b.floats(3)])
    b.add("Where", [same, b.floats(2, 1), b.floats(2, 3)])
    b.add("Not", [same])
    b.add("And", [same, b.add("Greater", [b.floats(3), b.floats(2, 3)])])
    b.add("Or", [same, same])
    b.add("Xor", [same, same])


def add_casts(b: Operators) -> None:
    """Casts between all types whose values fit."""
    small = b.input(b.rng.integers(0, 100, (4, 5)).astype(np.int8))
    for dtype in ("float32", "float64", "uint8", "int16", "int32", "int64", "uint16", "bool"):
        to = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        b.add("Cast", [small], to=to)
        b.add("Cast", [b.input(b.rng.uniform(0, 100, 9).astype(np.float32))], to=to)
        b.add("Cast", [b.input(b.rng.integers(0, 100, 9).astype(np.int64))], to=to)
    b.add("Cast", [b.doubles(9)], to=TensorProto.FLOAT)
    b.add("Cast", [b.add("Less", [b.floats(9), b.floats(9)])], to=TensorProto.FLOAT)


def add_quantisation(b: Operators) -> None:
    """From floats to integers and back, for tensors and for channels."""
    halves = b.input((b.rng.integers(-300, 300, (3, 40)) / 2).astype(np.float32))
    b.add("QuantizeLinear", [halves, b.weight(1.0, np.float32), b.weight(0, np.int8)])
    b.add("QuantizeLinear", [halves, b.weight(0.5, np.float32), b.weight(9, np.uint8)])
    scales = b.weight([0.1, 0.25, 0.7], np.float32)
    b.add("QuantizeLinear", [b.floats(2, 3, 4), scales, b.weight([1, -2, 3], np.int8)], axis=1)
    b.add("QuantizeLinear", [b.floats(9), b.weight(0.03, np.float32)])
    zero = b.weight([5, -6, 7], np.int8)
    b.add("DequantizeLinear", [b.integers(2, 3, 4), scales, zero], axis=1)
    b.add("DequantizeLinear", [b.integers(9, dtype="uint8"), b.weight(0.1, np.float32)])
    b.add("DequantizeLinear", [b.integers(9, dtype="int32"), b.weight(0.1, np.float32)])


def add_windows(b: Operators) -> None:
    """Poolings and convolutions of one, two and three dimensions."""
    square = {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]}
    for x in (b.floats(2, 3, 7, 6), b.integers(2, 3, 7, 6), b.integers(1, 2, 6, 6, dtype="uint8")):
        b.add("MaxPool", [x], **square)
    x = b.floats(1, 2, 8, 7)
    b.add("MaxPool", [x], kernel_shape=[3, 3], strides=[2, 2], dilations=[2, 1], ceil_mode=1)
    for auto in ("SAME_UPPER", "SAME_LOWER", "VALID"):
        b.add("MaxPool", [x], kernel_shape=[2, 3], strides=[2, 2], auto_pad=auto)
    b.add("MaxPool", [b.floats(2, 3, 9)], kernel_shape=[4], strides=[3])
    b.add("MaxPool", [b.floats(1, 2, 4, 5, 3)], kernel_shape=[2, 2, 2])
    for padded in (0, 1):
        b.add("AveragePool", [x], rough=True, count_include_pad=padded, **square)
    b.add("GlobalAveragePool", [x], rough=True)
    b.add("GlobalMaxPool", [x])
    for group, filters in ((1, 5), (2, 4), (4, 8)):
        w = b.weight(b.rng.normal(0, 0.5, (filters, 4 // group, 3, 2)), np.float32)
        bias = b.weight(b.rng.normal(0, 1, filters), np.float32)
        x = b.floats(2, 4, 6, 7)
        b.add("Conv", [x, w, bias], rough=True, group=group, pads=[1, 1, 0, 2], strides=[2, 1])
        b.add("Conv", [x, w], rough=True, group=group, dilations=[2, 3])
    b.add("Conv", [b.floats(1, 3, 9), b.weight(np.ones((2, 3, 4)), np.float32)], rough=True)
    w = b.weight(b.rng.integers(-128, 128, (6, 2, 3, 3)), np.int8)
    x = b.integers(1, 4, 6, 5)
    b.add("ConvInteger", [x, w], group=2, pads=[1, 1, 1, 1])
    b.add("ConvInteger", [x, w, b.weight(3, np.int8)], group=2, pads=[1, 0, 0, 1])


def add_products(b: Operators) -> None:
    """Products of matrices."""
    b.add("MatMul", [b.floats(4, 5), b.floats(5, 3)], rough=True)
    b.add("MatMul", [b.floats(2, 1, 4, 5), b.floats(3, 5, 2)], rough=True)
    b.add("MatMulInteger", [b.integers(4, 5), b.integers(5, 3)])
    zero = b.weight(7, np.uint8)
    b.add("MatMulInteger", [b.integers(3, 4, 5, dtype="uint8"), b.integers(5, 3), zero])
    for first, second in ((0, 0), (0, 1), (1, 0), (1, 1)):
        x = b.floats(*((3, 5) if first else (5, 3)))
        w = b.floats(*((4, 3) if second else (3, 4)))
        more = {"transA": first, "transB": second, "rough": True}
        b.add("Gemm", [x, w, b.floats(4)], **more)
        b.add("Gemm", [x, w, b.floats(5, 1)], alpha=0.5, beta=2.0, **more)


def add_reductions(b: Operators) -> None:
    """Reductions, softmax and normalisation of late opsets."""
    x = b.floats(2, 3, 4, 5)
    for op in ("ReduceMean", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceSum"):
        b.add(op, [x, b.weight([1, 3])], rough=True)
        b.add(op, [x, b.weight([-2])], rough=True, keepdims=0)
    for op in ("ReduceMax", "ReduceMin"):
        b.add(op, [x, b.weight([0, 2])])
        b.add(op, [b.integers(3, 4)])
    b.add("ReduceSum", [b.integers(3, 4, dtype="int32"), b.weight([0])])
    for axis in (0, 1, -1):
        b.add("Softmax", [x], axis=axis, rough=True)
        b.add("LogSoftmax", [x], axis=axis, rough=True)
        b.add("ArgMax", [x], axis=axis)
        b.add("ArgMin", [b.integers(4, 5)], axis=axis, keepdims=0)
    ties = b.input(b.rng.integers(0, 3, (4, 9)).astype(np.float32))
    b.add("ArgMax", [ties], axis=1, select_last_index=1)
    vectors = [b.weight(b.rng.normal(0, 1, 5), np.float32) for _ in range(2)]
    b.add("LayerNormalization", [x, *vectors], rough=True)
    b.add("LayerNormalization", [b.floats(3, 5), vectors[0]], rough=True, epsilon=0.1)
    four = [b.weight(b.rng.uniform(0.5, 2, 3), np.float32) for _ in range(4)]
    b.add("BatchNormalization", [x, *four], rough=True)
    for op in ("HardSwish", "Mish"):
        b.add(op, [b.floats(50, scale=4.0)], rough=op == "Mish")
    b.add("Round", [b.input((b.rng.integers(-9, 9, 30) / 2).astype(np.float32))])
    for op in ("GreaterOrEqual", "LessOrEqual"):
        b.add(op, [b.floats(9), b.floats(9)])


def add_folded(b: Operators) -> None:
    """What depends on constants or on shapes alone."""
    x = b.floats(2, 3, 4)
    shape = b.add("Shape", [x])
    first = b.add("Gather", [shape, b.weight([0])], axis=0)
    wanted = b.add("Concat", [first, b.weight([-1])], axis=0)
    b.add("Reshape", [x, wanted])
    b.add("Size", [x])


def late_operators() -> Operators:
    """All operators, in an opset that has each."""
    b = Operators(19)
    parts = (add_moves, add_new_moves, add_arithmetic, add_casts, add_quantisation, add_windows)
    for add in (*parts, add_products, add_reductions, add_folded):
        add(b)
    b.add("Clip", [b.floats(3, 3), b.weight(-1.0, np.float32), b.weight(0.5, np.float32)])
    b.add("Clip", [b.integers(3, 3), "", b.weight(50, np.int8)])
    return b


def early_operators() -> Operators:
    """Operators whose parameters were attributes."""
    b = Operators(9)
    add_moves(b)
    add_old_moves(b)
    return b
