"""Staged weights lie apart from everything that is live, and are worth their copy."""

from random import Random

import pytest
from layer_graphs import NETWORKS, LayerGraph
from layered_networks import LayeredNetwork
from piece_functions import entry
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import VerifyException

from vtac.dialects.context import VtacContext
from vtac.dialects.graph import STAGED, StagedAttr
from vtac.dialects.target import ClusterTarget
from vtac.passes.graph.cluster.graph_bind_cores import GraphBindCoresPass
from vtac.passes.graph.cluster.graph_place_tensors import GraphPlaceTensorsPass
from vtac.passes.graph.cluster.graph_stage_weights import GraphStageWeightsPass, verify_staged
from vtac.passes.graph.cluster.layers import layers_of, planned_functions
from vtac.passes.graph.cluster.plan_steps import PlanSteps


def planned(module: ModuleOp) -> PlanSteps:
    for each in (
        GraphBindCoresPass(staged=True),
        GraphPlaceTensorsPass(),
        GraphStageWeightsPass(),
    ):
        each.apply(VtacContext(), module)
    ((function, cluster),) = planned_functions(module)
    return PlanSteps(function, cluster)


@pytest.mark.parametrize("seed", range(20))
def test_random_networks(seed: int) -> None:
    """The pass's verifier holds, whatever fits; without a DMA nothing is staged."""
    random = Random(seed)
    cluster = ClusterTarget.named("cluster-8").replace(
        cores=random.choice([1, 2, 8]),
        gb_bytes=random.choice([8, 32, 256]) << 10,
        dma=random.random() < 0.8,
    )
    plan = planned(LayeredNetwork(random, cluster).build(random.randint(2, 8)))
    staged = [step for step in plan.steps if plan.is_staged(step)]
    assert cluster.dma or not staged
    assert plan.bounds()[0] > 0


def test_weights_are_read_once() -> None:
    """MobileNetV2 on eight cores: nearly all weights are staged, and DDR moves a third less."""
    plan = planned(NETWORKS["mobilenet_v2"](LayerGraph()))
    staged = [step for step in plan.steps if plan.is_staged(step)]
    assert len(staged) > 0.9 * len(plan.steps)
    with_dma = sum(map(plan.ddr_bytes, plan.steps))
    for step in plan.steps:
        step.layer.attributes.pop(STAGED, None)
    assert with_dma * 1.4 < sum(map(plan.ddr_bytes, plan.steps))


def test_overwriting_is_refused() -> None:
    """Constants on top of a tensor that is live, or of each other."""
    plan = planned(NETWORKS["mobilenet_v2"](LayerGraph()))
    layers = layers_of(plan.function)
    last = layers[20].attributes[STAGED]
    assert isinstance(last, StagedAttr)
    layers[20].attributes[STAGED] = StagedAttr(0, plan.cluster.gb_bytes, -1)
    with pytest.raises(VerifyException, match="overwrites what step 20"):
        verify_staged(plan.function, plan.cluster)
    layers[20].attributes[STAGED] = StagedAttr(64, plan.cluster.gb_bytes, 19)
    with pytest.raises(VerifyException, match="does not fit before step 20"):
        verify_staged(plan.function, plan.cluster)
    layers[20].attributes[STAGED] = last
    verify_staged(plan.function, plan.cluster)
    assert entry(plan.function.parent_op()) is plan.function  # type: ignore[arg-type]
