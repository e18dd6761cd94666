"""The benchmarks' ResNet-18: its shape, and that its activations are those of a living network."""

import numpy as np
import onnx
import onnxruntime
import pytest
from by_path import load
from small_models import one_thread

resnet18 = load("test/benchmarks/resnet18.py")


@pytest.fixture(scope="module")
def model() -> onnx.ModelProto:
    return resnet18.build(seed=3, image=96)


def test_it_is_resnet18(model: onnx.ModelProto) -> None:
    onnx.checker.check_model(model, full_check=True)
    kinds = [node.op_type for node in model.graph.node]
    assert kinds.count("Conv") == kinds.count("BatchNormalization") == 20
    assert kinds.count("Add") == 8
    parameters = sum(int(np.prod(tensor.dims)) for tensor in model.graph.initializer)
    statistics = 2 * sum(
        tensor.dims[0] for tensor in model.graph.initializer if tensor.name.endswith("norm.mean")
    )
    assert parameters - statistics == 11_689_512


def test_logits_tell_images_apart(model: onnx.ModelProto) -> None:
    session = onnxruntime.InferenceSession(model.SerializeToString(), one_thread())
    inputs = resnet18.images(6, seed=8, image=96)
    logits = np.concatenate([session.run(["logits"], {"image": x[None]})[0] for x in inputs])
    assert np.isfinite(logits).all()
    assert 0.5 < logits.std(axis=0).mean() < 10
    assert len(set(logits.argmax(axis=1))) >= 4


def test_a_seed_fixes_the_model(model: onnx.ModelProto) -> None:
    again = resnet18.build(seed=3, image=64)
    assert list(again.graph.initializer) == list(model.graph.initializer)
    assert resnet18.build(seed=4, image=64).graph.initializer[0] != again.graph.initializer[0]


def test_sizes_that_do_not_divide_are_refused() -> None:
    with pytest.raises(ValueError, match="multiple of 32"):
        resnet18.build(image=100)
