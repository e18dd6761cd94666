"""Joins the outputs of several batches, as if the network had run on all samples at once."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from vtac.dialects.errors import CompileError, Problem

Array = np.ndarray[Any, np.dtype[Any]]


def join_batches(results: Sequence[Mapping[str, Any]], batch: int, samples: int) -> dict[str, Any]:
    """The outputs of all batches, by name. batch: samples per batch; samples: those that count.

    An output is joined along its first axis if that is a multiple of ``batch``, else along the
    first axis of that extent (of extent 1: along the first axis only), and loses what the samples
    make that only fill the last batch. Outputs without such an axis are stacked along a new one, of
    the batches. Raises `CompileError` where outputs cannot
    be joined: they are no tensors, differ in shape, or are computed from a batch that is not full.
    """
    if not results:
        return {}
    return {
        name: _joined(name, [result[name] for result in results], batch, samples)
        for name in results[0]
    }


def _joined(name: str, parts: Sequence[Any], batch: int, samples: int) -> Any:
    is_full = samples == batch * len(parts)
    if len(parts) == 1 and is_full:
        return parts[0]
    arrays = [np.asarray(part) for part in parts if not isinstance(part, list)]
    shapes = sorted({array.shape for array in arrays})
    hint = f"Run one batch at a time, {batch} samples each."
    if len(arrays) < len(parts):
        raise CompileError(Problem(f"output '{name}'", "is no tensor: batches stay apart", hint))
    if len(shapes) > 1:
        listed = ", ".join(str(list(shape)) for shape in shapes)
        what = f"differs in shape from batch to batch: {listed}"
        raise CompileError(Problem(f"output '{name}'", what, hint))
    axis, per_sample = _batch_axis(shapes[0], batch)
    if axis is not None:
        whole = np.concatenate(arrays, axis)
        return whole.take(range(samples * per_sample), axis)
    if not is_full:
        what = f"of shape {list(shapes[0])} has no axis of the {batch} samples in a batch"
        hint = f"Give a multiple of {batch} samples."
        raise CompileError(Problem(f"output '{name}'", what, hint))
    return np.stack(arrays)


def _batch_axis(shape: tuple[int, ...], batch: int) -> tuple[int | None, int]:
    """The axis of the samples, if there is one, and how many entries each sample has on it."""
    if shape and shape[0] and shape[0] % batch == 0 and (batch > 1 or shape[0] == 1):
        return 0, shape[0] // batch
    if batch > 1 and batch in shape:  # as in the states of recurrent layers
        return shape.index(batch), 1
    return None, 0
