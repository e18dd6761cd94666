"""Random networks of layers with numbers: each layer a composite, as ``match-patterns`` leaves it.

Residual sums, concatenations, depthwise convolutions, poolings, strides, odd extents, several
images, and elements of several entries: whatever a plan must keep exact.
"""

from random import Random

from integer_groups import IntegerFunction
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from vtac.dialects import graph
from vtac.dialects.target import TARGET_ATTRIBUTE, ClusterTarget


class LayeredNetwork:
    """A function for a cluster, made layer by layer; ``f`` knows the answer of each value."""

    def __init__(self, random: Random, cluster: ClusterTarget):
        self.random, self.cluster = random, cluster
        self.f = IntegerFunction(cluster.core, random.randrange(1 << 30))
        self.block = self.f.block
        batch = random.choice([1, 2, 3, 4, 8])
        extents = random.randint(3, 11), random.randint(3, 9)
        self.values = [self.f.input(batch, random.randint(1, 40), *extents)]

    def shape(self, value: SSAValue) -> tuple[int, ...]:
        return self.f.values[value].shape

    def build(self, layers: int) -> ModuleOp:
        steps = [self.conv, self.conv, self.depthwise, self.residual, self.residual, self.pool]
        steps += [self.join, self.strided]
        for _ in range(layers):
            value = self.random.choice(steps)()
            if value is not None:
                self.values.append(value)
        results = [self.values[-1]]
        if self.random.random() < 0.2 and len(self.values) > 2:
            results.append(self.values[-2])
        module = self.f.finish(*dict.fromkeys(results))
        (function,) = module.ops
        function.attributes[TARGET_ATTRIBUTE] = self.cluster
        module.verify()
        return module

    def latest(self) -> SSAValue:
        return self.random.choice(self.values[-3:])

    def conv(self) -> SSAValue:
        x = self.latest()
        size = self.random.choice([1, 3])
        out = self.random.randint(1, 40)
        with_pads = {"pads": (size // 2,) * 4}
        return self._layer(
            [x], lambda v: self._q(self.f.conv(v[0], out, (size, size), **with_pads))
        )

    def strided(self) -> SSAValue | None:
        x = self.latest()
        if min(self.shape(x)[2:]) < 3:
            return None
        numbers = {
            "strides": [self.random.randint(1, 2) for _ in range(2)],
            "pads": [self.random.randint(0, 1) for _ in range(4)],
        }
        kernel = [self.random.randint(1, 3) for _ in range(2)]
        out = self.random.randint(1, 40)
        return self._layer([x], lambda v: self._q(self.f.conv(v[0], out, kernel, **numbers)))

    def depthwise(self) -> SSAValue:
        x = self.latest()
        channels = self.shape(x)[1]
        return self._layer(
            [x],
            lambda v: self._q(
                self.f.conv(v[0], channels, (3, 3), group=channels, pads=(1, 1, 1, 1))
            ),
        )

    def residual(self) -> SSAValue:
        """A convolution and the sum with another value of the same shape."""
        x = self.latest()
        alike = [v for v in self.values if self.shape(v) == self.shape(x)]
        side = self.random.choice(alike)
        out = self.shape(x)[1]

        def make(v: list[SSAValue]) -> SSAValue:
            acc = self.f.conv(v[0], out, (3, 3), pads=(1, 1, 1, 1))
            return self._q(self.f.add(acc, self.f.shift_left(v[-1], [3] * out)))

        return self._layer(list(dict.fromkeys([x, side])), make)

    def pool(self) -> SSAValue | None:
        x = self.latest()
        if min(self.shape(x)[2:]) < 3:
            return None
        stride = self.random.choice([1, 2])
        numbers = {"strides": (stride, stride), "pads": (1, 1, 1, 1)}
        return self._layer([x], lambda v: self.f.max_pool(v[0], (3, 3), **numbers))

    def join(self) -> SSAValue | None:
        """A concatenation of channels at whole blocks."""
        x, block = self.latest(), self.f.target.block
        rest = (self.shape(x)[0], *self.shape(x)[2:])
        alike = [v for v in self.values if (self.shape(v)[0], *self.shape(v)[2:]) == rest]
        whole = [v for v in alike if self.shape(v)[1] % block == 0 and v not in self.f.inputs]
        others = [v for v in alike if v not in whole[:1]]
        if not whole or not others or self.shape(others[-1])[1] > 64:
            return None
        return self.f.concat([whole[0], others[-1]], 1)

    def _q(self, acc: SSAValue) -> SSAValue:
        return self.f.requantize(acc)

    def _layer(self, inputs: list[SSAValue], make) -> SSAValue:  # type: ignore[no-untyped-def]
        """One composite of the ops that ``make`` adds for the arguments of its body."""
        body = Block(arg_types=[value.type for value in inputs])
        for argument, value in zip(body.args, inputs, strict=True):
            self.f.values[argument] = self.f.values[value]
        self.f.block = body
        result = make(list(body.args))
        body.add_op(graph.YieldOp(result))
        self.f.block = self.block
        op: Operation = graph.CompositeOp("vta.layer", inputs, [result.type], body, codegen="vta")
        return self.f._add(op, self.f.values[result])
