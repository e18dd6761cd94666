"""The range of what only moves elements is the union of its sources' ranges, each visited once."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import FunctionType, TensorType, f32
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from vtac.dialects.context import VtacContext
from vtac.dialects.graph import ConcatOp
from vtac.passes.graph.float_groups import network as network_module
from vtac.passes.graph.float_groups.network import Network


@given(depth=st.integers(1, 60), seed=st.integers(0, 2**16))
def test_the_range_of_shared_concatenations(depth: int, seed: int) -> None:
    """Each concatenation reads earlier values, twice as many paths lead to each next one."""
    rng = np.random.default_rng(seed)
    function = FuncOp("f", FunctionType.from_lists([TensorType(f32, [1, 1])] * 3, []))
    values: list[SSAValue] = list(function.body.block.args)
    sources = {value: {value} for value in values}
    for _ in range(depth):
        read = [values[-1], values[-1], values[int(rng.integers(len(values)))]]
        joined = ConcatOp(read, 1, TensorType(f32, [1, 1]))
        function.body.block.add_op(joined)
        values.append(joined.result)
        sources[joined.result] = set().union(*(sources[value] for value in read))
    known = {value: tuple(sorted(rng.normal(0, 1, 2).tolist())) for value in values[:3]}
    asked: list[SSAValue] = []

    def range_of(value: SSAValue) -> tuple[float, float] | None:
        asked.append(value)
        return known.get(value)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(network_module, "range_of", range_of)
        found = Network(VtacContext(), function).range_of(values[-1])
    ranges = [known[source] for source in sources[values[-1]]]
    assert found == (min(lo for lo, _ in ranges), max(hi for _, hi in ranges))
    assert len(asked) == len(set(asked))
