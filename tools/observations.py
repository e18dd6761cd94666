"""What a float network does on samples: the observations that the quantiser corrects biases by.

A few batches of the calibration samples run through the float model once, and the mean of each
channel of each value is kept. Single ops, on the operands a pass asks for, run in onnxruntime too,
as models of one node or a few.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from math import prod

import numpy as np
from onnx import ModelProto
from xdsl.dialects.builtin import DictionaryAttr, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from vtac.dialects.context import Array, VtacContext
from vtac.dialects.graph import ConvOp, GemmOp, is_static, shape_of
from vtac.lowering.graph_to_onnx import build_model
from vtac.runtime.calibration import open_session, values_of
from vtac.runtime.samples import input_specs

MOST_BATCHES = 32
"""Batches observed: means over images and positions need no more."""

MOST_PRODUCTS = 8 * 10**9
"""Products of the network in all observed batches, for networks where 32 would take long."""


class Observed:
    """`Observations` of the function ``@main``.

    model: the float network with all ``names`` as outputs. Raises CompileError where it does not
    run.
    """

    def __init__(
        self,
        module: ModuleOp,
        function: FuncOp,
        model: ModelProto,
        names: Mapping[SSAValue, str],
        samples: Iterable[Mapping[str, Array]],
        ctx: VtacContext,
    ):
        opsets = module.attributes.get("graph.opsets", DictionaryAttr({}))
        assert isinstance(opsets, DictionaryAttr)
        self._ctx, self._opsets = ctx, opsets
        count = max(1, min(MOST_BATCHES, MOST_PRODUCTS // max(1, products_of(function))))
        batches = list(islice(samples, count))
        arguments = [spec.name for spec in input_specs(function)]
        self.batches = [[batch[name] for name in arguments] for batch in batches]
        self._means, self._largest = _channels(model, names, batches)

    def mean(self, value: SSAValue) -> Array | None:
        """The mean of each channel over all batches; None for what has no channels."""
        return self._means.get(value)

    def largest(self, value: SSAValue) -> Array | None:
        """The largest magnitude of each channel; None for what has no channels."""
        return self._largest.get(value)

    def evaluate(self, op: Operation, batches: Sequence[Sequence[Array]]) -> list[list[Array]]:
        """The results of one op for its operands in each batch."""
        operands = list(dict.fromkeys(op.operands))
        names = {value: f"x{number}" for number, value in enumerate(operands)}
        model = build_model([op], operands, op.results, names, self._ctx, self._opsets)
        session = open_session(model)
        places = [list(op.operands).index(value) for value in operands]
        results = []
        for batch in batches:
            feeds = {f"x{number}": batch[place] for number, place in enumerate(places)}
            results.append(session.run(None, feeds))
        return results


def _channels(
    model: ModelProto, names: Mapping[SSAValue, str], batches: Sequence[Mapping[str, Array]]
) -> tuple[dict[SSAValue, Array], dict[SSAValue, Array]]:
    """Means and largest magnitudes of the channels of each value that has any."""
    channelled = {name: value for value, name in names.items() if len(shape_of(value) or ()) >= 2}
    session = open_session(model)
    means: dict[SSAValue, Array] = {}
    largest: dict[SSAValue, Array] = {}
    for batch in batches:
        for name, array in values_of(session, list(channelled), batch):
            value = channelled[name]
            around = tuple(axis for axis in range(array.ndim) if axis != 1)
            mean = array.mean(axis=around, dtype=np.float64) / len(batches)
            means[value] = means.get(value, 0.0) + mean
            most = np.maximum(array.max(axis=around), -array.min(axis=around))
            largest[value] = np.maximum(largest.get(value, 0.0), most)
    return means, largest


def products_of(function: FuncOp) -> int:
    """Multiply-accumulates of the network's convolutions and dense layers, as far as known."""
    total = 0
    for op in function.body.block.ops:
        if isinstance(op, ConvOp | GemmOp) and is_static(op.result):
            result = prod(shape_of(op.result) or ())
            weights = shape_of(op.operands[1]) or ()
            total += result * (prod(weights) // max(1, (shape_of(op.result) or (0, 1))[1]))
    return total
