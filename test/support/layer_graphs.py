"""Accelerator functions of known networks, layer by layer, for plans: shapes without numbers.

Each layer is a composite as ``match-patterns`` leaves it, in the packed layout: a convolution with
its requantisation, a residual sum in the accumulators of its last convolution, a pooling. Weights
are splats, so nothing is stored and nothing is quantised.
"""

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    ModuleOp,
    NameLoc,
    NoneAttr,
    StringAttr,
    TensorType,
    i8,
    i32,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Region, SSAValue

from vtac.dialects import graph
from vtac.dialects.graph import shape_of, window_extent
from vtac.dialects.target import TARGET_ATTRIBUTE, ClusterTarget


class LayerGraph:
    """A function with ``codegen = "vta"`` for a cluster, under construction."""

    def __init__(self, cluster: str | ClusterTarget = "cluster-8"):
        self.cluster = ClusterTarget.of(cluster) if isinstance(cluster, str) else cluster
        self.layout = graph.PackedAttr(self.cluster.core.batch, self.cluster.core.block)
        self.block = Block()
        self.count = 0

    def type(self, shape: Sequence[int], element: Attribute = i8) -> TensorType[Any]:
        return TensorType(element, shape, self.layout)

    def input(self, *shape: int) -> SSAValue:
        value = self.block.insert_arg(self.type(shape), len(self.block.args))
        value.name_hint = f"x{len(self.block.args)}"
        return value

    def conv(
        self,
        x: SSAValue,
        out: int,
        kernel: int = 1,
        stride: int = 1,
        *,
        group: int = 1,
        residual: SSAValue | None = None,
        name: str = "",
    ) -> SSAValue:
        """With pads that keep the extents; residual: what is added to the accumulators."""
        inputs = [x] if residual is None else [x, residual]
        body = Block(arg_types=[value.type for value in inputs])
        n, channels, *spatial = shape_of(x)
        pad = kernel // 2
        extents = [window_extent(s, kernel, stride, 2 * pad, 1) for s in spatial]
        shape = (n, out, *extents)
        rank = len(spatial)
        weights = self._splat(body, (out, channels // group, *[kernel] * rank), i8)
        acc: SSAValue = self._in(
            body,
            graph.ConvOp(
                body.args[0],
                weights,
                None,
                self.type(shape, i32),
                strides=[stride] * rank,
                pads=[pad] * 2 * rank,
                dilations=[1] * rank,
                group=group,
            ),
        )
        if residual is not None:
            amount = self._splat(body, (out,), i32)
            shifted = self._in(body, graph.ShiftLeftOp(body.args[1], amount, self.type(shape, i32)))
            acc = self._in(body, graph.AddOp(acc, shifted, self.type(shape, i32)))
        return self._requantised(body, inputs, acc, shape, name or "conv")

    def mean(self, x: SSAValue) -> SSAValue:
        """The mean over the image."""
        n, channels, *spatial = shape_of(x)
        body = Block(arg_types=[x.type])
        shape = (n, channels, *[1] * len(spatial))
        ones = [1] * len(spatial)
        pool = graph.SumPoolOp(
            body.args[0],
            self.type(shape, i32),
            kernel=spatial,
            strides=ones,
            pads=[0] * 2 * len(spatial),
            dilations=ones,
        )
        return self._requantised(body, [x], self._in(body, pool), shape, "mean")

    def max_pool(self, x: SSAValue, kernel: int = 3, stride: int = 2) -> SSAValue:
        n, channels, *spatial = shape_of(x)
        pad = (kernel - 1) // 2
        extents = [window_extent(s, kernel, stride, 2 * pad, 1) for s in spatial]
        body = Block(arg_types=[x.type])
        type, rank = self.type((n, channels, *extents)), len(spatial)
        pool = graph.MaxPoolOp(
            body.args[0],
            type,
            kernel=[kernel] * rank,
            strides=[stride] * rank,
            pads=[pad] * 2 * rank,
            dilations=[1] * rank,
        )
        result = self._in(body, pool)
        return self._composite("vta.max_pool", body, [x], result, "pool")

    def concat(self, values: Sequence[SSAValue]) -> SSAValue:
        n, _, *spatial = shape_of(values[0])
        channels = sum(shape_of(value)[1] for value in values)
        op = graph.ConcatOp(values, 1, self.type((n, channels, *spatial)))
        self.block.add_op(op)
        return op.result

    def finish(self, *results: SSAValue) -> ModuleOp:
        self.block.add_op(ReturnOp(*results))
        types = self.block.arg_types, [value.type for value in results]
        function = FuncOp("vta_0", types, Region(self.block), "private")
        function.attributes["codegen"] = StringAttr("vta")
        function.attributes[TARGET_ATTRIBUTE] = self.cluster
        module = ModuleOp([function])
        module.verify()
        return module

    def _splat(self, block: Block, shape: Sequence[int], element: Attribute) -> SSAValue:
        type = TensorType(element, shape)
        op = graph.ConstantOp(DenseIntOrFPElementsAttr.from_list(type, [1]), type)
        block.add_op(op)
        return op.result

    def _in(self, block: Block, op: Any) -> SSAValue:
        block.add_op(op)
        return op.results[0]

    def _requantised(
        self,
        body: Block,
        inputs: Sequence[SSAValue],
        acc: SSAValue,
        shape: Sequence[int],
        name: str,
    ) -> SSAValue:
        channels = (shape[1],)
        bias, shift = self._splat(body, channels, i32), self._splat(body, channels, i32)
        op = graph.RequantizeOp(acc, bias, shift, self.type(shape), lo=-128, hi=127, scale=1.0)
        result = self._in(body, op)
        return self._composite("vta.accumulate_requantize", body, inputs, result, name)

    def _composite(
        self, pattern: str, body: Block, inputs: Sequence[SSAValue], result: SSAValue, name: str
    ) -> SSAValue:
        body.add_op(graph.YieldOp(result))
        op = graph.CompositeOp(pattern, inputs, [result.type], body, codegen="vta")
        self.count += 1
        op.location = NameLoc(StringAttr(f"{name}_{self.count}"), NoneAttr())
        op.outputs[0].name_hint = f"{name}_{self.count}"
        self.block.add_op(op)
        return op.outputs[0]


def resnet50(g: LayerGraph, batch: int = 1, *, classes: int = 1000, stem: bool = True) -> ModuleOp:
    """He et al. (2015), strides in the 3x3 convolutions; the first layer's windows are unfolded.

    Without the stem, the input is that of the first stage.
    """
    if stem:
        x = g.max_pool(g.conv(g.input(batch, 147, 112, 112), 64, name="stem"))
    else:
        x = g.input(batch, 64, 56, 56)
    for stage, (width, blocks) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3))):
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            side = g.conv(x, 4 * width, 1, stride, name=f"side{stage}") if not block else x
            inner = g.conv(x, width, name=f"stage{stage}_{block}a")
            inner = g.conv(inner, width, 3, stride, name=f"stage{stage}_{block}b")
            x = g.conv(inner, 4 * width, residual=side, name=f"stage{stage}_{block}c")
    return g.finish(g.conv(g.mean(x), classes, name="dense") if classes else x)


def resnet18(g: LayerGraph, batch: int = 1) -> ModuleOp:
    """He et al. (2015), table 1."""
    x = g.max_pool(g.conv(g.input(batch, 147, 112, 112), 64, name="stem"))
    for stage, width in enumerate((64, 128, 256, 512)):
        for block in range(2):
            stride = 2 if stage and not block else 1
            side = g.conv(x, width, 1, stride, name=f"side{stage}") if stride > 1 else x
            inner = g.conv(x, width, 3, stride, name=f"stage{stage}_{block}a")
            x = g.conv(inner, width, 3, residual=side, name=f"stage{stage}_{block}b")
    return g.finish(g.conv(g.mean(x), 1000, name="dense"))


def mobilenet_v2(g: LayerGraph, batch: int = 1) -> ModuleOp:
    """Sandler et al. (2018), table 2."""
    x = g.conv(g.input(batch, 27, 112, 112), 32, name="stem")
    table = (
        (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
        (6, 320, 1, 1),
    )  # fmt: skip
    for number, (expansion, channels, count, first) in enumerate(table):
        for block in range(count):
            stride = first if block == 0 else 1
            inputs = shape_of(x)[1]
            wide = expansion * inputs
            inner = g.conv(x, wide, name=f"b{number}_{block}e") if expansion > 1 else x
            inner = g.conv(inner, wide, 3, stride, group=wide, name=f"b{number}_{block}d")
            side = x if stride == 1 and inputs == channels else None
            x = g.conv(inner, channels, residual=side, name=f"b{number}_{block}p")
    return g.finish(g.conv(g.mean(g.conv(x, 1280, name="last")), 1000, name="dense"))


def vgg16(g: LayerGraph, batch: int = 1) -> ModuleOp:
    """Simonyan and Zisserman (2015), configuration D."""
    x = g.conv(g.input(batch, 27, 224, 224), 64, name="stem")
    for number, (width, count) in enumerate(((64, 1), (128, 2), (256, 3), (512, 3), (512, 3))):
        for _ in range(count):
            x = g.conv(x, width, 3, name=f"stage{number}")
        x = g.max_pool(x, 2, 2)
    n = shape_of(x)[0]
    flat = g.input(n, 25088, 1, 1)
    for width in (4096, 4096, 1000):
        flat = g.conv(flat, width, name="dense")
    return g.finish(x, flat)


def inception(g: LayerGraph, batch: int = 1) -> ModuleOp:
    """Two modules of GoogLeNet: Szegedy et al. (2015), 3a and 3b."""
    x = g.input(batch, 192, 28, 28)
    for a, b, c, d, e, f in ((64, 96, 128, 16, 32, 32), (128, 128, 192, 32, 96, 64)):
        branches = [
            g.conv(x, a),
            g.conv(g.conv(x, b), c, 3),
            g.conv(g.conv(x, d), e, 5),
            g.conv(g.max_pool(x, 3, 1), f),
        ]
        x = g.concat(branches)
    return g.finish(x)


NETWORKS = {
    "resnet50": resnet50,
    "resnet18": resnet18,
    "mobilenet_v2": mobilenet_v2,
    "vgg16": vgg16,
    "inception": inception,
}
