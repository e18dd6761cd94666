"""Cycles of a network on clusters of 1, 2, 4 and 8 cores, beside one core alone: a table.

One row per cluster and step of the compiler, each step with those above it: layers in parts on the
cores, with semaphores between them; intermediates in the global buffer; weights brought by the DMA.
Columns: cycles, the ratio to one core, MB to and from DDR and the global buffer, and the share of
time in which the compute modules work. Run: ``python FILE [resnet18|mnist8|...] --cores 1 2 4 8``;
small networks are those of `trained_models`. ``--page FILE`` replaces the table in a page.
"""

import argparse
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import resnet18
from bench_calibration import replace_table

import vtac
from vtac.dialects.target import ClusterTarget
from vtac.dialects.vta.cluster_program import BinaryCluster
from vtac.passes.pipeline import Pipeline
from vtac.runtime.vta_program import from_function
from vtac.sim.cluster import ClusterReport, estimate_cluster

MARKS = "<!-- bench_cluster -->", "<!-- end of bench_cluster -->"
"""What encloses the table in a page."""

STEPS: Mapping[str, Callable[[Pipeline], Pipeline]] = {
    "layers in parts": lambda pipeline: pipeline.without("graph-place-tensors").with_options(
        "vta-stage-weights", most=0
    ),
    "+ intermediates in the global buffer": lambda pipeline: pipeline.with_options(
        "vta-stage-weights", most=0
    ),
    "+ weights by the DMA": lambda pipeline: pipeline,
}
"""What is taken away from the pipeline for each step."""

SUPPORT = Path(__file__).parent.parent / "support"


def network(name: str) -> tuple[bytes | Path, np.ndarray]:
    """A model, and samples of its input."""
    if name == "resnet18":
        return resnet18.build().SerializeToString(), resnet18.images(2)
    sys.path.insert(0, str(SUPPORT))
    from trained_models import model_path, samples_and_inputs

    return Path(model_path(name)), samples_and_inputs(name)[0]


def reports(module: vtac.Module) -> list[ClusterReport]:
    """The clock's report of each program."""
    found = []
    for function in module.package.functions.values():
        machine = module.package.target
        assert isinstance(machine, ClusterTarget)
        program = from_function(function, machine, module.package.blobs, "bench")
        assert isinstance(program, BinaryCluster)
        found.append(estimate_cluster(machine, program.relocate(program.place())))
    return found


def row(cores: int, step: str, alone: int, found: Sequence[ClusterReport]) -> str:
    """The row of a cluster and a step."""
    cycles = sum(report.cycles for report in found)
    ddr = sum(report.total_ddr_bytes for report in found) / 1e6
    gb = sum(sum(unit.values()) for report in found for unit in report.gb_bytes) / 1e6
    busy = sum(r.busy(unit) * r.cycles for r in found for unit in range(cores)) / (cycles * cores)
    ratio = f"{alone / cycles:.2f}"
    return f"| {cores} | {step} | {cycles:,} | {ratio} | {ddr:.1f} | {gb:.1f} | {busy:.0%} |"


def table(name: str, counts: Sequence[int]) -> Iterator[str]:
    """The lines of the table in Markdown."""
    model, samples = network(name)
    entry = onnx.load_from_string(model) if isinstance(model, bytes) else onnx.load(model)
    feeds = {entry.graph.input[0].name: samples}
    alone = vtac.compile(model, "chisel-pynq", feeds).profile().cycles
    yield "| cores | | cycles | times one core | MB of DDR | MB of GB | compute modules work |"
    yield "| ---: | --- | ---: | ---: | ---: | ---: | ---: |"
    yield f"| | one core alone | {alone:,} | 1.00 | | | |"
    for cores in counts:
        machine = ClusterTarget.named("cluster-8").replace(cores=cores)
        for step, pipeline in STEPS.items():
            module = vtac.compile(model, machine, feeds, pipeline=pipeline)
            yield row(cores, step, alone, reports(module))


def main() -> None:
    """Print the table, or put it into a page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("network", nargs="?", default="resnet18")
    parser.add_argument("--cores", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--page", type=Path, metavar="FILE", help="put the table into this page")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    lines = []
    for line in table(args.network, args.cores):
        print(line, flush=True)
        lines.append(f"{line}\n")
    if args.page:
        replace_table(args.page, MARKS, "".join(lines))


if __name__ == "__main__":
    main()
