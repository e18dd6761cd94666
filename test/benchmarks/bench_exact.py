"""Whether networks compute the integers that are written down.

``python test/benchmarks/bench_exact.py [NETWORK]...`` compiles each network of bench_networks.py
for each target (a program that the hazard checker refuses ends it there), runs it on the simulator
on some inputs, in several orders of the machine's modules, and compares all that enters and leaves
the accelerator with the NumPy reference (docs/quantisation.md as code). It prints a row per network
and target, and at the end what was compared in all; a difference, or a launch that could not be
compared, makes the exit status 1. Trained networks that are absent (``../shared/models``) are
skipped, and the end says so. The networks that come with a package have pictures of 224 x 224,
which take minutes each.
"""

import argparse
import gc
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from bench_networks import EVERY, Network, network
from exact_integers import Comparison, Oracle
from trained_models import NAMES, SHARED, TARGETS

from vtac.dialects.errors import CompileError
from vtac.passes.graph.quantise_options import Requantise
from vtac.tools.driver.compiler import compile_model

COLUMNS = (
    "network", "target", "requantise", "inputs", "orders", "launches", "integers", "seconds",
    "result",
)  # fmt: skip
SHOWN = 5
"""So many differences are printed."""


def compare(
    given: Network, target: str, requantise: Requantise, count: int, orders: Sequence[int | None]
) -> Comparison:
    """Compile a network and compare it on ``count`` inputs."""
    oracle = Oracle([{given.entry: x} for x in given.inputs[:count]])
    samples = {given.entry: given.samples}
    module = compile_model(
        given.path, target, samples, requantise=requantise, observe=oracle.observe
    )
    return oracle.judge(module, orders)


def main() -> int:
    """The table; the status of the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("networks", nargs="*", choices=[*EVERY, []], metavar="NETWORK")
    parser.add_argument("--target", nargs="*", default=TARGETS)
    parser.add_argument("--requantise", choices=get_args(Requantise), default="auto")
    parser.add_argument("--inputs", type=int, default=2, help="compare on so many")
    parser.add_argument("--orders", type=int, default=3, help="one is the program's own")
    options = parser.parse_args()
    orders = (None, *range(1, options.orders))
    wrong = compared = launches = integers = 0
    absent = [] if SHARED.is_dir() else list(NAMES)
    print(" | ".join(COLUMNS))
    for name in [n for n in options.networks or EVERY if n not in absent]:
        with tempfile.TemporaryDirectory() as folder:
            given = network(name, Path(folder), options.inputs)
            for target in options.target:
                started = time.process_time()
                found = Comparison()
                try:
                    found = compare(given, target, options.requantise, options.inputs, orders)
                except CompileError as error:
                    found.differences.append(str(error))
                differences = found.differences
                result = f"{len(differences)} differences" if differences else "exact"
                seconds = f"{time.process_time() - started:.1f}"
                counts = found.launches, f"{found.integers:,}"
                cells = options.requantise, options.inputs, len(orders), *counts, seconds, result
                print(" | ".join([f"{name:<26}", f"{target:<11}", *map(str, cells)]), flush=True)
                for difference in differences[:SHOWN]:
                    print(f"    {difference}")
                compared, wrong = compared + 1, wrong + bool(differences)
                launches += found.launches * options.inputs * len(orders)
                integers += found.integers
                gc.collect()
    if absent:
        print(f"not compared, since {SHARED} is absent: {', '.join(absent)}")
    print(
        f"{compared} pairs of a network and a target, {launches:,} launches, {integers:,} integers:"
        f" {compared - wrong} exact, {wrong} not"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
