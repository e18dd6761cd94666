"""A ResNet-18 with random weights, built with onnx.helper: the benchmarks' large network.

He et al., "Deep Residual Learning for Image Recognition" (2015), table 1, with the projection
shortcuts of option B. Convolutions are drawn as in He et al., "Delving Deep into Rectifiers"; the
statistics of each batch normalisation are those that its input really has over a few images,
found layer by layer, so that activations keep the ranges of a trained network.

``python test/benchmarks/resnet18.py resnet18.onnx`` writes the model.
"""

import sys
from pathlib import Path

import numpy as np
import onnx
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

Array = NDArray[np.float32]

STAGES = ((64, 1), (128, 2), (256, 2), (512, 2))  # channels, stride of the first block
BLOCKS = 2
CLASSES = 1000
EPSILON = 1e-5

# Statistics are taken over this many images of this size, whatever size the model is built for.
SAMPLES = 6
SAMPLE_SIZE = 96


def images(count: int, seed: int = 0, image: int = 224) -> Array:
    """Return random images, float32 (count, 3, image, image), normalised as ImageNet's are.

    As in photographs, neighbouring pixels are alike and images differ in colour and contrast:
    noise of several grid sizes is enlarged and added up.
    """
    rng = np.random.default_rng([seed, 1])
    total = np.zeros((count, 3, image, image), np.float32)
    for cells in (1, 3, 7, 16, 48):
        noise = rng.normal(size=(count, 3, cells, cells)).astype(np.float32)
        places = np.arange(image) * cells // image
        total += noise[:, :, places[:, np.newaxis], places] / np.float32(np.sqrt(5))
    return total * rng.uniform(0.5, 1.5, (count, 1, 1, 1)).astype(np.float32)


def convolve(x: Array, weight: Array, stride: int, pad: int) -> Array:
    """Return the convolution of x (n, c, h, w) by weight (o, c, k, k)."""
    kernel = weight.shape[2]
    padded = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    windows = sliding_window_view(padded, (kernel, kernel), axis=(2, 3))[:, :, ::stride, ::stride]
    n, _, height, width = windows.shape[:4]
    rows = windows.transpose(0, 2, 3, 1, 4, 5).reshape(n * height * width, -1)
    product = rows @ weight.reshape(len(weight), -1).T
    return product.reshape(n, height, width, len(weight)).transpose(0, 3, 1, 2)


def max_pool(x: Array) -> Array:
    """Return the 3x3 max pooling of stride 2 of x, which is nowhere negative."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    largest = sliding_window_view(padded, (3, 3), axis=(2, 3))[:, :, ::2, ::2].max(axis=(4, 5))
    return np.asarray(largest, np.float32)


class Builder:
    """Collects nodes and initializers, and computes every value on the sample images as it goes."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng([seed, 0])
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[TensorProto] = []
        self.values = {"image": images(SAMPLES, seed, SAMPLE_SIZE)}

    def constant(self, name: str, value: Array) -> str:
        """Add an initializer and return its name."""
        self.initializers.append(numpy_helper.from_array(value.astype(np.float32), name))
        return name

    def node(self, kind: str, name: str, operands: list[str], value: Array, **attributes) -> str:
        """Add a node with one result of the same name, whose value on the samples is given."""
        self.nodes.append(helper.make_node(kind, operands, [name], name=name, **attributes))
        self.values[name] = value
        return name

    def convolution(self, name: str, x: str, outputs: int, kernel: int, stride: int = 1) -> str:
        """Add a convolution and its batch normalisation."""
        inputs, pad = self.values[x].shape[1], kernel // 2
        deviation = np.sqrt(2 / (inputs * kernel * kernel))
        weight = self.rng.normal(0, deviation, (outputs, inputs, kernel, kernel))
        weight = weight.astype(np.float32)
        result = self.node(
            "Conv",
            f"{name}.conv",
            [x, self.constant(f"{name}.weight", weight)],
            convolve(self.values[x], weight, stride, pad),
            kernel_shape=[kernel, kernel],
            strides=[stride, stride],
            pads=[pad] * 4,
        )
        return self.normalisation(f"{name}.norm", result)

    def normalisation(self, name: str, x: str) -> str:
        """Add a batch normalisation by the statistics that x has on the samples."""
        value = self.values[x]
        channels = value.shape[1]
        parts = {
            "scale": self.rng.uniform(0.7, 1.3, channels).astype(np.float32),
            "bias": self.rng.normal(0, 0.2, channels).astype(np.float32),
            "mean": value.mean(axis=(0, 2, 3)),
            "variance": value.var(axis=(0, 2, 3)),
        }
        scale, bias, mean, variance = (part.reshape(1, -1, 1, 1) for part in parts.values())
        normal = (value - mean) / np.sqrt(variance + np.float32(EPSILON)) * scale + bias
        operands = [self.constant(f"{name}.{part}", array) for part, array in parts.items()]
        return self.node("BatchNormalization", name, [x, *operands], normal, epsilon=EPSILON)

    def relu(self, name: str, x: str) -> str:
        """Add a relu."""
        return self.node("Relu", name, [x], np.maximum(self.values[x], 0))

    def block(self, name: str, x: str, channels: int, stride: int) -> str:
        """Add a basic block: two 3x3 convolutions around which the input is carried."""
        inner = self.relu(f"{name}.relu1", self.convolution(f"{name}.1", x, channels, 3, stride))
        inner = self.convolution(f"{name}.2", inner, channels, 3)
        if stride != 1 or self.values[x].shape[1] != channels:
            x = self.convolution(f"{name}.shortcut", x, channels, 1, stride)
        total = self.node("Add", f"{name}.add", [inner, x], self.values[inner] + self.values[x])
        return self.relu(f"{name}.relu2", total)

    def head(self, x: str, classes: int = CLASSES) -> None:
        """Add the average over the image and the dense layer, whose output is ``logits``.

        Its bias takes away what all images have in common, as training would: the logits tell
        images apart.
        """
        mean = self.values[x].mean(axis=(2, 3), keepdims=True)
        pooled = self.node("GlobalAveragePool", "average", [x], mean)
        flat = self.node("Flatten", "flat", [pooled], mean.reshape(len(mean), -1), axis=1)
        features = mean.shape[1]
        weight = self.rng.normal(0, 3 / np.sqrt(features), (classes, features)).astype(np.float32)
        products = self.values[flat] @ weight.T
        bias = self.rng.normal(0, 0.2, classes).astype(np.float32) - products.mean(axis=0)
        logits = products + bias
        operands = [self.constant("dense.weight", weight), self.constant("dense.bias", bias)]
        self.node("Gemm", "logits", [flat, *operands], logits, transB=1)


def build(seed: int = 0, image: int = 224) -> onnx.ModelProto:
    """Return ResNet-18: input ``image`` (1, 3, image, image), output ``logits`` (1, 1000).

    Weights and statistics depend on ``seed`` alone; ``image`` is a multiple of 32.
    """
    if image <= 0 or image % 32:
        raise ValueError(f"image is {image}, but must be a positive multiple of 32")
    builder = Builder(seed)
    x = builder.relu("stem.relu", builder.convolution("stem", "image", 64, 7, 2))
    geometry = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
    x = builder.node("MaxPool", "stem.pool", [x], max_pool(builder.values[x]), **geometry)
    for stage, (channels, stride) in enumerate(STAGES, start=1):
        for number in range(1, BLOCKS + 1):
            name = f"stage{stage}.block{number}"
            x = builder.block(name, x, channels, stride if number == 1 else 1)
    builder.head(x)
    graph = helper.make_graph(
        builder.nodes,
        "resnet18",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, image, image])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, CLASSES])],
        builder.initializers,
    )
    opset = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opset, ir_version=8, producer_name="vtac")


def main() -> None:
    """Write the model to the file named on the command line."""
    if len(sys.argv) != 2:
        sys.exit("usage: resnet18.py OUTPUT.onnx")
    Path(sys.argv[1]).write_bytes(build().SerializeToString(deterministic=True))


if __name__ == "__main__":
    main()
