"""How many calibration samples each method needs, with onnxruntime's static int8 beside it.

Each classifier of ``../shared/models`` is calibrated on its first 1, 3, 10, 30 and 100 images by
each method, and judged on images behind the first hundred: the share of labels that equal those of
onnxruntime on the model as it is. Float models are also quantised by onnxruntime itself (QDQ, one
scale per channel of weights, minmax) on the same samples. One row per model and method, one column
per number of samples. Run: ``python FILE --help``.
"""

import argparse
import logging
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from static_int8 import answers_of, labels_of, session, static_model

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from trained_models import CALIBRATION, CLASSIFIERS, SHARED, Classifier

from vtac.runtime.calibration_methods import METHODS
from vtac.tools.compiler import compile_model

Array = NDArray[Any]
COUNTS = (1, 3, 10, 30, 100)
STATIC = "onnxruntime"


def static_labels(path: Path, name: str, samples: Array, images: Array) -> Array:
    """The labels of onnxruntime's own int8 model, quantised on the same samples."""
    with tempfile.TemporaryDirectory() as folder:
        small = static_model(path, name, samples, Path(folder))
        return labels_of(answers_of(small, name, images))


def our_labels(path: Path, name: str, samples: Array, images: Array, method: Any, target: str):
    """The labels of the compiled model."""
    module = compile_model(path, target, {name: samples}, method=method)
    return np.array([next(iter(module.run({name: x}).values())).argmax() for x in images])


def rows_of(model: Classifier, options: argparse.Namespace) -> Iterator[tuple[str, list[float]]]:
    """Each method with its shares of equal labels, for each number of samples."""
    path, images, _ = model.load()
    name = session(path).get_inputs()[0].name
    judged = images[CALIBRATION : CALIBRATION + options.images]
    expected = labels_of(answers_of(path, name, judged))
    given = images.dtype != np.float32
    for method in [] if given else [*METHODS, STATIC]:
        found = []
        for count in options.samples:
            samples = images[:count]
            if method == STATIC:
                labels = static_labels(path, name, samples, judged)
            else:
                labels = our_labels(path, name, samples, judged, method, options.target)
            found.append(float(np.mean(labels == expected)))
        yield method, found
    if given:
        bare = compile_model(path, options.target, shapes={name: judged[0].shape})
        labels = np.array([next(iter(bare.run({name: x}).values())).argmax() for x in judged])
        yield "its own, no samples", [float(np.mean(labels == expected))] * len(options.samples)
        shares = []
        for count in options.samples:
            labels = our_labels(path, name, images[:count], judged, "minmax", options.target)
            shares.append(float(np.mean(labels == expected)))
        yield "its own", shares


def main() -> int:
    """A table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = [model.name for model in CLASSIFIERS]
    parser.add_argument("models", nargs="*", choices=[*names, []], metavar="MODEL")
    parser.add_argument("--target", default="chisel-pynq")
    parser.add_argument("--images", type=int, default=300, help="judge on this many (300)")
    parser.add_argument("--samples", type=int, nargs="*", default=COUNTS, help="calibrate on these")
    options = parser.parse_args()
    if not SHARED.is_dir():
        print(f"there are no models: {SHARED} is absent")
        return 0
    logging.disable(logging.WARNING)
    onnxruntime.set_default_logger_severity(3)
    print(f"| model | method | {' | '.join(map(str, options.samples))} |")
    print(f"| --- | --- |{' ---: |' * len(options.samples)}")
    for model in CLASSIFIERS:
        if options.models and model.name not in options.models:
            continue
        for method, shares in rows_of(model, options):
            cells = " | ".join(f"{100 * share:.1f}" for share in shares)
            print(f"| {model.name} | {method} | {cells} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
