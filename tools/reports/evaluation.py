"""Judges a compiled model on data: against the original in onnxruntime, and against labels.

Samples are grouped into batches as for calibration; repeated samples that fill the last batch are
not counted. Only sums over the outputs are kept, so memory does not grow with the samples.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from math import isfinite, prod
from typing import TYPE_CHECKING, Any

import numpy as np

from vtac.dialects.arguments import FUNCTION, MODEL, NONE, SAMPLES, instance, takes, whole
from vtac.dialects.errors import CompileError, Problem
from vtac.runtime.executor import Module, input_spec
from vtac.runtime.host import HostPart, open_model
from vtac.runtime.samples import (
    LABELS,
    InputSpec,
    Samples,
    Source,
    load_labels,
    load_samples,
    read_source,
)
from vtac.tools.reports.agreement import Agreement, Array
from vtac.tools.reports.truths import Truths

if TYPE_CHECKING:
    from vtac.lowering.onnx_to_graph import ModelSource

Outputs = Mapping[str, Any]
Progress = Callable[[int, int], None]
"""Called with the number of batches done and the number of all batches."""

WHERE = "evaluation data"


@dataclass(frozen=True)
class OutputEvaluation:
    """How an output of the compiled model compares, over all samples.

    Compared with the original: largest (magnitude of the original's values), mean_difference,
    largest_difference, snr_db (signal to quantisation noise; None also if there is no noise),
    cosine, equal_labels (share of samples for which both predict the same class). odd: number of
    values that are finite in one of the two only. Compared with the labels: top1 and top1_original,
    the shares of right predictions; or, where an output has as many numbers for each sample as the
    labels have and is no row of scores: mean_error and mean_error_original, the mean distances
    from the labels. A figure is None if it is not known.
    """

    name: str
    largest: float | None = None
    mean_difference: float | None = None
    largest_difference: float | None = None
    snr_db: float | None = None
    cosine: float | None = None
    odd: int = 0
    equal_labels: float | None = None
    top1: float | None = None
    top1_original: float | None = None
    mean_error: float | None = None
    mean_error_original: float | None = None


@dataclass(frozen=True)
class Evaluation:
    """What `evaluate` finds.

    compared: whether there was an original to compare with. notes: what a user should know.
    """

    samples: int
    compared: bool
    outputs: tuple[OutputEvaluation, ...]
    notes: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> OutputEvaluation:
        """The evaluation of the output of that name."""
        return next(output for output in self.outputs if output.name == name)

    def as_dict(self) -> dict[str, Any]:
        """The evaluation as dictionaries and lists, for JSON."""
        outputs = [asdict(output) for output in self.outputs]
        return {"samples": self.samples, "outputs": outputs, "notes": list(self.notes)}


@takes(
    module=instance("a Module", Module),
    data=SAMPLES,
    reference=MODEL | NONE,
    limit=whole(1) | NONE,
    progress=FUNCTION | NONE,
)
def evaluate(
    module: Module,
    data: Source,
    reference: "ModelSource | None" = None,
    *,
    labels: Any = None,
    limit: int | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Run a compiled model on data, and the original model in onnxruntime for comparison.

    data: as for calibration, see `vtac.runtime.samples`. reference: the original model; None to
    judge by labels only. labels: the class of each sample (or one-hot rows, or shares of classes),
    or the numbers that the model is to predict; an array ``y`` or ``labels`` of the data serves
    too. limit: run the first batches only.
    Raises `CompileError` on data, labels or a reference that do not fit.
    """
    specs = module_specs(module)
    with told_of(data):
        entries = read_source(data)
        found = load_labels(entries, specs) if labels is None else labels
        samples = load_samples(entries, specs)
    truths = Truths.of(found, samples.sample_count, WHERE)
    if reference is None and found is None:
        raise CompileError(
            Problem(
                WHERE,
                "there is nothing to compare with: no original model, and no labels",
                f"Give the model (--reference model.onnx), or labels ({', '.join(LABELS)}).",
            )
        )
    original = None if reference is None else Original(reference, module)
    judge = Judge(samples, truths)
    batches = samples if limit is None else islice(samples, limit)
    count = len(samples) if limit is None else min(limit, len(samples))
    for number, batch in enumerate(batches, start=1):
        judge.add(module.run(batch), None if original is None else original.run(batch))
        if progress is not None:
            progress(number, count)
    verdict = judge.verdict()
    if found is None or judge.uses_labels:
        return verdict
    unused = f"labels are {_describe(found)}: {judge.why_unused}"
    if labels is not None or reference is None:
        raise CompileError(Problem(WHERE, unused))
    return replace(verdict, notes=(*verdict.notes, f"{unused}. They are not used."))


def module_specs(module: Module) -> list[InputSpec]:
    """The inputs of a compiled model, all of them tensors of known rank (else CompileError)."""
    specs = []
    for value in module.inputs:
        spec = input_spec(value)
        if spec is None:
            raise CompileError(
                Problem(
                    f"input '{value.name}'",
                    f"is {value.type} of rank not known, which a file cannot give",
                    "Run the package from Python: vtac.load(path).run({...}).",
                )
            )
        specs.append(spec)
    return specs


@contextmanager
def told_of(data: Source) -> Iterator[None]:
    """Add to the problems of samples which samples they are."""
    try:
        yield
    except CompileError as error:
        where = os.fspath(data) if isinstance(data, str | os.PathLike) else WHERE
        raise CompileError([Problem(where, p.what, p.hint) for p in error.problems]) from None


class Original:
    """The original model in onnxruntime."""

    def __init__(self, source: "ModelSource", module: Module):
        from vtac.lowering.onnx_to_graph import load_model
        from vtac.lowering.onnx_to_graph.weights import without_weights

        where = os.fspath(source) if isinstance(source, str | os.PathLike) else "original model"
        model, weights = without_weights(load_model(source))
        self._names = [output.name for output in model.graph.output]
        self._part: HostPart = open_model(model, where, weights)
        problems = []
        if unknown := sorted({*self._part.input_names} ^ {*module.package.inputs}):
            what = f"has other inputs than the compiled model: {', '.join(unknown)}"
            problems.append(Problem(where, what))
        if missing := sorted({*module.output_names} - {*self._names}):
            problems.append(Problem(where, f"has no output {', '.join(missing)}"))
        if problems:
            raise CompileError(problems)

    def run(self, batch: Outputs) -> dict[str, Any]:
        """The outputs for a batch, by name."""
        values = self._part.run([batch[name] for name in self._part.input_names])
        return dict(zip(self._names, values, strict=True))


@dataclass
class _Tally:
    """The sums that are kept for an output."""

    agreement: Agreement = field(default_factory=Agreement)
    numbers: bool = True
    judged: int = 0
    labelled: int = 0
    equal: int = 0
    right: int = 0
    right_original: int = 0
    scored: int = 0
    distance: float = 0.0
    distance_original: float = 0.0


class Judge:
    """Compares outputs batch by batch. samples: the samples that the batches are made of."""

    def __init__(self, samples: Samples, truths: Truths | None = None):
        self._size = samples.batch_size
        self._count = samples.sample_count
        self._truths = truths or Truths()
        self.why_unused = "no output has one row of scores, or as many numbers, per sample"
        self._done = 0
        self._compared = False
        self._tallies: dict[str, _Tally] = {}

    def add(self, ours: Outputs, theirs: Outputs | None) -> None:
        """Compare the outputs of the next batch."""
        rows = min(self._size, self._count - self._done)
        truths = self._truths.rows(self._done, self._done + rows)
        self._compared = theirs is not None
        for name, found in ours.items():
            tally = self._tallies.setdefault(name, _Tally())
            expected = None if theirs is None else theirs[name]
            if not _is_numeric(found) or not (expected is None or _is_numeric(expected)):
                tally.numbers = False
                continue
            mine = self._real_rows(np.asarray(found), rows)
            other = None if expected is None else self._real_rows(np.asarray(expected), rows)
            self._compare(tally, name, mine, other)
            if not self._label(tally, name, mine, other, truths.classes):
                _measure(tally, mine, other, truths.targets)
        self._done += rows

    def _real_rows(self, array: Array, rows: int) -> Array:
        """An output without the rows of samples that only fill the batch."""
        size = self._size
        if rows < size and array.ndim and array.shape[0] and array.shape[0] % size == 0:
            return array[: array.shape[0] // size * rows]
        return array

    def _compare(self, tally: _Tally, name: str, mine: Array, other: Array | None) -> None:
        if other is None:
            return
        if mine.shape != other.shape:
            what = f"has shape {list(mine.shape)} compiled, but {list(other.shape)} in the original"
            raise CompileError(Problem(f"output '{name}'", what))
        tally.agreement.add(other, mine)

    def _label(
        self, tally: _Tally, name: str, mine: Array, other: Array | None, classes: Array | None
    ) -> bool:
        """Count the predicted classes; return whether they are judged by the labels."""
        ours = _labels(mine, classes is not None)
        if ours is None or (classes is not None and len(ours) != len(classes)):
            return False
        scores = prod(mine.shape[1:])
        most = self._truths.classes.max(initial=0) if self._truths.classes is not None else 0
        if _are_scores(mine) and most >= scores:
            self.why_unused = f"labels go up to {most}, '{name}' has {scores} classes"
            classes = None
        tally.judged += len(ours)
        theirs = None if other is None else _labels(other, classes is not None)
        if theirs is not None:
            tally.equal += int((ours == theirs).sum())
        if classes is not None:
            tally.right += int((ours == classes).sum())
            tally.right_original += int((theirs == classes).sum()) if theirs is not None else 0
            tally.labelled += len(ours)
        return classes is not None

    @property
    def uses_labels(self) -> bool:
        """Whether some output could be judged by the labels."""
        return any(tally.labelled or tally.scored for tally in self._tallies.values())

    def verdict(self) -> Evaluation:
        """The evaluation of all batches."""
        outputs = tuple(self._verdict(name, tally) for name, tally in self._tallies.items())
        notes = tuple(
            f"output '{name}' is no row of scores: its distance from the labels is measured"
            for name, tally in self._tallies.items()
            if tally.scored
        )
        return Evaluation(self._done, self._compared, outputs, notes)

    def _verdict(self, name: str, tally: _Tally) -> OutputEvaluation:
        found, figures = tally.agreement, dict[str, Any]()
        if tally.numbers and found.count:
            figures = {
                "largest": found.largest,
                "mean_difference": found.mean_difference,
                "largest_difference": found.largest_difference,
                "snr_db": found.snr if isfinite(found.snr) else None,
                "cosine": found.cosine,
            }
        if tally.judged and self._compared and not tally.scored:
            figures["equal_labels"] = tally.equal / tally.judged
        if tally.labelled:
            figures["top1"] = tally.right / tally.labelled
            if self._compared:
                figures["top1_original"] = tally.right_original / tally.labelled
        if tally.scored:
            figures["mean_error"] = tally.distance / tally.scored
            if self._compared:
                figures["mean_error_original"] = tally.distance_original / tally.scored
        return OutputEvaluation(name, odd=found.odd, **figures)


def _is_numeric(value: Any) -> bool:
    return not isinstance(value, list) and np.asarray(value).dtype.kind in "biuf"


def _are_scores(array: Array) -> bool:
    """Whether elements may be scores of classes: real, or quantised."""
    return array.dtype.kind == "f" or array.dtype in (np.int8, np.uint8)


def _labels(array: Array, judged: bool) -> Array | None:
    """The class that an output predicts for each sample: its largest score, or its integer.

    judged: whether there are labels; without any, integers are not taken for classes.
    """
    if array.ndim == 0 or array.shape[0] == 0:
        return None
    rows = array.reshape(array.shape[0], -1)
    if _are_scores(array) and array.ndim > 1 and max(array.shape[1:]) == rows.shape[1] > 1:
        found: Array = rows.argmax(axis=1)
        return found
    if judged and array.dtype.kind in "iu" and rows.shape[1] == 1:
        return rows[:, 0]
    return None


def _measure(tally: _Tally, mine: Array, other: Array | None, targets: Array | None) -> None:
    """Add up how far an output is from the numbers that it is to predict, if it may be them."""
    if targets is None or mine.dtype.kind != "f" or mine.ndim == 0 or len(mine) != len(targets):
        return
    is_single = mine.size == targets.size == len(targets)  # one number per sample, in any form
    if not is_single and mine.shape != targets.shape:
        return
    tally.scored += targets.size
    tally.distance += float(np.abs(mine.reshape(targets.shape) - targets).sum())
    if other is not None:
        tally.distance_original += float(np.abs(other.reshape(targets.shape) - targets).sum())


def _describe(labels: Any) -> str:
    given = np.atleast_1d(labels)
    return f"{given.dtype}{list(given.shape)}"
