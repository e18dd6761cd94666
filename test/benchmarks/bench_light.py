"""Compiles the nine light models of the onnx package with random weights, and compares answers.

``python test/benchmarks/bench_light.py [MODEL]...`` prints, for each: nodes and products that the
accelerator computes, processor seconds to compile and to simulate a picture, and how far results
lie from onnxruntime's: root mean square over the pictures, as a share of the result's own and of
what the quantiser estimated. An error above `TOLERANCE` times its estimate makes the exit status 1.
``--explain`` adds what stays on the host.
"""

import argparse
import sys
import time
from collections import Counter
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from xdsl.dialects.builtin import ModuleOp

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from light_models import NAMES, light_model, picture_input, pictures
from small_models import run

from vtac.dialects.context import VtacContext
from vtac.passes.graph.quantize import error_estimates
from vtac.runtime.executor import Module
from vtac.tools.driver.compiler import compile_model
from vtac.tools.driver.planner import main_function

CALIBRATION = 8
TOLERANCE = 2.0
"""Errors may be this many times their estimates.

An estimate is no bound but an expectation: the root mean square that independent errors would have.
The multiple is chosen, not derived. It leaves room for errors that go together and for few
pictures, and catches an estimate that has lost what matters (docs/quantisation.md has the multiples
seen).
"""
COLUMNS = "model", "nodes", "products", "compile s", "run s", "cycles", "output: error, of estimate"


@dataclass(frozen=True)
class OutputError:
    """How far a result lies from onnxruntime's.

    error: root mean square, as a share of the result's own spread. estimate: what was estimated of
    that, None where nothing was.
    """

    output: str
    error: float
    estimate: float | None

    @property
    def holds(self) -> bool:
        """Whether the error is within `TOLERANCE` times its estimate, if there is one."""
        return self.estimate is None or self.error <= TOLERANCE * self.estimate

    def __str__(self) -> str:
        of = "no estimate" if self.estimate is None else f"{self.error / self.estimate:.0%}"
        return f"{self.output}: {self.error:.2%}, {of}"


@dataclass(frozen=True)
class Judgement:
    """What a model cost, and how well it answered."""

    module: Module
    nodes: float
    products: float
    compile_seconds: float
    run_seconds: float
    errors: list[OutputError]


def judge(name: str, target: str, count: int) -> Judgement:
    """Compile a model and run it on ``count`` pictures that calibration has not seen."""
    model = light_model(name)
    entry, shape = picture_input(model)
    estimates: list[float | None] = []

    def observe(level: str, module: ModuleOp, ctx: VtacContext) -> None:
        if level == "quantised":
            estimates.extend(error_estimates(main_function(module)))

    started = time.process_time()
    samples = pictures(shape, CALIBRATION, 1)
    module = compile_model(model, target, {entry: samples}, observe=observe)
    compiled = time.process_time()
    feeds = [{entry: picture} for picture in pictures(shape, count, 2)]
    answers = [module.run(feed) for feed in feeds]
    ran = time.process_time()
    expected = [run(model, feed) for feed in feeds]
    errors = [
        _output_error(
            output.name, [a[output.name] for a in answers], [e[i] for e in expected], found
        )
        for i, (output, found) in enumerate(zip(model.graph.output, estimates, strict=True))
    ]
    placed = {node.node for node in module.explain if node.where != "host"}
    products = _products(model)
    return Judgement(
        module,
        sum(node.name in placed for node in model.graph.node) / len(model.graph.node),
        sum(p for node, p in products.items() if node in placed) / sum(products.values()),
        compiled - started,
        (ran - compiled) / count,
        errors,
    )


def _output_error(
    name: str, answers: list[Any], expected: list[Any], estimate: float | None
) -> OutputError:
    size = float(np.std(expected))
    error = float(np.sqrt(np.mean(np.square(np.subtract(answers, expected)))))
    return OutputError(name, error / size, None if estimate is None else estimate / size)


def _products(model: onnx.ModelProto) -> Counter[str]:
    """Multiply-accumulates of each convolution and dense layer, by its name."""
    inferred = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
    shapes = {
        value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in [*inferred.value_info, *inferred.output]
    }
    shapes |= {t.name: list(numpy_helper.to_array(t).shape) for t in inferred.initializer}
    found: Counter[str] = Counter()
    for node in inferred.node:
        if node.op_type in ("Conv", "Gemm"):
            taps = prod(shapes[node.input[1]][1:])
            found[node.name] = prod(shapes[node.output[0]]) * taps
    return found


def main() -> int:
    """A line per model; the status of the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", choices=[*NAMES, []], metavar="MODEL")
    parser.add_argument("--target", default="pynq")
    parser.add_argument("--pictures", type=int, default=2, help="judge on so many")
    parser.add_argument("--explain", action="store_true", help="say what stays on the host")
    arguments = parser.parse_args()
    print(" | ".join(COLUMNS))
    wrong = 0
    for name in arguments.models or NAMES:
        found = judge(name, arguments.target, arguments.pictures)
        cycles = sum(launch.report.cycles for launch in found.module.profile().launches)
        cells = (
            f"{name:<12}", f"{found.nodes:.1%}", f"{found.products:.2%}",
            f"{found.compile_seconds:.1f}", f"{found.run_seconds:.1f}", f"{cycles:,}",
            "; ".join(map(str, found.errors)),
        )  # fmt: skip
        print(" | ".join(cells), flush=True)
        wrong += not all(error.holds for error in found.errors)
        if arguments.explain:
            hosted = [node for node in found.module.explain if node.where == "host"]
            for (kind, reason), count in Counter((n.op, n.reason) for n in hosted).items():
                print(f"    host: {count} x {kind}: {reason}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
