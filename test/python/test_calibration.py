"""Samples as users have them, and the ranges that values take on them."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.helper as oh
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import ModelProto, TensorProto
from small_networks import Network, main_of
from xdsl.dialects.builtin import DYNAMIC_INDEX

from vtac.dialects.errors import CompileError
from vtac.dialects.graph.ranges import range_of
from vtac.runtime.calibration import calibrate, calibration_values, collect_ranges
from vtac.runtime.histogram import BINS, Histogram
from vtac.runtime.samples import (
    InputSpec,
    input_specs,
    load_labels,
    load_samples,
    shapes_from_samples,
)

Array = np.ndarray[Any, np.dtype[Any]]
F32, I64 = np.dtype(np.float32), np.dtype(np.int64)
IMAGE = InputSpec("image", (2, 3, 4, 5), F32)


def whats(error: pytest.ExceptionInfo[CompileError]) -> list[str]:
    return [problem.what for problem in error.value.problems]


# Samples.


@pytest.mark.parametrize("shape", [(6, 3, 4, 5), (3, 2, 3, 4, 5)])
def test_samples_and_full_batches_regroup(shape: tuple[int, ...]) -> None:
    array = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    samples = load_samples(array, [IMAGE])
    batches = list(samples)
    assert len(samples) == len(batches) == 3 and not samples.notes
    assert np.array_equal(np.concatenate([b["image"] for b in batches]).ravel(), array.ravel())
    assert {b["image"].shape for b in batches} == {IMAGE.shape}


def test_the_last_batch_is_filled_from_the_start() -> None:
    array = np.arange(5, dtype=np.float32)[:, None]
    samples = load_samples({"x": array}, [InputSpec("x", (3, 1), F32)])
    assert [b["x"].ravel().tolist() for b in samples] == [[0, 1, 2], [3, 4, 0]]
    assert samples.notes == (
        "5 calibration samples of 'x' do not fill batches of 3: "
        "the last batch repeats samples from the start",
    )


def test_lists_hold_samples_or_batches() -> None:
    one, two = np.zeros((3, 4, 5)), np.ones((2, 3, 4, 5))
    samples = load_samples([one, two, one], [IMAGE])
    assert len(samples) == 2
    assert [b["image"].mean() for b in samples] == [0.5, 0.5]


def test_files(tmp_path: Path) -> None:
    array = np.random.default_rng(0).normal(size=(4, 3, 4, 5))
    np.save(tmp_path / "a.npy", array)
    np.savez(tmp_path / "named.npz", image=array)
    np.savez(tmp_path / "unnamed.npz", array)
    expected = array.astype(np.float32)
    for name in ("a.npy", "named.npz", "unnamed.npz"):
        samples = load_samples(tmp_path / name, [IMAGE])
        assert np.array_equal(np.concatenate([b["image"] for b in samples]), expected)
        assert samples.arrays["image"].dtype == F32


def test_several_inputs_and_inputs_without_batch() -> None:
    specs = [InputSpec("a", (1, 2), F32), InputSpec("s", (), F32)]
    samples = load_samples({"a": np.ones((3, 2)), "s": np.arange(3)}, specs)
    assert [(b["a"].shape, float(b["s"])) for b in samples] == [((1, 2), i) for i in range(3)]
    assert next(iter(samples))["s"].shape == ()


def test_labels_are_no_inputs_unless_the_model_has_one_of_that_name() -> None:
    spec, classes = InputSpec("image", (1, 2), F32), np.arange(3)
    source = {"x": np.ones((3, 2)), "label": classes}
    assert list(load_samples(source, [spec]).arrays) == ["image"]
    assert np.array_equal(load_labels(source, [spec]), classes)
    named = {"label": np.ones((3, 2))}
    label = [InputSpec("label", (1, 2), F32)]
    assert list(load_samples(named, label).arrays) == ["label"]
    assert load_labels(named, label) is None and load_labels(named["label"], label) is None


def test_unknown_dimensions_come_from_the_samples() -> None:
    spec = InputSpec("x", (DYNAMIC_INDEX, 3, DYNAMIC_INDEX), F32)
    known = InputSpec("k", (1, 1), F32)
    source = {"x": np.zeros((4, 3, 7)), "k": np.zeros((4, 1))}
    assert shapes_from_samples(source, [spec, known]) == {"x": (1, 3, 7)}
    assert len(load_samples(source, [spec, known])) == 4


def test_integers_are_cast_where_they_fit() -> None:
    index = InputSpec("i", (1,), I64)
    assert load_samples(np.arange(3, dtype=np.uint8), [index]).arrays["i"].dtype == I64
    small = InputSpec("i", (1,), np.dtype(np.int8))
    assert load_samples(np.array([-128, 127]), [small]).arrays["i"].dtype == np.int8
    with pytest.raises(CompileError) as error:
        load_samples(np.array([0, 200]), [small])
    assert whats(error) == ["input 'i' takes int8, but an array has values from 0 to 200"]
    with pytest.raises(CompileError) as error:
        load_samples(np.array([0.5]), [small])
    assert whats(error) == ["input 'i' takes int8, but an array is of float64"]


def test_every_wrong_name_is_told_with_the_known_ones() -> None:
    specs = [InputSpec("a", (1, 2), F32), InputSpec("b", (1, 2), F32)]
    with pytest.raises(CompileError) as error:
        load_samples({"a": np.ones((1, 2)), "x": np.ones(1), "z": np.ones(1)}, specs)
    assert whats(error) == [
        "the model has no input 'x'",
        "the model has no input 'z'",
        "none for input 'b'",
    ]
    assert error.value.problems[0].hint == "The model's inputs: a, b"
    with pytest.raises(CompileError, match="one unnamed array for a model with 2 inputs"):
        load_samples(np.ones((1, 2)), specs)


@pytest.mark.parametrize(
    ("array", "what"),
    [
        (np.zeros((4, 4, 5, 3)), r"\[4, 4, 5, 3\] does not fit input 'image' \[2, 3, 4, 5\]"),
        (np.full((1, 3, 4, 5), np.nan), "hold 60 values that are not finite"),
        (np.zeros((0, 3, 4, 5)), "there are none for input 'image'"),
        (np.zeros((1, 3, 4, 5), complex), "takes float32, but an array is of complex128"),
        ([], "the list for input 'image' is empty"),
    ],
)
def test_arrays_that_do_not_fit(array: Any, what: str) -> None:
    with pytest.raises(CompileError, match=what):
        load_samples(array, [IMAGE])


def test_numbers_of_samples_must_agree() -> None:
    specs = [InputSpec("a", (4, 1), F32), InputSpec("b", (4, 1), F32)]
    with pytest.raises(CompileError, match="different numbers of samples: 'a' 3, 'b' 4"):
        load_samples({"a": np.ones((3, 1)), "b": np.ones((4, 1))}, specs)


@pytest.mark.parametrize("content", [None, b"", b"not numpy", b"PK\x03\x04 broken"])
def test_unreadable_files(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "samples.npz"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(CompileError, match=r"samples\.npz"):
        load_samples(path, [IMAGE])


def test_pickled_objects_are_not_read(tmp_path: Path) -> None:
    np.save(tmp_path / "evil.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(CompileError, match="cannot be read"):
        load_samples(tmp_path / "evil.npy", [IMAGE])


# Histograms.


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=5), st.integers(0, 2**32))
def test_histograms_do_not_depend_on_the_order_of_batches(scales: list[float], seed: int) -> None:
    rng = np.random.default_rng(seed)
    batches = [rng.normal(size=50).astype(np.float32) * np.float32(s) for s in scales]
    forth, back = Histogram(), Histogram()
    for one, other in zip(batches, reversed(batches), strict=True):
        forth.add(one)
        back.add(other)
    assert forth.limit == back.limit
    assert np.array_equal(forth.counts, back.counts)
    assert forth.counts.sum() + forth.zeros == back.counts.sum() + back.zeros == 50 * len(scales)


def test_percentile_is_numpys_to_the_width_of_a_bin() -> None:
    values = np.random.default_rng(1).exponential(size=20_000)
    values[::2] = 0.0  # as a ReLU leaves them
    histogram = Histogram()
    for part in np.split(values, 10):
        histogram.add(part)
    for percent in (50, 99, 99.9, 100):
        width = histogram.limit / BINS
        exact = np.percentile(values, percent)
        assert histogram.percentile(percent) == pytest.approx(exact, abs=2 * width)


def test_entropy_clips_outliers_and_keeps_what_is_even() -> None:
    rng = np.random.default_rng(2)
    outliers, even = Histogram(), Histogram()
    outliers.add(np.append(rng.normal(size=100_000), [60.0]))
    even.add(rng.uniform(-1, 1, 100_000))
    assert 2 < outliers.entropy_threshold() < 20
    assert even.entropy_threshold() == pytest.approx(1, abs=0.01)


@given(st.sampled_from(["normal", "exponential", "uniform", "laplace"]), st.floats(0.05, 0.98))
def test_zeros_do_not_move_the_threshold_of_entropy(kind: str, share: float) -> None:
    rng = np.random.default_rng(3)
    values = np.abs(getattr(rng, kind)(size=20_000))
    alone, among = Histogram(), Histogram()
    alone.add(values)
    among.add(np.concatenate([values, np.zeros(int(len(values) * share / (1 - share)))]))
    assert among.entropy_threshold() == alone.entropy_threshold()
    kept = np.mean(values <= alone.entropy_threshold())
    assert kept > 0.98  # clipping more than that destroys networks


@pytest.mark.filterwarnings("error")
@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=40))
def test_entropy_clips_nothing_of_a_few_values(values: list[float]) -> None:
    histogram = Histogram()
    histogram.add(np.array(values, np.float32))
    largest = float(np.abs(np.array(values, np.float32)).max())
    assert largest <= histogram.entropy_threshold() <= largest + histogram.limit / BINS


@pytest.mark.filterwarnings("error")
@given(st.lists(st.tuples(st.integers(0, BINS - 1), st.integers(1, 10**6)), min_size=1))
def test_entropy_finds_a_threshold_in_any_histogram(filled: list[tuple[int, int]]) -> None:
    histogram = Histogram(limit=1.0)
    for place, count in filled:
        histogram.counts[place] += count
    assert 0 < histogram.entropy_threshold() <= 1


# Ranges.


def float_model() -> ModelProto:
    """y = relu(x) * 0.7, with relu's result r as a second output."""
    nodes = [oh.make_node("Relu", ["x"], ["r"]), oh.make_node("Mul", ["r", "k"], ["y"])]
    values = [oh.make_tensor_value_info(n, TensorProto.FLOAT, [1, 3]) for n in "xry"]
    k = oh.make_tensor("k", TensorProto.FLOAT, [], [0.7])
    net = oh.make_graph(nodes, "g", values[:1], values[1:], [k])
    return oh.make_model(net, opset_imports=[oh.make_opsetid("", 17)], ir_version=9)


BATCHES = [
    {"x": np.array([[-1.5, 0.0, 2.5]], np.float32)},
    {"x": np.array([[-0.3, 1.0, 0.1]], np.float32)},
]


def test_minmax_over_batches_with_progress() -> None:
    seen: list[int] = []
    ranges = collect_ranges(float_model(), ["x", "r", "y"], BATCHES, progress=seen.append)
    assert ranges["x"] == (-1.5, 2.5)
    assert ranges["r"] == (0.0, 2.5)
    assert ranges["y"] == (0.0, pytest.approx(1.75))
    assert seen == [1, 2]


@pytest.mark.parametrize("method", ["percentile", "entropy"])
def test_other_methods_stay_inside_minmax(method: Any) -> None:
    rng = np.random.default_rng(3)
    batches = [{"x": rng.normal(size=(1, 3)).astype(np.float32)} for _ in range(200)]
    exact = collect_ranges(float_model(), ["x", "r"], batches)
    clipped = collect_ranges(float_model(), ["x", "r"], batches, method=method, percent=90)
    for name in ("x", "r"):
        assert exact[name][0] <= clipped[name][0] <= clipped[name][1] <= exact[name][1]
    assert method == "entropy" or clipped["x"][1] < exact["x"][1]


def test_values_on_a_grid_get_its_range() -> None:
    batches = [{"x": np.array([[-1.0, 0.5, 7.25]], np.float32)}]
    ranges = collect_ranges(float_model(), ["x", "y"], batches)
    step = 0.0625  # the finest power of two with 127 steps beyond 7.25
    assert ranges["x"] == (-128 * step, 127 * step)
    assert ranges["y"] == (0.0, pytest.approx(0.7 * 7.25))
    wide = [*batches, {"x": np.array([[0.015625, 127.0, 3.0]], np.float32)}]
    assert collect_ranges(float_model(), ["x"], wide)["x"] == (-1.0, 127.0)


def test_zero_values_have_a_range() -> None:
    batches = [{"x": np.zeros((1, 3), np.float32)}]
    assert collect_ranges(float_model(), ["x", "y"], batches) == {"x": (0, 0), "y": (0, 0)}


def test_ranges_land_on_values() -> None:
    net = Network((1, 3))
    relu = net.relu(net.inputs[0])
    scaled = net.add(relu, relu)
    module = net.module(scaled)
    values = calibration_values(main_of(module))
    assert [spec.name for spec in input_specs(main_of(module))] == ["x0"]
    assert list(values) == [net.inputs[0], relu, scaled]
    assert values[net.inputs[0]] == "x0"
    model, batches = float_model(), [{"x": b["x"]} for b in BATCHES]
    calibrate(model, {net.inputs[0]: "x", relu: "r", scaled: "y"}, batches)
    module.verify()
    assert range_of(net.inputs[0]) == (-1.5, 2.5)
    assert range_of(relu) == (0.0, 2.5)
    assert range_of(scaled) == (0.0, pytest.approx(1.75))


def test_values_that_are_not_finite_have_no_range() -> None:
    model = float_model()
    model.graph.initializer[0].CopyFrom(oh.make_tensor("k", TensorProto.FLOAT, [], [9.0]))
    huge = {"x": np.full((1, 3), 3e38, np.float32)}
    assert set(collect_ranges(model, ["x", "y"], [*BATCHES, huge])) == {"x"}


def test_failures_are_told() -> None:
    model = float_model()
    with pytest.raises(CompileError, match="there are no samples"):
        collect_ranges(model, ["x"], [])
    with pytest.raises(CompileError, match="there is no method 'magic'"):
        collect_ranges(model, ["x"], BATCHES, method="magic")  # type: ignore[arg-type]
    with pytest.raises(CompileError, match="no percentage"):
        collect_ranges(model, ["x"], BATCHES, method="percentile", percent=0)
    with pytest.raises(CompileError, match="onnxruntime failed on a batch"):
        collect_ranges(model, ["r"], [{"x": np.zeros((1, 4), np.float32)}])
    broken = onnx.ModelProto()
    broken.CopyFrom(model)
    broken.graph.node[0].op_type = "NoSuchOperator"
    with pytest.raises(CompileError, match="onnxruntime cannot load"):
        collect_ranges(broken, ["y"], BATCHES)
