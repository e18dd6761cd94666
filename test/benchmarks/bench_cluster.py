"""Cycles of a network on clusters of 1, 2, 4 and 8 cores, beside one core alone.

``python test/benchmarks/bench_cluster.py [resnet18|mnist8|...] [--cores 1 2 4 8]``: one line per
cluster with cycles, the ratio to one core, MB to and from DDR and GB, and the share of time in
which the compute modules work. Small networks are those of `trained_models`.
"""

import argparse
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import resnet18

import vtac
from vtac.dialects.target import ClusterTarget
from vtac.dialects.vta.cluster_program import BinaryCluster
from vtac.runtime.vta_program import from_function
from vtac.sim.cluster import ClusterReport, estimate_cluster

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


def line(cores: int, alone: int, found: Sequence[ClusterReport]) -> str:
    """What is printed for a cluster."""
    cycles = sum(report.cycles for report in found)
    ddr = sum(report.total_ddr_bytes for report in found) / 1e6
    gb = sum(sum(unit.values()) for report in found for unit in report.gb_bytes) / 1e6
    busy = sum(r.busy(unit) * r.cycles for r in found for unit in range(cores)) / (cycles * cores)
    moved = f"DDR {ddr:.1f} MB, GB {gb:.1f} MB"
    return f"{cores} cores: {cycles:,} cycles, {alone / cycles:.2f} x, {moved}, {busy:.0%} busy"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("network", nargs="?", default="resnet18")
    parser.add_argument("--cores", type=int, nargs="+", default=[1, 2, 4, 8])
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    model, samples = network(args.network)
    entry = onnx.load_from_string(model) if isinstance(model, bytes) else onnx.load(model)
    feeds = {entry.graph.input[0].name: samples}
    alone = vtac.compile(model, "chisel-pynq", feeds).profile().cycles
    print(f"one core: {alone:,} cycles")
    for cores in args.cores:
        machine = ClusterTarget.named("cluster-8").replace(cores=cores)
        print(line(cores, alone, reports(vtac.compile(model, machine, feeds))), flush=True)


if __name__ == "__main__":
    main()
