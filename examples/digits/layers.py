"""The layers of the network in plain NumPy, each with its forward and its backward pass.

Activations are float32 of shape (n, channels, height, width). A layer remembers what its last
``forward`` needs for ``backward``, which takes the gradient of the loss by the layer's output,
leaves those by its parameters in ``gradients`` and returns the one by its input.
"""

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

Array = NDArray[np.float32]


def columns(x: Array) -> Array:
    """Return the 3x3 neighbourhood of every pixel as a row: (n * h * w, channels * 9)."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = sliding_window_view(padded, (3, 3), axis=(2, 3))
    return windows.transpose(0, 2, 3, 1, 4, 5).reshape(-1, x.shape[1] * 9)


def convolve(rows: Array, weight: Array, like: Array) -> Array:
    """Multiply ``columns`` by a weight (out, in, 3, 3); the image size is that of ``like``."""
    n, _, height, width = like.shape
    product = rows @ weight.reshape(len(weight), -1).T
    return product.reshape(n, height, width, len(weight)).transpose(0, 3, 1, 2)


class Convolution:
    """A 3x3 convolution with pads of one: images keep their size."""

    def __init__(self, inputs: int, outputs: int, rng: np.random.Generator) -> None:
        deviation = np.sqrt(2 / (9 * inputs))
        weight = rng.normal(0, deviation, (outputs, inputs, 3, 3)).astype(np.float32)
        self.parameters = {"weight": weight, "bias": np.zeros(outputs, np.float32)}
        self.gradients: dict[str, Array] = {}

    def forward(self, x: Array) -> Array:
        """Return the convolution of x."""
        self.input, self.rows = x, columns(x)
        bias = self.parameters["bias"].reshape(1, -1, 1, 1)
        return convolve(self.rows, self.parameters["weight"], x) + bias

    def backward(self, dy: Array) -> Array:
        """Return the gradient by x: dy convolved with the weight turned round."""
        weight = self.parameters["weight"]
        flat = dy.transpose(0, 2, 3, 1).reshape(-1, len(weight))
        self.gradients = {
            "weight": (flat.T @ self.rows).reshape(weight.shape),
            "bias": flat.sum(axis=0),
        }
        turned = weight.transpose(1, 0, 2, 3)[:, :, ::-1, ::-1]
        return convolve(columns(dy), turned, dy)


class BatchNormalization:
    """Normalises each channel over the batch; keeps running statistics for inference."""

    epsilon = 1e-5
    momentum = 0.9

    def __init__(self, channels: int) -> None:
        self.parameters = {
            "scale": np.ones(channels, np.float32),
            "bias": np.zeros(channels, np.float32),
        }
        self.gradients: dict[str, Array] = {}
        self.mean = np.zeros(channels, np.float32)
        self.variance = np.ones(channels, np.float32)

    def forward(self, x: Array) -> Array:
        """Return x normalised by the statistics of this batch."""
        mean, variance = x.mean(axis=(0, 2, 3)), x.var(axis=(0, 2, 3))
        share = np.float32(1 - self.momentum)
        self.mean += share * (mean - self.mean)
        self.variance += share * (variance - self.variance)
        self.deviation = np.sqrt(variance + self.epsilon).reshape(1, -1, 1, 1)
        self.normal = (x - mean.reshape(1, -1, 1, 1)) / self.deviation
        scale, bias = (self.parameters[k].reshape(1, -1, 1, 1) for k in ("scale", "bias"))
        return self.normal * scale + bias

    def backward(self, dy: Array) -> Array:
        """Return the gradient by x, through the batch's mean and variance as well."""
        self.gradients = {
            "scale": (dy * self.normal).sum(axis=(0, 2, 3)),
            "bias": dy.sum(axis=(0, 2, 3)),
        }
        dn = dy * self.parameters["scale"].reshape(1, -1, 1, 1)
        mean = dn.mean(axis=(0, 2, 3), keepdims=True)
        along = (dn * self.normal).mean(axis=(0, 2, 3), keepdims=True)
        return (dn - mean - self.normal * along) / self.deviation


class Relu:
    """max(x, 0)."""

    def forward(self, x: Array) -> Array:
        """Return max(x, 0)."""
        self.positive = x > 0
        return x * self.positive

    def backward(self, dy: Array) -> Array:
        """Return dy where x was positive."""
        return dy * self.positive


class MaxPool:
    """The largest of every 2x2 pixels."""

    def forward(self, x: Array) -> Array:
        """Return an image of half the height and half the width."""
        n, channels, height, width = x.shape
        self.shape = x.shape
        blocks = x.reshape(n, channels, height // 2, 2, width // 2, 2)
        self.rows = blocks.transpose(0, 1, 2, 4, 3, 5).reshape(-1, 4)
        self.winner = self.rows.argmax(axis=1)
        largest = self.rows[np.arange(len(self.rows)), self.winner]
        return largest.reshape(n, channels, height // 2, width // 2)

    def backward(self, dy: Array) -> Array:
        """Return dy where each block has its largest pixel."""
        n, channels, height, width = self.shape
        rows = np.zeros_like(self.rows)
        rows[np.arange(len(rows)), self.winner] = dy.reshape(-1)
        blocks = rows.reshape(n, channels, height // 2, width // 2, 2, 2)
        return blocks.transpose(0, 1, 2, 4, 3, 5).reshape(self.shape)


class Dense:
    """Flattens its input and multiplies it by a matrix (outputs, inputs)."""

    def __init__(self, inputs: int, outputs: int, rng: np.random.Generator) -> None:
        weight = rng.normal(0, np.sqrt(1 / inputs), (outputs, inputs)).astype(np.float32)
        self.parameters = {"weight": weight, "bias": np.zeros(outputs, np.float32)}
        self.gradients: dict[str, Array] = {}

    def forward(self, x: Array) -> Array:
        """Return the products, (n, outputs)."""
        self.shape = x.shape
        self.rows = x.reshape(len(x), -1)
        return self.rows @ self.parameters["weight"].T + self.parameters["bias"]

    def backward(self, dy: Array) -> Array:
        """Return the gradient by x, in the shape of x."""
        self.gradients = {"weight": dy.T @ self.rows, "bias": dy.sum(axis=0)}
        return (dy @ self.parameters["weight"]).reshape(self.shape)
