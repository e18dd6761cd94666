"""The network of FlexTensor's Q-method: four dense layers with ReLU, trained by AdaDelta.

AdaDelta: Zeiler, "ADADELTA: An Adaptive Learning Rate Method", 2012. The loss follows Mnih et al.,
"Human-level control through deep reinforcement learning", 2015: the squared difference between the
value of the direction that was taken and its target; the other directions have no part in it.
"""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

DECAY, SMALL = 0.9, 1e-6
"""AdaDelta's decay of running averages, and the epsilon under its square roots."""


class CostNetwork:
    """Dense layers with ReLU between them. weights: [inputs, outputs] and a bias of each layer."""

    def __init__(self, inputs: int, outputs: int, width: int, rate: float, seed: int) -> None:
        random = np.random.default_rng(seed)
        sizes = [inputs, width, width, width, outputs]
        self.rate = rate
        self.weights: list[Array] = []
        for size, following in pairwise(sizes):
            self.weights.append(random.normal(0, np.sqrt(2 / max(size, 1)), (size, following)))
            self.weights.append(np.zeros(following))
        self._gradients = [np.zeros_like(array) for array in self.weights]
        self._steps = [np.zeros_like(array) for array in self.weights]

    def values(self, points: Array) -> Array:
        """The values of all directions, [points, outputs]; points: [points, inputs]."""
        return self._layers(points)[-1]

    def copy(self) -> "CostNetwork":
        """A network with the same weights, which training of this one does not change."""
        other = object.__new__(CostNetwork)
        other.rate = self.rate
        other.weights = [array.copy() for array in self.weights]
        other._gradients = [array.copy() for array in self._gradients]
        other._steps = [array.copy() for array in self._steps]
        return other

    def train(self, points: Array, directions: NDArray[np.int64], targets: Array) -> float:
        """Take one gradient step on a batch. Returns the mean squared error before the step.

        points: [batch, inputs]. directions: the number of the output that each target is compared
        with, [batch]. targets: [batch].
        """
        layers = self._layers(points)
        rows = np.arange(len(points))
        difference = layers[-1][rows, directions] - targets
        gradient = np.zeros_like(layers[-1])
        gradient[rows, directions] = 2 * difference / len(points)
        gradients: list[Array] = []
        for number in range(len(self.weights) // 2 - 1, -1, -1):
            gradients[:0] = [layers[number].T @ gradient, gradient.sum(axis=0)]
            if number:
                gradient = (gradient @ self.weights[2 * number].T) * (layers[number] > 0)
        self._update(gradients)
        return float(np.mean(difference**2))

    def _layers(self, points: Array) -> list[Array]:
        """The input and the output of each layer; the last layer has no ReLU."""
        layers, last = [points], len(self.weights) // 2 - 1
        for number in range(last + 1):
            found = layers[-1] @ self.weights[2 * number] + self.weights[2 * number + 1]
            layers.append(found if number == last else np.maximum(found, 0))
        return layers

    def _update(self, gradients: list[Array]) -> None:
        for number, gradient in enumerate(gradients):
            mean, moved = self._gradients[number], self._steps[number]
            mean *= DECAY
            mean += (1 - DECAY) * gradient**2
            step = -np.sqrt((moved + SMALL) / (mean + SMALL)) * gradient
            moved *= DECAY
            moved += (1 - DECAY) * step**2
            self.weights[number] += self.rate * step
