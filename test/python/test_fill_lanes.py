"""te-fill-lanes: pixels that share elements leave results exact, and take fewer micro-ops."""

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from integer_groups import LOOPS, REWRITES, IntegerFunction
from random_groups import TARGETS, RandomGroup
from te_functions import evaluate, kernels, rank_of
from vta_runner import run_loops
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from vtac.dialects import te
from vtac.lowering.graph_to_te import GraphToTePass
from vtac.passes.te.fill_lanes import FillLanesPass
from vtac.passes.te.pixel_folds import NOT_FOLDED, FoldedSlide, PixelFold, Slide, folds_for


def elements(module: ModuleOp) -> list[int]:
    """How many elements the result of each call has."""
    (function,) = [op for op in module.body.block.ops if isinstance(op, FuncOp)]
    calls = [op for op in function.body.block.ops if isinstance(op, te.CallOp)]
    found = []
    for call in calls:
        *outer, _, _ = call.outputs[0].type.get_shape()
        count = 1
        for extent in outer:
            count *= extent
        found.append(count)
    return found


def check_both(f: IntegerFunction, module: ModuleOp) -> None:
    """Fold, and compare with NumPy: the tensor expressions, and the program."""
    f.apply(module, [FillLanesPass])
    rank = rank_of(f, module)
    f.check(module, lambda m, inputs: evaluate(f.ctx, m, inputs), rank)
    f.apply(module, [*REWRITES, *LOOPS])
    f.check(module, lambda m, inputs: run_loops(f.ctx, m, inputs), rank)


def assert_not_folded(f: IntegerFunction, module: ModuleOp) -> None:
    """The pass leaves the kernels of a module as they are."""
    f.apply(module, [GraphToTePass])
    before = str(module)
    f.apply(module, [FillLanesPass])
    assert str(module) == before


class Chain:
    """A random chain of convolutions with few channels, some depthwise, some read twice."""

    def __init__(self, random: Random, target: str):
        self.group = RandomGroup(random, TARGETS[target], largest=9, channels=20)
        self.random, self.function = random, self.group.function

    def layer(self, x: SSAValue, last: bool) -> SSAValue:
        """One convolution and its requantisation."""
        random, group = self.random, self.group
        channels, *spatial = group.shape(x)[1:]
        kernel = [random.randint(1, min(4, extent)) for extent in spatial]
        window = group.padded(kernel)
        window["dilations"] = [
            random.randint(1, 2) if (k - 1) * 2 < extent else 1
            for k, extent in zip(kernel, spatial, strict=True)
        ]
        if random.random() < 0.4:
            acc = self.function.conv(x, channels, kernel, group=channels, **window)
        else:
            out = random.randint(1, 20 if last else 8)
            acc = self.function.conv(x, out, kernel, **window)
        return group.requantize(acc)

    def build(self) -> ModuleOp:
        """Two to four layers; perhaps the tensor before the last has a second reader."""
        random = self.random
        x = self.group.image(self.group.kernel(3))
        count = random.randint(2, 4)
        for _ in range(count - 1):
            x = self.layer(x, last=False)
        results = [self.layer(x, last=True) for _ in range(random.choice([1, 1, 2]))]
        return self.function.finish(*results)


@settings(max_examples=60)
@given(st.randoms(use_true_random=False), st.sampled_from(sorted(TARGETS)))
def test_random_chains_stay_exact(random: Random, target: str) -> None:
    """Strides, dilations, padding of any value on each side, one to three spatial dimensions."""
    chain = Chain(random, target)
    module = chain.build()
    f = chain.function
    f.apply(module, [GraphToTePass])
    check_both(f, module)


def mobile(target: str, width: int = 16, channels: int = 8) -> tuple[IntegerFunction, ModuleOp]:
    """A convolution, a depthwise one and a 1x1 convolution, as mobile networks begin."""
    f = IntegerFunction(TARGETS[target])
    around = (1, 1, 1, 1)
    x = f.requantize(f.conv(f.input(1, 16, 9, width), channels, (3, 3), pads=around))
    x = f.requantize(f.conv(x, channels, (3, 3), group=channels, pads=around, pad_value=-128))
    return f, f.finish(f.requantize(f.conv(x, 24, (1, 1))))


@pytest.mark.parametrize("target", sorted(TARGETS))
def test_the_start_of_a_mobile_network_is_folded(target: str) -> None:
    """Half the elements, and one more where a row of outputs begins between two elements."""
    channels = TARGETS[target].block // 2
    f, module = mobile(target, channels=channels)
    f.apply(module, [GraphToTePass])
    blocks = -(-24 // TARGETS[target].block)
    assert elements(module) == [9 * 16, 9 * 16, blocks * 9 * 16]
    f.apply(module, [FillLanesPass])
    assert elements(module) == [9 * 8, 9 * 9, blocks * 9 * 16]
    depthwise = kernels(module)[1].computes[0]
    taps = dict(depthwise.reduce)
    assert (taps["kh"], taps["kw"]) == (3, 2)
    check_both(f, module)


def test_an_odd_width_is_folded_along_the_height() -> None:
    """The spare pixel of a row would be read in place of padding; rows are even."""
    f = IntegerFunction(TARGETS["chisel"])
    around = (1, 1, 1, 1)
    x = f.requantize(f.conv(f.input(1, 16, 8, 7), 8, (3, 3), pads=around))
    x = f.requantize(f.conv(x, 8, (3, 3), group=8, pads=around))
    module = f.finish(f.requantize(f.conv(x, 16, (1, 1))))
    f.apply(module, [GraphToTePass, FillLanesPass])
    first = kernels(module)[0].function_type.outputs.data[0].get_shape()
    assert first[2:4] == (4, 7)
    check_both(f, module)


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("size", [8, 9, 12])
@pytest.mark.parametrize("pad_value", [-128, -5, 0, 7])
def test_full_results_of_few_channels_with_any_padding(
    pad_value: int, size: int, stride: int
) -> None:
    """A result that fills its elements reads folded pixels by phases; padding may be any number."""
    f = IntegerFunction(TARGETS["chisel"])
    around = (1, 1, 1, 1)
    x = f.requantize(f.conv(f.input(1, 16, size, size), 4, (3, 3), pads=around))
    window = {"pads": around, "strides": (stride, stride), "pad_value": pad_value}
    module = f.finish(f.requantize(f.conv(x, 32, (3, 3), **window)))
    f.apply(module, [GraphToTePass])
    check_both(f, module)


@pytest.mark.parametrize("channels", [9, 16, 20])
def test_full_elements_stay_as_they_are(channels: int) -> None:
    assert_not_folded(*mobile("chisel", channels=channels))


def test_what_a_pooling_reads_stays_as_it_is() -> None:
    f = IntegerFunction(TARGETS["chisel"])
    x = f.requantize(f.conv(f.input(1, 16, 8, 8), 8, (3, 3)))
    assert_not_folded(f, f.finish(f.max_pool(x, (2, 2)), f.requantize(f.conv(x, 16, (1, 1)))))


def test_equal_layers_folded_differently_get_kernels_of_their_own() -> None:
    """Two equal convolutions, the first of which makes a tensor that nothing else may read."""
    f = IntegerFunction(TARGETS["chisel"])
    x = f.input(1, 8, 6, 16)
    a = f.requantize(f.conv(x, 8, (1, 1)), shifts=[7] * 8, shift="one", largest_bias=1)
    b = f.requantize(f.conv(a, 8, (1, 1)), shifts=[7] * 8, shift="one", largest_bias=1)
    module = f.finish(b)
    f.apply(module, [GraphToTePass])
    f.apply(module, [FillLanesPass])
    assert elements(module)[0] == 6 * 8
    check_both(f, module)


FOLDS = folds_for(1, 8)


@settings(max_examples=200)
@given(st.data())
def test_windows_over_elements_meet_the_pixels_of_windows_over_pixels(data: st.DataObject) -> None:
    """One lane per pixel: products over elements are those over pixels, wherever pixels are."""

    def draw(low: int, high: int) -> int:
        return data.draw(st.integers(low, high))

    slide = Slide(draw(1, 24), draw(1, 16), draw(1, 4), draw(1, 4), draw(1, 3), draw(-3, 3))
    source, result = data.draw(st.sampled_from(FOLDS)), data.draw(st.sampled_from(FOLDS))
    try:
        folded = FoldedSlide(slide, source, result)
    except ValueError:
        return
    random = np.random.default_rng(draw(0, 99))
    x, w = random.integers(-9, 9, slide.size), random.integers(-9, 9, slide.taps)
    exact = [
        sum(
            w[t] * x[p]
            for t in range(slide.taps)
            if 0 <= (p := slide.stride * q + slide.dilation * t + slide.offset) < slide.size
        )
        for q in range(slide.count)
    ]
    lanes = np.full(source.elements(slide.size) * source.pixels, 99)  # spare lanes hold anything
    lanes[source.shift : source.shift + slide.size] = x
    element = np.zeros((len(lanes) // source.pixels, 8), int)
    element[:, : source.pixels] = lanes.reshape(-1, source.pixels)
    tiles = np.zeros((slide.taps, 8, 8), int)
    tiles[:, 0, 0] = w
    tiles = folded.weights(tiles, 0, (1, 1)).reshape(folded.phases, folded.taps, 8, 8)
    made, products = np.zeros((folded.elements, folded.phases, 8), int), 0
    for j, r, t in np.ndindex(folded.elements, folded.phases, folded.taps):
        place = folded.stride * j + t + folded.skew * r + folded.offset
        if 0 <= place < len(element):
            made[j, r] += tiles[r, t] @ element[place]
            products += 1
    assert products == folded.products()
    pixels = made[:, :, : result.pixels].reshape(-1)[result.shift :][: slide.count]
    assert pixels.tolist() == exact


def test_the_fold_of_nothing_is_the_window_itself() -> None:
    slide = Slide(9, 7, 3, 1, 1, 0)
    folded = FoldedSlide(slide, NOT_FOLDED, NOT_FOLDED)
    assert (folded.stride, folded.taps, folded.offset, folded.phases) == (1, 3, 0, 1)
    assert FoldedSlide(slide, PixelFold(2), PixelFold(2)).taps == 2
