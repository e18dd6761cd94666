"""Shifts by blocks: which channels share a block, and that moving them changes no integer."""

from itertools import combinations
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

import vtac
from vtac.passes.approximation.blocks import BlockLayer, Enlarged, choose_blocks
from vtac.passes.approximation.shifts import any_of_block
from vtac.passes.graph import sort_channels

Array = np.ndarray[Any, np.dtype[Any]]


def layers_of(shifts: list[list[int]]) -> list[BlockLayer]:
    ones = np.ones(len(shifts[0]))
    return [BlockLayer(np.array(row), ones, 0.01 * ones) for row in shifts]


def noise(layers: list[BlockLayer], numbers: Array) -> float:
    """The least noise with these blocks: each takes the smallest natural shift of its channels."""
    total = 0.0
    for layer in layers:
        shared = np.array([layer.shift[numbers == n].min() for n in numbers])
        total += float(layer.at(shared).sum())
    return total


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=6, max_size=6))
def test_blocks_of_two_are_better_than_most(pairs: list[tuple[int, int]]) -> None:
    layers = layers_of([list(row) for row in zip(*pairs, strict=True)])
    found = choose_blocks(layers, None, 2, sorts=True)
    assert sorted(np.bincount(found.numbers)) == [2, 2, 2]
    every = []
    for a in combinations(range(6), 2):
        for b in combinations([c for c in range(6) if c not in a], 2):
            numbers = np.full(6, 2)
            numbers[list(a)], numbers[list(b)] = 0, 1
            every.append(noise(layers, numbers))
    neighbours = noise(layers, np.arange(6) // 2)
    # Swaps of two channels may end where only swaps of three would gain.
    assert noise(layers, found.numbers) <= neighbours + 1e-9
    assert noise(layers, found.numbers) <= np.median(every) + 1e-9


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_blocks_have_their_size_and_no_shift_is_larger_than_a_natural_one(
    data: st.DataObject,
) -> None:
    count, block = data.draw(st.integers(1, 70)), data.draw(st.sampled_from([4, 16]))
    row = st.lists(st.integers(0, 9), min_size=count, max_size=count)
    layers = layers_of(data.draw(st.lists(row, min_size=1, max_size=3)))
    enlarged = None
    if len(layers) > 1 and data.draw(st.booleans()):
        exponents = np.array(data.draw(st.lists(st.integers(0, 4), min_size=count, max_size=count)))
        enlarged = Enlarged(0, 1, exponents, np.ones(count) / 16)
    found = choose_blocks(layers, enlarged, block, sorts=True)
    sizes = np.bincount(found.numbers)
    assert (sizes[:-1] == block).all() and sizes.sum() == count
    assert (found.reduced >= 0).all()
    if enlarged is not None:
        assert (found.reduced <= enlarged.exponents).all()
    for place, (layer, shift) in enumerate(zip(layers, found.shifts, strict=True)):
        for number in np.unique(found.numbers):
            assert len(set(shift[found.numbers == number].tolist())) == 1
        moved = 0
        if enlarged is not None and place < 2:
            moved = found.reduced if place == 0 else -found.reduced
        assert (shift <= layer.shift + moved).all()


def test_a_smaller_factor_lets_two_layers_agree() -> None:
    # Channels 0 and 1 have the sum 12 of both shifts: with equal factors they agree in both.
    layers = layers_of([[4, 6], [8, 6]])
    enlarged = Enlarged(0, 1, np.array([2, 0]), np.full(2, 1e-6))
    found = choose_blocks(layers, enlarged, 2, sorts=True)
    assert found.reduced.tolist() == [2, 0]
    assert found.shifts.tolist() == [[6, 6], [6, 6]]
    assert not choose_blocks(layers, None, 2, sorts=True).reduced.any()


@given(st.lists(st.booleans(), min_size=1, max_size=40), st.data())
def test_blocks_by_number_are_those_of_neighbours_in_any_order(
    flags: list[bool], data: st.DataObject
) -> None:
    order = np.array(data.draw(st.permutations(range(len(flags)))))
    numbers = np.arange(len(flags)) // 4
    expected = any_of_block(np.array(flags), 4)
    found = any_of_block(np.array(flags)[order], numbers[order])
    np.testing.assert_array_equal(found, expected[order])


def mobile_network(seed: int, channels: int, *, residual: bool, flat: bool) -> onnx.ModelProto:
    """Pointwise and depthwise convolutions whose channels have weights of two sizes, by turns."""
    rng = np.random.default_rng(seed)
    nodes, weights = [], []

    def constant(array: Array) -> str:
        name = f"c{len(weights)}"
        weights.append(onnx.numpy_helper.from_array(array.astype(np.float32), name))
        return name

    def conv(x: str, outputs: int, inputs: int, kernel: int, group: int = 1) -> str:
        shape = (outputs, inputs // group, kernel, kernel)
        sizes = np.exp2(4 * (np.arange(outputs) % 2) - 2).reshape(-1, 1, 1, 1)
        w = rng.standard_normal(shape) * sizes / np.sqrt(shape[1] * kernel * kernel)
        name = f"v{len(nodes)}"
        operands = [x, constant(w), constant(rng.standard_normal(outputs) * 0.1)]
        pads = [kernel // 2] * 4
        nodes.append(helper.make_node("Conv", operands, [name], group=group, pads=pads))
        nodes.append(
            helper.make_node(
                "Clip", [name, constant(np.array(0)), constant(np.array(6))], [name + "r"]
            )
        )
        return name + "r"

    wide = conv("x", channels, 16, 1)
    deep = conv(wide, channels, channels, 3, channels)
    if residual:
        other = conv(deep, channels, channels, 1)
        nodes.append(helper.make_node("Add", [deep, other], ["sum"]))
        deep = "sum"
    nodes.append(
        helper.make_node("MaxPool", [deep], ["pooled"], kernel_shape=[2, 2], strides=[2, 2])
    )
    last = conv("pooled", 24, channels, 1)
    if flat:
        nodes.append(helper.make_node("GlobalAveragePool", [last], ["mean"]))
        nodes.append(helper.make_node("Flatten", ["mean"], ["flat"]))
        operands = [
            "flat",
            constant(rng.standard_normal((24, 10))),
            constant(rng.standard_normal(10)),
        ]
        nodes.append(helper.make_node("Gemm", operands, ["y"]))
    else:
        nodes.append(helper.make_node("Identity", [last], ["y"]))
    graph = helper.make_graph(
        nodes,
        "mobile",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 16, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


@pytest.mark.parametrize(
    ("channels", "residual", "flat"), [(32, False, True), (40, True, False), (48, True, True)]
)
def test_the_network_computes_what_it_did_before_its_channels_moved(
    channels: int, residual: bool, flat: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = mobile_network(channels, channels, residual=residual, flat=flat)
    rng = np.random.default_rng(1)
    samples = rng.standard_normal((12, 16, 8, 8)).astype(np.float32)
    found = vtac.compile(model, "chisel-pynq", {"x": samples})
    monkeypatch.setattr(sort_channels, "_sort", lambda ctx, function: _drop(function))
    kept = vtac.compile(model, "chisel-pynq", {"x": samples})
    for x in samples[:3]:
        (a,), (b,) = found.run({"x": x[None]}).values(), kept.run({"x": x[None]}).values()
        np.testing.assert_array_equal(a, b)
    # Shifts by blocks need fewer cycles, once the channels of a block lie together.
    assert found.profile().cycles < kept.profile().cycles


def _drop(function: Any) -> None:
    for op in function.walk():
        op.attributes.pop(sort_channels.CHANNEL_BLOCKS, None)
