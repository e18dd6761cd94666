"""Trained models from ``../shared``: everything they compute on the accelerator, and how well."""

from pathlib import Path

import numpy as np
import onnxruntime
from small_models import one_thread

import vtac

CALIBRATION = 100
LARGEST_LOSS = 0.005
"""Top-1 may fall by this much against float: half a point."""


def test_mnist8(shared: Path) -> None:
    model = shared / "models" / "mnist8" / "model.onnx"
    with np.load(shared / "data" / "mnist.npz") as data:
        images, labels = data["x"].astype(np.float32)[:, None, None], data["y"]
    module = vtac.compile(model, "pynq", images[:CALIBRATION, 0])
    assert {placement.where for placement in module.explain} == {"vta_0"}

    session = onnxruntime.InferenceSession(model, one_thread())
    ours = theirs = 0
    for image, label in zip(images[CALIBRATION:], labels[CALIBRATION:], strict=True):
        (answer,) = module.run({"Input3": image}).values()
        (expected,) = session.run(None, {"Input3": image})
        ours += int(answer.argmax() == label)
        theirs += int(expected.argmax() == label)
    assert ours >= theirs - LARGEST_LOSS * (len(labels) - CALIBRATION)


def test_resnet8_answers_as_in_float(shared: Path) -> None:
    model = shared / "models" / "mlperf_resnet8_float" / "model.onnx"
    with np.load(shared / "data" / "cifar10.npz") as data:
        images = data["x"][:, None].astype(np.float32)
    module = vtac.compile(model, "pynq", images[:40])
    hosted = {placement.op for placement in module.explain if placement.where == "host"}
    assert hosted == {"graph.transpose", "Softmax"}

    session = onnxruntime.InferenceSession(model, one_thread())
    (name,) = (value.name for value in session.get_inputs())
    equal = 0
    for image in images[100:130]:
        (answer,), (expected,) = (
            module.run({name: image}).values(),
            session.run(None, {name: image}),
        )
        equal += int(answer.argmax() == expected.argmax())
    assert equal >= 27
