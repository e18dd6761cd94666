"""What a float network does on samples: the observations by which the quantiser corrects biases.

Calibration runs the float network once. While it does, an `Observer` takes in every value; of each
value with channels it keeps the largest magnitude of each channel, and over the first batches the
mean and the mean square of each channel. `Observed` is the result: plain arrays under the names
that the values have in the IR (`vtac.dialects.graph.value_names`), and the inputs of the first
batches. It can be written beside the IR and read again. Single ops, on operands that a pass asks
for, are evaluated in onnxruntime as models of their own.

The file (``FILE.mlir.observations.npz``) holds:
  format           the version of this format, 1;
  input/NAME       an input of the network in the observed batches, [batches, shape of the input];
  mean/NAME        the mean of each channel of a value over these batches, float64 [C];
  power/NAME       the mean square of each channel over these batches, float64 [C];
  largest/NAME     the largest magnitude of each channel over all samples, [C].
"""

import io
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import compress, islice

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, OpResult, SSAValue

from vtac.dialects.array_files import read_npz, write_npz
from vtac.dialects.context import Array, Stored, VtacContext
from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.graph import is_static, shape_of, total_macs
from vtac.dialects.graph.ranges import range_of
from vtac.dialects.graph.value_names import set_value_name, value_name
from vtac.lowering.graph_to_onnx import build_model, opsets_of
from vtac.runtime.atomic import read_whole, write_whole
from vtac.runtime.calibration import open_float_model
from vtac.runtime.samples import input_specs

MOST_BATCHES = 64
"""The most batches observed; more would hardly change means over images and positions."""

MOST_PRODUCTS = 4 * 10**9
"""The most multiply-accumulates of all observed batches together, as they take time."""

OUTLIER_FACTOR = 2
"""An input whose magnitude exceeds its range by this factor is an outlier."""

FORMAT = 1
"""The version of the file format."""

_INPUT, _MEAN, _POWER, _LARGEST = "input/", "mean/", "power/", "largest/"


@dataclass(frozen=True)
class OpEvaluator:
    """Runs single ops of a network in onnxruntime."""

    ctx: VtacContext
    module: ModuleOp

    def __call__(self, op: Operation, batches: Sequence[Sequence[Array]]) -> list[list[Array]]:
        """The results of one op for its operands in each batch."""
        operands = list(dict.fromkeys(op.operands))
        names = {value: f"x{number}" for number, value in enumerate(operands)}
        opsets = opsets_of(self.module)
        weights: dict[str, Array] = {}
        model = build_model([op], operands, op.results, names, self.ctx, opsets, weights=weights)
        session = open_float_model(model, weights)
        places = [list(op.operands).index(value) for value in operands]
        results = []
        for batch in batches:
            feeds = {f"x{number}": batch[place] for number, place in enumerate(places)}
            results.append(session.run(None, feeds))
        return results


@dataclass(frozen=True)
class Part:
    """Some channels of a value, by their places."""

    whole: SSAValue
    channels: Array


@dataclass
class Observed:
    """`vtac.dialects.context.Observations` of the function ``@main``.

    inputs: names of the network's inputs in the order of its arguments. batches: their arrays in
    each observed batch. means, powers, maxima: an array [C] for each value with channels, by the
    name of the value. stored: the values that `quantised` was called with. parts, copies: the
    values and ops that passes made of others, and what they were made of.
    """

    inputs: tuple[str, ...]
    batches: Sequence[Sequence[Array]]
    means: Mapping[str, Array]
    powers: Mapping[str, Array]
    maxima: Mapping[str, Array]
    evaluator: OpEvaluator
    stored: list[Stored] = field(default_factory=list)
    parts: dict[SSAValue, Part] = field(default_factory=dict)
    copies: dict[Operation, Operation] = field(default_factory=dict)
    is_used: bool = False
    """Whether the network has been quantised, so that its values are other ones now."""

    def mean(self, value: SSAValue) -> Array | None:
        """The mean of each channel over the batches; None for a value without channels."""
        return self.means.get(value_name(value) or "")

    def power(self, value: SSAValue) -> Array | None:
        """The mean square of each channel over the batches; None for a value without channels."""
        return self.powers.get(value_name(value) or "")

    def largest(self, value: SSAValue) -> Array | None:
        """The largest magnitude of each channel; None for a value without channels."""
        return self.maxima.get(value_name(value) or "")

    def describe_part(self, whole: SSAValue, part: SSAValue, channels: Array, number: int) -> None:
        """Give a new value the name ``WHOLE[NUMBER]``, and what was observed of its channels."""
        old = value_name(whole)
        assert isinstance(part, OpResult), "an argument is no part"
        self.parts[part] = Part(whole, channels)
        if old is None:
            return
        name = f"{old}[{number}]"
        set_value_name(part, name)
        self.means, self.powers, self.maxima = (
            {**table, name: table[old][channels]} if old in table else table
            for table in (self.means, self.powers, self.maxima)
        )

    def describe_copy(self, op: Operation, copy: Operation) -> None:
        """Keep what a copy was made of."""
        self.copies[copy] = op

    def evaluate(self, op: Operation, batches: Sequence[Sequence[Array]]) -> list[list[Array]]:
        """The results of one op for its operands in each batch."""
        return self.evaluator(op, batches)

    def quantised(self, values: Sequence[Stored]) -> None:
        """Keep what stands for the values of the network that became integers."""
        self.stored += values
        self.is_used = True

    def of_copy(self, module: ModuleOp, ctx: VtacContext) -> "Observed":
        """The same observations for a copy of the network, which is not quantised yet.

        ctx: holds the constants of the copy, and of what passes add to it.
        """
        evaluator = OpEvaluator(ctx, module)
        return replace(self, evaluator=evaluator, stored=[], parts={}, copies={}, is_used=False)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the file that `load` reads, whole or not at all."""
        inputs = {
            _INPUT + name: np.stack([np.asarray(batch[number]) for batch in self.batches])
            for number, name in enumerate(self.inputs)
        }
        tables = (_MEAN, self.means), (_POWER, self.powers), (_LARGEST, self.maxima)
        arrays = {prefix + name: a for prefix, table in tables for name, a in table.items()}
        stream = io.BytesIO()
        arrays |= {"format": np.array(FORMAT), **inputs}
        write_npz(stream, arrays, compress=True)
        write_whole(path, stream.getvalue())

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], module: ModuleOp, function: FuncOp, ctx: VtacContext
    ) -> "Observed":
        """Read observations of a function of a module.

        Raises `CompileError` on a file that is none, or that belongs to a network of other inputs.
        """
        place = os.fspath(path)
        try:
            arrays = read_npz(io.BytesIO(read_whole(path)), place)
        except CompileError as error:
            what = f"is no file of observations: {error.problems[0].what}"
            raise CompileError(Problem(place, what)) from None
        version = arrays.pop("format", None)
        if version is None or version.shape != () or version != FORMAT:
            what = f"is no file of observations in format {FORMAT}"
            raise CompileError(Problem(place, what, "Write it again with this vtac."))
        inputs = tuple(spec.name for spec in input_specs(function))
        given = _named(arrays, _INPUT)
        if set(given) != set(inputs) or len({len(array) for array in given.values()}) > 1:
            what = f"has the inputs {', '.join(given) or 'none'}, the module {', '.join(inputs)}"
            raise CompileError(Problem(place, what, "It was written beside another module."))
        return cls(
            inputs,
            list(zip(*(given[name] for name in inputs), strict=True)),
            _named(arrays, _MEAN),
            _named(arrays, _POWER),
            _named(arrays, _LARGEST),
            OpEvaluator(ctx, module),
        )


def _named(arrays: Mapping[str, Array], prefix: str) -> dict[str, Array]:
    return {n.removeprefix(prefix): a for n, a in arrays.items() if n.startswith(prefix)}


class Observer:
    """Observes the values of a network while it is calibrated.

    names: the names of the values. samples: the batches that the network runs on, in order.
    """

    def __init__(
        self,
        module: ModuleOp,
        function: FuncOp,
        names: Mapping[SSAValue, str],
        samples: Iterable[Mapping[str, Array]],
        ctx: VtacContext,
    ):
        self._evaluator = OpEvaluator(ctx, module)
        self._arguments = function.args
        self._inputs = tuple(spec.name for spec in input_specs(function))
        few = first_batches(function, samples)
        self._batches = [[batch[name] for name in self._inputs] for batch in few]
        self._with_channels = {
            name for value, name in names.items() if len(shape_of(value) or ()) >= 2
        }
        self._means: dict[str, list[Array]] = {}
        self._powers: dict[str, list[Array]] = {}
        self._maxima: dict[str, Array] = {}

    def watch(self, batch: int, name: str, array: Array) -> None:
        """Add a value of a batch: its extremes, and its mean and power if the batch is kept."""
        if name not in self._with_channels or not array.size:
            return
        around = tuple(axis for axis in range(array.ndim) if axis != 1)
        most = np.maximum(array.max(axis=around), -array.min(axis=around))
        self._maxima[name] = np.maximum(self._maxima.get(name, 0.0), most)
        if batch < len(self._batches):
            mean = array.mean(axis=around, dtype=np.float64)
            self._means.setdefault(name, []).append(mean)
            rows = array.reshape(*array.shape[:2], -1)
            power = np.einsum("ncs,ncs->c", rows, rows) * (len(mean) / array.size)
            self._powers.setdefault(name, []).append(power)

    def observed(self) -> Observed:
        """The observations, without the batches that have outliers.

        The inputs of the network must have their ranges.
        """
        kept = self._without_outliers()
        return Observed(
            self._inputs,
            list(compress(self._batches, kept)),
            self._averages(self._means, kept),
            self._averages(self._powers, kept),
            self._maxima,
            self._evaluator,
        )

    def _averages(
        self, found: Mapping[str, Sequence[Array]], kept: Sequence[bool]
    ) -> dict[str, Array]:
        """Averages over the kept batches, of the values that were seen in every batch."""
        return {
            name: reduce(np.add, [x / sum(kept) for x in compress(each, kept)])
            for name, each in found.items()
            if len(each) == len(kept)
        }

    def _without_outliers(self) -> list[bool]:
        """For each batch whether all its inputs are near the ranges that calibration gave them.

        The ranges of the methods percentile and entropy leave outliers out: integers clamp them,
        and a bias that made up for that would be wrong for all other samples. Where most batches
        have an input far outside, such inputs are the rule, and every batch is kept.
        """
        ranges = [range_of(argument) for argument in self._arguments]
        limits = [found and OUTLIER_FACTOR * max(map(abs, found)) for found in ranges]
        near = [
            all(
                limit is None or np.abs(x).max(initial=0) <= limit
                for x, limit in zip(batch, limits, strict=True)
            )
            for batch in self._batches
        ]
        return near if 2 * sum(near) >= len(near) else [True] * len(near)


def first_batches(
    function: FuncOp, samples: Iterable[Mapping[str, Array]]
) -> list[Mapping[str, Array]]:
    """As many batches of the samples as are worth running layer by layer."""
    count = max(1, min(MOST_BATCHES, MOST_PRODUCTS // max(1, products_of(function))))
    return list(islice(samples, count))


def products_of(function: FuncOp) -> int:
    """Multiply-accumulates of the network, as far as known."""
    return total_macs(op for op in function.body.block.ops if all(map(is_static, op.results))).least
