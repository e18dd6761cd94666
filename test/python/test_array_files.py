"""Files of arrays: any names, and only what a reader takes."""

import io

import numpy as np
import pytest

from vtac.dialects.array_files import read_npz, write_npz


@pytest.mark.parametrize("compress", [False, True])
def test_arrays_may_have_any_name(compress: bool) -> None:
    """Also those of the arguments of ``numpy.savez``, which cannot write them."""
    names = ("file", "allow_pickle", "args", "a/b", "\u00e4 \u4e2d", "..", "x.npy", "")
    arrays = {name: np.arange(number, dtype=np.int16) for number, name in enumerate(names)}
    arrays["scalar"] = np.array(2.5)
    stream = io.BytesIO()
    write_npz(stream, arrays, compress=compress)
    with np.load(io.BytesIO(stream.getvalue()), allow_pickle=False) as loaded:
        assert loaded["file"].tolist() == [] and loaded["scalar"] == 2.5
    found = read_npz(io.BytesIO(stream.getvalue()), "f")
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].dtype == array.dtype


def test_objects_are_not_written() -> None:
    with pytest.raises(ValueError, match="Object arrays"):
        write_npz(io.BytesIO(), {"o": np.array([None])})
