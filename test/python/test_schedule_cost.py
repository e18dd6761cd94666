"""Simulated costs of chosen points of one layer against the clock."""

from typing import Any

import pytest
from by_path import load
from xdsl.dialects.builtin import ModuleOp
from xdsl.traits import SymbolTable

from vtac.dialects import te
from vtac.passes.te.schedule.emit import schedule_of
from vtac.passes.te.schedule.simulated_cost import CostSimulator
from vtac.passes.te.schedule.space import Space
from vtac.passes.te.schedule.structure import structure_of
from vtac.tools.tensor_expressions.kernel_clock import KernelClock

layers = load("test/benchmarks/resnet_layers.py")


class ChannelShifts:
    """A convolution with a shift per channel, which its last operations load for each tile."""

    def __init__(self) -> None:
        layer = layers.Layer("layer", 28, 64, 64, 1, 1, 0)
        result = layers.compile_layer(layer, "chisel-pynq", shift="channel", keep=("te",))
        module: Any = result.levels["te"]
        assert isinstance(module, ModuleOp)
        (schedule,) = (op for op in module.ops if isinstance(op, te.ScheduleOp))
        name = schedule.kernel.root_reference.data
        kernel = SymbolTable.lookup_symbol(module, name)
        assert isinstance(kernel, te.KernelOp)
        self.kernel, self.structure = kernel, structure_of(kernel, "layer")
        self.clock = KernelClock(module, name, result.context)
        self.space = Space(self.structure)

    def cost_and_cycles(self, point: dict[str, te.Value]) -> tuple[int, int]:
        """By the simulator of costs, and by the clock."""
        assert self.space.check(point) is None
        tiling, target = self.space.tiling(point), self.clock.target
        simulator = CostSimulator(self.structure, target)
        assert simulator.needs.fits(tiling)
        cost = simulator.cycles(tiling)
        copying = te.copying_intrinsics(target)
        schedule = schedule_of(self.kernel, self.structure, tiling, cost, copying)
        return cost, self.clock.cycles(schedule)


@pytest.fixture(scope="module")
def layer() -> ChannelShifts:
    return ChannelShifts()


SMALL_TILES: dict[str, te.Value] = {"tile.c": 1, "tile.h": 4, "order": ("n", "h", "w", "c")}


@pytest.mark.parametrize("pieces", [None, "h/2", "h/4"])
def test_operands_of_the_last_operations_are_loaded_however_these_are_cut(
    layer: ChannelShifts, pieces: te.Value
) -> None:
    cost, cycles = layer.cost_and_cycles({**SMALL_TILES, "piece": pieces})
    # The clock takes 5 % more, all of it where the load and the compute module share a channel for
    # reads: with a channel for each (`read_channels`) the two agree to 0.1 %.
    assert cost == pytest.approx(cycles, rel=0.06)
