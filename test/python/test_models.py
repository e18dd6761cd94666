"""Trained models from ``../shared``: everything they compute on the accelerator, and how well."""

from pathlib import Path

import numpy as np
import onnxruntime

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

    session = onnxruntime.InferenceSession(model)
    ours = theirs = 0
    for image, label in zip(images[CALIBRATION:], labels[CALIBRATION:], strict=True):
        (answer,) = module.run({"Input3": image}).values()
        (expected,) = session.run(None, {"Input3": image})
        ours += int(answer.argmax() == label)
        theirs += int(expected.argmax() == label)
    assert ours >= theirs - LARGEST_LOSS * (len(labels) - CALIBRATION)
