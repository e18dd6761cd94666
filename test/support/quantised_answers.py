"""The quantised network of a model in onnxruntime: its accuracy without lowering or simulation.

Onnxruntime's integer operators are exact, so the answers are those of the compiled package, in a
hundredth of the simulator's time.
"""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from small_models import one_thread
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

import vtac
from vtac.dialects.context import VtacContext
from vtac.lowering.graph_to_onnx import host_model

Array = NDArray[Any]

SCORES = "scores before softmax"
"""The name of a further output: what a softmax reads."""


class _QuantisedError(Exception):
    """Ends a compilation behind quantisation. model: the quantised network."""

    def __init__(self, model: bytes) -> None:
        self.model = model


def quantised_model(path: Path, target: str, samples: dict[str, Array] | None, **options: Any):
    """The quantised network as an ONNX model with the names of the original, and `SCORES`.

    options: of `vtac.compile`.
    """

    def stop(level: str, module: ModuleOp, ctx: VtacContext) -> None:
        if level == "quantised":
            extra: dict[str, SSAValue] = {}
            for op in module.walk():
                if "Softmax" in str(op.properties.get("op_type", "")) or "softmax" in op.name:
                    extra[SCORES] = op.operands[0]
            raise _QuantisedError(host_model(module, ctx, extra_outputs=extra).SerializeToString())

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # there may be no samples
        try:
            vtac.compile(path, target, samples, observe=stop, **options)
        except _QuantisedError as found:
            return found.model
    raise AssertionError("there is no level 'quantised'")


def answers(model: bytes | Path, name: str, inputs: Array, output: str | None = None) -> Array:
    """One output of a model (the first) for each of the inputs [S, ...], as rows."""
    given = model if isinstance(model, bytes) else str(model)
    session = onnxruntime.InferenceSession(given, one_thread())
    wanted = [output or session.get_outputs()[0].name]
    return np.concatenate([session.run(wanted, {name: x})[0].reshape(1, -1) for x in inputs])
