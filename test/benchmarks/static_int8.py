"""onnxruntime's own int8 quantisation of a float model, which the benchmarks compare with.

QDQ format, int8 activations and weights, one scale for each channel of weights, minmax calibration.
Models of opsets without an axis in DequantizeLinear have one scale for each tensor.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

Array = NDArray[Any]

AXIS_SINCE = 13
"""The opset in which DequantizeLinear learnt to have a scale for each channel."""


class Samples(CalibrationDataReader):
    """Samples one after another, as onnxruntime's quantiser wants them."""

    def __init__(self, name: str, samples: Array) -> None:
        self._feeds: Iterator[dict[str, Array]] = ({name: sample} for sample in samples)

    def get_next(self) -> dict[str, Array] | None:
        """The next sample, None after the last."""
        return next(self._feeds, None)


def session(path: Path) -> onnxruntime.InferenceSession:
    """A session of onnxruntime on a model, without its warnings."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(path, options)


def static_model(path: Path, name: str, samples: Array, folder: Path) -> Path:
    """Quantise a model by samples [S, ...] of its input; the file of the result, in the folder."""
    ready, small = folder / "ready.onnx", folder / "int8.onnx"
    quant_pre_process(path, ready, skip_symbolic_shape=True)
    opset = next(known.version for known in onnx.load(path).opset_import if not known.domain)
    try:
        per_channel = opset >= AXIS_SINCE
        _quantize(ready, small, Samples(name, samples), per_channel=per_channel)
    except ValueError:  # onnxruntime fails on some biases where each channel has a scale
        _quantize(ready, small, Samples(name, samples), per_channel=False)
    return small


def _quantize(source: Path, target: Path, samples: Samples, per_channel: bool) -> None:
    quantize_static(
        source,
        target,
        samples,
        quant_format=QuantFormat.QDQ,
        per_channel=per_channel,
        activation_type=QuantType.QInt8,
        weight_type=QuantType.QInt8,
    )


def answers_of(path: Path, name: str, inputs: Array) -> list[dict[str, Array]]:
    """The outputs of onnxruntime by name, for each of the inputs [S, ...]."""
    opened = session(path)
    outputs = [value.name for value in opened.get_outputs()]
    return [dict(zip(outputs, opened.run(None, {name: x}), strict=True)) for x in inputs]


def labels_of(answers: list[dict[str, Array]]) -> Array:
    """The index of the largest element of each first output."""
    return np.array([next(iter(answer.values())).argmax() for answer in answers])
