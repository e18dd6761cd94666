"""`Module.run` on any number of samples: regrouped into the model's batches, outputs joined."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import vtac
from vtac.dialects.errors import CompileError
from vtac.runtime.executor import Module
from vtac.runtime.joining import join_batches
from vtac.tools.commands import vta_run

F = TensorProto.FLOAT
RNG = np.random.default_rng(12)
WEIGHTS = (RNG.standard_normal((6, 3)) / 3).astype(np.float32)


def dense(batch: int, *, state: bool = False) -> onnx.ModelProto:
    """x [batch, 6] to y = relu(x @ w) [batch, 3]; state: and s [2, batch, 3], total, a scalar."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"], name="product"),
        helper.make_node("Relu", ["p"], ["y"], name="relu"),
    ]
    outputs = [helper.make_tensor_value_info("y", F, [batch, 3])]
    if state:
        nodes += [
            helper.make_node("Unsqueeze", ["y", "zero"], ["u"]),
            helper.make_node("Concat", ["u", "u"], ["s"], axis=0),
            helper.make_node("ReduceSum", ["y"], ["total"], keepdims=0),
        ]
        outputs += [
            helper.make_tensor_value_info("s", F, [2, batch, 3]),
            helper.make_tensor_value_info("total", F, []),
        ]
    weights = [
        numpy_helper.from_array(WEIGHTS, "w"),
        numpy_helper.from_array(np.zeros(1, np.int64), "zero"),
    ]
    inputs = [helper.make_tensor_value_info("x", F, [batch, 6])]
    graph = helper.make_graph(nodes, "g", inputs, outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def samples(count: int) -> np.ndarray:
    return RNG.uniform(-1, 1, (count, 6)).astype(np.float32)


pytestmark = pytest.mark.filterwarnings("ignore:the model is a float model")


@pytest.fixture(scope="module")
def modules() -> dict[int, Module]:
    criteria = vtac.Criteria(compare=False)
    return {
        batch: vtac.compile(dense(batch), calibration=samples(32), criteria=criteria)
        for batch in (1, 3, 4)
    }


@settings(max_examples=30, deadline=None)
@given(batch=st.sampled_from([1, 3, 4]), count=st.integers(1, 11))
def test_any_number_of_samples_is_what_each_sample_gives(
    modules: dict[int, Module], batch: int, count: int
) -> None:
    module, data = modules[batch], samples(count)
    together = module.run(data)["y"]
    assert together.shape == (count, 3)
    assert len(module.last_run.launches) == -(-count // batch) * len(module.package.functions)
    for row, expected in zip(data, together, strict=True):
        alone = module.run({"x": np.repeat(row[None], batch, 0)})["y"]
        assert (alone == expected).all()
        assert (module.run(row)["y"][0] == expected).all()  # one sample without its axis


@pytest.mark.parametrize("form", [np.float64, np.float16, np.int8, np.uint8, "list", "batches"])
def test_forms_of_samples(modules: dict[int, Module], form: object) -> None:
    data = RNG.integers(0, 2, (8, 6)).astype(np.float32)
    expected = modules[4].run({"x": data})["y"]
    other = data.tolist() if form == "list" else data.reshape(2, 4, 6)
    given = other if isinstance(form, str) else data.astype(form)  # type: ignore[call-overload]
    assert (modules[4].run(given)["y"] == expected).all()


@pytest.mark.parametrize("shape", [(5, 7), (6, 5), (2, 2, 6), (0, 5), (5, 6, 1), ()])
def test_what_cannot_be_samples_is_refused(modules: dict[int, Module], shape: tuple[int]) -> None:
    with pytest.raises(CompileError, match=r"has shape .*the model takes"):
        modules[4].run(np.zeros(shape, np.float32))


@pytest.mark.parametrize("batch", [1, 3, 4])
@pytest.mark.parametrize("shape", [(0, 6), (0, None, 6), (2, 0, 6)])
def test_no_samples_have_no_results(
    modules: dict[int, Module], batch: int, shape: tuple[int | None, ...]
) -> None:
    none = np.zeros([batch if extent is None else extent for extent in shape], np.float32)
    if shape[0] == 2:
        with pytest.raises(CompileError, match=r"has shape .*the model takes"):
            modules[batch].run(none)
        return
    found = modules[batch].run(none)["y"]
    assert found.shape == (0, 3) and found.dtype == np.float32
    assert not modules[batch].last_run.launches


def test_outputs_without_samples_are_not_made_up() -> None:
    module = vtac.compile(dense(4, state=True))
    with pytest.raises(CompileError, match="'total'"):
        module.run(samples(0))


def test_outputs_with_the_batch_elsewhere_or_nowhere() -> None:
    module = vtac.compile(dense(4, state=True))
    data = samples(8)
    found = module.run(data)
    assert found["s"].shape == (2, 8, 3) and (found["s"][1] == found["y"]).all()
    assert found["total"].shape == (2,)
    assert np.allclose(found["total"], found["y"].reshape(2, -1).sum(axis=1))
    with pytest.raises(CompileError, match=r"'total'.* of shape .* has no axis of the 4 samples"):
        module.run(data[:7])
    assert module.run(data[:4])["total"].shape == ()


def test_inputs_with_different_numbers_of_samples() -> None:
    inputs = [helper.make_tensor_value_info(name, F, [2, 3]) for name in "ab"]
    outputs = [helper.make_tensor_value_info("y", F, [2, 3])]
    graph = helper.make_graph([helper.make_node("Add", ["a", "b"], ["y"])], "g", inputs, outputs)
    module = vtac.compile(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    )
    a, b = RNG.standard_normal((5, 3)), RNG.standard_normal((2, 3))
    with pytest.raises(CompileError, match="run: inputs have different numbers of samples"):
        module.run({"a": a, "b": a[:3]})
    state = module.run({"a": a, "b": b})["y"]  # one whole value serves all batches
    assert np.allclose(state, a + b[[0, 1, 0, 1, 0]])


@given(
    batch=st.integers(1, 5),
    batches=st.integers(1, 4),
    spare=st.integers(0, 4),
    before=st.integers(0, 2),
    per_sample=st.integers(1, 3),
)
def test_joined_outputs_are_those_of_the_samples(
    batch: int, batches: int, spare: int, before: int, per_sample: int
) -> None:
    """The batch at any axis: extents before it are primes that no batch divides."""
    before = 0 if batch == 1 else before
    per_sample = 1 if before or batch == 1 else per_sample
    count = batch * batches - min(spare, batch - 1)
    shape = (7, 11)[:before]
    whole = RNG.standard_normal((*shape, batch * batches * per_sample, 13))
    parts = np.split(whole, batches, axis=before)
    found = join_batches([{"y": part} for part in parts], batch, count)["y"]
    assert (found == whole.take(range(count * per_sample), before)).all()


def test_batches_of_other_outputs() -> None:
    with pytest.raises(CompileError, match="is no tensor"):
        join_batches([{"y": [1]}, {"y": [2]}], 1, 2)
    with pytest.raises(CompileError, match="differs in shape from batch to batch"):
        join_batches([{"y": np.zeros((3, 4))}, {"y": np.zeros((5, 4))}], 1, 2)
    apart = join_batches([{"y": np.zeros((3, 4))}, {"y": np.ones((3, 4))}], 1, 2)["y"]
    assert apart.shape == (2, 3, 4) and (apart[1] == 1).all()


def test_the_command_and_the_module_agree(modules: dict[int, Module], tmp_path: Path) -> None:
    modules[4].save(tmp_path / "m.vtapkg")
    data = samples(10)
    np.save(tmp_path / "x.npy", data)
    vta_run.main(
        [
            str(tmp_path / "m.vtapkg"),
            "--input",
            str(tmp_path / "x.npy"),
            "-o",
            str(tmp_path / "y.npz"),
        ]
    )
    with np.load(tmp_path / "y.npz") as outputs:
        assert (outputs["y"] == modules[4].run(data)["y"]).all()
