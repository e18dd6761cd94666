"""Layers of a transformer's encoder with random weights, built with onnx.helper.

Vaswani et al., "Attention Is All You Need" (2017), with the GELU of BERT (Devlin et al., 2018):
self-attention and two dense layers, each with an addition and a layer normalisation behind it.

``python test/benchmarks/encoder.py encoder.onnx samples.npz`` writes a model of two layers and
samples of its input.
"""

import sys
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

Array = NDArray[np.float32]

LAYERS, LENGTH, WIDTH, HEADS = 2, 64, 128, 4


class Builder:
    """Collects the nodes and weights of a network over sequences of one length."""

    def __init__(self, length: int, width: int, heads: int, seed: int) -> None:
        self.length, self.width, self.heads = length, width, heads
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[TensorProto] = []

    def constant(self, name: str, value: NDArray) -> str:
        """Add an initializer and return its name."""
        self.weights.append(numpy_helper.from_array(value, name))
        return name

    def node(self, kind: str, name: str, operands: list[str], **attributes) -> str:
        """Add a node with one result of its name."""
        self.nodes.append(helper.make_node(kind, operands, [name], name=name, **attributes))
        return name

    def dense(self, name: str, x: str, inputs: int, outputs: int) -> str:
        """Add a dense layer with a bias."""
        weight = self.rng.normal(0, inputs**-0.5, (inputs, outputs)).astype(np.float32)
        bias = self.rng.normal(0, 0.1, outputs).astype(np.float32)
        product = self.node("MatMul", f"{name}.product", [x, self.constant(f"{name}.w", weight)])
        return self.node("Add", name, [product, self.constant(f"{name}.b", bias)])

    def normalised(self, name: str, x: str, y: str) -> str:
        """Add the sum of two values and its layer normalisation."""
        total = self.node("Add", f"{name}.add", [x, y])
        scale = self.constant(f"{name}.scale", np.ones(self.width, np.float32))
        bias = self.constant(f"{name}.bias", np.zeros(self.width, np.float32))
        return self.node("LayerNormalization", name, [total, scale, bias], axis=-1)

    def split_heads(self, name: str, x: str, order: list[int]) -> str:
        """Add the split of the last axis into heads, which become an axis of their own."""
        shape = np.array([1, self.length, self.heads, self.width // self.heads])
        split = self.node("Reshape", f"{name}.split", [x, self.constant(f"{name}.shape", shape)])
        return self.node("Transpose", f"{name}.heads", [split], perm=order)

    def attention(self, name: str, x: str) -> str:
        """Add the self-attention of all heads, and the dense layer behind them."""
        width = self.width
        orders = {"query": [0, 2, 1, 3], "key": [0, 2, 3, 1], "value": [0, 2, 1, 3]}
        query, key, value = (
            self.split_heads(f"{name}.{part}", self.dense(f"{name}.{part}", x, width, width), order)
            for part, order in orders.items()
        )
        scores = self.node("MatMul", f"{name}.scores", [query, key])
        root = np.array((width / self.heads) ** 0.5, np.float32)
        scaled = self.node("Div", f"{name}.scaled", [scores, self.constant(f"{name}.root", root)])
        shares = self.node("Softmax", f"{name}.softmax", [scaled], axis=-1)
        mixed = self.node("MatMul", f"{name}.mixed", [shares, value])
        moved = self.node("Transpose", f"{name}.moved", [mixed], perm=[0, 2, 1, 3])
        shape = self.constant(f"{name}.joined.shape", np.array([1, self.length, width]))
        return self.dense(
            f"{name}.out", self.node("Reshape", f"{name}.joined", [moved, shape]), width, width
        )

    def gelu(self, name: str, x: str) -> str:
        """Add the GELU, written out as exporters do."""
        root, one, half = (
            self.constant(f"{name}.{part}", np.array(number, np.float32))
            for part, number in (("root", 2**0.5), ("one", 1), ("half", 0.5))
        )
        error = self.node("Erf", f"{name}.erf", [self.node("Div", f"{name}.div", [x, root])])
        product = self.node(
            "Mul", f"{name}.mul", [x, self.node("Add", f"{name}.add", [error, one])]
        )
        return self.node("Mul", name, [product, half])

    def layer(self, name: str, x: str) -> str:
        """Add a layer of the encoder."""
        x = self.normalised(f"{name}.norm1", x, self.attention(f"{name}.attention", x))
        inner = self.gelu(f"{name}.gelu", self.dense(f"{name}.up", x, self.width, 4 * self.width))
        outer = self.dense(f"{name}.down", inner, 4 * self.width, self.width)
        return self.normalised(f"{name}.norm2", x, outer)


def build(
    layers: int = LAYERS,
    length: int = LENGTH,
    width: int = WIDTH,
    heads: int = HEADS,
    seed: int = 0,
) -> onnx.ModelProto:
    """An encoder: input ``x`` and output ``y``, float32 (1, length, width)."""
    builder = Builder(length, width, heads, seed)
    x = "x"
    for number in range(layers):
        x = builder.layer(f"layer{number}", x)
    builder.node("Identity", "y", [x])
    ends = [
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, length, width])]
        for name in ("x", "y")
    ]
    graph = helper.make_graph(builder.nodes, "encoder", *ends, builder.weights)
    opset = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opset, ir_version=8, producer_name="vtac")


def samples(count: int, length: int = LENGTH, width: int = WIDTH, seed: int = 0) -> Array:
    """Random inputs, float32 (count, length, width)."""
    rng = np.random.default_rng([seed, 1])
    return rng.standard_normal((count, length, width)).astype(np.float32)


def main() -> None:
    """Write the model and samples to the files named on the command line."""
    if len(sys.argv) != 3:
        sys.exit("usage: encoder.py OUTPUT.onnx SAMPLES.npz")
    Path(sys.argv[1]).write_bytes(build().SerializeToString(deterministic=True))
    np.savez(sys.argv[2], x=samples(4))


if __name__ == "__main__":
    main()
