"""Calibration: the network runs on samples, and each float value gets its observed range.

onnxruntime runs the float model, whose values are additional outputs, batch by batch. Each batch is
reduced to a summary: minimum, maximum, and a histogram if the method needs one. The ranges become
``graph.ranges`` and ``graph.range`` attributes, from which the pass ``quantize`` derives scales.

Values on a grid. In integer networks, masks and one-hot inputs, all observed elements of a value
are multiples of a power of two, coarse enough for int8 to represent all of them. The range of such
a value becomes [-128 g, 127 g] with the smallest such power g. Its scale is then g, no observed
element is rounded, and at most one bit of resolution is lost compared with the observed range.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import frexp, inf, prod
from typing import Any

import numpy as np
from onnx import ModelProto
from xdsl.dialects.builtin import TensorType, f32
from xdsl.dialects.func import FuncOp
from xdsl.ir import OpResult, SSAValue

from vtac.dialects.context import Array
from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.graph import ConstantOp
from vtac.dialects.graph.ranges import set_range
from vtac.dialects.graph.value_names import set_value_name
from vtac.runtime.calibration_methods import METHODS, PERCENT, Method
from vtac.runtime.histogram import Histogram
from vtac.runtime.samples import input_specs
from vtac.runtime.sessions import FAILURES, Weights, open_session

Progress = Callable[[int], None]
"""Called after each batch with the number of batches done."""

Watch = Callable[[int, str, Array], None]
"""Called with each value of each batch: the number of the batch, the value's name, the array."""

_MANTISSA_BITS = 53
BYTES_AT_ONCE = 64 << 20
"""Bytes of the values that one run of the model returns; more take more runs, not more memory."""

UNKNOWN_BYTES = BYTES_AT_ONCE // 64
"""Bytes assumed of a value whose shape onnxruntime does not know."""


@dataclass
class _Summary:
    """The summary of a value: minimum, maximum, grid, and a histogram if the method needs it."""

    histogram: Histogram | None
    lo: float = inf
    hi: float = -inf
    grid: int | None = field(default=2000)

    def add(self, array: Array) -> None:
        """Add one batch to the summary."""
        if array.size == 0:
            return
        self.lo, self.hi = min(self.lo, float(array.min())), max(self.hi, float(array.max()))
        if self.grid is not None:
            self._refine_grid(array.ravel().astype(np.float64))
        if self.histogram is not None:
            self.histogram.add(array)

    def _refine_grid(self, values: Array) -> None:
        """Update the largest k with all values multiples of 2^k; None if int8 is too narrow."""
        assert self.grid is not None
        for part in (
            values[:256],
            values,
        ):  # A few values suffice to see that most tensors lie on no grid.
            part = part[part != 0]
            if part.size:
                self.grid = min(self.grid, _largest_divisor(part))
            if self.grid < self._fitting_step():
                self.grid = None
                return

    def _fitting_step(self) -> int:
        """The smallest k such that 2^k times int8 covers minimum and maximum."""
        need = max(-self.lo / 128, self.hi / 127)
        fraction, exponent = frexp(need) if need > 0 else (0.5, -1999)
        return exponent - 1 if fraction == 0.5 else exponent

    def range(self, method: Method, percent: float) -> tuple[float, float]:
        """The range that this method derives from the observed values."""
        if self.lo > self.hi:
            return 0.0, 0.0
        if self.grid is not None and (self.lo, self.hi) != (0.0, 0.0):
            step = 2.0 ** self._fitting_step()
            return -128 * step, 127 * step
        if self.histogram is None:
            return self.lo, self.hi
        if method == "percentile":
            threshold = self.histogram.percentile(percent)
        else:
            threshold = self.histogram.entropy_threshold()
        return max(self.lo, min(-threshold, self.hi)), min(self.hi, max(threshold, self.lo))


def _largest_divisor(values: Array) -> int:
    """The largest k such that all numbers, float64 and not 0, are multiples of 2^k."""
    fractions, exponents = np.frexp(values)
    integers = np.abs(np.ldexp(fractions, _MANTISSA_BITS)).astype(np.int64)
    lowest = np.frexp((integers & -integers).astype(np.float64))[1] - 1
    return int((exponents - _MANTISSA_BITS + lowest).min())


def calibration_values(function: FuncOp) -> dict[SSAValue, str]:
    """The values of a network that need a range, by name: inputs by their own, others by number.

    These are the arguments and the f32 tensors that ops compute. `calibrate` runs a model that has
    all of them as outputs.
    """
    names: dict[SSAValue, str] = {
        argument: spec.name
        for argument, spec in zip(function.args, input_specs(function), strict=True)
        if _is_float(argument)
    }
    taken = set(names.values())
    for op in function.body.block.ops:
        if isinstance(op, ConstantOp):
            continue
        for value in filter(_is_float, op.results):
            name = f"value_{len(names)}"
            while name in taken:
                name += "_"
            names[value] = name
    return names


def _is_float(value: SSAValue) -> bool:
    return isinstance(value.type, TensorType) and value.type.get_element_type() == f32


def calibrate(
    model: ModelProto,
    outputs: Mapping[SSAValue, str],
    batches: Iterable[Mapping[str, Array]],
    *,
    method: Method = "minmax",
    percent: float = PERCENT,
    progress: Progress | None = None,
    watch: Watch | None = None,
    weights: Weights | None = None,
) -> dict[SSAValue, tuple[float, float]]:
    """Run a float model on batches and record on each value its range and its name.

    model: has an output (or an input) of that name for each value of ``outputs``. weights: large
    ones that lie beside the model. Returns the ranges that were set. Raises `CompileError` if the
    model does not run.
    """
    ranges = collect_ranges(
        model,
        set(outputs.values()),
        batches,
        method=method,
        percent=percent,
        progress=progress,
        watch=watch,
        weights=weights,
    )
    found = {value: ranges[name] for value, name in outputs.items() if name in ranges}
    for value, (lo, hi) in found.items():
        set_range(value, lo, hi)
    for value, name in outputs.items():
        if isinstance(value, OpResult):
            set_value_name(value, name)
    return found


def collect_ranges(
    model: ModelProto,
    names: Iterable[str],
    batches: Iterable[Mapping[str, Array]],
    *,
    method: Method = "minmax",
    percent: float = PERCENT,
    progress: Progress | None = None,
    watch: Watch | None = None,
    weights: Weights | None = None,
) -> dict[str, tuple[float, float]]:
    """The range of each named output (or input) of a model over all batches.

    Values that are not finite on all samples have no range.
    """
    if method not in METHODS:
        hint = "Choose one of " + ", ".join(METHODS) + "."
        raise CompileError(Problem("calibration", f"there is no method '{method}'", hint))
    if not 0 < percent <= 100:
        raise CompileError(Problem("calibration", f"{percent} is no percentage above 0"))
    summaries = {
        name: _Summary(None if method == "minmax" else Histogram()) for name in sorted(set(names))
    }
    session, count = open_float_model(model, weights), 0
    for batch in batches:
        for name, array in _values(session, list(summaries), batch):
            if not np.isfinite(array).all():  # for instance the mask of an attention
                del summaries[name]
                continue
            summaries[name].add(array)
            if watch is not None:
                watch(count, name, array)
        count += 1
        if progress is not None:
            progress(count)
    if count == 0:
        raise CompileError(Problem("calibration", "there are no samples"))
    return {name: summary.range(method, percent) for name, summary in summaries.items()}


def open_float_model(model: ModelProto, weights: Weights | None = None) -> Any:
    """A session of onnxruntime. Raises `CompileError` if it cannot load the model."""
    try:
        return open_session(model, weights)
    except FAILURES as error:
        raise CompileError(
            Problem("calibration", f"onnxruntime cannot load the model: {error}")
        ) from error


def _runs(session: Any, names: Sequence[str]) -> Iterator[list[str]]:
    """The outputs of a session in as few runs as their bytes allow: each computes the whole network
    again."""
    shapes = {output.name: output.shape for output in session.get_outputs()}
    some, total = list[str](), 0
    for name in names:
        shape = shapes[name]
        known = all(isinstance(extent, int) for extent in shape)
        size = 4 * prod(shape) if known else UNKNOWN_BYTES
        if some and total + size > BYTES_AT_ONCE:
            yield some
            some, total = [], 0
        some.append(name)
        total += size
    if some:
        yield some


def _values(
    session: Any, names: Sequence[str], batch: Mapping[str, Array]
) -> Iterator[tuple[str, Array]]:
    """The values of one batch: inputs as they are, outputs computed a few at a time."""
    wanted = [name for name in names if name not in batch]
    yield from ((name, batch[name]) for name in names if name in batch)
    for some in _runs(session, wanted):
        try:
            arrays = session.run(some, dict(batch))
        except FAILURES as error:
            what = f"onnxruntime failed on a batch of samples: {error}"
            raise CompileError(Problem("calibration", what)) from error
        yield from zip(some, arrays, strict=True)
