"""Calibration samples: from files, arrays or lists of a user to batches of a model's inputs.

Accepted: the path of an ``.npz`` (keys are input names) or ``.npy`` file, a dictionary of arrays or
of lists of arrays by input name, or one unnamed array or list where the model has one input. An
array ``y``, ``label`` or ``labels`` beside them holds the class of each sample.

For an input of shape [N, rest...] an array may be
  [S, rest...]      S samples, one after another (the usual case);
  [B, N, rest...]   B full batches, which also say what N is where the model does not;
  [rest...]         one sample;
and a list holds any of these, one after another. Samples are regrouped into batches of N. Samples
from the start fill up the last batch, since repeated samples do not change a minimum or a maximum.
If there is a single value of an input, such as the initial state of a recurrent network, every
batch gets it. An input with N = 0, such as a cache that is still empty, is given as [0, rest...] or
[B, 0, rest...].
"""

import io
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ArrayAttr,
    DictionaryAttr,
    IntegerAttr,
    StringAttr,
    TensorType,
    UnrankedTensorType,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, BlockArgument

from vtac.dialects.array_files import read_arrays
from vtac.dialects.context import Array, element_dtype
from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.graph.value_names import argument_name
from vtac.runtime.atomic import read_whole
from vtac.runtime.casts import cast_fault

Entry = Array | Sequence[Array]
Source = str | os.PathLike[str] | Mapping[str, Entry] | Entry
"""What a user may pass as samples."""

UNNAMED = frozenset({"arr_0", "x"})
"""Names of an array for the only input of a model: that of ``numpy.savez(path, array)``, and those
that are usual in data sets with labels."""

TINY = 1e-6
"""Samples that are all smaller are probably not what the model will see."""

LABELS = ("y", "label", "labels")
"""Names of an array that holds the class of each sample, and is not an input."""

_WHERE = "calibration samples"


@dataclass(frozen=True)
class InputSpec:
    """A model's input: name, shape (DYNAMIC_INDEX where unknown), element type.

    symbols: for each axis, the name of its unknown dimension or ""; empty if no axis has a name.
    Strings have the element type ``numpy.str_``.
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    symbols: tuple[str, ...] = ()

    def symbol(self, axis: int) -> str:
        """The name of an unknown dimension, else ""."""
        return self.symbols[axis] if axis < len(self.symbols) else ""


@dataclass(frozen=True)
class Samples:
    """Batches of all inputs.

    notes: messages for the user about how they were made. truths: the inputs whose samples were
    given as booleans.
    """

    arrays: Mapping[str, Array]
    batch_sizes: Mapping[str, int]
    count: int
    notes: tuple[str, ...] = ()
    truths: frozenset[str] = frozenset()

    def __len__(self) -> int:
        """The number of batches."""
        return self.count

    @property
    def batch_size(self) -> int:
        """Samples per batch."""
        return max(self.batch_sizes.values(), default=1) or 1

    @property
    def sample_count(self) -> int:
        """The number of samples, without those that only fill the last batch."""
        return max((len(array) for array in self.arrays.values()), default=0)

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of an input in each batch."""
        size, array = self.batch_sizes[name], self.arrays[name]
        return (size, *array.shape[1:]) if size else array.shape[1:]

    def __iter__(self) -> Iterator[dict[str, Array]]:
        """One dictionary of inputs after another, in the shapes of the model."""
        for i in range(self.count):
            yield {name: self._batch(name, i) for name in self.arrays}

    def _batch(self, name: str, index: int) -> Array:
        array, size = self.arrays[name], self.batch_sizes[name]
        if size == 0:  # Without dimensions or samples there is no batch: an entry is a whole input.
            return cast(Array, np.asarray(array[index % len(array)]))
        rows = np.arange(index * size, (index + 1) * size) % len(array)
        return cast(Array, array[rows])


def input_specs(function: FuncOp, source: Source | None = None) -> list[InputSpec]:
    """The inputs of an imported network. Raises `CompileError` if one of them is not a tensor.

    source: samples that are read already; an input of unknown rank has as many dimensions as its
    samples have.
    """
    specs, problems = [], []
    for name, argument in _named_inputs(function):
        type = argument.type
        if isinstance(type, UnrankedTensorType) and (rank := _rank(source, name, function)):
            unknown = TensorType(type.element_type, [DYNAMIC_INDEX] * rank)
            specs.append(InputSpec(name, unknown.get_shape(), element_dtype(unknown.element_type)))
        elif isinstance(type, TensorType):
            specs.append(_spec(function, name, argument, type))
        elif (extents := _extents_of_strings(function, argument)) is not None:
            symbols = _symbols(function, argument.index)
            specs.append(InputSpec(name, extents, np.dtype(np.str_), symbols))
        else:
            hint = "Compile without samples, or put a model into the network's place that begins"
            hint += " where its tensors begin."
            what = f"samples can only be tensors, it is {type}"
            problems.append(Problem(f"input '{name}'", what, hint))
    if problems:
        raise CompileError(problems)
    return specs


def _rank(source: Source | None, name: str, function: FuncOp) -> int:
    """The number of dimensions of the samples of an input, the samples' own included; or 0."""
    entry: Any = source
    if isinstance(source, Mapping):
        alone = len(source) == 1 and len(function.args) == 1
        entry = source.get(name, next(iter(source.values())) if alone else None)
    if isinstance(entry, list | tuple):
        entry = entry[0] if entry else None
    return 0 if entry is None else np.ndim(entry)


def tensor_specs(function: FuncOp) -> list[InputSpec]:
    """The inputs of an imported network that are tensors of numbers."""
    return [
        _spec(function, name, argument, argument.type)
        for name, argument in _named_inputs(function)
        if isinstance(argument.type, TensorType)
    ]


def _spec(function: FuncOp, name: str, argument: BlockArgument, type: TensorType[Any]) -> InputSpec:
    shape, symbols = type.get_shape(), _symbols(function, argument.index)
    return InputSpec(name, shape, element_dtype(type.element_type), symbols)


def _symbols(function: FuncOp, index: int) -> tuple[str, ...]:
    """The names of an argument's dimensions, which the importer stores in ``graph.symbols``."""
    names = _argument_attribute(function, index, "graph.symbols")
    if not isinstance(names, ArrayAttr):
        return ()
    texts = [name.data for name in names.data if isinstance(name, StringAttr)]
    return tuple("" if text == "?" else text for text in texts)


def _extents_of_strings(function: FuncOp, argument: BlockArgument) -> tuple[int, ...] | None:
    """The shape of an argument that is a tensor of strings, which the importer stores in
    ``graph.extents``; None of others."""
    extents = _argument_attribute(function, argument.index, "graph.extents")
    if not isinstance(extents, ArrayAttr):
        return None
    numbers = [extent.value.data for extent in extents.data if isinstance(extent, IntegerAttr)]
    return tuple(DYNAMIC_INDEX if number < 0 else number for number in numbers)


def _argument_attribute(function: FuncOp, index: int, name: str) -> Attribute | None:
    attributes = function.arg_attrs.data[index] if function.arg_attrs is not None else None
    return attributes.data.get(name) if isinstance(attributes, DictionaryAttr) else None


def _named_inputs(function: FuncOp) -> Iterator[tuple[str, BlockArgument]]:
    return ((argument_name(argument), argument) for argument in function.args)


def load_samples(source: Source, inputs: Sequence[InputSpec]) -> Samples:
    """Check samples against a model's inputs and regroup them into its batches.

    Unknown dimensions of an input are those of its samples; an unknown batch is 1. Raises
    `CompileError` with all problems: a missing file, unknown or missing names, shapes and types
    that do not fit, values that are not finite. Labels are ignored.
    """
    entries = _by_name(read_source(source), inputs)
    problems: list[Problem] = []
    arrays: dict[str, Array] = {}
    inputs = [_with_batch(spec, entries[spec.name]) for spec in inputs]
    for spec in inputs:
        try:
            arrays[spec.name] = _joined(entries[spec.name], spec)
        except CompileError as error:
            problems += error.problems
    if problems:
        raise CompileError(problems)
    truths = frozenset(spec.name for spec in inputs if _is_truth(entries[spec.name], spec))
    return replace(regrouped(arrays, inputs), truths=truths)


def _with_batch(spec: InputSpec, entry: Entry) -> InputSpec:
    """The input; its first extent, if unknown, is that of the samples if these are batches."""
    if not spec.shape or spec.shape[0] != DYNAMIC_INDEX:
        return spec
    parts = [np.asarray(part) for part in ([entry] if isinstance(entry, np.ndarray) else entry)]
    sizes = {part.shape[1] if part.ndim == len(spec.shape) + 1 else None for part in parts}
    size = sizes.pop() if len(sizes) == 1 else None
    return spec if size is None else replace(spec, shape=(size, *spec.shape[1:]))


def _is_truth(entry: Entry, spec: InputSpec) -> bool:
    """Whether booleans were given for an input that takes floats."""
    parts = [entry] if isinstance(entry, np.ndarray) else entry
    return spec.dtype.kind == "f" and all(np.asarray(part).dtype == bool for part in parts)


def doubts(samples: Samples, inputs: Sequence[InputSpec]) -> list[str]:
    """What speaks against samples that fit: they hardly show what values an input takes."""
    found = []
    for spec in inputs:
        array = samples.arrays[spec.name]
        if spec.dtype.kind != "f" or array.size < 2:
            continue
        lowest, highest = float(array.min()), float(array.max())
        if lowest == highest:
            found.append(f"all samples of input '{spec.name}' are {lowest:g}")
        elif spec.name in samples.truths:
            found.append(
                f"samples of input '{spec.name}' are booleans, the input takes {spec.dtype}"
            )
        elif max(-lowest, highest) < TINY:
            found.append(f"samples of input '{spec.name}' are all below {TINY:g} in magnitude")
    return [f"{text}: the ranges that follow from them will not fit other inputs" for text in found]


def load_labels(source: Source, inputs: Sequence[InputSpec]) -> Array | None:
    """The class of each sample, None without such an array; `CompileError` if there are several."""
    entries = read_source(source)
    if not isinstance(entries, Mapping):
        return None
    names = _label_names(entries, inputs)
    if len(names) > 1:
        raise CompileError(Problem("samples", f"there are several labels: {', '.join(names)}"))
    return np.asarray(entries[names[0]]) if names else None


def _label_names(entries: Mapping[str, Entry], inputs: Sequence[InputSpec]) -> list[str]:
    """The names of ``LABELS`` that occur and do not name an input."""
    return [n for n in LABELS if n in entries and n not in {spec.name for spec in inputs}]


def shapes_from_samples(source: Source, inputs: Sequence[InputSpec]) -> dict[str, tuple[int, ...]]:
    """Full shapes of the inputs whose shape is partly unknown, from the samples.

    An unknown batch is 1, unless its name occurs at another axis of an input, whose samples then
    determine it. Inputs with known shapes are omitted. Raises `CompileError` as `load_samples`
    does.
    """
    samples = load_samples(source, inputs)
    extents = {
        spec.symbol(axis): samples.shape(spec.name)[axis]
        for spec in inputs
        for axis in range(1, len(spec.shape))
    }
    return {
        spec.name: (_first_extent(spec, samples, extents), *samples.shape(spec.name)[1:])
        for spec in inputs
        if DYNAMIC_INDEX in spec.shape
    }


def _first_extent(spec: InputSpec, samples: Samples, extents: Mapping[str, int]) -> int:
    """The first extent of an input: that of its batches, or of the same name at another axis."""
    size = samples.batch_sizes[spec.name]
    return extents.get(spec.symbol(0), size) if spec.symbol(0) and size == 1 else size


def read_source(source: Source) -> Mapping[str, Entry] | Entry:
    """The entries of a file; other sources as they are, what can be read only once as a list.

    Raises `CompileError` on other files, and on what is neither a mapping nor a sequence.
    """
    if isinstance(source, Mapping):
        return {name: _sequence(entry) for name, entry in source.items()}
    if not isinstance(source, str | os.PathLike):
        return _sequence(source)
    path = Path(source)
    if not path.exists():
        raise CompileError(Problem(os.fspath(source), "there is no such file of samples"))
    # Reading an archive moves back and forth in it, which a pipe cannot do.
    with path.open("rb") if path.is_file() else io.BytesIO(read_whole(path)) as stream:
        return read_arrays(stream, os.fspath(source))


def _sequence(entry: Any) -> Entry:
    """An array or a sequence of arrays that can be read again."""
    if isinstance(entry, np.ndarray | Sequence):
        return entry
    try:
        return list(entry)
    except TypeError:
        what = f"{type(entry).__name__} is neither an array nor a list of arrays"
        raise CompileError(Problem(_WHERE, what, "Give arrays by input name.")) from None


def _by_name(entries: Mapping[str, Entry] | Entry, inputs: Sequence[InputSpec]) -> dict[str, Entry]:
    """The entry of each input. An entry without a name is for the only input of a model."""
    names = [spec.name for spec in inputs]
    known = "The model's inputs: " + ", ".join(names)
    if isinstance(entries, Mapping):
        labels = _label_names(entries, inputs)
        entries = {name: entry for name, entry in entries.items() if name not in labels}
        if len(entries) == 1 and len(inputs) == 1 and set(entries) <= UNNAMED - set(names):
            return {names[0]: next(iter(entries.values()))}
        problems = [
            Problem(_WHERE, f"the model has no input '{key}'", known)
            for key in entries
            if key not in names
        ]
        problems += [
            Problem(_WHERE, f"none for input '{name}'") for name in names if name not in entries
        ]
        if problems:
            raise CompileError(problems)
        return entries
    if len(inputs) != 1:
        what = f"one unnamed array for a model with {len(inputs)} inputs"
        raise CompileError(Problem(_WHERE, what, f"Give arrays by name. {known}"))
    return {names[0]: entries}


def _joined(entry: Entry, spec: InputSpec) -> Array:
    """All samples of an input as one array [S, rest...], in the element type of the input."""
    parts = [entry] if isinstance(entry, np.ndarray) else list(entry)
    if not parts:
        raise CompileError(Problem(_WHERE, f"the list for input '{spec.name}' is empty"))
    rows = [as_rows(np.asarray(part), spec) for part in parts]
    if len({row.shape[1:] for row in rows}) > 1:
        shapes = sorted({str(list(row.shape[1:])) for row in rows})
        what = f"samples for input '{spec.name}' differ in shape: {', '.join(shapes)}"
        hint = "A program is for one shape: crop, pad or resize them to the size that you will use."
        raise CompileError(Problem(_WHERE, what, hint))
    joined = _cast(rows[0] if len(rows) == 1 else np.concatenate(rows), spec)
    if len(joined) == 0:
        raise CompileError(Problem(_WHERE, f"there are none for input '{spec.name}'"))
    return joined


def as_rows(array: Array, spec: InputSpec) -> Array:
    """One array of a user as [S, rest...]. Raises `CompileError` if it is of none of the forms.

    Of an input whose batch has no samples, or that has no dimensions, an array of several whole
    values, [S, shape...].
    """
    shape, rest = spec.shape, spec.shape[1:]
    if not shape:
        return array.reshape(-1)
    is_batch, is_batches = _matches(array.shape, shape), _matches(array.shape[1:], shape)
    if shape[0] == 0 and (is_batch or is_batches):
        return array if is_batches else array[np.newaxis]
    if _matches(array.shape[1:], rest) and array.ndim == len(shape):
        return array
    if array.ndim > 1 and is_batches:
        return array.reshape(array.shape[0] * array.shape[1], *array.shape[2:])
    if _matches(array.shape, rest) and shape[0]:
        return array[np.newaxis]
    wanted = ", ".join("?" if extent == DYNAMIC_INDEX else str(extent) for extent in rest)
    raise CompileError(
        Problem(
            _WHERE,
            f"an array {list(array.shape)} does not fit input '{spec.name}' "
            f"[{', '.join('?' if e == DYNAMIC_INDEX else str(e) for e in shape)}]",
            f"The first axis is the sample: give [samples, {wanted}].",
        )
    )


def _matches(shape: Sequence[int], expected: Sequence[int]) -> bool:
    return len(shape) == len(expected) and all(
        wanted in (DYNAMIC_INDEX, extent) for extent, wanted in zip(shape, expected, strict=True)
    )


def _cast(array: Array, spec: InputSpec) -> Array:
    """The array in the input's element type, if that represents all values."""
    source, target = array.dtype, spec.dtype
    what = f"input '{spec.name}' takes {target}"
    if source.kind == "f" and not np.isfinite(array).all():
        count = int((~np.isfinite(array)).sum())
        text = f"samples for input '{spec.name}' hold {count} values that are not finite numbers"
        raise CompileError(Problem(_WHERE, text))
    if fault := cast_fault(array, target):
        raise CompileError(Problem(_WHERE, f"{what}, but an array {fault}"))
    return array.astype(target, copy=False)


def _batch_size(spec: InputSpec) -> int:
    """Samples per batch: the first extent, 1 if it is unknown, 0 for inputs without dimensions.

    Inputs with a batch of 0 are given whole, as those without dimensions are.
    """
    if not spec.shape:
        return 0
    return 1 if spec.shape[0] == DYNAMIC_INDEX else spec.shape[0]


def regrouped(
    arrays: Mapping[str, Array], inputs: Sequence[InputSpec], where: str = _WHERE
) -> Samples:
    """Batches of inputs from rows, [S, rest...] each. Raises `CompileError` where S differ."""
    sizes = {spec.name: _batch_size(spec) for spec in inputs}
    counts = {name: -(-len(array) // max(sizes[name], 1)) for name, array in arrays.items()}
    count = max(counts.values(), default=0)
    # Where there are several batches, an input with one whole value has the same in all of them.
    several = {
        name: array
        for name, array in arrays.items()
        if count == 1 or len(array) != max(sizes[name], 1)
    }
    samples = {(sizes[name], len(array)) for name, array in several.items() if sizes[name]}
    if any(counts[name] != count for name in several) or len(samples) > len(
        {size for size, _ in samples}
    ):
        listed = ", ".join(f"'{name}' {len(array)}" for name, array in arrays.items())
        what = f"inputs have different numbers of samples: {listed}"
        hint = "Give as many of each; one whole value of an input, such as a state, serves all."
        open_axes = [
            f"{spec.name}={','.join(['LENGTH', *map(str, arrays[spec.name].shape[1:])])}"
            for spec in inputs
            if spec.shape and spec.shape[0] == DYNAMIC_INDEX
        ]
        if open_axes:
            hint += (
                " Where the first axis of an input is a length and not the batch, fix it"
                f" (--shape {open_axes[0]}), or give one array [samples, length, ...]."
            )
        raise CompileError(Problem(where, what, hint))
    notes = [
        f"{len(array)} calibration samples of '{name}' do not fill batches of {sizes[name]}: "
        "the last batch repeats samples from the start"
        for name, array in arrays.items()
        if sizes[name] and len(array) % sizes[name]
    ]
    return Samples(arrays, sizes, count, tuple(notes))
