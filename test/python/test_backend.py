"""A sample of ONNX's backend suite; `test/benchmarks/bench_backend.py` runs all of it."""

import numpy as np
import onnx
import pytest
from backend_suite import FAILED, PASSED, Outcome, cases, outcome
from small_models import small_model

from vtac import backend
from vtac.dialects.errors import CompileError

OLD = ("test_Conv1d_groups", "test_MaxPool2d")
EVERY = 4


@pytest.mark.parametrize("kind", ["simple", "pytorch-operator"])
def test_no_case_fails_that_onnxruntime_passes(kind: str) -> None:
    found = {case.name: outcome(case) for case in cases(kind)[::EVERY]}
    assert [name for name, became in found.items() if became.what == FAILED] == []
    assert any(became.what == PASSED for became in found.values())


def test_models_of_old_opsets_are_converted() -> None:
    found = {case.name: outcome(case) for case in cases("pytorch-converted") if case.name in OLD}
    assert found == dict.fromkeys(OLD, Outcome(PASSED))


def test_an_old_model_that_cannot_be_converted_is_refused_with_the_reason() -> None:
    node = onnx.helper.make_node("Cast", ["x"], ["y"], to="FLOAT")
    model = small_model([node], {"x": [2]}, ["y"])
    model.opset_import[0].version = 5
    with pytest.raises(CompileError, match=r"opset 5, which onnx cannot convert to 7: .*Cast"):
        backend.prepare(model)


def test_the_interface() -> None:
    node = onnx.helper.make_node("Sub", ["a", "b"], ["y"])
    model = small_model([node], {"a": [2], "b": [2]}, ["y"])
    a, b = np.array([5, 7], np.float32), np.array([1, 2], np.float32)
    (y,) = backend.prepare(model, "VTA").run([a, b])
    assert y.tolist() == [4, 5]
    (y,) = backend.prepare(model).run({"b": a, "a": b})
    assert y.tolist() == [-4, -5]
    assert backend.supports_device("CPU") and backend.supports_device("VTA:0")
    assert not backend.supports_device("CUDA")
    with pytest.raises(CompileError, match="3 inputs for a model that has 2"):
        backend.run_model(model, [a, b, a])
    with pytest.raises(CompileError, match="device 'CUDA': is not known"):
        backend.prepare(model, "CUDA")


def test_inputs_may_be_constants() -> None:
    node = onnx.helper.make_node("Sub", ["a", "b"], ["y"])
    a, b = np.array([5, 7], np.float32), np.array([1, 2], np.float32)
    model = small_model([node], {"a": [2], "b": [2]}, ["y"], {"b": a})
    for bound, expected in ((None, [0, 0]), ({"b": b}, [4, 5])):  # what is known counts, no default
        (y,) = backend.prepare(model, constants=bound).run(a)
        assert y.tolist() == expected
    with pytest.raises(CompileError, match="constant 'c': the model has no such input"):
        backend.prepare(model, constants={"c": b})
