"""What the forms of depthwise convolution cost, counted by hand for the layers of three networks.

Counts micro-ops, bytes and cycles on ``chisel-pynq`` of three forms, of which only the first is
built (docs/depthwise.md says what each does):

- *channels*: an element is 16 channels of one pixel, or 8 channels of two;
- *windows*: an element is 16 pixels of a row of one channel; windows overlap by the kernel's width
  less its stride;
- *patches*: an element is a patch of 16 pixels of one channel, of any shape; patches of results may
  begin before the image.

The count is in favour of the forms that are not built: instructions cost nothing but the shift that
each channel has of its own, padding costs nothing, and reading, computing and storing overlap
perfectly. Run it without arguments: ``python test/benchmarks/bench_depthwise.py``.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from vtac.dialects.target import Target
from vtac.passes.te.pixel_folds import FoldedSlide, PixelFold, Slide, folds_for

TARGET = Target.named("chisel-pynq")
LANES = TARGET.block
ELEMENT, TILE, BEAT = LANES, LANES * LANES, TARGET.timing.port_bytes
"""Bytes of an element, of a weight tile, and of a beat of the memory port."""
STORE = 3
"""Cycles to store one element."""
SHAPES = (1, 16), (2, 8), (4, 4), (8, 2), (16, 1)


@dataclass(frozen=True)
class Layer:
    """A depthwise convolution.

    height, width: extents of the input. kernel: extent of the window in both dimensions. before:
    how many pixels the first window begins before the image. before_channels: channels that the 1x1
    convolution before it reads.
    """

    height: int
    width: int
    channels: int
    stride: int = 1
    kernel: int = 3
    before: int = 1
    before_channels: int = 16

    def count(self, size: int) -> int:
        """Results along a dimension."""
        return -(-size // self.stride)

    @property
    def blocks(self) -> int:
        """Blocks of 16 channels."""
        return -(-self.channels // LANES)

    @property
    def results(self) -> int:
        """Elements of 16 channels in the result."""
        return self.count(self.height) * self.count(self.width) * self.blocks

    def valid(self, size: int) -> int:
        """Pairs of a result and a tap inside the image, along a dimension."""
        starts = [self.stride * q - self.before for q in range(self.count(size))]
        return sum(0 <= start + tap < size for start in starts for tap in range(self.kernel))


@dataclass(frozen=True)
class Cost:
    """Cycles of the compute module, micro-ops of products, and bytes read and stored."""

    compute: int
    products: int
    read: int
    stored: int

    @property
    def cycles(self) -> int:
        """Cycles if everything overlaps."""
        return max(self.compute, self.read // BEAT, self.stored // ELEMENT * STORE)


def channels_form(layer: Layer) -> Cost:
    """Diagonal weights; the epilogue is a bias, a shift by a vector and two clips: 5 cycles.

    Where channels fill at most half of an element, pixels share it as by ``te-fill-lanes``.
    """
    pixels = max(fold.pixels for fold in folds_for(layer.channels, LANES))
    source, result = PixelFold(pixels), PixelFold(pixels, layer.before if pixels > 1 else 0)
    width, taps = layer.count(layer.width), layer.kernel
    slide = Slide(layer.width, width, taps, layer.stride, 1, -layer.before)
    columns = FoldedSlide(slide, source, result)
    products = layer.valid(layer.height) * columns.products() * layer.blocks
    elements = layer.count(layer.height) * columns.elements * layer.blocks
    read = layer.height * source.elements(layer.width) * layer.blocks * ELEMENT
    read += taps * columns.taps * layer.blocks * TILE
    return Cost(products + 5 * elements, products, read, elements * ELEMENT)


def _pixels_form(layer: Layer, products: int, elements: int, matrices: int, more: int) -> Cost:
    """A form with pixels in the lanes; all counts but ``more`` are for one channel.

    elements: of the result, each with 4 cycles of an epilogue of immediates. matrices: tiles of
    weights. more: cycles that the convolution before takes longer. The return to channels in the
    lanes stores each element, loads tiles of 16 channels, and takes two cycles for each pixel.
    """
    channels = layer.channels
    compute = channels * (products + 4 * elements + 7) + 2 * layer.results + more
    tiles = matrices * channels * TILE
    activations = layer.height * layer.width * layer.blocks * ELEMENT
    returned = elements * layer.blocks * LANES * ELEMENT
    read, stored = activations + tiles + returned, returned + layer.results * ELEMENT
    return Cost(compute, products * channels, read, stored)


def windows_form(layer: Layer) -> Cost:
    """Windows of 16 pixels of a row, with a halo."""
    fit = (LANES - layer.kernel) // layer.stride + 1
    columns = -(-layer.count(layer.width) // fit)
    elements = columns * layer.count(layer.height)
    made = columns * layer.height  # elements that the convolution before makes, for one channel
    longer = max(made - layer.height * layer.width // LANES, 0) * layer.channels
    more = longer * (-(-layer.before_channels // LANES) + 4)
    products = layer.valid(layer.height) * columns
    return _pixels_form(layer, products, elements, layer.kernel, more)


def meetings(layer: Layer, size: int, read: int, made: int, shift: int) -> set[tuple[int, int]]:
    """Pairs of a patch of results and a patch of the input that meet, along a dimension.

    read, made: extents of a patch of the input and of the result. shift: how far the first patch of
    results begins before the first result.
    """
    return {
        ((q + shift) // made, pixel // read)
        for q in range(layer.count(size))
        for tap in range(layer.kernel)
        if 0 <= (pixel := layer.stride * q - layer.before + tap) < size
    }


def distance(layer: Layer, pair: tuple[int, int], read: int, made: int) -> int:
    """Pixels between two patches that meet; where they are as many, the band matrix is the same."""
    result, source = pair
    return source * read - layer.stride * result * made


def _counts(layer: Layer, size: int, read: int, made: int, shift: int) -> tuple[int, int, int]:
    """Along a dimension: pairs of patches, patches of results, and band matrices."""
    pairs = meetings(layer, size, read, made, shift)
    matrices = {distance(layer, pair, read, made) for pair in pairs}
    return len(pairs), -(-(layer.count(size) + shift) // made), len(matrices)


def _patch_forms(layer: Layer) -> Iterator[Cost]:
    for (read_h, read_w), (made_h, made_w) in product(SHAPES, SHAPES):
        for shift_h, shift_w in product(range(made_h), range(made_w)):
            rows = _counts(layer, layer.height, read_h, made_h, shift_h)
            columns = _counts(layer, layer.width, read_w, made_w, shift_w)
            pairs, elements, matrices = (a * b for a, b in zip(rows, columns, strict=True))
            yield _pixels_form(layer, pairs, elements, matrices, 0)


def patches_form(layer: Layer) -> Cost:
    """Patches of 16 pixels; the cheapest of all shapes and shifts."""
    return min(_patch_forms(layer), key=lambda cost: (cost.cycles, cost.compute))


def _mobilenet_v1() -> list[Layer]:
    """mobilenetv1_025 at 128x128; with stride 2, padding lies behind the image."""
    sizes = [(64, 8, 1), (64, 16, 2), (32, 32, 1), (32, 32, 2), (16, 64, 1), (16, 64, 2)]
    sizes += [(8, 128, 1)] * 5 + [(8, 128, 2), (4, 256, 1)]
    before = [8, 8, 16, 32, 32, 64, 64, *[128] * 5, 128]
    return [
        Layer(size, size, channels, stride, before=2 - stride, before_channels=read)
        for (size, channels, stride), read in zip(sizes, before, strict=True)
    ]


def _mobilenet_v2() -> list[Layer]:
    """MobileNetV2 at 224x224; expansions read a sixth of the channels."""
    sizes = [(112, 32, 1), (112, 96, 2), (56, 144, 1), (56, 144, 2), (28, 192, 1), (28, 192, 1)]
    sizes += [(28, 192, 2), *[(14, 384, 1)] * 4, (14, 576, 1), (14, 576, 1), (14, 576, 2)]
    sizes += [(7, 960, 1)] * 3
    return [Layer(s, s, c, stride, before_channels=-(-c // 6)) for s, c, stride in sizes]


NETWORKS = {
    "mobilenetv1_025": _mobilenet_v1(),
    "kws": [Layer(25, 5, 64, before_channels=64)] * 4,
    "MobileNetV2-224": _mobilenet_v2(),
}


def main() -> None:
    """Print a table for each network, and what the best choice for each layer would win."""
    for name, layers in NETWORKS.items():
        print(f"\n{name}: products for 16 results, KB read, cycles\n")
        print("| layer | channels | windows | patches | gain |")
        print("| --- | --- | --- | --- | --- |")
        gains = 0
        for layer in layers:
            costs = [form(layer) for form in (channels_form, windows_form, patches_form)]
            outputs = layer.count(layer.height) * layer.count(layer.width) * layer.channels
            cells = [
                f"{c.products * LANES / outputs:.1f}, {c.read / 1024:.0f} KB, {c.cycles:,}"
                for c in costs
            ]
            gain = max(costs[0].cycles - min(c.cycles for c in costs), 0)
            gains += gain
            shape = f"{layer.height}x{layer.width}, {layer.channels} channels"
            print(f"| {shape}, stride {layer.stride} | {' | '.join(cells)} | {gain:,} |")
        print(f"\nAll gains: {gains:,} cycles.")


if __name__ == "__main__":
    main()
