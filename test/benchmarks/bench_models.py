"""How well the models of ``../shared/models`` answer, against onnxruntime on the same inputs.

Classifiers are calibrated on their first hundred images and judged on the others: accuracy of both,
share of equal labels, what stays on the host and why, cycles of an image. The face detector is
calibrated on changed copies of its one picture and judged on the picture: boxes of the same anchor
in pixels, scores. The autoencoder is calibrated on half of the inputs that lie beside it and judged
on the others: shares of outputs within one step. Each on every target. Run: ``python FILE --help``.
"""

import argparse
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any, get_args

import numpy as np
import onnxruntime
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from trained_models import (
    AUTOENCODER,
    CALIBRATION,
    CLASSIFIERS,
    DETECTOR,
    SHARED,
    TARGETS,
    Classifier,
    changed_copies,
    inputs_beside,
    model_path,
)

from vtac.passes.graph.quantise_options import Requantise, Sharing
from vtac.runtime.calibration_methods import METHODS
from vtac.runtime.executor import Module
from vtac.tools.driver.compiler import compile_model

Array = NDArray[Any]

ONE_ANCHOR = 0.3
"""Boxes are compared where onnxruntime's score of a face is at least this."""


def _session(path: Path) -> onnxruntime.InferenceSession:
    """onnxruntime, silent about initialisers that are inputs too."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(path, options)


def judge_classifier(model: Classifier, options: argparse.Namespace) -> None:
    """Print accuracies of one model."""
    path, images, labels = model.load()
    module = _compiled(path, images[:CALIBRATION], options)
    session = _session(path)
    (name,) = (value.name for value in session.get_inputs())
    kept = slice(CALIBRATION, CALIBRATION + options.images)
    ours, theirs = [], []
    for image in images[kept]:
        (answer,), (expected,) = (
            module.run({name: image}).values(),
            session.run(None, {name: image}),
        )
        ours.append(answer.argmax())
        theirs.append(expected.argmax())
    true = labels[kept]
    print(
        f"  top-1 {np.mean(ours == true):.2%}, onnxruntime {np.mean(theirs == true):.2%}, equal "
        f"labels {np.mean(np.equal(ours, theirs)):.2%} of {len(true)}",
        flush=True,
    )


def judge_detector(options: argparse.Namespace) -> None:
    """Print how far boxes and scores of the face detector lie from onnxruntime's."""
    path = model_path(DETECTOR)
    (picture,) = inputs_beside(path)
    module = _compiled(path, np.stack(changed_copies(picture)), options)
    session = _session(path)
    (name,) = (value.name for value in session.get_inputs())
    started = time.process_time()
    answers = module.run({name: picture})
    seconds = time.process_time() - started
    outputs = [value.name for value in session.get_outputs()]
    expected = dict(zip(outputs, session.run(None, {name: picture}), strict=True))
    scores, boxes = sorted(outputs, key=lambda output: expected[output].shape[-1])
    faces = expected[scores][0, :, 1] > ONE_ANCHOR
    height, width = picture.shape[2:]
    sizes = np.array([width, height, width, height])
    pixels = np.abs(answers[boxes] - expected[boxes])[0] * sizes
    wrong = np.abs(answers[scores] - expected[scores])[0]
    print(
        f"  {faces.sum()} anchors with a face: boxes within {pixels[faces].max():.2f} pixels, "
        f"scores within {wrong[faces].max():.3f} (all anchors {wrong.max():.3f}); "
        f"{seconds:.1f} s of processor time an image"
    )


def judge_autoencoder(options: argparse.Namespace) -> None:
    """Print how many outputs of the autoencoder lie within one step of onnxruntime's."""
    path = model_path(AUTOENCODER)
    inputs = inputs_beside(path)
    half = len(inputs) // 2
    module = _compiled(path, np.stack(inputs[:half]), options)
    session = _session(path)
    (name,) = (value.name for value in session.get_inputs())
    pairs = [(module.run({name: x}).values(), session.run(None, {name: x})) for x in inputs[half:]]
    steps = np.abs([np.subtract(y, z, dtype=np.int16) for (y,), (z,) in pairs])
    print(
        f"  {np.mean(steps <= 1):.2%} of the outputs within one step of onnxruntime's, "
        f"{np.mean(steps == 0):.2%} equal, all within {steps.max()}"
    )


def _compiled(path: Path, samples: Array, options: argparse.Namespace) -> Module:
    """The module, once it is said how long that took and what stayed on the host."""
    print(path.parent.name)
    started = time.process_time()
    module = compile_model(
        path,
        options.target,
        samples,
        shift=options.shift,
        requantise=options.requantise,
        method=options.method,
    )
    seconds = time.process_time() - started
    cycles = sum(launch.report.cycles for launch in module.profile().launches)
    print(f"  {seconds:.1f} s to compile, {cycles:,} cycles an image on {options.target}")
    hosted = Counter((node.op, node.reason) for node in module.explain if node.where == "host")
    for (kind, reason), count in hosted.items():
        print(f"  host: {count} x {kind}: {reason}")
    for node in module.explain:
        if node.where != "host" and node.op in ("graph.conv", "graph.gemm") and node.reason:
            print(f"  {node.node}: {node.reason}")
    return module


def main() -> int:
    """A paragraph a model: all of them, unless some are named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    judges = {model.name: partial(judge_classifier, model) for model in CLASSIFIERS}
    judges |= {DETECTOR: judge_detector, AUTOENCODER: judge_autoencoder}
    parser.add_argument("models", nargs="*", choices=[*judges, []], metavar="MODEL")
    every = f"any number of them (default: {', '.join(TARGETS)})"
    parser.add_argument("--target", dest="targets", action="append", help=every)
    parser.add_argument("--shift", choices=get_args(Sharing), default="auto")
    parser.add_argument("--requantise", choices=get_args(Requantise), default="auto")
    parser.add_argument("--method", choices=METHODS, default="minmax")
    parser.add_argument("--images", type=int, default=10_000, help="judge on this many at most")
    options = parser.parse_args()
    if not SHARED.is_dir():
        print(f"there are no models: {SHARED} is absent")
        return 0
    for target in options.targets or TARGETS:
        options.target = target
        for name in options.models or judges:
            judges[name](options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
