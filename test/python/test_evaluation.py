"""A compiled model judged on data: figures, labels, batches, and data that does not fit."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from small_models import floats, small_model

import vtac
from vtac.runtime.samples import InputSpec, load_samples
from vtac.tools.reports.agreement import Agreement
from vtac.tools.reports.evaluation import Judge

WEIGHTS = floats((6, 4), 1)
DATA = floats((7, 6), 2)


def dense(batch: int | str, *more: onnx.NodeProto) -> onnx.ModelProto:
    """logits = x w, and what else is computed from it."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["logits"]), *more]
    outputs = [node.output[0] for node in nodes]
    return small_model(nodes, {"x": [batch, 6]}, outputs, {"w": WEIGHTS})


@cache
def compiled(batch: int = 3) -> vtac.Module:
    """On the host: there are no samples to calibrate with."""
    with pytest.warns(UserWarning):
        return vtac.compile(dense(batch))


def test_sums_over_pairs_are_what_numpy_says_of_all() -> None:
    a, b = floats((4, 5), 3), floats((4, 5), 4)
    found = Agreement()
    for row, other in zip(a, b, strict=True):
        found.add(row, other)
    difference = np.abs(a.astype(np.float64) - b)
    assert found.count == 20 and found.odd == 0
    assert found.mean_difference == pytest.approx(difference.mean())
    assert found.largest_difference == difference.max() and found.largest == np.abs(a).max()
    assert found.snr == pytest.approx(10 * np.log10((a**2).sum() / (difference**2).sum()))
    assert found.cosine == pytest.approx(np.vdot(a, b) / np.linalg.norm(a) / np.linalg.norm(b))


def test_numbers_that_are_not_finite_are_counted_apart() -> None:
    found = Agreement()
    nan, inf = np.nan, np.inf
    found.add(np.array([1.0, nan, inf, inf, 2.0]), np.array([1.0, nan, inf, -inf, nan]))
    assert (found.count, found.odd, found.noise, found.snr) == (1, 2, 0, inf)
    assert Agreement().cosine == 1 and Agreement().mean_difference == 0


def test_what_only_fills_the_last_batch_counts_nowhere() -> None:
    seen: list[tuple[int, int]] = []
    found = vtac.evaluate(
        compiled(), {"x": DATA}, dense("n"), progress=lambda *done: seen.append(done)
    )
    assert found.samples == 7 and seen == [(1, 3), (2, 3), (3, 3)]
    samples = load_samples(DATA, [InputSpec("x", (3, 6), np.dtype(np.float32))])
    judge = Judge(samples)
    for batch in samples:
        theirs = batch["x"] @ WEIGHTS
        judge.add({"y": theirs + (batch["x"] == DATA[0]).all(1)[:, None]}, {"y": theirs})
    figures = judge.verdict()["y"]
    assert figures.largest_difference == pytest.approx(1)
    assert figures.mean_difference == pytest.approx(1 / 7)
    assert figures.largest == pytest.approx(np.abs(DATA @ WEIGHTS).max(), rel=1e-6)
    assert vtac.evaluate(compiled(), DATA, dense("n"), limit=2).samples == 6


@pytest.mark.parametrize("key", ["y", "label", "labels"])
def test_labels_of_the_data_give_the_share_of_right_answers(key: str, tmp_path: Path) -> None:
    scores = DATA @ WEIGHTS
    labels = scores.argmax(axis=1)
    labels[:2] = (labels[:2] + 1) % 4
    np.savez(tmp_path / "data.npz", **{"x": DATA, key: labels.astype(np.uint8)})
    found = vtac.evaluate(compiled(), tmp_path / "data.npz", dense(3))["logits"]
    assert found.top1 == found.top1_original == pytest.approx(5 / 7) and found.equal_labels == 1
    alone = vtac.evaluate(compiled(), tmp_path / "data.npz")
    assert alone["logits"].top1 == pytest.approx(5 / 7)
    assert alone["logits"].cosine is None and not alone.compared
    assert "top1_original" in alone.as_dict()["outputs"][0]


def test_labels_may_be_rows_and_are_compared_with_classes() -> None:
    nodes = [
        helper.make_node("ArgMax", ["logits"], ["class"], axis=1, keepdims=0),
        helper.make_node("ReduceSum", ["logits"], ["sum"], keepdims=0),
        helper.make_node("DynamicQuantizeLinear", ["logits"], ["bytes", "s", "z"]),
    ]
    model = dense(1, *nodes)
    with pytest.warns(UserWarning):
        module = vtac.compile(model)
    rows = np.eye(4)[(DATA @ WEIGHTS).argmax(axis=1)]
    found = vtac.evaluate(module, DATA, model, labels=rows)
    assert found["class"].top1 == found["logits"].top1 == found["bytes"].top1 == 1
    assert found["sum"].top1 is None and found["sum"].cosine == pytest.approx(1)


def test_outputs_that_are_no_numbers_are_left_out() -> None:
    nodes = [helper.make_node("SequenceConstruct", ["x", "x"], ["s"])]
    graph = helper.make_graph(
        [*nodes, helper.make_node("Relu", ["x"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 6])],
        [
            helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, None),
            helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 6]),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with pytest.warns(UserWarning):
        found = vtac.evaluate(vtac.compile(model), DATA, model)
    assert found["s"].cosine is None and found["y"].cosine == pytest.approx(1)


CASES: list[tuple[Any, dict[str, Any], str]] = [
    ({"z": DATA, "w": DATA}, {}, "no input 'z'.*\n.*\n.*no input 'w'.*\n.*\n.*none for input 'x'"),
    ({"x": DATA[:, :5]}, {}, r"\[7, 5\] does not fit input 'x' \[3, 6\]"),
    ({"x": DATA.astype(complex)}, {}, "takes float32, but an array is of complex"),
    ({"x": DATA, "y": np.zeros(7), "labels": np.zeros(7)}, {}, "several labels: y, labels"),
    ({"x": DATA, "y": np.zeros(6, int)}, {}, "6 labels for 7 samples"),
    ({"x": DATA, "y": np.full(7, 0.5)}, {}, r"labels are float64\[7\]"),
    ({"x": DATA, "y": np.full(7, 4)}, {}, "labels go up to 4, 'logits' has 4 classes"),
    ({"x": DATA, "y": np.array(3)}, {}, "1 labels for 7 samples"),
    (DATA, {"limit": 0}, "argument limit: 0 makes no sense"),
    ({"x": DATA}, {}, "nothing to compare with.*\n.*--reference"),
    ("none.npz", {}, "none.npz: there is no such file"),
    (DATA, {"reference": small_model([], {"z": [3, 6]}, [])}, "other inputs.*: x, z"),
]


@pytest.mark.parametrize(("data", "options", "message"), CASES)
def test_data_that_does_not_fit(data: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(vtac.CompileError, match=message):
        vtac.evaluate(compiled(), data, **options)


@pytest.mark.parametrize("y", [np.linspace(-1, 1, 7), np.zeros((7, 2, 2), int), np.full(7, 0.5)])
def test_labels_of_a_regression_do_not_stop_a_comparison(y: np.ndarray) -> None:
    found = vtac.evaluate(compiled(), {"x": DATA, "y": y}, dense(3))
    assert found["logits"].top1 is None and found["logits"].cosine is not None
    assert "not used" in found.notes[0]


@pytest.mark.parametrize("batch", [1, 3, 7])
@pytest.mark.parametrize("width", [1, 2, 4])
@pytest.mark.parametrize("kind", ["float64", "float32", "int32", "rows of shares"])
def test_labels_that_are_numbers_are_measured_by_their_distance(
    batch: int, width: int, kind: str, tmp_path: Path
) -> None:
    weights = floats((6, width), 8)
    node = helper.make_node("MatMul", ["x", "w"], ["price"])
    model = small_model([node], {"x": [batch, 6]}, ["price"], {"w": weights})
    with pytest.warns(UserWarning):
        module = vtac.compile(model)
    exact = DATA @ weights
    y = exact + np.arange(7)[:, None] - 30
    if kind == "int32":
        y = np.rint(y)
    y = y.astype(kind if kind != "rows of shares" else "float64")
    if width == 1:
        y = y[:, 0]  # one number per sample
    if kind == "rows of shares":  # classes, where there is more than one
        if width == 1:
            return
        shares = np.exp(exact) / np.exp(exact).sum(axis=1, keepdims=True)
        found = vtac.evaluate(module, {"x": DATA, "y": shares}, model)["price"]
        assert (found.top1, found.top1_original, found.mean_error) == (1, 1, None)
        return
    expected = np.abs(exact - y.reshape(7, width).astype(np.float64)).mean()
    np.savez(tmp_path / "data.npz", x=DATA, y=y)
    for reference in (model, None):
        whole = vtac.evaluate(module, tmp_path / "data.npz", reference)
        found = whole["price"]
        assert found.mean_error == pytest.approx(expected, rel=1e-5)
        assert found.mean_error_original == (
            pytest.approx(expected, rel=1e-5) if reference is not None else None
        )
        assert found.top1 is None and "distance from the labels" in whole.notes[0]


def test_labels_that_are_no_finite_numbers_are_refused() -> None:
    for odd in (np.nan, np.inf):
        y = np.where(np.arange(7) == 3, odd, 1.0)
        with pytest.raises(vtac.CompileError, match="1 of the labels are not finite"):
            vtac.evaluate(compiled(), {"x": DATA, "y": y}, dense(3))


def test_labels_judge_those_outputs_that_they_fit() -> None:
    """Labels beyond the classes of one output do not keep another from being judged."""
    nodes = [
        helper.make_node("Slice", ["logits", "zero", "two", "one"], ["few"]),
        helper.make_node("ReduceMean", ["logits"], ["mean"], axes=[1], keepdims=1),
    ]
    numbers = {"zero": [0], "two": [2], "one": [1]}
    values = {name: np.array(value, np.int64) for name, value in numbers.items()}
    model = small_model(
        [helper.make_node("MatMul", ["x", "w"], ["logits"]), *nodes],
        {"x": [3, 6]},
        ["logits", "few", "mean"],
        {"w": WEIGHTS, **values},
    )
    with pytest.warns(UserWarning):
        module = vtac.compile(model)
    y = (DATA @ WEIGHTS).argmax(axis=1)
    y[0] = 3
    found = vtac.evaluate(module, {"x": DATA, "y": y}, model)
    assert found["logits"].top1 is not None and found["few"].top1 is None
    assert found["few"].equal_labels == 1 and found["mean"].mean_error is not None


def test_ranges_without_outliers_suit_data_without_outliers() -> None:
    rng = np.random.default_rng(0)
    samples = rng.normal(size=(1600, 16)).astype(np.float32)
    samples[500, ::8] = 500  # two of 25,600, and of those that bias correction observes
    weights = {"w": floats((16, 10), 5)}
    model = small_model(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": [20, 16]}, ["y"], weights
    )
    snr = {}
    for method in ("minmax", "percentile", "entropy"):
        module = vtac.compile(model, "pynq", samples, method=method)
        assert module.package.functions
        found = vtac.evaluate(module, samples[100:120], model)["y"]
        snr[method] = found.snr_db or np.inf
    assert snr["minmax"] < 12
    assert snr["percentile"] > 25 and snr["entropy"] > 20
