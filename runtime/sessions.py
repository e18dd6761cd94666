"""Sessions of onnxruntime for calibration and host parts, and the exceptions that they raise."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnxruntime
from google.protobuf.message import EncodeError
from onnxruntime.capi import onnxruntime_pybind11_state

FAILURES: tuple[type[Exception], ...] = (
    *(
        found
        for found in vars(onnxruntime_pybind11_state).values()
        if isinstance(found, type) and issubclass(found, Exception)
    ),
    EncodeError,
    IndexError,
    OverflowError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""What onnxruntime raises. It has a class for each status, without a common base. Further ones are
pybind11's translations of C++ exceptions, the errors for missing feeds and feeds of unknown types,
and protobuf's error for models above two GiB."""

_LEAST_SEVERE_LOGGED = 4
"""Log fatal errors only; all others are raised as exceptions."""


_NO_ROUNDING = ("session.disable_quant_qdq", "1")
"""Disables the optimisation WeightBiasQuantization: between QuantizeLinear and DequantizeLinear it
rounds float weights, with one scale for each tensor, which changes what the model computes."""

_NO_PREPACKING = ("session.disable_prepacking", "1")
"""Leaves weights in the order of the model, where sessions share them with the caller's arrays.

Prepacking copies them into the order in which kernels read them, and takes about twice their bytes.
For one row of activations nothing is lost; for eight a product takes up to twice as long."""

MOST_PREPACKED = 64 << 20
"""Bytes of a model's large weights up to which they are prepacked."""

_NO_SPINNING = ("session.intra_op.allow_spinning", "0")
"""Threads without work sleep. By default they spin for a while, which takes several times longer
than the computation of a small model, and occupies a core that other processes could use."""


Weights = Mapping[str, np.ndarray[Any, np.dtype[Any]]]
"""Arrays by the names of the initialisers, external ones, that stand for them."""


def open_session(model: onnx.ModelProto, weights: Weights | None = None) -> Any:
    """A session of onnxruntime on the CPU. Raises one of `FAILURES` if it cannot load the model.

    weights: large weights that lie beside the model. They are not copied, except by prepacking,
    where they take less than `MOST_PREPACKED` bytes.

    A model that fails with optimisations is loaded without them: where a constant chooses a branch
    of an If, the optimiser may refuse the ranks in that branch.
    """
    data = model.SerializeToString()
    try:
        return _session(data, onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL, weights or {})
    except FAILURES as error:
        try:
            return _session(data, onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL, weights or {})
        except FAILURES:
            raise error from None


def _session(model: bytes, level: onnxruntime.GraphOptimizationLevel, weights: Weights) -> Any:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    options.log_severity_level = _LEAST_SEVERE_LOGGED
    options.add_session_config_entry(*_NO_ROUNDING)
    options.add_session_config_entry(*_NO_SPINNING)
    if sum(array.nbytes for array in weights.values()) > MOST_PREPACKED:
        options.add_session_config_entry(*_NO_PREPACKING)
    if weights:
        values = map(onnxruntime.OrtValue.ortvalue_from_numpy, weights.values())
        options.add_external_initializers(list(weights), list(values))
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
