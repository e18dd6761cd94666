"""Random whole networks for clusters, and what they are judged by.

A network has residual sums, concatenations, depthwise and strided convolutions, poolings, odd
extents, batches of 1 to 9, and now and then an operator that only the host has, so that there are
several regions. It is compiled for one core and for clusters of several sizes by different plans;
all must give the same integers, in program order and in adversarial ones, and the integers of the
NumPy reference where nothing runs on the host.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

import numpy as np
import onnx
from cluster_mutants import without_one
from cluster_programs import words_of
from float_networks import FloatNetwork
from graph_reference import run_reference
from xdsl.dialects.builtin import ModuleOp

import vtac
from vtac.dialects.context import VtacContext
from vtac.dialects.target import ClusterTarget, Target
from vtac.dialects.vta.cluster_program import BinaryCluster
from vtac.passes.pipeline import Pipeline
from vtac.runtime.vta_program import from_function, resources_of
from vtac.sim.cluster import check_cluster, decode_cluster
from vtac.tools.commands.cluster_simulation import streams_of_program
from vtac.tools.driver.options import CompileOptions
from vtac.tools.driver.prepared_model import PreparedModel

CORES = (1, 2, 3, 4, 8)
ORDERS = (None, 1, 2, 3)
"""Which ready module goes next: the program's own order, and three adversarial ones."""

MACHINES = {
    "chisel": Target.named("chisel-pynq"),
    "1x16": Target.named("pynq"),
    "2x16": Target.named("chisel-pynq").replace(log_batch=1),
    "4x8": Target.named("sim").replace(log_batch=2, log_block=3),
}
BUFFERS = (64 << 10, 96 << 10, 256 << 10)


def _planned(passes: str) -> Callable[[Pipeline], Pipeline]:
    """A change of the pipeline: these passes of a plan in place of those that it has."""

    def change(pipeline: Pipeline) -> Pipeline:
        for name in ("graph-group-layers", "graph-plan-instances", "graph-instantiate"):
            if any(spec.name == name for spec in pipeline.passes):
                pipeline = pipeline.without(name)
        if any(spec.name == "graph-order-instances" for spec in pipeline.passes):
            return pipeline.replace("graph-order-instances", passes)
        pipeline = pipeline.before("graph-bind-cores", passes)
        return pipeline.before("graph-to-te", "graph-inline-instances")

    return change


_PAPER = 'graph-group-layers{stage=0},graph-plan-instances{mode="paper"},graph-instantiate'
PLANS: Mapping[str, Callable[[Pipeline], Pipeline]] = {
    "default": lambda pipeline: pipeline,
    "paper, depth first": _planned(f'{_PAPER},graph-order-instances{{order="depth"}}'),
    "paper, breadth first": _planned(f'{_PAPER},graph-order-instances{{order="breadth"}}'),
    "by cost": _planned("graph-plan-instances,graph-instantiate,graph-order-instances"),
    "in DDR": lambda pipeline: pipeline.with_options("graph-place-tensors", buffer=False),
    "paper's binding": lambda pipeline: pipeline.with_options("graph-bind-cores", mode="paper"),
}


class ClusterNetwork(FloatNetwork):
    """A `FloatNetwork` of wider layers."""

    def layer(self, x: str, out: int, kernel: int, stride: int = 1, group: int = 1) -> str:
        """A convolution whose pads keep the extents, up to its stride, and mostly a relu."""
        n, channels, *extents = self.shapes[x]
        pad = kernel // 2
        shape = (n, out, *[(extent + 2 * pad - kernel) // stride + 1 for extent in extents])
        found = self.add(
            "Conv",
            [x, self.weight(out, channels // group, kernel, kernel), self.weight(out)],
            shape,
            group=group,
            strides=[stride] * 2,
            pads=[pad] * 4,
            kernel_shape=[kernel] * 2,
        )
        return self.relu(found) if self.random.random() < 0.7 else found

    def plain(self, x: str) -> str:
        pick = self.random.choice
        return self.layer(x, pick([8, 16, 24, 33, 48]), pick([1, 3, 5]), pick([1, 1, 2]))

    def depthwise(self, x: str) -> str:
        channels = self.shapes[x][1]
        return self.layer(x, channels, 3, self.random.choice([1, 2]), channels)

    def residual(self, x: str) -> str:
        channels, pick = self.shapes[x][1], self.random.choice
        inner = self.layer(self.layer(x, pick([8, 16, 32]), pick([1, 3])), channels, 3)
        return self.add("Add", [inner, x], self.shapes[x])

    def branches(self, x: str) -> str:
        pick = self.random.choice
        parts = [self.layer(x, pick([16, 16, 32, 8]), pick([1, 3])) for _ in range(pick([2, 3]))]
        n, _, *extents = self.shapes[x]
        channels = sum(self.shapes[part][1] for part in parts)
        return self.add("Concat", parts, (n, channels, *extents), axis=1)

    def pooled(self, x: str) -> str:
        n, channels, *extents = self.shapes[x]
        shape = (n, channels, *[(extent + 1) // 2 for extent in extents])
        window = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
        return self.add("MaxPool", [x], shape, **window)

    def dense(self, x: str) -> str:
        flat = self.flatten(x)
        n, features = self.shapes[flat]
        out = self.random.choice([7, 20, 40])
        return self.add("Gemm", [flat, self.weight(out, features)], (n, out), transB=1)


def cluster_network(seed: int) -> tuple[ClusterNetwork, onnx.ModelProto]:
    """A random network, and its model."""
    random = Random(seed)
    batch = random.choice([1, 1, 2, 3, 4, 5, 8, 9])
    extents = [random.randint(4, 8 if batch > 3 else 15) for _ in range(2)]
    net = ClusterNetwork((batch, random.choice([3, 16, 20]), *extents), seed)
    x = net.plain("x")
    kinds = [net.plain, net.residual, net.residual, net.branches, net.depthwise, net.pooled]
    for _ in range(random.randint(1, 4)):
        if min(net.shapes[x][2:]) < 3:
            break
        x = random.choice(kinds)(x)
        if random.random() < 0.1:
            x = net.host(x)
    if random.random() < 0.4 and np.prod(net.shapes[x][1:]) < 4000:
        x = net.dense(x)
    return net, net.model(x)


@dataclass(frozen=True)
class Case:
    """A network on one cluster by one plan."""

    seed: int
    machine: ClusterTarget
    plan: str

    def __str__(self) -> str:
        """How to find it again."""
        return f"network {self.seed}, {self.plan}, {self.machine}"


def cases_of(seed: int, counts: Sequence[int]) -> list[Case]:
    """A case for each number of cores."""
    random = Random(f"cases {seed}")
    core = MACHINES[random.choice(sorted(MACHINES))]
    return [
        Case(
            seed,
            ClusterTarget.named("cluster-8").replace(
                core=core,
                cores=count,
                gb_bytes=random.choice(BUFFERS),
                dma=random.random() < 0.8,
            ),
            random.choice(sorted(PLANS)),
        )
        for count in counts
    ]


def check_network(seed: int, counts: Sequence[int]) -> int:
    """Compile and compare a network for so many cores each; the number of programs checked."""
    net, model = cluster_network(seed)
    data = np.concatenate([net.input(), net.input()])
    reference: dict[str, np.ndarray] = {}

    def evaluate(level: str, module: ModuleOp, ctx: VtacContext) -> None:
        if level == "quantised" and not reference and "Sin" not in str(module):
            reference.update(run_reference(module, {"x": data[: len(data) // 2]}, ctx.resources))

    cases = cases_of(seed, counts)
    criteria = vtac.Criteria(compare=False)
    options = CompileOptions(criteria=criteria, observe=evaluate, trials=False)
    prepared = PreparedModel(model, cases[0].machine, {"x": data}, options)
    feeds = {"x": data[: len(data) // 2]}
    single = prepared.compile(cases[0].machine.core)
    (expected,) = single.run(feeds).values()
    for integers in reference.values():
        np.testing.assert_array_equal(expected, integers, f"one core, network {seed}")
    checked = 0
    for case in cases:
        module = prepared.compile(case.machine, PLANS[case.plan])
        assert len(module.package.functions) == len(single.package.functions), str(case)
        for order in ORDERS:
            (found,) = module.run(feeds, order_seed=order).values()
            np.testing.assert_array_equal(found, expected, f"{case}, order {order}")
        checked += len(module.package.functions)
    return checked


def check_mutants(seed: int, cores: int, most: int) -> int:
    """Take away every token, wait and signal, one at a time, of a network's programs on a cluster.

    The checker must find each. most: programs with more of these are skipped. Returns how many were
    taken away.
    """
    net, model = cluster_network(seed)
    data, (case,) = np.concatenate([net.input(), net.input()]), cases_of(seed, (cores,))
    criteria = vtac.Criteria(compare=False)
    module = vtac.compile(model, case.machine, {"x": data}, criteria=criteria, trials=False)
    package, found = module.package, 0
    assert package.target is not None
    for name, function in package.functions.items():
        program = from_function(function, package.target, package.blobs, name)
        assert isinstance(program, BinaryCluster)
        placed = streams_of_program(program, resources_of(function, package.blobs, name))
        decoded = decode_cluster(placed.cluster, placed.streams, None)
        mutants = list(without_one(placed.cluster, [list(stream) for stream in decoded.streams]))
        if len(mutants) > most:
            continue
        assert check_cluster(placed.cluster, placed.streams, placed.image).ok
        for what, changed in mutants:
            words = words_of(placed.cluster, changed)
            assert not check_cluster(placed.cluster, words, placed.image).ok, (str(case), what)
        found += len(mutants)
    return found
