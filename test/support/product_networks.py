"""Random networks around a product of two activations: batches, orders, factors, given scales."""

from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from quantised_networks import Steps, Writer
from small_models import small_model

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class ProductNetwork:
    """A model of inputs ``a`` and ``b``, or one of them and a constant, and samples for it."""

    model: onnx.ModelProto
    inputs: dict[str, Array]


class _Writer(Writer):
    def __init__(self, random: Random):
        super().__init__(qoperator=False)
        self.random = random

    def rounded(self, value: str, largest: float) -> str:
        """The value at a scale of the network's own, with any zero point."""
        dtype = self.random.choice([np.int8, np.uint8])
        zero = self.random.choice([0, 0, self.random.randint(-128, 127)])
        zero += 128 if dtype is np.uint8 else 0
        steps = Steps(largest / self.random.uniform(80, 127), zero, dtype)
        return self.real(self.stored(value, steps))

    def scaled(self, value: str) -> str:
        return self.node(self.random.choice(["Mul", "Div"]), [value, self.weight(np.float32(1.7))])

    def moved(self, value: str, shape: list[int]) -> tuple[str, list[int]]:
        """A value in another order, and what its order was before."""
        order = list(range(len(shape)))
        self.random.shuffle(order)
        before = [0] * len(shape)
        for place, axis in enumerate(order):
            before[axis] = shape[place]
        return self.node("Transpose", [value], perm=order), before


def product_network(random: Random) -> ProductNetwork:
    """A product whose operands may be reordered or rounded before, and its result after."""
    w = _Writer(random)
    rows, inner, columns = (random.randint(1, 20) for _ in range(3))
    batch = [random.randint(1, 3) for _ in range(random.choice([0, 0, 1, 2]))]
    shapes = [[*_part(random, batch), rows, inner], [*_part(random, batch), inner, columns]]
    rank = max(map(len, shapes))
    given, numbers = random.random() < 0.4, np.random.default_rng(random.randrange(1 << 30))
    values, inputs, constant = [], {}, random.choice(["a", "b", "", "", ""])
    for name, shape in zip("ab", shapes, strict=True):
        value = name
        if random.random() < 0.4:
            value, shape = w.moved(name, shape)
        array = numbers.uniform(-3, 3, shape).astype(np.float32)
        if name == constant:
            w.weights.append(numpy_helper.from_array(array, name))
        else:
            inputs[name] = array
        values.append(value)
    values = [w.scaled(value) if random.random() < 0.2 else value for value in values]
    # Orders come before the rounding where scales are given: what is moved is real.
    values = [w.rounded(value, 3.0) if given else value for value in values]
    value = w.node("MatMul", values)
    if random.random() < 0.4:
        value = w.scaled(value)
    if given:
        value = w.rounded(value, 9.0 * inner**0.5)
    if random.random() < 0.3:
        order = [*range(rank)]
        random.shuffle(order)
        value = w.node("Transpose", [value], perm=order)
    if random.random() < 0.5:
        value = w.node("Relu", [value])
    shapes = {name: array.shape for name, array in inputs.items()}
    weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in w.weights}
    return ProductNetwork(small_model(w.nodes, shapes, [value], weights), inputs)


def _part(random: Random, batch: list[int]) -> list[int]:
    """Batch dimensions that broadcast to all of them, together with those of the other operand."""
    kind = random.choice(["all", "all", "none", "some"])
    if kind == "none":
        return []
    return [random.choice([1, extent]) if kind == "some" else extent for extent in batch]
