"""The convolutions of ResNet-18, one a program: C1 to C11 of the VTA paper's table 1.

Moreau et al., "VTA: An Open Hardware-Software Stack for Deep Learning" (2018), evaluates each
distinct convolution of ResNet-18 by itself; so does this module. Each is a network of its own, a
convolution with a bias, a relu and, where asked for, the residual addition of its block, quantised
and compiled by the ordinary pipeline.

Weights are drawn as in He et al., "Delving Deep into Rectifiers". What a folded batch norm leaves
behind in a trained network is drawn too: the gains of channels differ by factors of up to eight,
and those of neighbouring blocks of channels by another four, so that shifts differ.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from graph_reference import run_reference
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from vtac.dialects.context import VtacContext
from vtac.dialects.target import INSTRUCTION_BYTES, Memory, Target
from vtac.runtime.executor import Module
from vtac.sim import TimingPreset, TimingReport
from vtac.tools.driver.compiler import compile_model
from vtac.tools.driver.options import ChangePipeline, TuningFiles

Array = NDArray[np.float32]

CHANNEL_GAINS = 3.0
"""Octaves between the smallest and the largest gain of a channel in its block."""
BLOCK_GAINS = 2.0
"""The same between blocks of `GAIN_BLOCK` channels."""
GAIN_BLOCK = 16

EPILOGUE_OPERATIONS = 3
"""Of the ALU, for each element: a shift and two clips."""


@dataclass(frozen=True)
class Layer:
    """A convolution with pads "same".

    size: rows, and columns, of its input. times: how often ResNet-18 has it; additions: how many of
    these end in a residual addition.
    """

    name: str
    size: int
    inputs: int
    outputs: int
    kernel: int
    stride: int
    times: int
    additions: int = 0

    @property
    def pad(self) -> int:
        """On each side."""
        return self.kernel // 2

    @property
    def out_size(self) -> int:
        """Rows, and columns, of its output."""
        return (self.size + 2 * self.pad - self.kernel) // self.stride + 1

    def elements(self, target: Target) -> int:
        """Output elements: a block of channels of one pixel."""
        return self.out_size**2 * -(-self.outputs // target.block)

    def products(self, target: Target, *, padded: bool = False) -> int:
        """Micro-ops of the GEMM core that it needs.

        Taps in the padding count only if ``padded``. Where the channels leave most of a block
        unused, taps are folded into it; then each output element takes all of them.
        """
        blocks = -(-self.inputs // target.block)
        if self._folds(target) and not padded:
            return self.elements(target) * -(-(self.inputs * self.kernel**2) // target.block)
        positions = self.out_size * self.kernel if padded else self._valid_positions()
        return positions**2 * blocks * -(-self.outputs // target.block)

    def limits(
        self, target: Target, *, images: int = 1, residual: bool = False
    ) -> Mapping[str, int]:
        """Cycles below which no program for so many images can stay, by what takes them.

        compute: `compute_limit`. reads: the input where it is used, all weights, and the biases
        that no spare lane holds, once, as full beats. writes: the output once, in requests of a
        full burst. Each with the `start_and_end` that no program overlaps with it.
        """
        timing, groups = target.timing, -(-images // target.batch)
        elements = groups * self.elements(target)
        rows = (self.size if self.kernel >= self.stride else self.out_size) ** 2
        blocks, taps = -(-self.inputs // target.block), self.kernel**2
        if self._folds(target):
            rows, taps = self.out_size**2, 1
            blocks = -(-(self.inputs * self.kernel**2) // target.block)
        out_blocks = -(-self.outputs // target.block)
        read = groups * rows * blocks * target.element_bytes(Memory.INP)
        read += out_blocks * blocks * taps * target.element_bytes(Memory.WGT)
        if not self._has_spare_lane(target):
            bytes_of_block = target.element_bytes(Memory.ACC)
            read += out_blocks * (bytes_of_block // 4 if target.acc_load_int8 else bytes_of_block)
        read += elements * target.element_bytes(Memory.INP) * residual
        size = target.element_bytes(Memory.OUT)
        writes = elements * (timing.beats(size) + timing.store_idle_cycles)
        writes += -(-elements * size // timing.burst_bytes) * timing.store_request_cycles
        compute = groups * self.compute_limit(target, timing, residual=residual)
        limits = {"compute": compute, "reads": timing.beats(read), "writes": writes}
        return {name: limit + start_and_end(target) for name, limit in limits.items()}

    def compute_limit(self, target: Target, preset: TimingPreset, *, residual: bool = False) -> int:
        """Cycles of its micro-ops alone, as the limit of the machine is counted.

        Each output element is reset, gets a bias on the GEMM core (for nothing where a lane is
        spare), perhaps an addend, and passes the ALU three times.
        """
        gemms = 1 + (not self._has_spare_lane(target)) + residual
        cycles = gemms * preset.gemm_cycles + EPILOGUE_OPERATIONS * preset.alu_immediate_cycles
        return self.products(target) * preset.gemm_cycles + self.elements(target) * cycles

    def _folds(self, target: Target) -> bool:
        return 2 * self.inputs <= target.block and self.kernel > 1

    def _has_spare_lane(self, target: Target) -> bool:
        """Whether folded taps leave a lane for the bias."""
        return self._folds(target) and (self.inputs * self.kernel**2) % target.block > 0

    def _valid_positions(self) -> int:
        """Along one axis: pairs of an output and a tap that lies inside the input."""
        places = np.arange(self.out_size)[:, None] * self.stride + np.arange(self.kernel) - self.pad
        return int(((places >= 0) & (places < self.size)).sum())


def start_and_end(target: Target) -> int:
    """Cycles of every program in which it neither computes nor moves an operand or a result.

    The first instruction is fetched, and then the first operand or micro-op is loaded; each waits
    for the latency of an idle memory. Products need micro-ops, so they start no earlier, and
    results come from products. At the end the last result has been computed and its store is
    answered, which takes at least the request's handshake.
    """
    timing = target.timing
    if timing.ideal_memory:
        return 0
    fetched = timing.latency + timing.beats(INSTRUCTION_BYTES)
    return fetched + timing.latency + timing.store_request_cycles


LAYERS = (
    Layer("C1", 224, 3, 64, 7, 2, 1),
    Layer("C2", 56, 64, 64, 3, 1, 4, 2),
    Layer("C3", 56, 64, 128, 3, 2, 1),
    Layer("C4", 56, 64, 128, 1, 2, 1),
    Layer("C5", 28, 128, 128, 3, 1, 3, 2),
    Layer("C6", 28, 128, 256, 3, 2, 1),
    Layer("C7", 28, 128, 256, 1, 2, 1),
    Layer("C8", 14, 256, 256, 3, 1, 3, 2),
    Layer("C9", 14, 256, 512, 3, 2, 1),
    Layer("C10", 14, 256, 512, 1, 2, 1),
    Layer("C11", 7, 512, 512, 3, 1, 3, 2),
)
"""The eleven, in the order of the network."""


def layer_named(name: str) -> Layer:
    """One of the eleven. Raises ValueError."""
    for layer in LAYERS:
        if layer.name == name:
            return layer
    raise ValueError(f"there is no layer {name!r}; there are C1 to C11")


def model_of(
    layer: Layer, *, residual: bool = False, images: int = 1, seed: int = 0
) -> onnx.ModelProto:
    """The layer as a network: ``x`` (and ``skip``) to ``y``, float32."""
    rng = np.random.default_rng([seed, LAYERS.index(layer) if layer in LAYERS else len(LAYERS)])
    shape = (layer.outputs, layer.inputs, layer.kernel, layer.kernel)
    gains = _gains(rng, layer.outputs)
    weight = rng.normal(0, np.sqrt(2 / np.prod(shape[1:])), shape) * gains[:, None, None, None]
    constants = {"weight": weight, "bias": rng.normal(0, 0.3, layer.outputs) * gains}
    total = "sum" if residual else "y"
    conv = helper.make_node(
        "Conv",
        ["x", "weight", "bias"],
        ["conv"],
        name=layer.name,
        kernel_shape=[layer.kernel] * 2,
        strides=[layer.stride] * 2,
        pads=[layer.pad] * 4,
    )
    addition = [helper.make_node("Add", ["conv", "skip"], [total], name="add")] if residual else []
    relu = helper.make_node("Relu", [total if residual else "conv"], ["y"], name="relu")
    inputs = {"x": input_shape(layer, images)}
    if residual:
        inputs["skip"] = output_shape(layer, images)
    graph = helper.make_graph(
        [conv, *addition, relu],
        layer.name,
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, output_shape(layer, images))],
        [numpy_helper.from_array(v.astype(np.float32), n) for n, v in constants.items()],
    )
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8, producer_name="vtac")


def input_shape(layer: Layer, images: int = 1) -> tuple[int, ...]:
    """Of ``x``."""
    return (images, layer.inputs, layer.size, layer.size)


def output_shape(layer: Layer, images: int = 1) -> tuple[int, ...]:
    """Of ``skip`` and ``y``."""
    return (images, layer.outputs, layer.out_size, layer.out_size)


def feeds_of(
    layer: Layer, *, residual: bool = False, seed: int = 0, padding: int = 0, images: int = 1
) -> dict[str, Array]:
    """Inputs: what a relu leaves of normal values (all of them for the image of C1).

    padding: 0 or -128, what the padding of the quantised input is to hold. An input that is never
    negative has the zero point -128; so for 0 one that is padded gets a trace of a negative number.
    """
    rng = np.random.default_rng([seed, 1])
    x = rng.normal(size=input_shape(layer, images)).astype(np.float32)
    if layer.inputs >= GAIN_BLOCK:
        np.maximum(x, 0, out=x)
        if layer.pad and not padding:
            x[0, 0, 0, 0] = -1e-6
    feeds = {"x": x}
    if residual:
        feeds["skip"] = np.maximum(rng.normal(size=output_shape(layer, images)), 0).astype(
            np.float32
        )
    return feeds


def _gains(rng: np.random.Generator, channels: int) -> NDArray[np.float64]:
    blocks = rng.uniform(-BLOCK_GAINS / 2, BLOCK_GAINS / 2, -(-channels // GAIN_BLOCK))
    octaves = np.repeat(blocks, GAIN_BLOCK)[:channels]
    return np.exp2(octaves + rng.uniform(-CHANNEL_GAINS / 2, CHANNEL_GAINS / 2, channels))


@dataclass(frozen=True)
class CompiledLayer:
    """A layer, compiled. levels: the module after each stage, copied, for those asked for."""

    layer: Layer
    module: Module
    levels: dict[str, Any]
    feeds: dict[str, Array]
    context: VtacContext

    @property
    def seconds(self) -> float:
        """That compiling took."""
        return float(self.module.report.total_seconds)

    def report(self, preset: str | TimingPreset | None = None) -> TimingReport:
        """What the clock says about its program. Raises `ValueError` if there are several."""
        launches = self.module.profile(preset).launches
        if len(launches) != 1:
            raise ValueError(f"{self.layer.name} has {len(launches)} launches instead of one")
        return launches[0].report

    def is_exact(self) -> bool:
        """Whether the program computes what the integer reference does, to the last bit."""
        expected = run_reference(self.levels["quantised"], self.feeds, self.context.resources)
        return np.array_equal(self.module.run(self.feeds)["y"], expected["y"])


def compile_layer(
    layer: Layer,
    target: str | Target,
    *,
    shift: str = "block",
    residual: bool = False,
    padding: int = 0,
    images: int = 1,
    pipeline: ChangePipeline | None = None,
    keep: Sequence[str] = ("quantised",),
    tuning: TuningFiles | None = None,
) -> CompiledLayer:
    """Compile one layer for so many images, so that all of it is one program.

    shift: ``block`` or ``channel``, what shares one. padding: what the padding holds, 0 or -128.
    keep: levels of which to keep a copy. tuning: records, as of `vtac.compile`.
    """
    levels: dict[str, Any] = {}
    contexts: list[VtacContext] = []

    def observe(name: str, module: Any, ctx: VtacContext) -> None:
        contexts.append(ctx)
        if name in keep:
            levels[name] = module.clone()

    feeds = feeds_of(layer, residual=residual, padding=padding, images=images)
    module = compile_model(
        model_of(layer, residual=residual, images=images),
        target,
        feeds,
        shift=shift,
        observe=observe,
        pipeline=pipeline,
        tuning=tuning,
    )
    return CompiledLayer(layer, module, levels, feeds, contexts[-1])
