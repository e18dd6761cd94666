"""`Layout.pack` and `Layout.unpack` against a definition that visits one element at a time."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vtac.dialects.te import Dimension, Layout, Row
from vtac.passes.te.lanes.placing import LanePlacement


def packed_by_element(layout: Layout, array: np.ndarray) -> np.ndarray:
    """Each physical element from the logical one that the subscripts name, else 0."""
    found = np.zeros(layout.physical, array.dtype)
    for indices in product(*(product(*map(range, d.extents)) for d in layout.dimensions)):
        axes = [value for index in indices for value in index]
        place = [
            int(np.ravel_multi_index(index, dimension.extents)) if index else 0
            for index, dimension in zip(indices, layout.dimensions, strict=True)
        ]

        def value(row: Row, axes: list[int] = axes) -> int:
            return row.constant + sum(c * axes[v] for v, c in row.terms)

        at = [value(row) for row in layout.rows]
        is_element = all(0 <= a < size for a, size in zip(at, layout.shape, strict=True))
        if is_element and not any(value(row) for row in layout.zeros):
            found[tuple(place)] = array[tuple(at)]
    return found


@st.composite
def placements(draw: st.DrawFn) -> tuple[LanePlacement, tuple[int, ...]]:
    """A tensor of up to three dimensions and lanes for it, with or without a group of diagonals."""
    shape = tuple(draw(st.lists(st.integers(1, 5), max_size=3)))
    dims: list[int | None] = [None, *range(len(shape))]
    rows, columns = draw(st.sampled_from(dims)), draw(st.sampled_from(dims))
    counts = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    if rows == columns:
        columns = None
    is_diagonal = draw(st.booleans())
    placement = LanePlacement(
        ((rows, counts[0]),), ((columns, counts[1]),), (4, 4), ((0, 0),) if is_diagonal else ()
    )
    return placement, shape


@given(placements())
def test_lanes_are_filled_as_the_subscripts_say(
    case: tuple[LanePlacement, tuple[int, ...]],
) -> None:
    placement, shape = case
    array = np.arange(1, 1 + int(np.prod(shape))).reshape(shape)
    layout = placement.layout(Layout.plain("x", shape))
    physical = layout.pack(array)
    np.testing.assert_array_equal(physical, packed_by_element(layout, array))
    assert physical.shape == placement.shape(shape)
    if not layout.zeros:
        back = np.zeros_like(array)
        layout.unpack(physical, back)
        np.testing.assert_array_equal(back, array)


@pytest.mark.parametrize(
    "rows",
    [
        [Row.of([(0, 1), (1, 1)])],  # windows overlap
        [Row.of([(0, 2), (1, 1)], -1)],  # they start before the tensor
        [Row.of([(0, 3), (1, 1)])],  # there are gaps between them
        [Row.of([(1, 3), (0, 1)])],  # the first axis moves fastest
        [Row.of([(0, 1)])],  # fewer elements than the tensor has
    ],
)
def test_subscripts_other_than_digits(rows: list[Row]) -> None:
    layout = Layout("x", (5,), tuple(rows), (Dimension((("a", 3),), 4), Dimension((("b", 2),), 2)))
    array = np.arange(1, 6)
    np.testing.assert_array_equal(layout.pack(array), packed_by_element(layout, array))


def test_spare_lanes_repeat_the_last_entry() -> None:
    """As amounts of shifts do; the rows of the batch hold the vector each."""
    placement = LanePlacement(((None, 2),), ((0, 2),), (2, 2))
    vector = np.array([1, 2, 3])
    np.testing.assert_array_equal(placement.pack(vector), [[[1, 2]] * 2, [[3, 0]] * 2])
    np.testing.assert_array_equal(placement.pack(vector, True), [[[1, 2]] * 2, [[3, 3]] * 2])
