"""Costs of layers: the whole is the sum of its ops, and parts cost at least the whole."""

from random import Random

import pytest
from integer_groups import IntegerFunction
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, SSAValue

from vtac.dialects import graph
from vtac.dialects.graph.pieces import pieces_of, units_of, whole
from vtac.dialects.target import TARGET_ATTRIBUTE, ClusterTarget, Target
from vtac.passes.graph.cluster.layer_costs import LayerCosts, PartCost, computing
from vtac.passes.graph.machine_work import alu_cycles, gemm_micro_ops, weight_bytes

CORES = {
    "1x16": Target.named("chisel-pynq"),
    "2x16": Target.named("sim").replace(log_batch=1),
    "4x8": Target.named("sim").replace(log_batch=2, log_block=3),
}


def random_layer(random: Random, core: Target) -> tuple[graph.CompositeOp, ModuleOp]:
    """A convolution, a residual sum in some, and poolings behind it, as one composite.

    The windows of the poolings reach every row, so that parts leave none out.
    """
    f = IntegerFunction(core, random.randrange(1 << 30))
    shape = (random.randint(1, 9), random.randint(1, 40), random.randint(4, 15), 8)
    inputs = [f.input(*shape), f.input(*shape)]
    body = Block(arg_types=[x.type for x in inputs])
    f.values |= {argument: f.values[x] for argument, x in zip(body.args, inputs, strict=True)}
    outside, f.block = f.block, body
    channels = shape[1]
    group = channels if random.random() < 0.3 else 1
    out = channels if group > 1 else random.randint(1, 40)
    stride = random.choice([1, 2])
    value = f.conv(body.args[0], out, (3, 3), strides=(stride, stride), pads=(1,) * 4, group=group)
    if out == channels and stride == 1 and random.random() < 0.5:
        value = f.add(value, f.shift_left(body.args[1], [3] * out))
    value = f.requantize(value)
    for _ in range(random.randint(0, 2)):
        value = f.max_pool(value, (3, 3), strides=(2, 2), pads=(1,) * 4)
    body.add_op(graph.YieldOp(value))
    f.block = outside
    layer = graph.CompositeOp("vta.layer", inputs, [value.type], body, codegen="vta")
    made: SSAValue = f._add(layer, f.values[value])
    module = f.finish(made)
    module.verify()
    return layer, module


def cost_of(costs: LayerCosts, layer: graph.CompositeOp, piece: object) -> PartCost:
    found = costs._part(layer, piece)  # type: ignore[arg-type]
    assert found is not None
    return found


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("seed", range(12))
def test_costs_of_composites(core: str, seed: int) -> None:
    """Ops before a pooling count with their own extents, in one part and in several."""
    random = Random(f"{core} {seed}")
    target = CORES[core]
    cluster = ClusterTarget.named("cluster-8").replace(core=target)
    layer, module = random_layer(random, target)
    (function,) = module.ops
    function.attributes[TARGET_ATTRIBUTE] = cluster
    costs = LayerCosts(cluster)
    all_of_it = cost_of(costs, layer, whole(layer.results[0]))
    assert all_of_it.compute == sum(
        gemm_micro_ops(op, target) * target.timing.gemm_cycles + alu_cycles(op, target, costs.rates)
        for op in computing(layer)
    )
    assert all_of_it.weights == sum(weight_bytes(op, target) for op in computing(layer))
    factors = {
        name: random.randint(1, units_of(layer.results[0], name)) for name in ("n", "h", "c")
    }
    parts = [cost_of(costs, layer, piece) for piece in pieces_of(layer.results[0], factors)]
    assert sum(part.compute for part in parts) >= all_of_it.compute
    assert sum(part.weights for part in parts) >= all_of_it.weights
    assert sum(part.stores for part in parts) == all_of_it.stores
    assert sum(sum(p.loads.values()) for p in parts) >= sum(all_of_it.loads.values())
    largest = costs.largest_part(layer, (1, 1, 1))
    assert largest == all_of_it
