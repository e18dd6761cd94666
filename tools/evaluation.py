"""Judges a compiled model on data: against the original in onnxruntime, and against labels.

Samples are grouped into batches as for calibration; repeated samples that fill the last batch are
not counted. Only sums over the outputs are kept, so memory does not grow with the samples.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import islice
from math import isfinite, prod
from typing import Any

import numpy as np

from vtac.dialects.errors import CompileError, Problem
from vtac.lowering.onnx_to_graph import ModelSource, load_model
from vtac.lowering.onnx_to_graph.weights import without_weights
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
from vtac.tools.agreement import Agreement, Array

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
    the shares of right predictions. A figure is None if it is not known.
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
        return {"samples": self.samples, "outputs": [asdict(output) for output in self.outputs]}


def evaluate(
    module: Module,
    data: Source,
    reference: ModelSource | None = None,
    *,
    labels: Any = None,
    limit: int | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Run a compiled model on data, and the original model in onnxruntime for comparison.

    data: as for calibration, see `vtac.runtime.samples`. reference: the original model; None to
    judge by labels only. labels: the class of each sample (or one-hot rows); an array ``y`` or
    ``labels`` of the data serves too. limit: run the first batches only.
    Raises `CompileError` on data, labels or a reference that do not fit.
    """
    if limit is not None and limit < 1:
        raise CompileError(Problem(WHERE, f"{limit} batches are too few to judge by"))
    specs = module_specs(module)
    with told_of(data):
        entries = read_source(data)
        found = load_labels(entries, specs) if labels is None else labels
        samples = load_samples(entries, specs)
    notes: tuple[str, ...] = ()
    if labels is None and reference is not None and found is not None and not _are_classes(found):
        found, notes = None, ("the labels are not the numbers of classes: they are not used",)
    classes = _classes(found, samples)
    if reference is None and classes is None:
        raise CompileError(
            Problem(
                WHERE,
                "there is nothing to compare with: no original model, and no labels",
                f"Give the model (--reference model.onnx), or labels ({', '.join(LABELS)}).",
            )
        )
    original = None if reference is None else Original(reference, module)
    judge = Judge(samples, classes)
    batches = samples if limit is None else islice(samples, limit)
    count = len(samples) if limit is None else min(limit, len(samples))
    for number, batch in enumerate(batches, start=1):
        judge.add(module.run(batch), None if original is None else original.run(batch))
        if progress is not None:
            progress(number, count)
    if classes is not None and not any(judge.judged) and labels is None and reference is not None:
        notes = ("no output has one row of scores per sample: the labels are not used",)
        return judge.verdict(notes, with_labels=False)
    return judge.verdict(notes)


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

    def __init__(self, source: ModelSource, module: Module):
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
    equal: int = 0
    right: int = 0
    right_original: int = 0


class Judge:
    """Compares outputs batch by batch. samples: the samples that the batches are made of."""

    def __init__(self, samples: Samples, classes: Array | None = None):
        self._size = samples.batch_size
        self._count = samples.sample_count
        self._classes = classes
        self._done = 0
        self._compared = False
        self._tallies: dict[str, _Tally] = {}

    def add(self, ours: Outputs, theirs: Outputs | None) -> None:
        """Compare the outputs of the next batch."""
        rows = min(self._size, self._count - self._done)
        classes = None
        if self._classes is not None:
            classes = self._classes[self._done : self._done + rows]
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
            self._label(tally, name, mine, other, classes)
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
    ) -> None:
        ours = _labels(mine, classes is not None)
        if ours is None or (classes is not None and len(ours) != len(classes)):
            return
        scores = prod(mine.shape[1:])
        if classes is not None and _are_scores(mine) and classes.max(initial=0) >= scores:
            raise CompileError(
                Problem(WHERE, f"labels go up to {classes.max()}, '{name}' has {scores} classes")
            )
        tally.judged += len(ours)
        theirs = None if other is None else _labels(other, classes is not None)
        if theirs is not None:
            tally.equal += int((ours == theirs).sum())
        if classes is not None:
            tally.right += int((ours == classes).sum())
            tally.right_original += int((theirs == classes).sum()) if theirs is not None else 0

    @property
    def judged(self) -> list[int]:
        """For each output the number of samples whose class it predicts."""
        return [tally.judged for tally in self._tallies.values()]

    def verdict(self, notes: Sequence[str] = (), with_labels: bool = True) -> Evaluation:
        """The evaluation. with_labels: whether some output must predict classes."""
        outputs = tuple(self._verdict(name, tally) for name, tally in self._tallies.items())
        if with_labels and self._classes is not None and not any(self.judged):
            raise CompileError(
                Problem(WHERE, "there are labels, but no output has one row of scores per sample")
            )
        return Evaluation(self._done, self._compared, outputs, tuple(notes))

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
        if tally.judged and self._compared:
            figures["equal_labels"] = tally.equal / tally.judged
        if tally.judged and self._classes is not None:
            figures["top1"] = tally.right / tally.judged
            if self._compared:
                figures["top1_original"] = tally.right_original / tally.judged
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


def _classes(labels: Any, samples: Samples) -> Array | None:
    """The class of each sample. Raises `CompileError` on labels that are no classes."""
    if labels is None:
        return None
    given, count = np.atleast_1d(labels), samples.sample_count
    if not _are_classes(given):
        what = f"labels are {given.dtype}{list(given.shape)}, not the number of a class per sample"
        raise CompileError(Problem(WHERE, what))
    array = _one_per_sample(given)
    if len(array) != count:
        raise CompileError(Problem(WHERE, f"there are {len(array)} labels for {count} samples"))
    return array.astype(np.int64)


def _one_per_sample(given: Array) -> Array:
    """Labels as one number per sample; one-hot rows become the index of their largest entry."""
    array = np.atleast_1d(given)
    if array.ndim == 2 and array.shape[1] > 1 and array.dtype.kind in "biuf":
        array = array.argmax(axis=1)
    return array.reshape(-1) if array.size == len(array) else array


def _are_classes(given: Any) -> bool:
    """Whether labels are the numbers of classes, one per sample."""
    array = _one_per_sample(np.asarray(given))
    whole = array.dtype.kind in "iu" or (
        array.dtype.kind == "f" and bool((array == np.rint(array)).all())
    )
    return array.ndim == 1 and whole and array.min(initial=0) >= 0
