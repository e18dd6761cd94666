"""The committed network of the digits example: its size, its layers and its accuracy in float."""

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from by_path import load
from small_models import one_thread


@pytest.fixture
def model_file(root: Path) -> Path:
    return root / "examples" / "digits" / "digits.onnx"


def test_the_file_is_small_and_valid(model_file: Path) -> None:
    assert model_file.stat().st_size < 200_000
    model = onnx.load(model_file)
    onnx.checker.check_model(model, full_check=True)
    assert [opset.version for opset in model.opset_import] == [17]


def test_the_network_has_what_the_demo_shows(model_file: Path) -> None:
    kinds = Counter(node.op_type for node in onnx.load(model_file).graph.node)
    assert kinds["Conv"] >= 3
    assert all(kinds[kind] for kind in ("Add", "MaxPool", "Relu", "Gemm", "BatchNormalization"))


def test_float_accuracy_on_held_out_images(model_file: Path) -> None:
    _, _, images, labels = load("examples/digits/data.py").split()
    session = onnxruntime.InferenceSession(model_file, one_thread())
    (logits,) = session.run(["logits"], {"image": images})
    assert logits.shape == (len(labels), 10)
    assert np.mean(logits.argmax(axis=1) == labels) >= 0.985


def test_the_split_is_fixed_and_without_overlap() -> None:
    data = load("examples/digits/data.py")
    train, train_labels, test, test_labels = data.split()
    assert train.shape == (1438, 1, 8, 8)
    assert test.shape == (359, 1, 8, 8)
    assert train.dtype == test.dtype == np.float32
    assert train.min() == 0 and train.max() == 1
    assert np.bincount(test_labels).min() >= 34
    seen = {image.tobytes() for image in train}
    assert not any(image.tobytes() in seen for image in test)
    for first, second in zip((train, train_labels, test, test_labels), data.split(), strict=True):
        np.testing.assert_array_equal(first, second)
