"""ONNX's backend suite, case by case: what becomes of one in vtac and in onnxruntime.

The cases and the comparison are those of ``onnx.backend.test``, without its unittest frame.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx import numpy_helper
from onnx.backend.test.case.test_case import TestCase
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.runner import Runner

from vtac import backend

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")
PASSED, FAILED, NOWHERE = "passed", "failed", "not supported by onnxruntime either"

Run = Callable[[onnx.ModelProto, Sequence[Any]], Sequence[Any]]


def cases(kind: str) -> list[TestCase]:
    """The cases of a kind that lie in the onnx package, by name."""
    found = load_model_tests(kind=kind)
    return sorted(
        (case for case in found if case.model is not None or case.model_dir is not None),
        key=lambda case: case.name,
    )


def outcome(case: TestCase) -> tuple[str, str]:
    """`PASSED`, `FAILED` or `NOWHERE`, and why it did not pass."""
    fault = _fault(case, _in_vtac)
    if not fault:
        return PASSED, ""
    return (NOWHERE if _fault(case, _in_onnxruntime) else FAILED), fault


def _fault(case: TestCase, run: Run) -> str:
    """What is wrong with a case in an engine; empty if nothing is."""
    try:
        model, data_sets = _content(case)
        for inputs, expected in data_sets:
            Runner.assert_similar_outputs(expected, run(model, inputs), case.rtol, case.atol)
    except Exception as error:  # each engine has classes of its own
        return " ".join(str(error).split())[:200] or type(error).__name__
    return ""


def _content(case: TestCase) -> tuple[onnx.ModelProto, list[tuple[list[Any], list[Any]]]]:
    if case.model is not None:
        return case.model, [(list(i), list(o)) for i, o in case.data_sets or ()]
    folder = Path(str(case.model_dir))
    model = onnx.load(folder / "model.onnx")
    sets = []
    for data in sorted(folder.glob("test_data_set_*")):
        inputs = _values(data, "input", [value.type for value in model.graph.input])
        outputs = _values(data, "output", [value.type for value in model.graph.output])
        sets.append((inputs, outputs))
    return model, sets


def _values(folder: Path, kind: str, types: Sequence[onnx.TypeProto]) -> list[Any]:
    count = len(list(folder.glob(f"{kind}_*.pb")))
    return [
        _value((folder / f"{kind}_{i}.pb").read_bytes(), type)
        for i, type in enumerate(types[:count])
    ]


def _value(data: bytes, type: onnx.TypeProto) -> Any:
    if type.HasField("sequence_type"):
        return numpy_helper.to_list(onnx.SequenceProto.FromString(data))
    if type.HasField("optional_type"):
        return numpy_helper.to_optional(onnx.OptionalProto.FromString(data))
    return numpy_helper.to_array(onnx.TensorProto.FromString(data))


def _in_vtac(model: onnx.ModelProto, inputs: Sequence[Any]) -> Sequence[Any]:
    return backend.prepare(model).run(inputs)


def _in_onnxruntime(model: onnx.ModelProto, inputs: Sequence[Any]) -> Sequence[Any]:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    session = ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [entry.name for entry in session.get_inputs()]
    feeds = dict(zip(names, inputs, strict=False))
    return [np.asarray(o) if isinstance(o, np.generic) else o for o in session.run(None, feeds)]
