"""The forms that bench_depthwise counts compute the convolution."""

import sys
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))
from bench_depthwise import LANES, Layer, channels_form, distance, meetings, patches_form


@given(st.data())
def test_patches_that_meet_make_the_convolution(data: st.DataObject) -> None:
    """One band matrix for each distance: sums over the pairs that meet are those over taps."""

    def draw(low: int, high: int) -> int:
        return data.draw(st.integers(low, high))

    size, kernel, stride = draw(1, 30), draw(1, 5), draw(1, 3)
    layer = Layer(size, size, 16, stride, kernel, draw(0, kernel - 1))
    read, made = draw(1, 8), draw(1, 8)
    shift = draw(0, made - 1)
    random = np.random.default_rng(draw(0, 99))
    x, weights = random.integers(-9, 9, size), random.integers(-9, 9, kernel)
    padded = np.zeros(layer.before + size + stride + kernel, int)
    padded[layer.before : layer.before + size] = x
    count = layer.count(size)
    exact = [int(weights @ padded[stride * q : stride * q + kernel]) for q in range(count)]

    patches = np.zeros((-(-size // read), read), int)
    patches.reshape(-1)[:size] = x
    results = np.zeros((-(-(count + shift) // made), made), int)
    for pair in meetings(layer, size, read, made, shift):
        result, source = pair
        results[result] += _band(layer, weights, pair, (read, made, shift)) @ patches[source]
    assert results.reshape(-1)[shift : shift + count].tolist() == exact


def _band(
    layer: Layer, weights: np.ndarray, pair: tuple[int, int], form: tuple[int, int, int]
) -> np.ndarray:
    """The band matrix [made, read] of a pair, from the distance of its patches alone."""
    read, made, shift = form
    start = distance(layer, pair, read, made)
    row, column = np.indices((made, read))
    tap = start + column - layer.stride * (row - shift) + layer.before
    inside = (tap >= 0) & (tap < layer.kernel)
    return np.where(inside, weights[np.clip(tap, 0, layer.kernel - 1)], 0)


@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 2), st.sampled_from([1, 3, 5]))
def test_products_are_bounded_by_taps_and_by_what_the_core_can_do(
    height: int, width: int, stride: int, kernel: int
) -> None:
    """One product for each tap with 16 channels in the lanes; with pixels, 16 by 16 at most."""
    layer = Layer(height, width, LANES, stride, kernel, kernel // 2)
    taps = layer.valid(height) * layer.valid(width)
    assert channels_form(layer).products == taps
    assert patches_form(layer).products * LANES >= taps
