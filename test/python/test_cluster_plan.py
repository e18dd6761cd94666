"""What passes of a plan must keep: the network's meaning, under every choice that they can make."""

from random import Random

import numpy as np
import pytest
from layer_graphs import NETWORKS, LayerGraph, resnet50
from layered_networks import LayeredNetwork
from piece_functions import entry, reference
from te_functions import evaluate
from xdsl.dialects.builtin import ArrayAttr, ModuleOp
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from vtac.dialects.graph import (
    SPLIT,
    CompositeOp,
    GroupOp,
    InstanceOp,
    SplitAttr,
    TensorAssembleOp,
    TensorWindowOp,
)
from vtac.dialects.graph.pieces import units_of
from vtac.dialects.target import ClusterTarget, Target
from vtac.dialects.te import CallOp
from vtac.lowering.graph_to_te import GraphToTePass
from vtac.passes.graph.cluster.buffers import FunctionBuffers
from vtac.passes.graph.cluster.graph_bind_cores import GraphBindCoresPass
from vtac.passes.graph.cluster.graph_group_layers import GraphGroupLayersPass
from vtac.passes.graph.cluster.graph_inline_instances import GraphInlineInstancesPass
from vtac.passes.graph.cluster.graph_instantiate import GraphInstantiatePass, factors_of_group
from vtac.passes.graph.cluster.graph_order_instances import GraphOrderInstancesPass
from vtac.passes.graph.cluster.graph_place_tensors import GraphPlaceTensorsPass
from vtac.passes.graph.cluster.graph_plan_instances import GraphPlanInstancesPass, verify_plan
from vtac.passes.graph.cluster.instance_graph import InstanceGraph
from vtac.passes.graph.cluster.layers import is_layer, layers_of, planned_functions
from vtac.passes.te.insert_copies import InsertCopiesPass

CORES = {
    "1x16": Target.named("chisel-pynq"),
    "2x16": Target.named("sim").replace(log_batch=1),
    "4x8": Target.named("sim").replace(log_batch=2, log_block=3),
}


def cluster_of(random: Random, core: str) -> ClusterTarget:
    preset = ClusterTarget.named("cluster-8")
    return preset.replace(
        core=CORES[core],
        cores=random.choice([1, 2, 3, 4, 8]),
        gb_bytes=random.choice([4, 16, 64]) << 10,
    )


def random_splits(random: Random, module: ModuleOp) -> None:
    """Any factors that the outputs of a group have pieces for."""
    for group in entry(module).body.block.ops:
        if isinstance(group, GroupOp):
            chosen = []
            for name in ("n", "h"):
                most = min(units_of(value, name) for value in group.yielded)
                factor = random.randint(1, most)
                if factor > 1:
                    chosen.append(SplitAttr(name, factor, 1))
            group.attributes[SPLIT] = ArrayAttr(chosen)


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("seed", range(24))
def test_every_plan_means_the_network(core: str, seed: int) -> None:
    """Random networks, groups, factors and orders: the integers stay the same, bit for bit."""
    random = Random(f"{core} {seed}")
    network = LayeredNetwork(random, cluster_of(random, core))
    module = network.build(random.randint(2, 9))
    f = network.f
    how = ("random", "paper", "cost")[seed % 3]
    stage = random.choice([0, 1024])
    if how != "cost":
        most = random.choice([1, 3, 1 << 20])
        f.apply(module, [lambda: GraphGroupLayersPass(stage=stage, max_groups=most)])
    if how == "random":
        random_splits(random, module)
    else:
        f.apply(module, [lambda: GraphPlanInstancesPass(how)])
    f.apply(module, [GraphInstantiatePass])
    check(network, module)
    order = random.choice(["depth", "breadth", "best"])
    f.apply(module, [lambda: GraphOrderInstancesPass(order)])
    check(network, module)
    f.apply(module, [GraphBindCoresPass, GraphPlaceTensorsPass])
    check(network, module)


def check(network: LayeredNetwork, module: ModuleOp) -> None:
    for found, value in zip(reference(network.f, module), network.f.results, strict=True):
        np.testing.assert_array_equal(found, network.f.values[value])


def test_random_plans_split() -> None:
    """The test above is about something: many of its plans have instances of several pieces."""
    split = 0
    for seed in range(0, 24, 3):
        random = Random(f"1x16 {seed}")
        network = LayeredNetwork(random, cluster_of(random, "1x16"))
        module = network.build(random.randint(2, 9))
        network.f.apply(module, [lambda: GraphGroupLayersPass(stage=0)])
        random_splits(random, module)
        network.f.apply(module, [GraphInstantiatePass])
        ops = list(entry(module).body.block.ops)
        split += sum(isinstance(op, InstanceOp) and op.parts.value.data > 1 for op in ops)
    assert split > 20


def planned(module: ModuleOp, *passes: object) -> tuple[ModuleOp, list[InstanceOp]]:
    from vtac.dialects.context import VtacContext

    ctx = VtacContext()
    for each in passes:
        each.apply(ctx, module)  # type: ignore[attr-defined]
        module.verify()
    ops = entry(module).body.block.ops
    return module, [op for op in ops if isinstance(op, InstanceOp)]


def test_resnet50_becomes_its_stages() -> None:
    """The paper's setting: eight images, of which the first stage fits one; factors 8, 4, 2, 1.

    A group takes the block that halves the image with it: while that block runs, its large input is
    alive. So each group ends with the tensors of the next stage.
    """
    module = resnet50(LayerGraph(), 8, stem=False, classes=0)
    planned(
        module,
        GraphGroupLayersPass(mode="paper", rows=False),
        GraphPlanInstancesPass("paper"),
    )
    groups = [op for op in entry(module).body.block.ops if isinstance(op, GroupOp)]
    assert [factors_of_group(group).get("n", 1) for group in groups] == [8, 4, 2, 1]
    counts = [sum(map(is_layer, group.body.block.ops)) for group in groups]
    assert counts == [14, 13, 19, 6]


def test_the_papers_order() -> None:
    """Two instances of a stage, then the one of the next stage that gathers them, and so on."""
    module = resnet50(LayerGraph(), 8, stem=False, classes=0)
    _, instances = planned(
        module,
        GraphGroupLayersPass(mode="paper", rows=False),
        GraphPlanInstancesPass("paper"),
        GraphInstantiatePass(),
        GraphOrderInstancesPass("depth"),
    )
    order = "".join("abcd"[int(op.group.data[-1])] for op in instances)
    assert order == "aabaabcaabaabcd"


@pytest.mark.parametrize("network", ["resnet18", "mobilenet_v2", "inception"])
@pytest.mark.parametrize("order", ["depth", "best"])
def test_instances_read_pieces_in_place(network: str, order: str) -> None:
    """Orders are topological, and no piece has to be copied: each lies in one tensor."""
    module, instances = planned(
        NETWORKS[network](LayerGraph(), 4),
        GraphPlanInstancesPass(),
        GraphInstantiatePass(),
        GraphOrderInstancesPass(order),
    )
    ((function, _),) = planned_functions(module)
    if network != "inception":  # where one tensor is joined to two others
        assert not FunctionBuffers.of(function).copies
    assert instances
    for op in entry(module).body.block.ops:
        if isinstance(op, TensorAssembleOp):
            inside = [use for use in op.result.uses if isinstance(use.operation, TensorAssembleOp)]
            assert len(inside) <= 1


def test_edges_that_do_not_meet() -> None:
    """A late instance of one image depends on its own early instance alone."""
    g = LayerGraph("cluster-2")
    x = g.input(4, 16, 6, 6)
    module = g.finish(g.conv(g.conv(x, 16, 3), 16, 3))
    planned(module, GraphGroupLayersPass(max_groups=1))
    for group in entry(module).body.block.ops:
        if isinstance(group, GroupOp):
            group.attributes[SPLIT] = ArrayAttr([SplitAttr("n", 4, 1)])
    planned(module, GraphInstantiatePass())
    graph = InstanceGraph(entry(module))
    late = graph.nodes[4:]
    assert [list(graph.producers[node]) for node in late] == [[node] for node in graph.nodes[:4]]
    for group in (g for g in graph.nodes[:4]):
        assert list(graph.producers[group]) == []


def test_rows_depend_on_neighbours() -> None:
    """A strip depends on the strips that its halo reaches, and its windows ask for no more."""
    g = LayerGraph("cluster-2")
    x = g.input(1, 16, 12, 6)
    module = g.finish(g.conv(g.conv(x, 16, 3), 16, 3))
    planned(module, GraphGroupLayersPass(max_groups=1))
    for group in entry(module).body.block.ops:
        if isinstance(group, GroupOp):
            group.attributes[SPLIT] = ArrayAttr([SplitAttr("h", 4, 1)])
    planned(module, GraphInstantiatePass())
    graph = InstanceGraph(entry(module))
    early, late = graph.nodes[:4], graph.nodes[4:]
    met = [[early.index(p) for p in graph.producers[node]] for node in late]
    assert met == [[0, 1], [0, 1, 2], [1, 2, 3], [2, 3]]
    windows = [op for node in late for op in node.body.block.ops if isinstance(op, TensorWindowOp)]
    assert [w.rectangle[2] for w in windows] == [(0, 4), (2, 7), (5, 10), (8, 12)]


def test_a_plan_by_hand_is_checked() -> None:
    """A factor beyond the number of pieces is refused."""
    g = LayerGraph("cluster-2")
    module = g.finish(g.conv(g.input(4, 16, 6, 6), 16, 3))
    planned(module, GraphGroupLayersPass())
    function = entry(module)
    (group,) = (op for op in function.body.block.ops if isinstance(op, GroupOp))
    group.attributes[SPLIT] = ArrayAttr([SplitAttr("n", 5, 1)])
    with pytest.raises(VerifyException, match="has 4 pieces, not 5"):
        verify_plan(function)


def test_plans_by_cost_keep_tensors_inside() -> None:
    """Eight images of MobileNetV2: a twentieth of what goes to DDR layer by layer remains."""

    def spilled(*passes: object) -> int:
        module, _ = planned(
            NETWORKS["mobilenet_v2"](LayerGraph(), 8), *passes, GraphPlaceTensorsPass()
        )
        ((function, _),) = planned_functions(module)
        buffers = FunctionBuffers.of(function)

        def goes_out(root: SSAValue) -> bool:
            owner = root.owner
            places = owner.attributes["graph.places"]  # type: ignore[union-attr]
            return places.data[list(owner.results).index(root)].offset is None  # type: ignore[union-attr]

        inner = [b for b in buffers.by_root.values() if not b.outside]
        return sum(b.size for b in inner if goes_out(b.tensor))

    plan = GraphPlanInstancesPass()
    chain = plan, GraphInstantiatePass(), GraphOrderInstancesPass()
    assert spilled(*chain) * 20 < spilled()


def test_layers_of_instances_are_the_same_kernels() -> None:
    """Instances of one group have the same layers, so that kernels are shared."""
    module, instances = planned(
        NETWORKS["resnet18"](LayerGraph(), 8),
        GraphPlanInstancesPass(),
        GraphInstantiatePass(),
        GraphOrderInstancesPass(),
    )
    assert any(op.parts.value.data == 8 for op in instances)
    for op in layers_of(entry(module)):
        assert isinstance(op, CompositeOp)


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("seed", range(4))
def test_plans_reach_te(core: str, seed: int) -> None:
    """Instances, inlined, become kernels on windows: exact, and each piece is written in place."""
    random = Random(f"te {core} {seed}")
    network = LayeredNetwork(random, cluster_of(random, core))
    module = network.build(random.randint(2, 6))
    f = network.f
    f.apply(module, [lambda: GraphGroupLayersPass(stage=0)])
    random_splits(random, module)
    f.apply(module, [GraphInstantiatePass, GraphOrderInstancesPass])
    copies = sum(map(len, FunctionBuffers.of(entry(module)).copies.values()))
    f.apply(module, [GraphBindCoresPass, GraphPlaceTensorsPass, GraphInlineInstancesPass])
    check(network, module)
    f.apply(module, [GraphToTePass])
    calls = count_calls(module)
    f.check(module, lambda m, inputs: evaluate(f.ctx, m, inputs), 2)
    f.apply(module, [InsertCopiesPass])
    assert count_calls(module) - calls <= copies
    f.check(module, lambda m, inputs: evaluate(f.ctx, m, inputs), 2)


def count_calls(module: ModuleOp) -> int:
    return sum(isinstance(op, CallOp) for op in module.walk())
