"""Random accelerator functions: every kind of fused group, odd shapes, several targets."""

from random import Random
from typing import Any

from integer_groups import IntegerFunction
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from vtac.dialects.target import Target

TARGETS = {
    "1x16": Target.named("pynq"),
    "4x8": Target.named("sim").replace(log_batch=2, log_block=3),
    "2x16": Target.named("sim").replace(log_batch=1),
    "chisel": Target.named("chisel-pynq"),
}

SMALL = {
    "1x16": Target.named("pynq").replace(
        log_inp_buff_size=11, log_wgt_buff_size=13, log_acc_buff_size=12, log_uop_buff_size=11
    ),
    "4x8": Target.named("sim").replace(
        log_batch=2, log_block=3, log_inp_buff_size=12, log_wgt_buff_size=12, log_acc_buff_size=13
    ),
}
"""Machines with scratchpads so small that everything is tiled."""


class RandomGroup:
    """One function from one source of random numbers.

    largest: bound on spatial extents and channels. rank: spatial dimensions of its input.
    """

    def __init__(self, random: Random, target: Target, *, largest: int = 13, channels: int = 40):
        self.random, self.largest, self.channels = random, largest, channels
        self.function = IntegerFunction(target, random.randrange(1 << 30))
        self.rank = random.choice([1, 2, 2, 2, 3])

    def _extent(self, least: int = 1) -> int:
        most = self.largest if self.rank < 3 else max(self.largest // 2, 2)
        return self.random.randint(least, max(least, most))

    def kernel(self, most: int = 5) -> list[int]:
        most = most if self.rank < 3 else min(most, 3)
        return [self.random.randint(1, most) for _ in range(self.rank)]

    def image(self, kernel: list[int]) -> SSAValue:
        batch, channels = self.random.randint(1, 3), self.random.randint(1, self.channels)
        return self.function.input(batch, channels, *(self._extent(k) for k in kernel))

    def window(self, kernel: list[int]) -> dict[str, Any]:
        return {
            "strides": [self.random.randint(1, 3) for _ in kernel],
            "pads": [self.random.randint(0, k - 1) for k in (*kernel, *kernel)],
        }

    def padded(self, kernel: list[int]) -> dict[str, Any]:
        """A window whose padding may be any integer."""
        value = self.random.choice([0, 0, -128, self.random.randint(-128, 127)])
        return {**self.window(kernel), "pad_value": value}

    def shape(self, value: SSAValue) -> tuple[int, ...]:
        return self.function.values[value].shape

    def accumulators(self, kind: str) -> SSAValue:
        """The int32 value of a fused group."""
        if kind == "batch_matmul":
            return self.batch_matmul()
        f, kernel = self.function, self.kernel()
        x = self.image(kernel)
        out = self.random.randint(1, self.channels)
        if kind == "depthwise":
            return f.conv(
                x, self.shape(x)[1], kernel, group=self.shape(x)[1], **self.padded(kernel)
            )
        if kind == "sum_pool":
            return f.sum_pool(x, kernel, **self.padded(kernel))
        if kind == "shift_left":
            return f.shift_left(x, self.amounts(self.shape(x)[1]))
        if kind == "gemm":
            return f.gemm(f.input(*self.shape(x)[:2]), out)
        acc = f.conv(x, out, kernel, **self.padded(kernel))
        if kind == "two_convolutions":
            side = f.input(self.shape(acc)[0], self.random.randint(1, 40), *self.shape(acc)[2:])
            return self.sum(acc, f.conv(side, out, [1] * self.rank))
        if kind == "residual":
            side = f.shift_left(f.input(*self.shape(acc)), self.amounts(out))
            return self.sum(acc, side)
        return acc

    def batch_matmul(self) -> SSAValue:
        """Perhaps with a further product by constants in the same accumulators."""
        f, target = self.function, self.function.target
        batch, inner = self.random.choice([1, 1, 2, 3]), self.random.randint(1, self.channels)
        rows, others = (self.random.randint(1, self.largest) for _ in range(2))
        columns = self.random.randint(1, others)
        if batch > 1:  # whole elements
            rows, others = -(-rows // target.batch), -(-others // target.block)
            rows, others = rows * target.batch, others * target.block
        a, b = f.input(batch * rows, inner), f.weights(batch * others, inner)
        acc = f.batch_matmul(a, b, batch, columns)
        return self.sum(acc, f.gemm(a, columns)) if self.random.random() < 0.3 else acc

    def sum(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.function.add(*self.random.sample([a, b], 2))

    def amounts(self, channels: int) -> list[int]:
        least, most = self.random.choice([(0, 6), (0, 9), (5, 11), (7, 7)])
        return [self.random.randint(least, most) for _ in range(channels)]

    def requantize(self, acc: SSAValue) -> SSAValue:
        lo = self.random.choice([-128, 0, -20])
        return self.function.requantize(
            acc, shift=self.random.choice(["one", "channel", "block"]), lo=lo
        )

    def max_pool(self, x: SSAValue) -> SSAValue:
        kernel = [self.random.randint(1, min(3, extent)) for extent in self.shape(x)[2:]]
        return self.function.max_pool(x, kernel, **self.window(kernel))

    def build(self, kind: str, fused: bool) -> ModuleOp:
        """The module; the kinds are ``KINDS``."""
        f = self.function
        if kind == "max_pool":
            results = [self.max_pool(self.image(self.kernel(3)))]
        elif kind == "byte_planes":
            results = f.byte_planes(self.accumulators("gemm"), with_bias=self.random.random() < 0.5)
        elif kind == "conv_pool":
            results = [self.max_pool(self.requantize(self.accumulators("conv")))]
        else:
            results = [self.requantize(self.accumulators(kind))]
        return f.finish(*(f.fuse(*results) if fused else results))


KINDS = (
    "conv",
    "depthwise",
    "sum_pool",
    "shift_left",
    "gemm",
    "batch_matmul",
    "two_convolutions",
    "residual",
    "max_pool",
    "byte_planes",
    "conv_pool",
)
