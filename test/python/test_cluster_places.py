"""Bindings and places of random plans hold what the passes' verifiers ask, and more."""

from random import Random

import pytest
from layer_graphs import NETWORKS, LayerGraph
from xdsl.dialects.builtin import ArrayAttr
from xdsl.utils.exceptions import VerifyException

from vtac.dialects.context import VtacContext
from vtac.dialects.graph import BINDING, PLACES, BindingAttr, PlaceAttr
from vtac.dialects.target import ClusterTarget
from vtac.passes.graph.cluster.buffers import FunctionBuffers, TensorBuffer
from vtac.passes.graph.cluster.graph_bind_cores import GraphBindCoresPass, verify_bindings
from vtac.passes.graph.cluster.graph_place_tensors import (
    GraphPlaceTensorsPass,
    place,
    places_of,
    verify_places,
)
from vtac.passes.graph.cluster.layers import layers_of, planned_functions


def random_buffers(random: Random) -> list[TensorBuffer]:
    buffers = []
    for number in range(random.randint(1, 40)):
        first = random.randint(0, 20)
        last = first + random.randint(0, 6)
        size = random.choice([64, 100, 1000, random.randint(1, 4000)])
        buffers.append(TensorBuffer(f"b{number}", size, first, last))  # type: ignore[arg-type]
    return buffers


@pytest.mark.parametrize("seed", range(60))
def test_places_are_apart(seed: int) -> None:
    """Whatever sizes and lives: what is placed lies in the room, apart from what lives with it."""
    random = Random(seed)
    buffers, room = random_buffers(random), random.choice([0, 512, 4096, 16384])
    offsets = place(buffers, room)
    kept = [b for b in buffers if b.tensor in offsets]
    for one in kept:
        start = offsets[one.tensor]
        assert start % 64 == 0 and start + one.size <= room
        for other in kept:
            if other is not one and one.first <= other.last and other.first <= one.last:
                end = offsets[other.tensor] + other.size
                assert end <= start or start + one.size <= offsets[other.tensor]
    live = [sum(b.size + 64 for b in buffers if b.first <= s <= b.last) for s in range(30)]
    if max(live) * 2 < room:
        assert len(kept) == len(buffers), "nothing goes to DDR without need"


@pytest.mark.parametrize("cores", [1, 2, 3, 8])
@pytest.mark.parametrize("network", NETWORKS)
def test_known_networks(network: str, cores: int) -> None:
    """Bindings use the cores, in both modes; the largest tensors alone go to DDR."""
    cluster = ClusterTarget.named("cluster-8").replace(cores=cores)
    for mode in ("cost", "paper"):
        module = NETWORKS[network](LayerGraph(cluster), 2)
        GraphBindCoresPass(mode).apply(VtacContext(), module)
        GraphPlaceTensorsPass(buffer=True).apply(VtacContext(), module)
        ((function, _),) = planned_functions(module)
        layers = layers_of(function)
        parts = [layer.attributes[BINDING].parts for layer in layers]
        assert sum(parts) > 0.6 * cores * len(parts)
        in_buffer = [p for layer in layers for p in places_of(layer) if p.offset is not None]
        assert len(in_buffer) > len(layers) // 2


def test_verifiers_refuse() -> None:
    """A core that is not there, a part too many, tensors on top of each other, and none at all."""
    module = NETWORKS["resnet18"](LayerGraph("cluster-2"))
    ((function, cluster),) = planned_functions(module)
    with pytest.raises(VerifyException, match=r"has no graph\.binding"):
        verify_bindings(function, cluster)
    with pytest.raises(VerifyException, match=r"has no graph\.places"):
        verify_places(function, cluster)
    GraphBindCoresPass().apply(VtacContext(), module)
    GraphPlaceTensorsPass().apply(VtacContext(), module)
    layers = layers_of(function)
    for wrong, message in (
        (BindingAttr(1, 2, 1, 1), "names more than 2 cores"),
        (BindingAttr(2, 1, 1), "into 1 parts"),
    ):
        right = layers[3].attributes[BINDING]
        layers[3].attributes[BINDING] = wrong
        with pytest.raises(VerifyException, match=message):
            verify_bindings(function, cluster)
        layers[3].attributes[BINDING] = right
    verify_bindings(function, cluster)
    where = places_of(layers[2])[0]
    layers[3].attributes[PLACES] = ArrayAttr([where])
    with pytest.raises(VerifyException, match="at the same offsets"):
        verify_places(function, cluster)
    layers[3].attributes[PLACES] = ArrayAttr([PlaceAttr("gb", cluster.gb_bytes)])
    with pytest.raises(VerifyException, match="is no place for"):
        verify_places(function, cluster)


def test_lives_follow_the_order() -> None:
    """A shortcut lives until the sum that reads it."""
    g = LayerGraph()
    x = g.input(1, 32, 8, 8)
    side = g.conv(x, 32)
    inner = g.conv(g.conv(side, 32, 3), 32, 3)
    total = g.conv(inner, 32, residual=side)
    module = g.finish(g.conv(total, 32))
    ((function, _),) = planned_functions(module)
    buffers = FunctionBuffers.of(function)
    assert (buffers.buffer(side).first, buffers.buffer(side).last) == (0, 3)
    assert (buffers.buffer(inner).first, buffers.buffer(inner).last) == (2, 3)
    assert buffers.buffer(x).outside and buffers.buffer(x).first == -1
    assert buffers.buffer(side).reads == 2
