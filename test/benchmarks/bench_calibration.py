"""How many calibration samples each method needs, with onnxruntime's static int8 beside it.

The images of each classifier of ``../shared/models`` are split at random several times: a hundred
to calibrate on, of which each method gets the first 1, 3, 10, 30 and 100, and others to judge on. A
figure is the mean over the splits of the share of labels that equal those of onnxruntime on the
model as it is. The quantised network runs in onnxruntime, whose integers are
exact. Float models are also quantised by onnxruntime itself (QDQ, one scale per channel of weights,
minmax) on the same samples. One row per model and method, one column per number of samples;
``--page FILE`` replaces the table between the two marks in a page. Run: ``python FILE --help``.
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
from quantised_answers import answers, quantised_model
from trained_models import CALIBRATION, CLASSIFIERS, SHARED, Classifier

from vtac.runtime.calibration import METHODS

Array = NDArray[Any]
Row = tuple[str, str, list[float]]
"""A model, a method, and the share of equal labels for each number of samples."""

COUNTS = (1, 3, 10, 30, 100)
STATIC = "onnxruntime's static int8"
OWN, BARE = "its own scales", "its own scales, no samples"
CLOSE = 0.03
"""Methods may be this far below the best, and 10 samples below 100."""
MARKS = "<!-- bench_calibration -->", "<!-- end of bench_calibration -->"
"""What encloses the table in a page."""


def static_labels(path: Path, name: str, samples: Array, images: Array) -> Array:
    """The labels of onnxruntime's own int8 model, quantised on the same samples."""
    with tempfile.TemporaryDirectory() as folder:
        small = static_model(path, name, samples, Path(folder))
        return labels_of(answers_of(small, name, images))


def rows_of(model: Classifier, options: argparse.Namespace) -> Iterator[Row]:
    """Each method with its shares of equal labels, for each number of samples."""
    path, images, _ = model.load()
    name = session(path).get_inputs()[0].name
    splits = []
    for seed in range(options.splits):
        mixed = images[np.random.default_rng(seed).permutation(len(images))]
        judged = mixed[CALIBRATION : CALIBRATION + options.images]
        splits.append((mixed, judged, labels_of(answers_of(path, name, judged))))

    def share(method: str, count: int) -> float:
        return float(np.mean([share_of_split(method, count, *split) for split in splits]))

    def share_of_split(
        method: str, count: int, mixed: Array, judged: Array, expected: Array
    ) -> float:
        samples = mixed[:count]
        if method == STATIC:
            return float(np.mean(static_labels(path, name, samples, judged) == expected))
        given = None if method == BARE else {name: samples}
        more: dict[str, Any] = {"method": method} if method in METHODS else {}
        if method == BARE:
            more["shapes"] = {name: judged[0].shape}
        quantised = quantised_model(path, options.target, given, **more)
        return float(np.mean(answers(quantised, name, judged).argmax(axis=1) == expected))

    is_float = images.dtype == np.float32
    for method in (*METHODS, STATIC) if is_float else (OWN, BARE):
        counts = options.samples[:1] if method == BARE else options.samples
        yield model.name, method, [share(method, count) for count in counts]


def table(rows: list[Row], samples: list[int]) -> str:
    """The rows in Markdown, in per cent."""
    lines = [f"| model | method | {' | '.join(map(str, samples))} |"]
    lines.append(f"| --- | --- |{' ---: |' * len(samples)}")
    for model, method, shares in rows:
        cells = [f"{100 * share:.1f}" for share in shares]
        cells += [""] * (len(samples) - len(cells))
        lines.append(f"| {model} | {method} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def complaints(rows: list[Row], samples: list[int]) -> Iterator[str]:
    """What is further below the best method, or with 10 samples below the most, than `CLOSE`."""
    ours = [row for row in rows if row[1] not in (STATIC, BARE)]
    best: dict[str, float] = {}
    for model, _, shares in ours:
        best[model] = max(best.get(model, 0.0), shares[-1])
    for model, method, shares in ours:
        if shares[-1] < best[model] - CLOSE - 1e-9:
            yield f"{model}, {method}: {shares[-1]:.1%}, the best method has {best[model]:.1%}"
        for count, share in zip(samples, shares, strict=True):
            if count == 10 and share < shares[-1] - CLOSE - 1e-9:
                yield f"{model}, {method}: {share:.1%} with 10 samples, {shares[-1]:.1%} with more"


def replace_table(page: Path, marks: tuple[str, str], text: str) -> None:
    """Put a table between the marks of a page."""
    before, found, rest = page.read_text().partition(marks[0])
    _, end, after = rest.partition(marks[1])
    if not (found and end):
        raise SystemExit(f"{page} has no marks {marks[0]} and {marks[1]}")
    page.write_text(f"{before}{marks[0]}\n{text}{marks[1]}{after}")


def main() -> int:
    """A table in Markdown; status 1 if a method or few samples are too far behind."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = [model.name for model in CLASSIFIERS]
    parser.add_argument("models", nargs="*", choices=[*names, []], metavar="MODEL")
    parser.add_argument("--target", default="chisel-pynq")
    parser.add_argument("--images", type=int, default=300, help="judge on this many (300)")
    parser.add_argument("--splits", type=int, default=3, help="split the images so many times (3)")
    parser.add_argument("--samples", type=int, nargs="*", default=COUNTS, help="calibrate on these")
    parser.add_argument("--page", type=Path, metavar="FILE", help="put the table into this page")
    options = parser.parse_args()
    if not SHARED.is_dir():
        print(f"there are no models: {SHARED} is absent")
        return 0
    logging.disable(logging.WARNING)
    onnxruntime.set_default_logger_severity(3)
    rows: list[Row] = []
    for model in CLASSIFIERS:
        if options.models and model.name not in options.models:
            continue
        for row in rows_of(model, options):
            rows.append(row)
            print(*row, file=sys.stderr, flush=True)
    text = table(rows, options.samples)
    print(text, end="")
    if options.page:
        replace_table(options.page, MARKS, text)
    found = list(complaints(rows, options.samples))
    for complaint in found:
        print(complaint, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
