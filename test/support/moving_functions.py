"""Random functions that compute, join and cut tensors, and the places of their values."""

from random import Random

import numpy as np
from integer_groups import IntegerFunction
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from vtac.dialects import te
from vtac.dialects.target import Target

SAME = {"pads": (1, 1, 1, 1)}


class Moves:
    """A random function that computes, and joins and cuts tensors at whole elements."""

    def __init__(self, random: Random, target: Target):
        self.random, self.target = random, target
        self.f = IntegerFunction(target, random.randrange(1 << 30))
        n, h, w = random.randint(1, 3), random.randint(1, 6), random.randint(1, 6)
        self.values = [self.f.input(n, self.channels(), h, w) for _ in range(random.randint(1, 2))]

    def build(self, steps: int) -> ModuleOp:
        for _ in range(steps):
            step = self.random.choice([self.compute, self.join, self.join, self.cut, self.flatten])
            if (value := step()) is not None:
                self.values.append(value)
        results = self.random.sample(self.values, min(len(self.values), 2))
        return self.f.finish(*results, self.values[-1])

    def channels(self) -> int:
        block = self.target.block
        return self.random.choice([block, 2 * block, self.random.randint(1, 2 * block)])

    def shape(self, value: SSAValue) -> tuple[int, ...]:
        return self.f.values[value].shape

    def compute(self) -> SSAValue:
        x = self.random.choice(self.values)
        if self.random.random() < 0.3:
            return self.f.max_pool(x, (3, 3), **SAME)
        size = self.random.choice([1, 3])
        pads = (size // 2,) * 4
        acc = self.f.conv(x, self.channels(), (size, size), pads=pads)
        return self.f.requantize(acc, shift="one")

    def join(self) -> SSAValue | None:
        axis = self.random.randrange(4)
        unit = (self.target.batch, self.target.block, 1, 1)[axis]
        first = self.random.choice(self.values)

        def rest(value: SSAValue) -> list[int]:
            return [n for dim, n in enumerate(self.shape(value)) if dim != axis]

        fitting = [value for value in self.values if rest(value) == rest(first)]
        whole = [value for value in fitting if self.shape(value)[axis] % unit == 0]
        chosen = [self.random.choice(whole) for _ in range(self.random.randint(1, 2)) if whole]
        chosen.append(self.random.choice(fitting))
        total = sum(self.shape(value)[axis] for value in chosen)
        return None if total > (6, 96, 16, 16)[axis] else self.f.concat(chosen, axis)

    def cut(self) -> SSAValue:
        x = self.random.choice(self.values)
        units = (self.target.batch, self.target.block, 1, 1)
        starts, lengths = [], []
        for n, unit in zip(self.shape(x), units, strict=True):
            starts.append(self.random.randrange(-(-n // unit)) * unit)
            lengths.append(self.random.randint(1, n - starts[-1]))
        return self.f.slice(x, starts, lengths)

    def flatten(self) -> SSAValue:
        x = self.random.choice(self.values)
        n, c, h, w = self.shape(x)
        return self.f.reshape(x, n, c, h * w, 1)


def function_of(module: ModuleOp) -> FuncOp:
    (function,) = [op for op in module.body.block.ops if isinstance(op, FuncOp)]
    return function


def check_places(module: ModuleOp) -> None:
    """Each value finds in its buffer what was written there for it, by calls alone."""
    block = function_of(module).body.block
    assignment = te.BufferAssignment(block)
    assert not assignment.conflicts
    memory: dict[SSAValue, np.ndarray] = {}
    contents: dict[SSAValue, np.ndarray] = {}

    def read(value: SSAValue) -> np.ndarray:
        view = assignment[value]
        array = memory.setdefault(view.buffer, np.full(size_of(view.buffer), -1))
        return np.lib.stride_tricks.as_strided(
            array[view.offset :], view.shape, [8 * by for by in view.strides]
        )

    fresh = 0
    for value in (*block.args, *(result for op in block.ops for result in op.results)):
        op = value.owner
        shape = value.type.get_shape()
        if isinstance(op, te.ViewOp):
            contents[value] = contents[op.x].reshape(shape)
        elif isinstance(op, te.WindowOp):
            contents[value] = contents[op.x][tuple(slice(a, a + n) for a, n in op.box)]
        elif isinstance(op, te.AssembleOp):
            contents[value] = np.zeros(shape, np.int64)
            for part, box in zip(op.parts, op.boxes, strict=True):
                contents[value][tuple(slice(a, a + n) for a, n in box)] = contents[part]
        else:
            count = int(np.prod(shape))
            contents[value] = np.arange(fresh, fresh + count).reshape(shape)
            fresh += count
            assert (read(value) == -1).all(), "written twice"
            read(value)[...] = contents[value]
        np.testing.assert_array_equal(read(value), contents[value])
    for value, expected in contents.items():
        np.testing.assert_array_equal(read(value), expected)


def size_of(value: SSAValue) -> int:
    return int(np.prod(value.type.get_shape()))
