"""The seven models of ``../shared/models``: where they lie, what they take, what calibrates them.

Classifiers take images of a data set, one at a time, and are calibrated on its first hundred. The
face detector is calibrated on changed copies of its one picture. The autoencoder has inputs that
lie beside it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

SHARED = Path(__file__).resolve().parents[3] / "shared"
TARGETS = "pynq", "chisel-pynq", "sim"
"""They are judged on two that do not multiply, and one that does."""
CALIBRATION = 100
COPIES = 24
"""Changed copies of the picture, to calibrate the face detector on."""
DETECTOR, AUTOENCODER = "ultraface_rfb320", "mlperf_ad_qdq"


@dataclass(frozen=True)
class Classifier:
    """A model of one input that tells classes apart, its data, and how images become inputs."""

    name: str
    data: str
    prepare: Callable[[Array], Array]

    def load(self) -> tuple[Path, Array, Array]:
        """The model, its inputs [S, 1, ...] and their labels."""
        with np.load(SHARED / "data" / f"{self.data}.npz") as data:
            return model_path(self.name), self.prepare(data["x"])[:, None], data["y"]


CLASSIFIERS = (
    Classifier("mnist8", "mnist", lambda x: x[:, None].astype(np.float32)),
    Classifier("mlperf_resnet8_float", "cifar10", lambda x: x.astype(np.float32)),
    Classifier(
        "mlperf_resnet8_qdq", "cifar10", lambda x: (x.astype(np.int16) - 128).astype(np.int8)
    ),
    Classifier("mlperf_kws_qdq", "kws", lambda x: x),
    Classifier(
        "mobilenetv1_025_128_float",
        "imagenet128",
        lambda x: x.astype(np.float32) / np.float32(127.5) - np.float32(1),
    ),
)
NAMES = (*(model.name for model in CLASSIFIERS), DETECTOR, AUTOENCODER)


def classifier(name: str) -> Classifier:
    """The classifier of that name."""
    (found,) = (model for model in CLASSIFIERS if model.name == name)
    return found


def model_path(name: str) -> Path:
    """The file of a model of `NAMES`."""
    return SHARED / "models" / name / "model.onnx"


def inputs_beside(path: Path) -> list[Array]:
    """What lies beside a model of one input, in order."""
    with np.load(path.with_name("io.npz")) as data:
        return [data[key] for key in data.files if key.startswith("in")]


def samples_and_inputs(name: str) -> tuple[Array, list[Array]]:
    """What calibrates a model [S, ...], and inputs that it is to answer."""
    if name == DETECTOR:
        (picture,) = inputs_beside(model_path(name))
        copies = changed_copies(picture)
        return np.stack(copies), [picture, *copies]
    if name == AUTOENCODER:
        inputs = inputs_beside(model_path(name))
        return np.stack(inputs), inputs
    _, images, _ = classifier(name).load()
    return images[:CALIBRATION], list(images[CALIBRATION:])


def changed_copies(picture: Array) -> list[Array]:
    """Crops, flips and changes of brightness of a picture [1, 3, H, W], seeded."""
    rng = np.random.default_rng(0)
    height, width = picture.shape[2:]
    copies = []
    for number in range(COPIES):
        share = rng.uniform(0.6, 1.0)
        rows, columns = int(height * share), int(width * share)
        top, left = rng.integers(0, height - rows + 1), rng.integers(0, width - columns + 1)
        part = picture[:, :, top : top + rows, left : left + columns]
        part = part[:, :, np.arange(height) * rows // height]
        part = part[..., np.arange(width) * columns // width]
        part = part[..., ::-1] if number % 2 else part
        copies.append(np.clip(part * rng.uniform(0.7, 1.2), -1, 1).astype(np.float32))
    return copies
