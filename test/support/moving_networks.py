"""Random networks whose tensors are joined and cut, most of them at whole blocks of channels."""

from dataclasses import dataclass, field
from random import Random

import numpy as np
from onnx import TensorProto, helper, numpy_helper
from random_networks import Network


@dataclass
class MovingNetwork:
    """Convolutions, poolings, concatenations and slices over images [1, C, H, W].

    block: channels of the target's elements.
    """

    random: Random
    block: int
    nodes: list = field(default_factory=list)
    constants: list = field(default_factory=list)
    values: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def build(self, steps: int) -> Network:
        """A network of that many random steps, with everything that nobody reads as results."""
        rng = np.random.default_rng(self.random.randrange(1 << 30))
        shape = (1, self.random.randint(1, 5), self.random.randint(3, 7), self.random.randint(3, 7))
        self.values["x"] = shape
        self.conv("x", rng)
        for _ in range(steps):
            x = self.random.choice(list(self.values)[1:])
            step = self.random.choice([self.conv, self.pool, self.join, self.join, self.cut])
            step(x, rng)
        last = self.conv(list(self.values)[-1], rng)
        tensor = helper.make_tensor_value_info
        graph = helper.make_graph(
            self.nodes,
            "moves",
            [tensor("x", TensorProto.FLOAT, shape)],
            [tensor(last, TensorProto.FLOAT, self.values[last])],
            self.constants,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        return Network(model, rng.normal(0, 1, (4, *shape[1:])).astype(np.float32), False)

    def node(self, kind: str, inputs: list[str], shape: tuple[int, ...], **attributes) -> str:  # type: ignore[no-untyped-def]
        name = f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        self.values[name] = shape
        return name

    def constant(self, array: np.ndarray) -> str:
        name = f"w{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def conv(self, x: str, rng: np.random.Generator, out: int | None = None) -> str:
        n, c, h, w = self.values[x]
        size = self.random.choice([1, 3])
        choice = [self.block, 2 * self.block, self.random.randint(1, 30)]
        out = self.random.choice(choice) if out is None else out
        weights = rng.normal(0, 1.2 / np.sqrt(c * size * size), (out, c, size, size))
        pads = [size // 2] * 4
        inputs = [x, self.constant(weights.astype(np.float32))]
        return self.node("Conv", inputs, (n, out, h, w), pads=pads)

    def pool(self, x: str, rng: np.random.Generator) -> str:
        window = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
        return self.node("MaxPool", [x], self.values[x], **window)

    def join(self, x: str, rng: np.random.Generator) -> str:
        axis = self.random.choice([1, 1, 2, 3])

        def rest(name: str) -> list[int]:
            return [extent for dim, extent in enumerate(self.values[name]) if dim != axis]

        fitting = [name for name in list(self.values)[1:] if rest(name) == rest(x)]
        chosen = [self.random.choice(fitting) for _ in range(self.random.randint(1, 2))]
        parts = [*chosen, x]
        shape = list(self.values[x])
        shape[axis] = sum(self.values[part][axis] for part in parts)
        return x if max(shape) > 100 else self.node("Concat", parts, tuple(shape), axis=axis)

    def cut(self, x: str, rng: np.random.Generator) -> str:
        shape = self.values[x]
        first = self.random.randrange(-(-shape[1] // self.block)) * self.block
        starts = [first, *(self.random.randrange(extent) for extent in shape[2:])]
        ends = [
            self.random.randint(start + 1, extent)
            for start, extent in zip(starts, shape[1:], strict=True)
        ]
        limits = [self.constant(np.array(limit, np.int64)) for limit in (starts, ends, [1, 2, 3])]
        taken = tuple(end - start for start, end in zip(starts, ends, strict=True))
        return self.node("Slice", [x, *limits], (1, *taken))
