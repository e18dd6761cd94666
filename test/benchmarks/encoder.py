"""Transformers with random weights, built with onnx.helper.

Vaswani et al., "Attention Is All You Need" (2017), with the GELU of BERT (Devlin et al., 2018):
attention and two dense layers, each with an addition and a layer normalisation behind it, or before
it (Xiong et al., "On Layer Normalization in the Transformer Architecture", 2020); images as
sequences of patches (Dosovitskiy et al., "An Image is Worth 16x16 Words", 2021).

``python test/benchmarks/encoder.py encoder.onnx samples.npz`` writes a model of two layers and
samples of its input.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

Array = NDArray[np.float32]

LAYERS, LENGTH, WIDTH, HEADS = 2, 64, 128, 4


@dataclass(frozen=True)
class Form:
    """The sizes of a transformer and the variants of its parts.

    inner: the width between the two dense layers; None for four times the width. pre_norm: whether
    streams are normalised before attention and dense layers. norm: ``operator``, or ``parts`` for
    the means and square roots that older exporters write. gelu: ``erf``, ``tanh``, or the operators
    ``Gelu`` and ``Relu``; ``silu``. mask: ``causal``, or ``input`` for an input ``mask`` of float32
    [batch, 1, 1, length] that is added to the scores. source: the length of the sequence ``source``
    that layers attend to besides their own; 0 for none. patch: pixels of a side of a patch; the
    input is then an image [batch, 3, side, side], and length follows from its side. classes:
    outputs of a classifier on the first row; 0 for the whole sequence. spread: the factor of the
    weights of queries and keys. Above 1 shares are less equal.
    """

    layers: int = LAYERS
    length: int = LENGTH
    width: int = WIDTH
    heads: int = HEADS
    seed: int = 0
    batch: int = 1
    inner: int | None = None
    pre_norm: bool = False
    norm: str = "operator"
    gelu: str = "erf"
    mask: str = ""
    source: int = 0
    patch: int = 0
    side: int = 0
    classes: int = 0
    spread: float = 1.0

    @property
    def rows(self) -> int:
        """The length of the sequence that layers see."""
        return (self.side // self.patch) ** 2 + 1 if self.patch else self.length

    @property
    def inputs(self) -> dict[str, tuple[int, ...]]:
        """The shape of each input."""
        shapes: dict[str, tuple[int, ...]] = {"x": (self.batch, self.length, self.width)}
        if self.patch:
            shapes["x"] = (self.batch, 3, self.side, self.side)
        if self.mask == "input":
            shapes["mask"] = (self.batch, 1, 1, self.rows)
        if self.source:
            shapes["source"] = (self.batch, self.source, self.width)
        return shapes


BERT_BASE = Form(layers=12, length=128, width=768, heads=12)
VIT_B = Form(layers=12, width=768, heads=12, pre_norm=True, patch=16, side=224, classes=1000)


class Builder:
    """Collects the nodes and weights of a network."""

    def __init__(self, form: Form) -> None:
        self.form = form
        self.rng = np.random.default_rng(form.seed)
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

    def dense(self, name: str, x: str, inputs: int, outputs: int, factor: float = 1.0) -> str:
        """Add a dense layer with a bias. factor: multiplies the weights."""
        weight = self.rng.normal(0, inputs**-0.5, (inputs, outputs)).astype(np.float32)
        weight *= np.float32(factor)
        bias = self.rng.normal(0, 0.1, outputs).astype(np.float32)
        product = self.node("MatMul", f"{name}.product", [x, self.constant(f"{name}.w", weight)])
        return self.node("Add", name, [product, self.constant(f"{name}.b", bias)])

    def norm(self, name: str, x: str) -> str:
        """Add a layer normalisation."""
        scale = self.constant(f"{name}.scale", np.ones(self.form.width, np.float32))
        bias = self.constant(f"{name}.bias", np.zeros(self.form.width, np.float32))
        if self.form.norm == "parts":
            mean = self.node("ReduceMean", f"{name}.mean", [x], axes=[-1])
            centred = self.node("Sub", f"{name}.centred", [x, mean])
            two = self.constant(f"{name}.two", np.array(2, np.float32))
            square = self.node("Pow", f"{name}.square", [centred, two])
            variance = self.node("ReduceMean", f"{name}.variance", [square], axes=[-1])
            least = self.constant(f"{name}.least", np.array(1e-5, np.float32))
            positive = self.node("Add", f"{name}.positive", [variance, least])
            deviation = self.node("Sqrt", f"{name}.deviation", [positive])
            ratio = self.node("Div", f"{name}.ratio", [centred, deviation])
            scaled = self.node("Mul", f"{name}.scaled", [ratio, scale])
            return self.node("Add", name, [scaled, bias])
        return self.node("LayerNormalization", name, [x, scale, bias], axis=-1)

    def split_heads(self, name: str, x: str, length: int, order: list[int]) -> str:
        """Add the split of the last axis into heads, which become an axis of their own."""
        form = self.form
        shape = np.array([form.batch, length, form.heads, form.width // form.heads])
        split = self.node("Reshape", f"{name}.split", [x, self.constant(f"{name}.shape", shape)])
        return self.node("Transpose", f"{name}.heads", [split], perm=order)

    def attention(self, name: str, x: str, memory: str, length: int, mask: str) -> str:
        """Add the attention of all heads, and the dense layer behind them.

        memory: the sequence of ``length`` rows of which keys and values are made.
        """
        form, width = self.form, self.form.width
        parts = {
            "query": (x, form.rows, [0, 2, 1, 3], form.spread),
            "key": (memory, length, [0, 2, 3, 1], form.spread),
            "value": (memory, length, [0, 2, 1, 3], 1.0),
        }
        query, key, value = (
            self.split_heads(
                f"{name}.{part}",
                self.dense(f"{name}.{part}", read, width, width, factor),
                rows,
                order,
            )
            for part, (read, rows, order, factor) in parts.items()
        )
        scores = self.node("MatMul", f"{name}.scores", [query, key])
        root = np.array((width / form.heads) ** 0.5, np.float32)
        scaled = self.node("Div", f"{name}.scaled", [scores, self.constant(f"{name}.root", root)])
        if mask:
            scaled = self.node("Add", f"{name}.masked", [scaled, mask])
        shares = self.node("Softmax", f"{name}.softmax", [scaled], axis=-1)
        mixed = self.node("MatMul", f"{name}.mixed", [shares, value])
        moved = self.node("Transpose", f"{name}.moved", [mixed], perm=[0, 2, 1, 3])
        shape = self.constant(f"{name}.joined.shape", np.array([form.batch, form.rows, width]))
        return self.dense(
            f"{name}.out", self.node("Reshape", f"{name}.joined", [moved, shape]), width, width
        )

    def gelu(self, name: str, x: str) -> str:
        """Add the GELU, written out as exporters do unless it is an operator."""
        if self.form.gelu in ("Gelu", "Relu"):
            return self.node(self.form.gelu, name, [x])

        def number(part: str, value: float) -> str:
            return self.constant(f"{name}.{part}", np.array(value, np.float32))

        if self.form.gelu == "silu":
            return self.node("Mul", name, [x, self.node("Sigmoid", f"{name}.sigmoid", [x])])
        if self.form.gelu == "erf":
            inner = self.node("Div", f"{name}.div", [x, number("root", 2**0.5)])
            bent = self.node("Erf", f"{name}.erf", [inner])
        else:
            cube = self.node("Pow", f"{name}.cube", [x, number("three", 3)])
            small = self.node("Mul", f"{name}.small", [cube, number("part", 0.044715)])
            total = self.node("Add", f"{name}.sum", [x, small])
            inner = self.node("Mul", f"{name}.inner", [total, number("root", (2 / np.pi) ** 0.5)])
            bent = self.node("Tanh", f"{name}.tanh", [inner])
        product = self.node(
            "Mul", f"{name}.mul", [x, self.node("Add", f"{name}.add", [bent, number("one", 1)])]
        )
        return self.node("Mul", name, [product, number("half", 0.5)])

    def feed(self, name: str, x: str) -> str:
        """Add the two dense layers."""
        width, inner = self.form.width, self.form.inner or 4 * self.form.width
        bent = self.gelu(f"{name}.gelu", self.dense(f"{name}.up", x, width, inner))
        return self.dense(f"{name}.down", bent, inner, width)

    def branch(self, name: str, norm: str, x: str, compute) -> str:
        """Add a branch to a stream, normalised before it or behind the addition."""
        if self.form.pre_norm:
            return self.node("Add", f"{norm}.add", [x, compute(self.norm(norm, x))])
        return self.norm(norm, self.node("Add", f"{norm}.add", [x, compute(x)]))

    def layer(self, name: str, x: str, mask: str) -> str:
        """Add a layer."""
        form = self.form

        def attend(y: str) -> str:
            return self.attention(f"{name}.attention", y, y, form.rows, mask)

        def attend_to_source(y: str) -> str:
            return self.attention(f"{name}.cross", y, "source", form.source, "")

        x = self.branch(name, f"{name}.norm1", x, attend)
        if form.source:
            x = self.branch(name, f"{name}.norm3", x, attend_to_source)
        return self.branch(name, f"{name}.norm2", x, lambda y: self.feed(name, y))

    def patches(self, image: str) -> str:
        """Add the sequence of an image's patches, behind a row for its class, with positions."""
        form, size = self.form, self.form.patch
        kernel = self.rng.normal(0, (3 * size * size) ** -0.5, (form.width, 3, size, size))
        weight = self.constant("patches.w", kernel.astype(np.float32))
        conv = self.node("Conv", "patches.conv", [image, weight], strides=[size, size])
        shape = self.constant("patches.shape", np.array([form.batch, form.width, form.rows - 1]))
        flat = self.node("Reshape", "patches.flat", [conv, shape])
        rows = self.node("Transpose", "patches.rows", [flat], perm=[0, 2, 1])
        row = self.rng.normal(0, 1, (1, 1, form.width)).astype(np.float32)
        first = self.constant("patches.class", np.repeat(row, form.batch, axis=0))
        joined = self.node("Concat", "patches.joined", [first, rows], axis=1)
        positions = self.rng.normal(0, 0.5, (1, form.rows, form.width)).astype(np.float32)
        added = [joined, self.constant("patches.positions", positions)]
        return self.node("Add", "patches", added)


def build(layers: int | Form = LAYERS, length: int = LENGTH, width: int = WIDTH,
          heads: int = HEADS, seed: int = 0) -> onnx.ModelProto:  # fmt: skip
    """A transformer of one form, or an encoder of these sizes; the output is ``y``.

    Inputs are float32 of `Form.inputs`.
    """
    form = layers if isinstance(layers, Form) else Form(layers, length, width, heads, seed)
    builder = Builder(form)
    x, mask = "x", form.mask and "mask"
    if form.patch:
        x = builder.patches(x)
    if form.mask == "causal":
        later = np.triu(np.full((form.rows, form.rows), -10000.0, np.float32), 1)
        mask = builder.constant("causal", later)
    for number in range(form.layers):
        x = builder.layer(f"layer{number}", x, mask)
    if form.pre_norm:
        x = builder.norm("norm", x)
    shape = [form.batch, form.rows, form.width]
    if form.classes:
        x = builder.node("Gather", "first", [x, builder.constant("zero", np.array(0))], axis=1)
        x = builder.dense("classes", x, form.width, form.classes)
        shape = [form.batch, form.classes]
    builder.node("Identity", "y", [x])
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in form.inputs.items()
    ]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)
    graph = helper.make_graph(builder.nodes, "encoder", inputs, [output], builder.weights)
    opset = [helper.make_opsetid("", 20 if form.gelu == "Gelu" else 17)]
    return helper.make_model(graph, opset_imports=opset, ir_version=9, producer_name="vtac")


def samples(count: int, length: int = LENGTH, width: int = WIDTH, seed: int = 0) -> Array:
    """Random inputs, float32 (count, length, width)."""
    rng = np.random.default_rng([seed, 1])
    return rng.standard_normal((count, length, width)).astype(np.float32)


def feeds(form: Form, count: int, seed: int = 0) -> dict[str, Array]:
    """Random samples of all inputs of a form, by name; the first axis is that of samples."""
    rng, found = np.random.default_rng([seed, 1]), {}
    for name, (_, *shape) in form.inputs.items():
        if name == "mask":
            lengths = rng.integers(shape[-1] // 2, shape[-1] + 1, count)
            hidden = np.arange(shape[-1]) >= lengths[:, None]
            found[name] = np.where(hidden, np.float32(-10000), 0).reshape(count, *shape)
        else:
            found[name] = rng.standard_normal((count, *shape))
    return {name: array.astype(np.float32) for name, array in found.items()}


def main() -> None:
    """Write the model and samples to the files named on the command line."""
    if len(sys.argv) != 3:
        sys.exit("usage: encoder.py OUTPUT.onnx SAMPLES.npz")
    Path(sys.argv[1]).write_bytes(build().SerializeToString(deterministic=True))
    np.savez(sys.argv[2], x=samples(4))


if __name__ == "__main__":
    main()
