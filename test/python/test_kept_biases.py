"""Tiles are chosen for kept biases where loads of biases wait for a port that others saturate."""

import pytest
from resnet_layers import Layer, compile_layer
from xdsl.dialects.builtin import ModuleOp

from vtac.dialects.target import Target
from vtac.tools.tune.kernel import prepared
from vtac.tools.tune.tasks import tasks_of

NARROW = Target.named("chisel-de10").replace(port_bytes=4)


def module_of(layer: Layer) -> ModuleOp:
    """The layer at the level ``te``."""
    module: ModuleOp = compile_layer(layer, NARROW, keep=("te",)).levels["te"]
    assert isinstance(module, ModuleOp)
    return module


@pytest.mark.parametrize(
    ("size", "inputs", "outputs"), [(14, 256, 512), (14, 256, 384), (12, 320, 512), (14, 192, 640)]
)
def test_no_tile_of_few_blocks_with_kept_biases_is_better(
    size: int, inputs: int, outputs: int
) -> None:
    (task,) = tasks_of(module_of(Layer("dense", size, inputs, outputs, 1, 2, 1)))
    kernel = prepared(task.module, task.template)
    keeps = [name for name in kernel.space.knobs if name.startswith("keep.")]
    assert keeps
    found = {}
    for blocks in (1, 2, 4, 8):
        point = {"tile.c": blocks, "slots.inp": 2, "slots.wgt": 2} | dict.fromkeys(keeps, True)
        found[blocks] = kernel.cycles(point)
    assert task.default_cycles <= 1.02 * min(found.values())
