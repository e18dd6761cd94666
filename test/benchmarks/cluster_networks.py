"""The networks of the cluster's evaluation, with random weights: for cycles, not for answers.

ResNet-18 and ResNet-50 (He et al., 2015), MobileNetV2 (Sandler et al., 2018), GoogLeNet (Szegedy et
al., 2015, without local response normalisation), a network like YOLOv2 (Redmon and Farhadi, 2017:
the Darknet-19 body on 416 x 416), VGG-16 (Simonyan and Zisserman, 2015), and the products with
weights of BERT-base (Devlin et al., 2019) for 128 tokens, where a sum stands for attention.
Batch normalisations are taken as folded; weights are drawn as in He et al., "Delving Deep into
Rectifiers", so that values keep their size from layer to layer.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
import resnet18
from onnx import TensorProto, helper, numpy_helper

BERT_LAYERS = 2
"""Encoder layers of the stress: all twelve are equal."""


class Layers:
    """A network under construction. Each method adds a layer and returns its result's name."""

    def __init__(self, shape: Sequence[int]):
        self.shapes = {"image": tuple(shape)}
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[TensorProto] = []
        self.rng = np.random.default_rng(0)

    def node(
        self, kind: str, name: str, inputs: list[str], shape: Sequence[int], **attributes: object
    ) -> str:
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        self.shapes[name] = tuple(shape)
        return name

    def constant(self, name: str, array: np.ndarray) -> str:
        self.weights.append(numpy_helper.from_array(array.astype(np.float32), name))
        return name

    def drawn(self, name: str, shape: Sequence[int], scale: float = 1.0) -> str:
        deviation = np.float32(scale * np.sqrt(2 / np.prod(shape[1:])))
        return self.constant(name, self.rng.standard_normal(shape, np.float32) * deviation)

    def conv(
        self,
        name: str,
        x: str,
        out: int,
        kernel: int = 1,
        stride: int = 1,
        *,
        group: int = 1,
        relu: bool = True,
        residual: str = "",
    ) -> str:
        """A convolution with pads that keep the extents; residual: what is added to its result."""
        n, channels, *extents = self.shapes[x]
        pad = kernel // 2
        weight = (out, channels // group, kernel, kernel)
        scale = 0.5 if residual else 1.0
        inputs = [
            *(x, self.drawn(f"{name}.weight", weight, scale)),
            self.constant(f"{name}.bias", self.rng.normal(0, 0.1, out)),
        ]
        shape = (n, out, *[(extent + 2 * pad - kernel) // stride + 1 for extent in extents])
        window = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [pad] * 4}
        found = self.node("Conv", f"{name}.conv", inputs, shape, group=group, **window)
        if residual:
            found = self.node("Add", f"{name}.add", [found, residual], shape)
        return self.node("Relu", f"{name}.relu", [found], shape) if relu else found

    def pool(self, name: str, x: str, kernel: int = 2, stride: int = 2, pad: int = 0) -> str:
        n, channels, *extents = self.shapes[x]
        shape = (n, channels, *[(extent + 2 * pad - kernel) // stride + 1 for extent in extents])
        window = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [pad] * 4}
        return self.node("MaxPool", name, [x], shape, **window)

    def dense(self, name: str, x: str, out: int) -> str:
        n, features = self.shapes[x]
        inputs = [
            *(x, self.drawn(f"{name}.weight", (out, features))),
            self.constant(f"{name}.bias", self.rng.normal(0, 0.1, out)),
        ]
        return self.node("Gemm", name, inputs, (n, out), transB=1)

    def flat(self, name: str, x: str) -> str:
        n, *rest = self.shapes[x]
        return self.node("Flatten", name, [x], (n, int(np.prod(rest))), axis=1)

    def head(self, x: str, classes: int = 1000) -> str:
        """The mean over the image, and a dense layer."""
        n, channels = self.shapes[x][:2]
        mean = self.node("GlobalAveragePool", "average", [x], (n, channels, 1, 1))
        return self.dense("logits", self.flat("flat", mean), classes)

    def model(self, result: str) -> onnx.ModelProto:
        def value(name: str) -> onnx.ValueInfoProto:
            return helper.make_tensor_value_info(name, TensorProto.FLOAT, self.shapes[name])

        graph = helper.make_graph(
            self.nodes, "network", [value("image")], [value(result)], self.weights
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def resnet50() -> onnx.ModelProto:
    g = Layers((1, 3, 224, 224))
    x = g.pool("stem.pool", g.conv("stem", "image", 64, 7, 2), 3, 2, 1)
    for stage, (width, blocks) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3)), start=1):
        for block in range(blocks):
            name, stride = f"stage{stage}.block{block}", 2 if stage > 1 and not block else 1
            side = x
            if not block:
                side = g.conv(f"{name}.side", x, 4 * width, 1, stride, relu=False)
            inner = g.conv(f"{name}.1", x, width)
            inner = g.conv(f"{name}.2", inner, width, 3, stride)
            x = g.conv(f"{name}.3", inner, 4 * width, residual=side)
    return g.model(g.head(x))


def small_resnet() -> onnx.ModelProto:
    """Two stages of ResNet-18 at a quarter of its width on 32 x 32, to try the tables with."""
    g = Layers((1, 3, 32, 32))
    x = g.conv("stem", "image", 16, 3)
    for stage, (width, stride) in enumerate(((16, 1), (32, 2)), start=1):
        name = f"stage{stage}.block0"
        side = x if stride == 1 else g.conv(f"{name}.side", x, width, 1, stride, relu=False)
        inner = g.conv(f"{name}.1", x, width, 3, stride)
        x = g.conv(f"{name}.2", inner, width, 3, residual=side)
    return g.model(g.head(x, 10))


def mobilenet_v2() -> onnx.ModelProto:
    g = Layers((1, 3, 224, 224))
    x = g.conv("stem", "image", 32, 3, 2)
    table = (
        (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
        (6, 320, 1, 1),
    )  # fmt: skip
    for stage, (expansion, out, count, first) in enumerate(table, start=1):
        for block in range(count):
            name, stride = f"stage{stage}.block{block}", first if block == 0 else 1
            channels = g.shapes[x][1]
            wide = expansion * channels
            inner = g.conv(f"{name}.1", x, wide) if expansion > 1 else x
            inner = g.conv(f"{name}.2", inner, wide, 3, stride, group=wide)
            side = x if stride == 1 and channels == out else ""
            x = g.conv(f"{name}.3", inner, out, relu=False, residual=side)
    return g.model(g.head(g.conv("last", x, 1280)))


INCEPTION = (
    (64, 96, 128, 16, 32, 32), (128, 128, 192, 32, 96, 64), (),
    (192, 96, 208, 16, 48, 64), (160, 112, 224, 24, 64, 64), (128, 128, 256, 24, 64, 64),
    (112, 144, 288, 32, 64, 64), (256, 160, 320, 32, 128, 128), (),
    (256, 160, 320, 32, 128, 128), (384, 192, 384, 48, 128, 128),
)  # fmt: skip
"""GoogLeNet's modules: #1x1, #3x3 reduce, #3x3, #5x5 reduce, #5x5, pool proj; (): a pooling."""


def googlenet() -> onnx.ModelProto:
    g = Layers((1, 3, 224, 224))
    x = g.pool("stem.pool1", g.conv("stem.1", "image", 64, 7, 2), 3, 2, 1)
    x = g.conv("stem.3", g.conv("stem.2", x, 64), 192, 3)
    x = g.pool("stem.pool2", x, 3, 2, 1)
    stage = 3
    for number, counts in enumerate(INCEPTION):
        name = f"stage{stage}.module{number}"
        if not counts:
            x, stage = g.pool(f"{name}.pool", x, 3, 2, 1), stage + 1
            continue
        a, b, c, d, e, f = counts
        branches = [
            g.conv(f"{name}.1", x, a),
            g.conv(f"{name}.3", g.conv(f"{name}.3r", x, b), c, 3),
            g.conv(f"{name}.5", g.conv(f"{name}.5r", x, d), e, 5),
            g.conv(f"{name}.p", g.pool(f"{name}.pool", x, 3, 1, 1), f),
        ]
        n, _, *extents = g.shapes[x]
        x = g.node("Concat", f"{name}.concat", branches, (n, a + c + e + f, *extents), axis=1)
    return g.model(g.head(x))


def yolo() -> onnx.ModelProto:
    """Darknet-19's body, two 3x3 convolutions of 1,024 channels, and 125 results per cell."""
    g = Layers((1, 3, 416, 416))
    x, stage = "image", 1
    body = ((32,), (64,), (128, -64, 128), (256, -128, 256), (512, -256, 512, -256, 512),
            (1024, -512, 1024, -512, 1024, 1024, 1024))  # fmt: skip
    for stage, widths in enumerate(body, start=1):
        for number, width in enumerate(widths):
            x = g.conv(f"stage{stage}.{number}", x, abs(width), 1 if width < 0 else 3)
        if stage < len(body):
            x = g.pool(f"stage{stage}.pool", x)
    return g.model(g.conv("cells", x, 125, relu=False))


def vgg16() -> onnx.ModelProto:
    """Configuration D."""
    g = Layers((1, 3, 224, 224))
    x = "image"
    for stage, (width, count) in enumerate(
        ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)), start=1
    ):
        for number in range(count):
            x = g.conv(f"stage{stage}.{number}", x, width, 3)
        x = g.pool(f"stage{stage}.pool", x)
    flat = g.flat("flat", x)
    for number in range(2):
        flat = g.dense(f"dense{number}", flat, 4096)
        flat = g.node("Relu", f"dense{number}.relu", [flat], g.shapes[flat])
    return g.model(g.dense("logits", flat, 1000))


def bert_products() -> onnx.ModelProto:
    """Dense layers of 768 and 3,072 features as 1x1 convolutions over the 128 tokens."""
    g = Layers((1, 768, 128, 1))
    x = "image"
    for layer in range(BERT_LAYERS):
        name = f"stage{layer}"
        parts = [g.conv(f"{name}.{part}", x, 768, relu=False) for part in ("q", "k", "v")]
        both = g.node("Add", f"{name}.qk", parts[:2], g.shapes[parts[0]])
        mixed = g.node("Add", f"{name}.attention", [both, parts[2]], g.shapes[both])
        x = g.conv(f"{name}.out", mixed, 768, relu=False, residual=x)
        x = g.conv(f"{name}.2", g.conv(f"{name}.1", x, 3072), 768, relu=False, residual=x)
    return g.model(x)


@dataclass(frozen=True)
class Network:
    """A network of the tables. build: its model for one sample; input: ``image``."""

    title: str
    build: Callable[[], onnx.ModelProto]

    def samples(self, model: onnx.ModelProto, count: int) -> np.ndarray:
        """Inputs to calibrate on, float32 [count, ...]."""
        shape = [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim]
        if shape[1] == 3:
            return resnet18.images(count, 0, shape[2])
        return np.random.default_rng(1).normal(size=(count, *shape[1:])).astype(np.float32)


NETWORKS: Mapping[str, Network] = {
    "resnet18": Network("ResNet-18", resnet18.build),
    "resnet50": Network("ResNet-50", resnet50),
    "mobilenet_v2": Network("MobileNetV2", mobilenet_v2),
    "googlenet": Network("GoogLeNet", googlenet),
    "yolo": Network("YOLO-like", yolo),
    "vgg16": Network("VGG-16", vgg16),
    "bert": Network(f"BERT-base products, {BERT_LAYERS} layers", bert_products),
    "small": Network("two small stages", small_resnet),
}
