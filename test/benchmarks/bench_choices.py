"""What choices outside the schedule space gain: lanes, and passes over the graph.

- ``lanes``: kernels of `flextensor_kernels` with each of the cheapest lanes by formula of their
  largest product (``te-pack-lanes{ranks=...}``), by the clock, default schedules.
- ``graph``: networks of ``../shared/models`` without one optional pass, by the clock: the host
  parts are not counted, so passes that move work to the accelerator may look like a loss.
- ``forms``: what the forms of epilogues cost for an element, by the clock (`epilogue_tables`).
- ``epilogues``: networks of `bench_networks` without one mechanism of epilogues, and without all.

``--page FILE`` puts the last two tables between their marks in a page, ``--records FILE`` keeps the
cycles of the last, so that a run goes on where it was interrupted.
Run: ``python FILE [lanes] [graph] [forms] [epilogues] [--networks NAME ...] [--kernels NAME ...]``.
"""

import argparse
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import bench_networks
import flextensor_kernels as flextensor
import onnx
from bench_calibration import replace_table
from epilogue_tables import Mechanisms, forms, page_marks
from trained_models import model_path, samples_and_inputs

import vtac
from vtac import te
from vtac.dialects.context import VtacContext
from vtac.dialects.errors import CompileError
from vtac.dialects.target import Target
from vtac.lowering.python_to_te.module import module_of
from vtac.tools.driver.discovery import OurPasses
from vtac.tools.driver.pipelines import built_passes
from vtac.tools.tensor_expressions.compiler import PIPELINE
from vtac.tools.tune.tasks import tasks_of

RANKS = 4
"""Choices of lanes that are tried, the cheapest by formula first."""

KERNELS: Mapping[str, tuple[str, Callable[[], te.Computed]]] = {
    "product 64 x 256 x 96": ("gemm", lambda: flextensor.gemm(64, 256, 96)),
    "product 5 x 256 x 96": ("gemm", lambda: flextensor.gemm(5, 256, 96)),
    "conv 1x1": ("conv", lambda: flextensor.conv(2, 64, 96, 14, 1)),
    "conv 3x3": ("conv", lambda: flextensor.conv(2, 32, 64, 12, 3)),
    "conv 3x3, 3 channels": ("conv", lambda: flextensor.conv(2, 3, 32, 16, 3)),
}
"""A stage whose lanes vary, and its kernel."""

PASSES = (
    "move-transposes",
    "flatten-to-conv",
    "fold-first-layer",
    "sort-channels",
    "weights-from-activations",
)
"""Passes over the graph that a network compiles without, as far as its pipeline has them."""


PAGED = ("forms", "epilogues")
"""The parts whose tables stand in docs/epilogues.md."""


def cycles_with(ranks: str, tensor: te.Computed, target: str) -> int | None:
    """Cycles of all kernels of a tensor, added up; None where there are no such lanes."""
    ctx = VtacContext()
    module = module_of((tensor,), Target.named(target), ctx)
    pipeline = PIPELINE.replace("te-pack-lanes", f'te-pack-lanes{{ranks="{ranks}"}}')
    try:
        for found in built_passes(pipeline.until("te").passes, OurPasses()):
            found.apply(ctx, module)
        return sum(task.multiplicity * task.default_cycles for task in tasks_of(module))
    except CompileError:
        return None


def lanes(kernels: list[str], target: str) -> Iterator[str]:
    """The rows of the table of lanes."""
    yield f"| kernel | {' | '.join(f'choice {rank}' for rank in range(RANKS))} |"
    yield f"| --- |{' ---: |' * RANKS}"
    for name in kernels:
        stage, make = KERNELS[name]
        found = [cycles_with(f"{stage}={rank}", make(), target) for rank in range(RANKS)]
        yield f"| {name} | {' | '.join('-' if c is None else f'{c:,}' for c in found)} |"


def network_cycles(name: str, target: str, without: str | None) -> int | None:
    """Cycles of a network on the accelerator; None where its pipeline has no such pass."""
    path, (samples, _) = model_path(name), samples_and_inputs(name)
    entry = onnx.load(path).graph.input[0].name
    change = None if without is None else (lambda pipeline: pipeline.without(without))
    try:
        compiled = vtac.compile(path, target, {entry: samples}, pipeline=change, tuning=False)
    except CompileError as error:
        if "no pass or level" in str(error):
            return None
        raise
    return compiled.profile().cycles


def graph(networks: list[str], target: str) -> Iterator[str]:
    """The rows of the table of graph passes."""
    columns = "".join(f" without {name} |" for name in PASSES)
    yield f"| network | all passes |{columns}"
    yield f"| --- | ---: |{' ---: |' * len(PASSES)}"
    for name in networks:
        found = [network_cycles(name, target, without) for without in (None, *PASSES)]
        yield f"| {name} | {' | '.join('-' if c is None else f'{c:,}' for c in found)} |"


def epilogues(networks: list[str], target: str, records: Path | None) -> Iterator[str]:
    """The rows of the table of mechanisms of epilogues, of all networks with a record."""
    mechanisms = Mechanisms(records)
    for name in networks:
        with tempfile.TemporaryDirectory() as folder:
            given = bench_networks.network(name, Path(folder), 1)
            mechanisms.measure(name, given.path, {given.entry: given.samples}, target)
    yield from mechanisms.rows(bench_networks.EVERY)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=["lanes", "graph"], metavar="PART")
    parser.add_argument("--networks", nargs="*", default=["mnist8", "mlperf_resnet8_qdq"])
    parser.add_argument("--page", type=Path, metavar="FILE", help="put tables into this page")
    parser.add_argument("--records", type=Path, metavar="FILE", help="of the part epilogues")
    parser.add_argument("--kernels", nargs="*", default=list(KERNELS), choices=list(KERNELS))
    parser.add_argument("--target", default="chisel-pynq", help="a preset (chisel-pynq)")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = {
        "lanes": lambda: lanes(given.kernels, given.target),
        "graph": lambda: graph(given.networks, given.target),
        "forms": forms,
        "epilogues": lambda: epilogues(given.networks, given.target, given.records),
    }
    for part in given.parts:
        found = []
        for row in rows[part]():
            print(row, flush=True)
            found.append(f"{row}\n")
        if given.page and part in PAGED:
            replace_table(given.page, page_marks(part), "".join(found))


if __name__ == "__main__":
    main()
