"""The kernels on which schedule costs and schedule search are measured: 22 of them.

Eleven convolutions of ResNet-18 (four of them with the residual addition of their block, written
with a "+"), and kernels of other kinds: depthwise, dilated, grouped and transposed convolutions, a
wide kernel, fully connected layers, and the ends of YOLO-v1 (Redmon et al., 2016).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from resnet_layers import feeds_of, layer_named, model_of

from vtac.dialects import te
from vtac.dialects.context import VtacContext
from vtac.tools.driver.compiler import compile_model

Feeds: TypeAlias = Mapping[str, np.ndarray[Any, Any]]


@dataclass(frozen=True)
class SearchKernel:
    """A layer whose largest kernel is scheduled. make: its network, and samples for it."""

    name: str
    make: Any

    def compiled(self, target: str) -> tuple[Any, str, VtacContext]:
        """The module at the level ``te``, the kernel with the most micro-ops, and its context."""
        module, ctx = self.at("te", target)
        return module, largest_kernel(module), ctx

    def at(self, level: str, target: str) -> tuple[Any, VtacContext]:
        """The module at a level, and its context."""
        levels: dict[str, Any] = {}
        contexts: list[VtacContext] = []

        def observe(reached: str, module: Any, ctx: VtacContext) -> None:
            contexts.append(ctx)
            if reached == level:
                levels[level] = module.clone()

        model, feeds = self.make()
        compile_model(model, target, feeds, shift="block", observe=observe)
        return levels[level], contexts[-1]


def largest_kernel(module: Any) -> str:
    """The name of the kernel with the most micro-ops."""
    kernels = [op for op in module.ops if isinstance(op, te.KernelOp)]
    return max(kernels, key=_points).sym_name.data


def _points(kernel: te.KernelOp) -> int:
    return max(int(np.prod(compute.extents)) for compute in kernel.computes)


def _resnet(name: str, residual: bool) -> tuple[onnx.ModelProto, Feeds]:
    layer = layer_named(name)
    return model_of(layer, residual=residual), feeds_of(layer, residual=residual)


def _window(
    inputs: int,
    outputs: int,
    size: int,
    kernel: int,
    stride: int = 1,
    *,
    groups: int = 1,
    dilation: int = 1,
    operator: str = "Conv",
) -> tuple[onnx.ModelProto, Feeds]:
    """A convolution with a bias and a relu. Pads are "same", of a transposed one 1."""
    rng = np.random.default_rng(kernel * inputs + outputs)
    sizes = (outputs, inputs // groups) if operator == "Conv" else (inputs, outputs // groups)
    shape = (*sizes, kernel, kernel)
    weight = rng.normal(0, np.sqrt(2 / np.prod(shape[1:])), shape)
    pad = dilation * (kernel - 1) // 2 if operator == "Conv" else 1
    nodes = [
        helper.make_node(
            operator,
            ["x", "weight", "bias"],
            ["conv"],
            kernel_shape=[kernel] * 2,
            strides=[stride] * 2,
            pads=[pad] * 4,
            group=groups,
            dilations=[dilation] * 2,
        ),
        helper.make_node("Relu", ["conv"], ["y"]),
    ]
    constants = {"weight": weight, "bias": rng.normal(0, 0.3, outputs)}
    return _model(nodes, (1, inputs, size, size), constants)


def _product(rows: int, inputs: int, outputs: int) -> tuple[onnx.ModelProto, Feeds]:
    """A fully connected layer without a relu."""
    rng = np.random.default_rng(rows + inputs)
    weight = rng.normal(0, np.sqrt(2 / inputs), (inputs, outputs))
    nodes = [
        helper.make_node("MatMul", ["x", "weight"], ["product"]),
        helper.make_node("Add", ["product", "bias"], ["y"]),
    ]
    constants = {"weight": weight, "bias": rng.normal(0, 0.3, outputs)}
    return _model(nodes, (rows, inputs), constants)


def _model(
    nodes: list[onnx.NodeProto], shape: tuple[int, ...], constants: Mapping[str, Any]
) -> tuple[onnx.ModelProto, Feeds]:
    graph = helper.make_graph(
        nodes,
        "layer",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(v.astype(np.float32), n) for n, v in constants.items()],
    )
    opsets = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8, producer_name="vtac")
    x = np.random.default_rng(1).normal(size=shape).astype(np.float32)
    return onnx.shape_inference.infer_shapes(model), {
        "x": np.maximum(x, 0) if len(shape) > 2 else x
    }


def resnet_kernel(name: str) -> SearchKernel:
    """A convolution of ResNet-18, ``C2`` to ``C11``, with a "+" behind it if it adds a residual."""
    return SearchKernel(name, partial(_resnet, name.removesuffix("+"), name.endswith("+")))


KERNELS = (
    *(resnet_kernel(name) for name in ("C2", "C4", "C7", "C8", "C9", "C10", "C11")),
    *(resnet_kernel(name) for name in ("C2+", "C5+", "C8+", "C11+")),
    SearchKernel("depthwise 112", partial(_window, 32, 32, 112, 3, groups=32)),
    SearchKernel("5x5", partial(_window, 64, 64, 28, 5)),
    SearchKernel("1x1", partial(_window, 160, 960, 7, 1)),
    SearchKernel("dense 1", partial(_product, 1, 512, 1000)),
    SearchKernel("YOLO first", partial(_window, 3, 64, 448, 7, 2)),
    SearchKernel("YOLO last", partial(_window, 1024, 1024, 7, 3)),
    SearchKernel("transposed", partial(_window, 64, 64, 28, 4, 2, operator="ConvTranspose")),
    SearchKernel("dilated", partial(_window, 64, 64, 28, 3, dilation=2)),
    SearchKernel("grouped", partial(_window, 128, 128, 28, 3, groups=4)),
    SearchKernel("depthwise 14", partial(_window, 512, 512, 14, 3, groups=512)),
    SearchKernel("dense 64", partial(_product, 64, 512, 512)),
)
"""In the order of the tables."""
