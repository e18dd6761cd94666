"""The digits example as tests use it: the path of its model, and some of its images."""

from pathlib import Path

import numpy as np
from by_path import ROOT, load

MODEL = ROOT / "examples/digits/digits.onnx"


def images() -> np.ndarray:
    """Images held out, float32 [360, 1, 8, 8]."""
    return np.asarray(load("examples/digits/data.py").split()[2])


def save_images(path: Path, count: int) -> Path:
    """An ``.npz`` with some images under the name of the model's input."""
    np.savez(path, image=images()[:count])
    return path
