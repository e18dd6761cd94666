"""Models too large for protobuf: nothing serialises a model with its weights.

Protobuf refuses 2 GiB. Here the limit is a few kilobytes, far below the weights of the models.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from small_models import one_thread

import vtac
from vtac.dialects.context import Resources, VtacContext, bytes_of, digest_of, frozen
from vtac.lowering.onnx_to_graph.check import host_loads
from vtac.lowering.onnx_to_graph.weights import without_weights
from vtac.runtime import sessions
from vtac.tools.driver import compiler
from vtac.tools.reports.evaluation import Original

LIMIT = 16_000
"""Bytes that a serialised model may have here; every weight below has four times as many."""

WIDTH = 128


def value(name: str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, WIDTH])


def perceptron(*, constants: bool = False, unknown: bool = False) -> onnx.ModelProto:
    """Two dense layers. constants: weights in Constant nodes. unknown: an operator between them
    whose results onnx's shape inference does not know.
    """
    rng = np.random.default_rng(0)
    tensors = [
        numpy_helper.from_array(rng.normal(0, 0.1, (WIDTH, WIDTH)).astype(np.float32), name)
        for name in ("v", "w")
    ]
    made = [helper.make_node("Constant", [], [t.name], value=t) for t in tensors]
    between = helper.make_node("FastGelu", ["a"], ["b"], domain="com.microsoft", name="between")
    nodes = [
        *(made if constants else []),
        helper.make_node("Gemm", ["x", "v"], ["a"], name="first", transB=1),
        between if unknown else helper.make_node("Relu", ["a"], ["b"], name="between"),
        helper.make_node("Gemm", ["b", "w"], ["y"], name="second", transB=1),
    ]
    inits = [] if constants else tensors
    graph = helper.make_graph(nodes, "g", [value("x")], [value("y")], inits)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


@pytest.fixture
def expected() -> Iterator[tuple[onnx.ModelProto, np.ndarray, np.ndarray]]:
    """A model, an input and its result."""
    x = np.random.default_rng(1).normal(0, 1, (8, WIDTH)).astype(np.float32)
    session = onnxruntime.InferenceSession(perceptron().SerializeToString(), one_thread())
    yield perceptron(), x, session.run(None, {"x": x[:1]})[0]


@pytest.fixture
def sizes(expected, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of all models that onnxruntime is given from now on; one above the limit fails."""
    seen: list[int] = []
    real = onnxruntime.InferenceSession

    def limited(model: bytes, *args: object, **more: object) -> object:
        seen.append(len(model))
        assert len(model) < LIMIT, "a model was serialised with its weights"
        return real(model, *args, **more)

    monkeypatch.setattr(onnxruntime, "InferenceSession", limited)
    return seen


def error_of(found: np.ndarray, wanted: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(found - wanted))) / wanted.std())


@pytest.mark.parametrize("constants", [False, True], ids=["initialisers", "constants"])
@pytest.mark.parametrize("unknown", [False, True], ids=["known", "unknown"])
def test_calibration(expected, sizes: list[int], constants: bool, unknown: bool) -> None:
    model, x, y = expected
    model = perceptron(constants=constants, unknown=unknown)
    module = vtac.compile(model, "sim", x, criteria=vtac.Criteria(compare=False))
    assert {n.where for n in module.explain if n.node in ("first", "second")} != {"host"}
    if not unknown:
        assert error_of(module.run(x[:1])["y"], y) < 0.05
    assert sizes


def test_layer_errors(expected, sizes: list[int]) -> None:
    model, x, _ = expected
    module = vtac.compile(model, "sim", x, layer_errors=True)
    assert module.report.layer_errors
    assert len(sizes) > 2


def test_the_host_alone(expected, sizes: list[int], tmp_path: Path) -> None:
    """Weights are stored once in the package, and not in its host parts."""
    model, x, y = expected
    with pytest.warns(UserWarning):
        module = vtac.compile(model, "sim")
    assert all(len(part) < LIMIT for part in module.package.host_parts.values())
    np.testing.assert_allclose(module.run(x[:1])["y"], y, rtol=1e-4, atol=1e-5)
    module.save(tmp_path / "m.vtapkg")
    loaded = vtac.load(tmp_path / "m.vtapkg")
    np.testing.assert_array_equal(loaded.run(x[:1])["y"], module.run(x[:1])["y"])
    assert sizes


def test_the_original_model(expected, sizes: list[int]) -> None:
    model, x, y = expected
    module = vtac.compile(model, "sim", x)
    found = Original(model, module).run({"x": x[:1]})["y"]
    np.testing.assert_allclose(found, y, rtol=1e-4, atol=1e-5)


def test_what_onnxruntime_is_asked_about(expected, sizes: list[int]) -> None:
    assert host_loads(perceptron(unknown=True))
    broken = perceptron()
    broken.graph.node[0].op_type = "NoSuchOperator"
    assert not host_loads(broken)
    assert len(sizes) == 2


def test_external_data(expected, sizes: list[int], tmp_path: Path) -> None:
    model, x, y = expected
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, size_threshold=0)
    module = vtac.compile(tmp_path / "m.onnx", "sim", x)
    assert error_of(module.run(x[:1])["y"], y) < 0.05


@given(
    dtype=st.sampled_from(["float32", "float16", "float64", "int8", "uint8", "int64", "bool"]),
    shape=st.lists(st.integers(0, 40), max_size=3),
    raw=st.booleans(),
)
def test_weights_leave_a_model_whatever_they_are(dtype: str, shape: list[int], raw: bool) -> None:
    array = np.random.default_rng(0).integers(0, 2, shape).astype(dtype)
    tensor = numpy_helper.from_array(array, "w")
    if not raw:
        code = helper.np_dtype_to_tensor_dtype(array.dtype)
        tensor = helper.make_tensor("w", code, shape, array.ravel().tolist())
    graph = helper.make_graph([helper.make_node("Identity", ["w"], ["y"])], "g", [], [], [tensor])
    graph.output.add(name="y")
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    before = model.SerializeToString(deterministic=True)
    small, weights = without_weights(model)
    assert model.SerializeToString(deterministic=True) == before
    assert set(weights) == ({"w"} if array.nbytes >= 1024 else set())
    for found in weights.values():
        np.testing.assert_array_equal(found, array)
        assert found.dtype == array.dtype
    assert [field.name for field, _ in small.ListFields()] == [
        field.name for field, _ in model.ListFields()
    ]
    assert small.graph.node == model.graph.node


@given(
    dtype=st.sampled_from(["float32", "float16", "int8", "bool", "uint64"]),
    shape=st.lists(st.integers(0, 5), max_size=3),
    order=st.sampled_from("CF"),
)
def test_bytes_are_shared(dtype: str, shape: list[int], order: str) -> None:
    """A table of constants holds read-only views of bytes, which are not copied again."""
    array = np.asarray(np.random.default_rng(0).integers(0, 2, shape).astype(dtype), order=order)
    kept = frozen(array)
    np.testing.assert_array_equal(kept, array)
    assert not kept.flags.writeable
    assert bytes_of(kept) == array.tobytes()
    if array.size:
        assert bytes_of(kept) is bytes_of(kept)
        assert frozen(kept).base is kept.base or bytes_of(frozen(kept)) is bytes_of(kept)
    assert digest_of(kept) == digest_of(array)
    resources = Resources()
    assert resources.add(array) == resources.add(kept)
    part = kept.reshape(-1)[1:]
    assert bytes_of(part) == part.tobytes()


@pytest.mark.parametrize(("limit", "prepacked"), [(0, False), (1 << 40, True)])
def test_large_weights_are_not_copied_by_prepacking(
    limit: int, prepacked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[bool] = []
    real = onnxruntime.InferenceSession

    def watched(model: bytes, options: onnxruntime.SessionOptions, **more: object) -> object:
        try:
            found.append(options.get_session_config_entry("session.disable_prepacking") != "1")
        except RuntimeError:  # there is no such entry
            found.append(True)
        return real(model, options, **more)

    monkeypatch.setattr(onnxruntime, "InferenceSession", watched)
    monkeypatch.setattr(sessions, "MOST_PREPACKED", limit)
    small, weights = without_weights(perceptron())
    sessions.open_session(small, weights)
    sessions.open_session(perceptron())
    assert found == [prepacked, True]


@pytest.mark.parametrize("observed", [False, True])
def test_float_weights_are_dropped_once_quantised(
    observed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[VtacContext] = []

    class Watched(VtacContext):
        def __init__(self, *args: object, **more: object) -> None:
            super().__init__(*args, **more)  # type: ignore[arg-type]
            made.append(self)

    monkeypatch.setattr(compiler, "VtacContext", Watched)
    samples = np.random.default_rng(1).normal(0, 1, (4, 1, WIDTH)).astype(np.float32)
    seen = (lambda name, module, ctx: None) if observed else None
    vtac.compile(perceptron(), "sim", samples[:, 0], observe=seen)
    floats = [a for a in made[0].resources.values() if a.dtype == np.float32]
    assert bool(floats) == observed


def test_what_is_dropped_can_be_added_again() -> None:
    resources = Resources()
    arrays = [np.full(4, number, np.int8) for number in range(3)]
    names = [resources.add(array, "a").key.data for array in arrays]
    assert names == ["a", "a_1", "a_2"]
    resources.keep({"a_1"})
    assert list(resources) == ["a_1"]
    again = resources.add(arrays[0], "a")
    assert np.array_equal(resources.get_array(again), arrays[0])
    assert resources.add(arrays[1], "a").key.data == "a_1"
