"""Trains the network for handwritten digits and writes ``digits.onnx`` beside this file.

Plain NumPy, about a minute on one core, and the same bytes at every run on one machine.
"""

from pathlib import Path

import numpy as np
import onnx
from data import Images, Labels, split
from layers import Array, BatchNormalization, Convolution, Dense, MaxPool, Relu
from onnx import TensorProto, helper, numpy_helper
from threadpoolctl import threadpool_limits

MODEL = Path(__file__).with_name("digits.onnx")

SEED = 0
EPOCHS = 40
BATCH = 64
LEARNING_RATE = 3e-3
WEIGHT_DECAY = 1e-2
LABEL_SMOOTHING = 0.05


class Network:
    """Three convolutions, the last inside a residual block, and a dense layer.

    =======  ====================================  ===========
    step     layers                                output
    =======  ====================================  ===========
    first    convolution, batch normalisation      16 x 8 x 8
    second   convolution, then 2x2 max pooling     32 x 4 x 4
    third    convolution, plus its own input       32 x 4 x 4
    dense    flatten, matrix product               10
    =======  ====================================  ===========

    Each convolution ends in a relu; that of the third follows the addition.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        self.first = Convolution(1, 16, rng)
        self.norm = BatchNormalization(16)
        self.second = Convolution(16, 32, rng)
        self.pool = MaxPool()
        self.third = Convolution(32, 32, rng)
        self.dense = Dense(32 * 4 * 4, 10, rng)
        self.before = [self.first, self.norm, Relu(), self.second, Relu(), self.pool]
        self.relu = Relu()
        self.learning = [self.first, self.norm, self.second, self.third, self.dense]

    def forward(self, x: Array) -> Array:
        """Return the logits, (n, 10), of images (n, 1, 8, 8)."""
        for layer in self.before:
            x = layer.forward(x)
        return self.dense.forward(self.relu.forward(self.third.forward(x) + x))

    def backward(self, dlogits: Array) -> None:
        """Leave in every layer the gradients of its parameters."""
        dsum = self.relu.backward(self.dense.backward(dlogits))
        dx = self.third.backward(dsum) + dsum
        for layer in reversed(self.before):
            dx = layer.backward(dx)


class Adam:
    """Adam with decoupled weight decay (Loshchilov and Hutter, "AdamW")."""

    def __init__(self, network: Network) -> None:
        self.layers = network.learning
        self.steps = 0
        self.moments = {
            (layer, name): (np.zeros_like(value), np.zeros_like(value))
            for layer in self.layers
            for name, value in layer.parameters.items()
        }

    def step(self, rate: float) -> None:
        """Change every parameter by the gradients that its layer holds."""
        self.steps += 1
        correction = np.sqrt(1 - 0.999**self.steps) / (1 - 0.9**self.steps)
        for (layer, name), (first, second) in self.moments.items():
            gradient, value = layer.gradients[name], layer.parameters[name]
            first += np.float32(0.1) * (gradient - first)
            second += np.float32(0.001) * (gradient**2 - second)
            if name == "weight":
                value *= np.float32(1 - rate * WEIGHT_DECAY)
            value -= np.float32(rate * correction) * first / (np.sqrt(second) + np.float32(1e-8))


def shifted(images: Images, rng: np.random.Generator) -> Images:
    """Return the images, each moved by up to one pixel, the border filled with zeros."""
    padded = np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1)))
    down, right = rng.integers(0, 3, (2, len(images)))
    rows = down[:, np.newaxis] + np.arange(8)
    cols = right[:, np.newaxis] + np.arange(8)
    places = np.arange(len(images))[:, np.newaxis, np.newaxis]
    return padded[places, 0, rows[:, :, np.newaxis], cols[:, np.newaxis]][:, np.newaxis]


def loss_and_gradient(logits: Array, labels: Labels) -> tuple[float, Array]:
    """Return the mean cross entropy with smoothed labels, and its gradient by the logits."""
    goal = np.full(logits.shape, LABEL_SMOOTHING / 10, np.float32)
    goal[np.arange(len(labels)), labels] += 1 - LABEL_SMOOTHING
    shifted_logits = logits - logits.max(axis=1, keepdims=True)
    log_probability = shifted_logits - np.log(np.exp(shifted_logits).sum(axis=1, keepdims=True))
    loss = -(goal * log_probability).sum(axis=1).mean()
    return float(loss), (np.exp(log_probability) - goal) / np.float32(len(labels))


def train(images: Images, labels: Labels) -> Network:
    """Return a network trained on the images; says its loss every ten epochs."""
    rng = np.random.default_rng(SEED)
    network = Network(rng)
    adam = Adam(network)
    batches = len(labels) // BATCH
    for epoch in range(EPOCHS):
        order, total = rng.permutation(len(labels)), 0.0
        for number in range(batches):
            chosen = order[number * BATCH : (number + 1) * BATCH]
            logits = network.forward(shifted(images[chosen], rng))
            loss, gradient = loss_and_gradient(logits, labels[chosen])
            network.backward(gradient)
            progress = (epoch + number / batches) / EPOCHS
            adam.step(LEARNING_RATE * (1 + np.cos(np.pi * progress)) / 2)
            total += loss
        if epoch % 10 == 9:
            print(f"epoch {epoch + 1}: loss {total / batches:.4f}")
    return network


def tensors(network: Network) -> list[TensorProto]:
    """Return the parameters as ONNX initializers; the first convolution has no bias of its own."""
    named = {
        f"{name}.{parameter}": value
        for name in ("first", "norm", "second", "third", "dense")
        for parameter, value in getattr(network, name).parameters.items()
    }
    # A bias before batch normalisation moves its mean and nothing else.
    named["norm.mean"] = network.norm.mean - named.pop("first.bias")
    named["norm.variance"] = network.norm.variance
    return [numpy_helper.from_array(value, name) for name, value in named.items()]


def to_onnx(network: Network) -> onnx.ModelProto:
    """Return the network for inference: input ``image`` (N, 1, 8, 8), output ``logits`` (N, 10)."""

    def convolution(name: str, operands: list[str]) -> onnx.NodeProto:
        geometry = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [1, 1]}
        return helper.make_node("Conv", operands, [name], name=name, **geometry)

    def node(kind: str, name: str, operands: list[str], **attributes: object) -> onnx.NodeProto:
        return helper.make_node(kind, operands, [name], name=name, **attributes)

    norm = [f"norm.{part}" for part in ("scale", "bias", "mean", "variance")]
    nodes = [
        convolution("first", ["image", "first.weight"]),
        node("BatchNormalization", "norm", ["first", *norm], epsilon=network.norm.epsilon),
        node("Relu", "first_relu", ["norm"]),
        convolution("second", ["first_relu", "second.weight", "second.bias"]),
        node("Relu", "second_relu", ["second"]),
        node("MaxPool", "pool", ["second_relu"], kernel_shape=[2, 2], strides=[2, 2]),
        convolution("third", ["pool", "third.weight", "third.bias"]),
        node("Add", "residual", ["third", "pool"]),
        node("Relu", "residual_relu", ["residual"]),
        node("Flatten", "flat", ["residual_relu"], axis=1),
        node("Gemm", "logits", ["flat", "dense.weight", "dense.bias"], transB=1),
    ]
    graph = helper.make_graph(
        nodes,
        "digits",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["N", 1, 8, 8])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["N", 10])],
        tensors(network),
    )
    opset = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=8, producer_name="vtac")
    onnx.checker.check_model(model, full_check=True)
    return model


def main() -> None:
    """Train, write the model, say how large it is."""
    images, labels, _, _ = split()
    with threadpool_limits(limits=1):
        network = train(images, labels)
    MODEL.write_bytes(to_onnx(network).SerializeToString(deterministic=True))
    print(f"{MODEL.name}: {MODEL.stat().st_size} bytes")


if __name__ == "__main__":
    main()
