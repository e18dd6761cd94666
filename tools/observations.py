"""What a float network does on samples: the observations that the quantiser corrects biases by.

Of what calibration runs through the float model, the largest magnitude of each channel of each
value is kept, and of the first batches its mean and power. Single ops, on the operands a pass asks
for, run in onnxruntime as models of their own.
"""

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from functools import reduce
from itertools import compress, islice

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from vtac.dialects.context import Array, Stored, VtacContext
from vtac.dialects.graph import is_static, shape_of
from vtac.dialects.graph.ranges import range_of
from vtac.lowering.graph_to_onnx import build_model, opsets_of
from vtac.passes.graph.cost import macs_of
from vtac.runtime.calibration import open_float_model
from vtac.runtime.samples import input_specs

MOST_BATCHES = 64
"""Batches observed: means over images and positions need no more."""

FAR = 2
"""An input this many times beyond its range, by one bit, is an outlier."""

MOST_PRODUCTS = 4 * 10**9
"""Products of the network in all observed batches, for networks where more would take long."""


class Observed:
    """`Observations` of the function ``@main``.

    names: what calibration calls the values. samples: the batches it runs on, in order; `watch` is
    to be told what values they give.
    """

    def __init__(
        self,
        module: ModuleOp,
        function: FuncOp,
        names: Mapping[SSAValue, str],
        samples: Iterable[Mapping[str, Array]],
        ctx: VtacContext,
    ):
        self._ctx, self._opsets = ctx, opsets_of(module)
        arguments = [spec.name for spec in input_specs(function)]
        few = first_batches(function, samples)
        self.batches = [[batch[name] for name in arguments] for batch in few]
        self._values = {
            name: value for value, name in names.items() if len(shape_of(value) or ()) >= 2
        }
        self._arguments = function.args
        self._means: dict[SSAValue, list[Array]] = {}
        self._powers: dict[SSAValue, list[Array]] = {}
        self._largest: dict[SSAValue, Array] = {}
        self.stored: list[Stored] = []

    def moved(self, values: Mapping[SSAValue, SSAValue]) -> "Observed":
        """The same of a copy of the function, whose values are those that ours are mapped to."""
        other = copy(self)
        other._means = {values[value]: means for value, means in self._means.items()}
        other._powers = {values[value]: powers for value, powers in self._powers.items()}
        other._largest = {values[value]: most for value, most in self._largest.items()}
        other.stored = []
        return other

    def quantised(self, values: Sequence[Stored]) -> None:
        """Keep what became of values."""
        self.stored += values

    def watch(self, batch: int, name: str, array: Array) -> None:
        """Take in a value of a batch: its extremes, and its mean and power if the batch is kept."""
        value = self._values.get(name)
        if value is None or not array.size:
            return
        around = tuple(axis for axis in range(array.ndim) if axis != 1)
        most = np.maximum(array.max(axis=around), -array.min(axis=around))
        self._largest[value] = np.maximum(self._largest.get(value, 0.0), most)
        if batch < len(self.batches):
            mean = array.mean(axis=around, dtype=np.float64)
            self._means.setdefault(value, []).append(mean)
            rows = array.reshape(*array.shape[:2], -1)
            power = np.einsum("ncs,ncs->c", rows, rows) * (len(mean) / array.size)
            self._powers.setdefault(value, []).append(power)

    def leave_out_outliers(self) -> None:
        """Forget batches with an input far beyond the range that calibration gave it.

        Such ranges, of percentile and entropy, are to ignore outliers: integers clamp them, and a
        bias that made up for that would be wrong for all other samples. Where most batches have
        some, they are none.
        """
        ranges = [range_of(argument) for argument in self._arguments]
        limits = [np.inf if found is None else FAR * max(map(abs, found)) for found in ranges]
        near = [
            all(np.abs(x).max(initial=0) <= limit for x, limit in zip(batch, limits, strict=True))
            for batch in self.batches
        ]
        if 2 * sum(near) < len(near):
            return
        self.batches = list(compress(self.batches, near))
        for kept in (self._means, self._powers):
            for value, found in kept.items():
                kept[value] = list(compress(found, near))

    def mean(self, value: SSAValue) -> Array | None:
        """The mean of each channel over the batches; None for what has no channels."""
        return self._average(self._means.get(value))

    def power(self, value: SSAValue) -> Array | None:
        """The mean square of each channel over the batches; None for what has no channels."""
        return self._average(self._powers.get(value))

    def _average(self, found: Sequence[Array] | None) -> Array | None:
        return reduce(np.add, [x / len(self.batches) for x in found]) if found else None

    def largest(self, value: SSAValue) -> Array | None:
        """The largest magnitude of each channel; None for what has no channels."""
        return self._largest.get(value)

    def evaluate(self, op: Operation, batches: Sequence[Sequence[Array]]) -> list[list[Array]]:
        """The results of one op for its operands in each batch."""
        operands = list(dict.fromkeys(op.operands))
        names = {value: f"x{number}" for number, value in enumerate(operands)}
        model = build_model([op], operands, op.results, names, self._ctx, self._opsets)
        session = open_float_model(model)
        places = [list(op.operands).index(value) for value in operands]
        results = []
        for batch in batches:
            feeds = {f"x{number}": batch[place] for number, place in enumerate(places)}
            results.append(session.run(None, feeds))
        return results


def first_batches(
    function: FuncOp, samples: Iterable[Mapping[str, Array]]
) -> list[Mapping[str, Array]]:
    """As many batches of the samples as are worth running layer by layer."""
    count = max(1, min(MOST_BATCHES, MOST_PRODUCTS // max(1, products_of(function))))
    return list(islice(samples, count))


def products_of(function: FuncOp) -> int:
    """Multiply-accumulates of the network, as far as known."""
    return sum(macs_of(op) for op in function.body.block.ops if all(map(is_static, op.results)))
