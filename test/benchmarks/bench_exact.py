"""Whether the models of ``../shared/models`` compute the integers that are written down.

``python test/benchmarks/bench_exact.py [MODEL]...`` compiles each for each target (a program that
the hazard checker refuses ends it there), runs it on the simulator on some inputs, in several
orders of the machine's modules, and compares all that enters and leaves the accelerator with the
NumPy reference (docs/quantisation.md as code). It prints a row per model and target; a difference,
or a launch that could not be compared, makes the exit status 1.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import onnx

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from exact_integers import Comparison, Oracle
from trained_models import NAMES, SHARED, TARGETS, model_path, samples_and_inputs

from vtac.dialects.errors import CompileError
from vtac.passes.graph.quantise_options import Requantise
from vtac.tools.driver.compiler import compile_model

COLUMNS = (
    "model", "target", "requantise", "inputs", "orders", "launches", "integers", "seconds", "result"
)  # fmt: skip
SHOWN = 5
"""So many differences are printed."""


def compare(
    name: str, target: str, requantise: Requantise, count: int, orders: Sequence[int | None]
) -> Comparison:
    """Compile a model and compare it on ``count`` inputs."""
    path = model_path(name)
    samples, inputs = samples_and_inputs(name)
    entry = onnx.load(path).graph.input[0].name
    oracle = Oracle([{entry: x} for x in inputs[:count]])
    module = compile_model(
        path, target, {entry: samples}, requantise=requantise, observe=oracle.observe
    )
    return oracle.judge(module, orders)


def main() -> int:
    """The table; the status of the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", choices=[*NAMES, []], metavar="MODEL")
    parser.add_argument("--target", nargs="*", default=TARGETS)
    parser.add_argument("--requantise", choices=get_args(Requantise), default="auto")
    parser.add_argument("--inputs", type=int, default=2, help="compare on so many")
    parser.add_argument("--orders", type=int, default=3, help="one is the program's own")
    options = parser.parse_args()
    if not SHARED.is_dir():
        print(f"there are no models: {SHARED} is absent")
        return 0
    orders = (None, *range(1, options.orders))
    wrong = 0
    print(" | ".join(COLUMNS))
    for name in options.models or NAMES:
        for target in options.target:
            started = time.process_time()
            cells: tuple[object, ...]
            try:
                found = compare(name, target, options.requantise, options.inputs, orders)
                differences, counts = found.differences, (found.launches, f"{found.integers:,}")
            except CompileError as error:
                differences, counts = [str(error)], ("-", "-")
            result = f"{len(differences)} differences" if differences else "exact"
            seconds = f"{time.process_time() - started:.1f}"
            cells = options.requantise, options.inputs, len(orders), *counts, seconds, result
            print(" | ".join([f"{name:<24}", f"{target:<11}", *map(str, cells)]), flush=True)
            for difference in differences[:SHOWN]:
                print(f"    {difference}")
            wrong += bool(differences)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
