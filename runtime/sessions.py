"""Sessions of onnxruntime, and what it raises: for calibration and for the host's parts."""

from typing import Any

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
"""What onnxruntime raises: a class of its own for each status, which have no base in common; what
its C++ throws, as pybind11 translates it; what it says of feeds that are missing or of no type that
it knows; and protobuf's refusal of a model above two GiB."""

_LEAST_SEVERE_LOGGED = 4
"""Fatal ones alone: errors are raised, and that is where they are told."""


_NO_ROUNDING = ("session.disable_quant_qdq", "1")
"""Between QuantizeLinear and DequantizeLinear, onnxruntime would also round weights that are float
(its optimisation WeightBiasQuantization), to one scale a tensor: then a model means another."""

_NO_SPINNING = ("session.intra_op.allow_spinning", "0")
"""Threads without work sleep. By default they spin for a while, which costs a small model several
times what it computes, and whatever runs beside it a core."""


def open_session(model: onnx.ModelProto) -> Any:
    """onnxruntime on a model, on the CPU. Raises one of `FAILURES` where it cannot load it.

    What it cannot optimise it may still load as it is: taking the branch of an If that a constant
    chooses, it may refuse the ranks that it finds there.
    """
    data = model.SerializeToString()
    try:
        return _session(data, onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL)
    except FAILURES as error:
        try:
            return _session(data, onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL)
        except FAILURES:
            raise error from None


def _session(model: bytes, level: onnxruntime.GraphOptimizationLevel) -> Any:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    options.log_severity_level = _LEAST_SEVERE_LOGGED
    options.add_session_config_entry(*_NO_ROUNDING)
    options.add_session_config_entry(*_NO_SPINNING)
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
