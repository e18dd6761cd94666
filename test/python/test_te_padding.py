"""Loads with pads: what the transfers of a window write, against numpy.pad; what they refuse."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vtac.dialects.te import Padded, row_major
from vtac.lowering.te_to_vta.padding import PaddingError, padded_rectangles


@given(st.data())
def test_pads_fill_the_border_of_a_window(data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, 4))
    shape = [data.draw(st.integers(1, 5)) for _ in range(rank)]
    parts = []
    for dim, size in enumerate(shape):
        start = data.draw(st.integers(0, size - 1))
        length = data.draw(st.integers(1, size - start))
        padded = dim >= rank - 2
        before, after = (data.draw(st.integers(0, 3)) if padded else 0 for _ in range(2))
        parts.append(Padded(start, length, before, after))
    largest = data.draw(st.integers(16, 80))
    tensor = np.arange(1, np.prod(shape) + 1).reshape(shape)
    region = tuple(slice(part.start, part.start + part.length) for part in parts)
    wanted = np.pad(tensor[region], [(part.before, part.after) for part in parts])
    found = np.full(wanted.size, -1)
    for part in padded_rectangles(parts, row_major(shape), largest):
        above, below, left, right = part.pads
        rows = part.dram + np.arange(part.y)[:, None] * part.stride + np.arange(part.x)
        block = np.pad(tensor.reshape(-1)[rows], [(above, below), (left, right)])
        assert max(part.pads) <= 15
        assert block.size <= max(largest, (above + 1 + below) * (left + part.x + right))
        at = slice(part.sram, part.sram + block.size)
        assert (found[at] == -1).all()
        found[at] = block.reshape(-1)
    np.testing.assert_array_equal(found.reshape(wanted.shape), wanted)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([Padded(0, 0, 2, 0), Padded(0, 4, 1, 1)], "lies wholly in the padding"),
        ([Padded(0, 4, 16, 0)], "longer than 15"),
        ([Padded(0, 2, 1, 0), Padded(0, 4, 1, 0), Padded(0, 4, 0, 1)], "more than two dimensions"),
    ],
)
def test_what_a_load_cannot_pad(parts: list[Padded], message: str) -> None:
    with pytest.raises(PaddingError, match=message):
        padded_rectangles(parts, row_major([4] * len(parts)), 2048)
