"""The nine ``light_*.onnx`` models of the onnx package, with random weights.

These are well-known networks whose weights are constants of one value each (ConstantOfShape), so
that every channel computes the same. Here all weights are seeded random initialisers. Random
networks answer nearly the same to whatever they see, layer after layer more so, unless the means of
channels are taken away; then they magnify every small difference. Here biases and batch norms take
half of the means away, and variances are one, as pictures show them (after Kraehenbuehl et al.,
"Data-dependent Initializations of Convolutional Neural Networks", section 3.1).
"""

from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, helper, numpy_helper
from small_models import run

Array = NDArray[Any]

FOLDER = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
NAMES = tuple(sorted(path.stem.removeprefix("light_") for path in FOLDER.glob("light_*.onnx")))
PICTURES = 4
"""So many decide on means and variances."""
TAKEN = 0.5
"""The share of its mean that each channel loses."""
COARSE = 14
"""Pictures are so many patches high and wide, with a little noise on them."""


def light_model(name: str, extent: int | None = None, until: str | None = None) -> ModelProto:
    """A model of `NAMES` with random weights.

    extent: height and width of its picture, where they need not be the model's own, 224.
    until: a value that becomes the only output; what comes behind it is left out.

    Its logits, where a softmax follows them, become a second output: a softmax hides most of them.
    Nodes have names: their first output's.
    """
    model = onnx.load(FOLDER / f"light_{name}.onnx")
    graph = model.graph
    if extent is not None:
        for value in graph.input:
            if value.name == picture_input(model)[0]:
                for dim in value.type.tensor_type.shape.dim[2:]:
                    dim.dim_value = extent
    if until is not None:
        last = next(i for i, node in enumerate(graph.node) if until in node.output)
        del graph.node[last + 1 :]
        del graph.output[:]
        graph.output.append(helper.make_empty_tensor_value_info(until))
    weights = _Weights(model, np.random.default_rng(len(name)))
    kept = [node for node in graph.node if node.op_type != "ConstantOfShape"]
    for node in kept:
        weights.settle(node)
        node.name = node.output[0]
    model.ir_version = 8  # before 4 initialisers had to be inputs
    del graph.node[:]
    graph.node.extend(kept)
    others = [t for t in graph.initializer if t.name not in weights.constants]
    del graph.initializer[:]
    graph.initializer.extend(others)
    graph.initializer.extend(
        numpy_helper.from_array(array.astype(np.float32), value)
        for value, array in weights.constants.items()
    )
    for node in kept:
        if node.op_type == "Softmax":
            graph.output.append(helper.make_empty_tensor_value_info(node.input[0]))
    return model


def picture_input(model: ModelProto) -> tuple[str, list[int]]:
    """The name and the shape of the only input that is no weight."""
    initial = {t.name for t in model.graph.initializer}
    (entry,) = (value for value in model.graph.input if value.name not in initial)
    return entry.name, [dim.dim_value for dim in entry.type.tensor_type.shape.dim]


def pictures(shape: list[int], count: int, seed: int) -> Array:
    """Batches of pictures [count, *shape] for an input [N, C, H, W], as float32."""
    *leading, height, width = shape
    rng = np.random.default_rng(seed)
    patches = rng.normal(size=(count, *leading, COARSE, COARSE))
    rows, columns = (np.arange(extent) * COARSE // extent for extent in (height, width))
    found = patches[..., rows, :][..., columns]
    return (found + 0.3 * rng.normal(size=found.shape)).astype(np.float32)


class _Weights:
    """Fills in the constants node by node, on the values that pictures have before the node."""

    def __init__(self, model: ModelProto, rng: np.random.Generator) -> None:
        graph, self.rng = model.graph, rng
        self.opsets = list(model.opset_import)
        given = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
        name, shape = picture_input(model)
        self.values = [{name: x, **given} for x in pictures(shape, PICTURES, len(given))]
        self.shapes = {
            name: array.shape for name, array in given.items() if array.dtype == np.float32
        }
        self.shapes |= {
            node.output[0]: tuple(map(int, given[node.input[0]]))
            for node in graph.node
            if node.op_type == "ConstantOfShape"
        }
        self.readers = {value: node.op_type for node in graph.node for value in node.input}
        self.constants: dict[str, Array] = {}

    def settle(self, node: NodeProto) -> None:
        """Choose the constants that a node reads, and evaluate it."""
        names = [name for name in node.input if name in self.shapes]
        for name in names:
            self._set(name, self._random(node, name))
        results = self._results(node)
        if node.op_type in ("Conv", "Gemm"):
            mean, scale = TAKEN * _mean(results), _size(results)
            if node.input[1] not in self.constants:  # inception_v1 reshapes the last ones
                scale = 1.0
            else:
                self._set(node.input[1], self.constants[node.input[1]] / scale)
            if len(node.input) > 2:
                self._set(node.input[2], -mean / scale)
            results = self._results(node)
        elif node.op_type == "BatchNormalization":
            inputs = [values[node.input[0]] for values in self.values]
            self._set(node.input[3], TAKEN * _mean(inputs))
            self._set(node.input[4], _variance(inputs))
            results = self._results(node)
        for values, result in zip(self.values, results, strict=True):
            values[node.output[0]] = result

    def _set(self, name: str, array: Array) -> None:
        self.constants[name] = array.astype(np.float32)
        for values in self.values:
            values[name] = self.constants[name]

    def _random(self, node: NodeProto, name: str) -> Array:
        shape, position = self.shapes[name], list(node.input).index(name)
        if node.op_type in ("Conv", "Gemm"):
            return self.rng.normal(0, prod(shape[1:]) ** -0.5, shape) * (position == 1)
        if node.op_type == "BatchNormalization" and position in (1, 4):
            return self.rng.uniform(0.5, 1.5, shape)
        if node.op_type == "Reshape":
            return self.rng.normal(0, shape[-1] ** -0.5, shape)
        if node.op_type == "Unsqueeze" and self.readers[node.output[0]] == "Mul":
            return self.rng.uniform(0.5, 1.5, shape)
        return self.rng.normal(0, 0.1, shape)

    def _results(self, node: NodeProto) -> list[Array]:
        """The first output for each picture."""
        inputs = [helper.make_empty_tensor_value_info(name) for name in node.input]
        types = {name: self.values[0][name].dtype for name in node.input}
        for entry in inputs:
            entry.type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(types[entry.name])
        outputs = [helper.make_empty_tensor_value_info(node.output[0])]
        model = helper.make_model(
            helper.make_graph([node], "node", inputs, outputs), opset_imports=self.opsets
        )
        model.ir_version = 8
        return [run(model, _only(values, node))[0] for values in self.values]


def _only(values: Mapping[str, Array], node: NodeProto) -> dict[str, Array]:
    return {name: values[name] for name in node.input}


def _mean(arrays: list[Array]) -> Array:
    """The mean of each channel of arrays [N, C, ...]."""
    return np.mean([a.mean(axis=(0, *range(2, a.ndim))) for a in arrays], axis=0)


def _variance(arrays: list[Array]) -> Array:
    """The variance of each channel."""
    squares = [np.square(a, dtype=np.float64) for a in arrays]
    return _mean(squares) - np.square(_mean(arrays), dtype=np.float64)


def _size(arrays: list[Array]) -> float:
    """The standard deviation of the whole layer, about the means of its channels."""
    return float(np.sqrt(_variance(arrays).mean()))
