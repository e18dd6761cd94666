"""ONNX's backend suite, case by case: what becomes of one in vtac and in onnxruntime.

The cases and the comparison are those of ``onnx.backend.test``, without its unittest frame.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx import numpy_helper
from onnx.backend.test.case.test_case import TestCase
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.runner import Runner
from xdsl.dialects.builtin import ModuleOp

from vtac import backend
from vtac.dialects.context import VtacContext
from vtac.passes.graph.quantize import error_bounds
from vtac.tools.driver.planner import main_function

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")
PASSED, FAILED, NOWHERE = "passed", "failed", "not supported by onnxruntime either"

MODES = ("host", "integer", "calibrated")
"""host: as the suite has its cases: everything is an input, and float.
integer: cases of `INTEGER_OPERATORS`; only activations are inputs, what else they need is constant.
calibrated: likewise, cases of all operators, calibrated on their own inputs; results may be off
by the quantiser's error bound."""

MULTIPLIES = "sim"
"""A target that rescales integers by any factor; others cannot be exact about given scales."""

INTEGER_OPERATORS = {
    "ConvInteger", "DequantizeLinear", "DynamicQuantizeLinear", "MatMulInteger", "QLinearConv",
    "QLinearMatMul", "QuantizeLinear",
}  # fmt: skip

Run = Callable[[onnx.ModelProto, Sequence[Any]], Sequence[Any]]


@dataclass(frozen=True)
class Outcome:
    """What became of a case. accelerated: how many of its nodes the accelerator computed."""

    what: str
    why: str = ""
    accelerated: int = 0


def cases(kind: str) -> list[TestCase]:
    """The cases of a kind that lie in the onnx package, by name."""
    found = load_model_tests(kind=kind)
    return sorted(
        (case for case in found if case.model is not None or case.model_dir is not None),
        key=lambda case: case.name,
    )


def takes_part(case: TestCase, mode: str) -> bool:
    """Whether a case belongs to a mode."""
    if mode == "host":
        return True
    if case.model is None:
        return False
    kinds = {node.op_type for node in case.model.graph.node}
    return mode == "calibrated" or not kinds.isdisjoint(INTEGER_OPERATORS)


def outcome(case: TestCase, mode: str = "host") -> Outcome:
    """What becomes of a case in one of `MODES`."""
    runner = _Vtac(mode)
    fault = _fault(case, runner.run, runner)
    if not fault:
        return Outcome(PASSED, "", runner.accelerated)
    return Outcome(NOWHERE if _fault(case, _in_onnxruntime) else FAILED, fault)


def _fault(case: TestCase, run: Run, bounds: "_Vtac | None" = None) -> str:
    """What is wrong with a case in an engine; empty if nothing is."""
    try:
        model, data_sets = _content(case)
        for inputs, expected in data_sets:
            found = run(model, inputs)
            slack = 0.0 if bounds is None else bounds.slack(expected)
            Runner.assert_similar_outputs(expected, found, case.rtol, case.atol + slack)
    except Exception as error:  # each engine has classes of its own
        return " ".join(str(error).split())[:200] or type(error).__name__
    return ""


class _Vtac:
    """Runs cases in vtac. bounds: the quantiser's, of the last model."""

    def __init__(self, mode: str) -> None:
        self.mode = mode
        self.bounds: list[float | None] = []
        self.accelerated = 0

    def slack(self, expected: Sequence[Any]) -> float:
        """By how much the last results may be off: where no bound is known, by a 32nd."""
        if not self.bounds:
            return 0.0
        numbers = [x for x in expected if isinstance(x, np.ndarray) and x.dtype.kind in "fiu"]
        sizes = [np.abs(x).max(initial=0) for x in numbers]
        unknown = max(sizes) / 32 if None in self.bounds and sizes else 0.0
        return float(max([unknown, *(bound for bound in self.bounds if bound is not None)]))

    def run(self, model: onnx.ModelProto, inputs: Sequence[Any]) -> Sequence[Any]:
        """Compile a model and run it."""
        if self.mode == "host":
            return backend.prepare(model).run(inputs)
        named = dict(zip((value.name for value in model.graph.input), inputs, strict=False))
        constants = {
            name: array
            for name, array in named.items()
            if isinstance(array, np.ndarray | np.generic) and name not in _activations(model)
        }
        fed = {name: array for name, array in named.items() if name not in constants}
        options: dict[str, Any] = {"target": MULTIPLIES}
        if self.mode == "calibrated":
            arrays = all(
                isinstance(array, np.ndarray)
                and array.size
                and array.dtype.kind in "fiub"
                and np.isfinite(array).all()
                for array in fed.values()
            )
            options["calibration"] = (
                {n: a[None] for n, a in fed.items()} if arrays and fed else None
            )
            options["observe"] = self._observe
        self.bounds = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            prepared = backend.prepare(model, constants=constants, **options)
        self.accelerated += len(prepared.accelerated)
        return prepared.run(fed)

    def _observe(self, level: str, module: ModuleOp, ctx: VtacContext) -> None:
        if level == "quantised":
            self.bounds = error_bounds(main_function(module))


def _activations(model: onnx.ModelProto) -> set[str]:
    """The names of inputs that stay inputs: what operators read first."""
    return {node.input[0] for node in model.graph.node if node.input}


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


def _in_onnxruntime(model: onnx.ModelProto, inputs: Sequence[Any]) -> Sequence[Any]:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [entry.name for entry in session.get_inputs()]
    feeds = dict(zip(names, inputs, strict=False))
    return [np.asarray(o) if isinstance(o, np.generic) else o for o in session.run(None, feeds)]
