"""The order in which a scratchpad holds inputs: the one that takes the fewest loads."""

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from resnet_layers import Layer, compile_layer

from vtac.dialects.target import Target
from vtac.dialects.te import row_major
from vtac.lowering.te_to_vta.lattice import ElementLine
from vtac.lowering.te_to_vta.transfers import Box, Rectangle, Transfers
from vtac.passes.te.schedule.footprint import transfers
from vtac.sim.timing.work import InstructionKind

NARROW = Target.named("chisel-de10").replace(port_bytes=4)
MANY = 1 << 16


class Strided:
    """A box of every so many elements of a tensor, and what a scratchpad holds of it."""

    def __init__(self, data: st.DataObject):
        rank = data.draw(st.integers(1, 4))
        self.shape = [data.draw(st.integers(1, 6)) for _ in range(rank)]
        self.steps = [data.draw(st.sampled_from([1, 1, 2, 3])) for _ in self.shape]
        self.firsts = [
            data.draw(st.integers(0, min(step, size) - 1))
            for step, size in zip(self.steps, self.shape, strict=True)
        ]
        lines = list(map(ElementLine, self.steps, self.firsts))
        self.held = [line.size(size) for line, size in zip(lines, self.shape, strict=True)]
        self.box = tuple([self.interval(data, size) for size in self.held])
        self.lattice = tuple(lines)

    @staticmethod
    def interval(data: st.DataObject, size: int) -> tuple[int, int]:
        start = data.draw(st.integers(0, size - 1))
        return start, data.draw(st.integers(1, size - start))

    def transfers(self, largest: int = MANY) -> Transfers:
        return Transfers(row_major(self.shape), largest, self.lattice)

    @property
    def wanted(self) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
        """The places in DRAM of the box's elements."""
        tensor = np.arange(math.prod(self.shape)).reshape(self.shape)
        every = zip(self.firsts, self.steps, self.box, strict=True)
        return tensor[
            tuple(
                slice(first + step * start, first + step * (start + length - 1) + 1, step)
                for first, step, (start, length) in every
            )
        ]


def copied(place: int, parts: Sequence[Rectangle], size: int) -> list[int]:
    """What transfers leave in a scratchpad of so many elements: places in DRAM, -1 for nothing."""
    found = [-1] * size
    for part in parts:
        for row, column in itertools.product(range(part.y), range(part.x)):
            at = part.sram + row * part.x + column
            assert found[at] == -1
            found[at] = place + part.dram + row * part.stride + column
    return found


def count(transfers: Transfers, box: Box, order: tuple[int, ...] | None) -> int:
    return len(transfers.of(box, box, order)[1])


@given(st.data())
def test_a_box_lies_in_the_order_that_is_asked_for(data: st.DataObject) -> None:
    strided = Strided(data)
    order = tuple(data.draw(st.permutations(range(len(strided.shape)))))
    largest = data.draw(st.integers(1, 60))
    place, parts = strided.transfers(largest).of(strided.box, strided.box, order)
    assert all(part.y * part.x <= largest for part in parts)
    wanted = strided.wanted.transpose(order)
    assert copied(place, parts, wanted.size) == wanted.ravel().tolist()


@given(st.data())
def test_a_part_of_a_window_lies_in_the_order_of_the_window(data: st.DataObject) -> None:
    strided = Strided(data)
    order = tuple(data.draw(st.permutations(range(len(strided.shape)))))
    window = tuple((0, size) for size in strided.held)
    place, parts = strided.transfers().of(strided.box, window, order)
    held = np.full(strided.held, -1)
    held[tuple(slice(start, start + length) for start, length in strided.box)] = strided.wanted
    found = copied(place, parts, held.size)
    assert found == held.transpose(order).ravel().tolist()


@given(st.data())
def test_no_order_takes_fewer_transfers_than_the_chosen_one(data: st.DataObject) -> None:
    strided = Strided(data)
    known, box = strided.transfers(), strided.box
    chosen = known.order(box)
    fewest = min(
        count(known, box, order) for order in itertools.permutations(range(len(strided.shape)))
    )
    assert count(known, box, chosen) == fewest
    # Among equals the tensor's own order stays.
    assert (chosen is None) == (count(known, box, None) == fewest)


@given(st.data())
def test_the_schedulers_cost_counts_these_transfers(data: st.DataObject) -> None:
    strided = Strided(data)
    known, box = strided.transfers(), strided.box
    extents = [np.array([length]) for _, length in box]
    for any_order, order in ((False, None), (True, known.order(box))):
        instructions, _ = transfers(
            extents, strided.shape, np.ones(1, np.int64), strided.steps, any_order=any_order
        )
        assert instructions.tolist() == [count(known, box, order)]


@settings(max_examples=15, deadline=None)
@given(
    size=st.integers(4, 15),
    inputs=st.sampled_from([16, 48, 100]),
    kernel=st.sampled_from([1, 1, 3]),
    stride=st.integers(1, 3),
    log_inputs=st.sampled_from([10, 12, 15]),
)
def test_results_are_exact_in_any_order(
    size: int, inputs: int, kernel: int, stride: int, log_inputs: int
) -> None:
    layer = Layer("strided", size, inputs, 40, kernel, stride, 1)
    compiled = compile_layer(layer, NARROW.replace(log_inp_buff_size=log_inputs))
    assert compiled.is_exact()


@pytest.mark.parametrize("size", [8, 14])
def test_columns_of_all_rows_are_one_load(size: int) -> None:
    """Rows of an even height go on in the next block of channels: a load for each column."""
    layer = Layer("strided", size, 256, 512, 1, 2, 1)
    compiled = compile_layer(layer, NARROW)
    kinds = compiled.report().work.kind
    assert (kinds == InstructionKind.INP).sum() <= size // 2
    assert compiled.is_exact()
