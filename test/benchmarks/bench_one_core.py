"""What the planner gains on one core, network by network: a table in Markdown.

``python FILE`` compiles networks for ``chisel-pynq`` as the compiler does by default, and without
each step of the planner; cycles are of the exact clock. ``--network`` chooses some. Concatenations
and slices of whole blocks have no instructions, so there is nothing to leave out.

- *early weights*: ``vta-order-instructions`` moves loads of later layers in front of waits, and
  ``vta-split-loads`` cuts long ones;
- *traffic-aware tiles*: ``te-schedule`` counts what each tile reads at the rate of the port. Left
  out, tiles and the order of instructions are those of a machine whose port is four times as wide;
- *cluster-1*: the same core with a global buffer of 2 MiB and a copy engine.
"""

import argparse
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import cluster_networks
from cluster_steps import program_of
from trained_models import model_path, samples_and_inputs

import vtac
from vtac.dialects.target import Machine, machine_of
from vtac.dialects.vta.cluster_program import BinaryCluster
from vtac.passes.pipeline import Pipeline
from vtac.sim.cluster import estimate_cluster
from vtac.sim.timing import estimate
from vtac.tools.driver.options import CompileOptions
from vtac.tools.driver.prepared_model import PreparedModel

CORE = "chisel-pynq"
WIDER = 4
"""How many times as wide the port is for which tiles are chosen that do not mind traffic."""
TRAINED = ("mnist8", "mlperf_kws_qdq", "mlperf_resnet8_qdq", "mobilenetv1_025_128_float")

Change = Callable[[Pipeline], Pipeline]


def inception() -> onnx.ModelProto:
    """The fourth module of GoogLeNet, and a convolution behind it."""
    g = cluster_networks.Layers((1, 480, 14, 14))
    a, b, c, d, e, f = cluster_networks.INCEPTION[3]
    branches = [
        g.conv("1", "image", a),
        g.conv("3", g.conv("3r", "image", b), c, 3),
        g.conv("5", g.conv("5r", "image", d), e, 5),
        g.conv("p", g.pool("pool", "image", 3, 1, 1), f),
    ]
    joined = g.node("Concat", "concat", branches, (1, a + c + e + f, 14, 14), axis=1)
    return g.model(g.conv("behind", joined, 128))


BUILT = {"inception": cluster_networks.Network("a module of GoogLeNet", inception)}
BUILT |= cluster_networks.NETWORKS


def as_it_is(pipeline: Pipeline) -> Pipeline:
    """The default pipeline."""
    return pipeline


def without(*names: str) -> Change:
    """The pipeline without some passes."""

    def change(pipeline: Pipeline) -> Pipeline:
        for name in names:
            pipeline = pipeline.without(name)
        return pipeline

    return change


@dataclass(frozen=True)
class Variant:
    """How a network is compiled. machine: for which one; it is timed on ``runs_on``."""

    machine: Machine
    change: Change = as_it_is
    runs_on: Machine | None = None


def variants() -> Mapping[str, Variant]:
    """The columns of the table."""
    core = machine_of(CORE)
    wide = core.replace(port_bytes=WIDER * core.timing.port_bytes)
    return {
        "default": Variant(core),
        "no early weights": Variant(core, without("vta-order-instructions", "vta-split-loads")),
        "tiles that ignore traffic": Variant(wide, runs_on=core),
        "cluster-1": Variant(machine_of("cluster-1")),
    }


def prepared(name: str) -> PreparedModel:
    """A network, calibrated."""
    options = CompileOptions(criteria=vtac.Criteria(compare=False))
    if name in TRAINED:
        samples, _ = samples_and_inputs(name)
        entry = onnx.load(model_path(name)).graph.input[0].name
        return PreparedModel(model_path(name), CORE, {entry: samples[:16]}, options)
    network = BUILT[name]
    model = network.build()
    return PreparedModel(model, CORE, {"image": network.samples(model, 2)}, options)


def cycles(model: PreparedModel, variant: Variant) -> int:
    """Cycles of all launches of a network, compiled in one way."""
    module, found = model.compile(variant.machine, variant.change), 0
    for name in module.package.functions:
        program = program_of(module, name)
        words = program.relocate(program.place())
        if isinstance(program, BinaryCluster):
            found += estimate_cluster(program.target, words).cycles
        else:
            found += estimate(variant.runs_on or program.target, np.asarray(words)).cycles
    return found


def main() -> None:
    """Print the table, line by line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    known = [*TRAINED, *BUILT]
    parser.add_argument(
        "--network", nargs="+", choices=known, default=[*TRAINED, "inception"], metavar="NAME"
    )
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    sys.setrecursionlimit(10_000)
    ways = variants()
    print(f"| | {' | '.join(ways)} |\n| --- |{' ---: |' * len(ways)}")
    for name in args.network:
        model = prepared(name)
        found = [cycles(model, variant) for variant in ways.values()]
        default = found[0]
        cells = [f"{n:,}" + ("" if n is default else f" ({n / default - 1:+.1%})") for n in found]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
