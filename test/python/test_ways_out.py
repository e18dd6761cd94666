"""The way out that ``--explain`` names for operations on the host."""

import numpy as np
import pytest
from xdsl.dialects.builtin import StringAttr

from vtac.dialects.graph import HostOp
from vtac.passes.graph.reasons import (
    HOST_REASON,
    WAYS_OUT,
    WAYS_OUT_OF_OPERATORS,
    Reason,
    ReasonKind,
    host_reason,
    keep_on_host,
)
from vtac.runtime.samples import InputSpec, doubts, load_samples


@pytest.mark.parametrize("kind", ReasonKind)
@pytest.mark.parametrize("operator", ["Softmax", "LSTM", "Resize", "Einsum", "Anything"])
def test_every_operator_and_every_kind_has_a_way_out(kind: ReasonKind, operator: str) -> None:
    op = HostOp(operator, (), ())
    keep_on_host(op, Reason("because", kind))
    found = host_reason(op)
    assert found is not None and found.kind is kind
    assert found.hint == WAYS_OUT_OF_OPERATORS.get(operator, WAYS_OUT[kind]) != ""
    keep_on_host(op, Reason("because", kind, "Do this."))
    found = host_reason(op)
    assert found is not None and found.hint == "Do this."


def test_a_reason_without_a_kind_has_a_way_out() -> None:
    op = HostOp("Anything", (), ())
    op.attributes[HOST_REASON] = StringAttr("because")
    found = host_reason(op)
    assert found is not None and found.hint == WAYS_OUT[ReasonKind.OPERATOR]


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("dtype", [bool, np.float32, np.int8])
def test_booleans_for_floats_are_doubted(count: int, dtype: type) -> None:
    spec = InputSpec("x", (1, 4), np.dtype(np.float32))
    parts = [np.array([[0, 1, 1, 0]]).astype(dtype)] * count
    said = doubts(load_samples({"x": parts}, [spec]), [spec])
    assert any("are booleans" in text for text in said) == (dtype is bool)
