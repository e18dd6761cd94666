"""MobileNetV1 and MobileNetV2 with random weights, built as `resnet18` builds its network.

Howard et al., "MobileNets" (2017), table 1, at a quarter of its width on 96x96 pictures of two
classes, as MLPerf Tiny's "visual wake words" has it; Sandler et al., "MobileNetV2" (2018), table 2.
"""

import numpy as np
import onnx
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from onnx import TensorProto, helper
from resnet18 import CLASSES, Builder

Array = NDArray[np.float32]

SEPARABLE = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5)
V1_BLOCKS = (*SEPARABLE, (1024, 2), (1024, 1))
"""Channels and stride of each block of MobileNetV1."""

V2_BLOCKS = (
    (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
    (6, 320, 1, 1),
)  # fmt: skip
"""Expansion, channels, number and stride of the first, for each group of MobileNetV2's blocks."""


class MobileBuilder(Builder):
    """A `resnet18.Builder` that also knows depthwise convolutions and clips at six."""

    def relu6(self, name: str, x: str) -> str:
        """Add a clip to 0 and 6."""
        limits = [self.constant(f"{name}.{n}", np.float32(n)) for n in (0, 6)]
        return self.node("Clip", name, [x, *limits], np.clip(self.values[x], 0, 6))

    def depthwise(self, name: str, x: str, stride: int) -> str:
        """Add a 3x3 depthwise convolution, its batch normalisation and a clip."""
        value = self.values[x]
        channels = value.shape[1]
        weight = self.rng.normal(0, np.sqrt(2 / 9), (channels, 1, 3, 3)).astype(np.float32)
        padded = np.pad(value, ((0, 0), (0, 0), (1, 1), (1, 1)))
        windows = sliding_window_view(padded, (3, 3), axis=(2, 3))[:, :, ::stride, ::stride]
        product = np.einsum("nchwij,cij->nchw", windows, weight[:, 0])
        result = self.node(
            "Conv",
            f"{name}.conv",
            [x, self.constant(f"{name}.weight", weight)],
            product,
            kernel_shape=[3, 3],
            strides=[stride, stride],
            pads=[1] * 4,
            group=channels,
        )
        return self.relu6(f"{name}.relu6", self.normalisation(f"{name}.norm", result))

    def clipped(self, name: str, x: str, outputs: int, kernel: int = 1, stride: int = 1) -> str:
        """Add a convolution, its batch normalisation and a clip."""
        return self.relu6(f"{name}.relu6", self.convolution(name, x, outputs, kernel, stride))

    def inverted(self, name: str, x: str, expansion: int, outputs: int, stride: int) -> str:
        """Add a block of MobileNetV2: its input is carried around it where shapes allow."""
        inputs = self.values[x].shape[1]
        inner = self.clipped(f"{name}.1", x, expansion * inputs) if expansion > 1 else x
        inner = self.convolution(
            f"{name}.3", self.depthwise(f"{name}.2", inner, stride), outputs, 1
        )
        if stride > 1 or inputs != outputs:
            return inner
        return self.node("Add", f"{name}.add", [inner, x], self.values[inner] + self.values[x])

    def model(self, name: str, image: int, classes: int) -> onnx.ModelProto:
        """The network: input ``image`` (1, 3, image, image), output ``logits`` (1, classes)."""
        graph = helper.make_graph(
            self.nodes,
            name,
            [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, image, image])],
            [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, classes])],
            self.initializers,
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def mobilenet_v1(image: int = 96, share: float = 0.25, classes: int = 2) -> onnx.ModelProto:
    """MobileNetV1 with a share of its channels."""
    builder = MobileBuilder(0)
    x = builder.clipped("stem", "image", int(32 * share), 3, 2)
    for number, (channels, stride) in enumerate(V1_BLOCKS):
        x = builder.depthwise(f"block{number}.1", x, stride)
        x = builder.clipped(f"block{number}.2", x, int(channels * share))
    builder.head(x, classes)
    return builder.model("mobilenet_v1", image, classes)


def mobilenet_v2(image: int = 224) -> onnx.ModelProto:
    """MobileNetV2 of full width."""
    builder = MobileBuilder(0)
    x = builder.clipped("stem", "image", 32, 3, 2)
    for group, (expansion, channels, count, stride) in enumerate(V2_BLOCKS):
        for number in range(count):
            name = f"group{group}.block{number}"
            x = builder.inverted(name, x, expansion, channels, stride if number == 0 else 1)
    builder.head(builder.clipped("last", x, 1280))
    return builder.model("mobilenet_v2", image, CLASSES)
