"""Random small networks of ops that move elements or work on each, as ONNX models, for hypothesis.

Convolutions stand between them, since nothing else is work worth rounding for. In an *exact*
network (`random_networks`) elements are only moved and negated.
"""

import numpy as np
from hypothesis import strategies as st
from random_networks import LIMIT, Builder, Network, Value, finish

MOVING = (
    "concat", "slice", "split", "pad", "negate",
    "pool", "resize", "fold_space", "blocks", "spread", "shuffle", "turn",
)  # fmt: skip
SCALING = ("magnitude", "scale", "shifted", "slope", "sigmoid", "reduce", "average")
MULTIPLYING = ("swish", "product", "gate")


class ElementBuilder(Builder):
    """Appends an op with random attributes; rank 2 to 4."""

    def integers(self, *numbers: int) -> str:
        """A constant of int64."""
        name = self.constant(np.array(numbers, np.float32))
        tensor = self.weights[-1]
        tensor.CopyFrom(type(tensor)(name=name, data_type=7, dims=[len(numbers)]))
        tensor.int64_data.extend(numbers)
        return name

    def apply(self, kind: str, x: Value) -> Value:
        """One op, or a few that belong together."""
        return getattr(self, kind)(x)  # type: ignore[no-any-return]

    def axis(self, x: Value) -> int:
        """Channels, or space where there is some."""
        return self.draw(st.integers(1, len(x.shape) - 1))

    def concat(self, x: Value) -> Value:
        """With itself, or with another layer's result."""
        axis, parts = self.axis(x), [x]
        if axis == 1 and self.draw(st.booleans()):
            parts.append(self.layer(x, self.draw(st.integers(1, 20)), same=True))
        else:
            parts.append(self.layer(x, x.shape[1], same=True))
        if self.draw(st.booleans()):
            parts.append(x)
        if self.exact and max(part.bound for part in parts) > LIMIT:
            return x
        shape = list(x.shape)
        shape[axis] = sum(part.shape[axis] for part in parts)
        name = self.node("Concat", [part.name for part in parts], axis=axis - len(shape))
        return Value(name, tuple(shape), max(part.bound for part in parts))

    def slice(self, x: Value) -> Value:
        """One or two axes, perhaps in steps."""
        starts, ends, axes, steps, shape = [], [], [], [], list(x.shape)
        for axis in {self.axis(x), self.axis(x)}:
            start = self.draw(st.integers(0, shape[axis] - 1))
            end = self.draw(st.integers(start + 1, shape[axis]))
            steps.append(self.draw(st.integers(1, 3)))
            starts.append(start)
            ends.append(end)
            axes.append(axis)
            shape[axis] = -((start - end) // steps[-1])
        limits = [self.integers(*limit) for limit in (starts, ends, axes, steps)]
        return Value(self.node("Slice", [x.name, *limits]), tuple(shape), x.bound)

    def split(self, x: Value) -> Value:
        """In halves, whose difference is taken."""
        axis = self.axis(x)
        if x.shape[axis] % 2 or (self.exact and 2 * x.bound > LIMIT):
            return x
        half = x.shape[axis] // 2
        first = self.node("Split", [x.name, self.integers(half, half)], axis=axis)
        self.nodes[-1].output.append(f"{first}_second")
        name = self.node("Sub", [first, f"{first}_second"])
        return Value(name, (*x.shape[:axis], half, *x.shape[axis + 1 :]), 2 * x.bound)

    def pad(self, x: Value) -> Value:
        """One number around channels and space."""
        rank = len(x.shape)
        pads = [0, *(self.draw(st.integers(0, 2)) for _ in range(rank - 1))] * 2
        pads[rank + 1] = self.draw(st.integers(0, 20))
        shape = [pads[i] + extent + pads[rank + i] for i, extent in enumerate(x.shape)]
        number = self.draw(st.sampled_from([0, 0, -3, 5]))
        inputs = [x.name, self.integers(*pads), self.constant(np.array(number, np.float32))]
        return Value(self.node("Pad", inputs), tuple(shape), max(x.bound, abs(number)))

    def negate(self, x: Value) -> Value:
        """The negative; -128 does not occur in an exact network."""
        return Value(self.node("Neg", [x.name]), x.shape, x.bound)

    def pool(self, x: Value) -> Value:
        """Max pooling keeps scales: they are tied through it."""
        return self.max_pool(x) if len(x.shape) > 2 else x

    def resize(self, x: Value) -> Value:
        """Whole factors over space."""
        factors = [1, 1, *(self.draw(st.integers(1, 3)) for _ in x.shape[2:])]
        shape = tuple(n * factor for n, factor in zip(x.shape, factors, strict=True))
        if len(shape) == 2 or max(shape[2:]) > 12:
            return x
        scales = self.constant(np.array(factors, np.float64))
        return Value(self.node("Resize", [x.name, "", scales], mode="nearest"), shape, x.bound)

    def blocks(self, x: Value) -> Value:
        """Channels of space."""
        size = self.draw(st.integers(1, 3))
        shape = x.shape
        if len(shape) != 4 or shape[2] % size or shape[3] % size:
            return x
        name = self.node("SpaceToDepth", [x.name], blocksize=size)
        return Value(
            name, (shape[0], shape[1] * size**2, shape[2] // size, shape[3] // size), x.bound
        )

    def spread(self, x: Value) -> Value:
        """Space of channels, in either order of these."""
        size, shape = self.draw(st.integers(1, 3)), x.shape
        if len(shape) != 4 or shape[1] % size**2 or max(shape[2:]) * size > 12:
            return x
        mode = self.draw(st.sampled_from(["DCR", "CRD"]))
        name = self.node("DepthToSpace", [x.name], blocksize=size, mode=mode)
        extents = (shape[2] * size, shape[3] * size)
        return Value(name, (shape[0], shape[1] // size**2, *extents), x.bound)

    def fold_space(self, x: Value) -> Value:
        """One spatial dimension instead of several; a relu, since a last reshape is the host's."""
        if len(x.shape) < 4:
            return x
        shape = (*x.shape[:2], int(np.prod(x.shape[2:])))
        name = self.node("Reshape", [x.name, self.integers(*shape)])
        return self.relu(Value(name, shape, x.bound))

    def turn(self, x: Value) -> Value:
        """Space in another order, where that moves an element.

        Else it is a reshape, which the host does for nothing at the end of a network.
        """
        if sum(extent > 1 for extent in x.shape[2:]) < 2:
            return x
        order = [0, 1, *range(len(x.shape) - 1, 1, -1)]
        name = self.node("Transpose", [x.name], perm=order)
        return Value(name, tuple(x.shape[axis] for axis in order), x.bound)

    def shuffle(self, x: Value) -> Value:
        """Channels in another order, some perhaps twice."""
        order = [self.draw(st.integers(-x.shape[1], x.shape[1] - 1)) for _ in range(5)]
        name = self.node("Gather", [x.name, self.integers(*order)], axis=1)
        return Value(name, (x.shape[0], len(order), *x.shape[2:]), x.bound)

    def vector(self, x: Value, low: float, high: float) -> str:
        """A constant with one number per channel, or one in all."""
        count = x.shape[1] if self.draw(st.booleans()) else 1
        numbers = self.rng.uniform(low, high, (count, *[1] * (len(x.shape) - 2)))
        return self.constant(numbers)

    def scale(self, x: Value) -> Value:
        """A product or a quotient with a constant."""
        kind = self.draw(st.sampled_from(["Mul", "Div"]))
        return Value(self.node(kind, [x.name, self.vector(x, 0.5, 3)]), x.shape, 0)

    def shifted(self, x: Value) -> Value:
        """A constant less the value."""
        return Value(self.node("Sub", [self.vector(x, -2, 2), x.name]), x.shape, 0)

    def slope(self, x: Value) -> Value:
        """Leaky relu or prelu, with slopes on one side of 1."""
        low, high = self.draw(st.sampled_from([(-0.5, 1), (1, 3)]))
        if self.draw(st.booleans()):
            alpha = float(self.rng.uniform(low, high))
            return Value(self.node("LeakyRelu", [x.name], alpha=alpha), x.shape, 0)
        return Value(self.node("PRelu", [x.name, self.vector(x, low, high)]), x.shape, 0)

    def magnitude(self, x: Value) -> Value:
        """Abs."""
        return Value(self.node("Abs", [x.name]), x.shape, x.bound)

    def sigmoid(self, x: Value) -> Value:
        """Hard sigmoid."""
        return Value(self.node("HardSigmoid", [x.name], alpha=0.3), x.shape, 0)

    def reduce(self, x: Value) -> Value:
        """Mean or sum over some of space; dimensions stay."""
        if len(x.shape) < 3:
            return x
        axes = sorted({self.draw(st.integers(2, len(x.shape) - 1)) for _ in range(2)})
        shape = tuple(1 if axis in axes else n for axis, n in enumerate(x.shape))
        if self.draw(st.booleans()):
            return Value(self.node("ReduceMean", [x.name], axes=axes), shape, 0)
        name = self.node("ReduceSum", [x.name, self.integers(*axes)])
        return Value(name, shape, 0)

    def swish(self, x: Value) -> Value:
        """Hard swish."""
        return Value(self.node("HardSwish", [x.name]), x.shape, 0)

    def product(self, x: Value) -> Value:
        """With another layer's result."""
        y = self.layer(x, x.shape[1], same=True)
        return Value(self.node("Mul", [x.name, y.name]), x.shape, 0)

    def gate(self, x: Value) -> Value:
        """With a hard sigmoid of its means."""
        if len(x.shape) < 3:
            return self.product(x)
        name = self.node("GlobalAveragePool", [x.name])
        mean = Value(name, (*x.shape[:2], *[1] * (len(x.shape) - 2)), 0)
        gate = self.sigmoid(self.layer(mean, x.shape[1], same=True))
        return Value(self.node("Mul", [gate.name, x.name]), x.shape, 0)

    def average(self, x: Value) -> Value:
        """Average pooling, whose pads count or not."""
        rank = len(x.shape) - 2
        kernel = [min(self.draw(st.integers(1, 3)), extent) for extent in x.shape[2:]]
        if rank == 0 or max(kernel) == 1:
            return x
        strides = [self.draw(st.integers(1, 2)) for _ in range(rank)]
        pads = [self.draw(st.integers(0, (k - 1) // 2)) for k in kernel + kernel]
        window = {"kernel_shape": kernel, "strides": strides, "pads": pads}
        counts = int(self.draw(st.booleans()))
        name = self.node("AveragePool", [x.name], count_include_pad=counts, **window)
        extent = [
            (x.shape[2 + i] + pads[i] + pads[rank + i] - kernel[i]) // strides[i] + 1
            for i in range(rank)
        ]
        return Value(name, (*x.shape[:2], *extent), 0)

    def layer(self, x: Value, channels: int, *, same: bool = False) -> Value:
        """A convolution, or a dense layer where there is no space."""
        if len(x.shape) > 2:
            return self.conv(x, channels, same=same)
        return self.dense(x, channels)


@st.composite
def element_networks(draw: st.DrawFn, exact: bool, multiplies: bool = False) -> Network:
    """A layer, then one to three ops, with relus and layers between them.

    multiplies: also products of two tensors, which not every target takes.
    """
    build = ElementBuilder(draw, exact, np.random.default_rng(draw(st.integers(0, 2**32 - 1))))
    rank = draw(st.sampled_from([0, 1, 2, 2]))
    shape = (draw(st.integers(1, 2)), draw(st.integers(1, 20)))
    shape += tuple(draw(st.integers(2, 6)) for _ in range(rank))
    x = build.layer(Value("x", shape, 3), draw(st.integers(1, 36)), same=True)
    kinds = MOVING if exact else MOVING + SCALING + (MULTIPLYING * 2 if multiplies else ())
    for kind in draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=3)):
        if draw(st.booleans()):
            x = build.relu(x)
        x = build.apply(kind, x)
        if not exact and draw(st.booleans()):
            x = build.layer(x, draw(st.integers(1, 20)), same=True)
    return finish(build, x, shape, 3)
