"""Rates of a machine move the clock, and the cost that the scheduler simulates, alike.

Three rates that the costs do not follow closely enough are left out: `request_interval` where rows
are short, `read_channels` and `fetch_batch`. `fetch_ahead`, `queue_depth` and `aligned_bursts` are
not tried.
"""

from functools import cache
from typing import Any

import pytest
from by_path import load
from xdsl.dialects.builtin import ModuleOp
from xdsl.traits import SymbolTable

from vtac.dialects import te
from vtac.dialects.target import Target
from vtac.passes.te.schedule.search import search
from vtac.passes.te.schedule.simulated_cost import CostSimulator
from vtac.passes.te.schedule.structure import structure_of
from vtac.tools.tensor_expressions.kernel_clock import KernelClock

layers = load("test/benchmarks/resnet_layers.py")

CHANGES: dict[str, dict[str, Any]] = {
    "chisel-pynq": {
        "port_bytes": 1,
        "burst_beats": 1,
        "latency": 200,
        "outstanding": 1,
        "ideal_memory": True,
        "gemm_cycles": 2,
        "alu_immediate_cycles": 3,
        "alu_register_cycles": 5,
        "compute_overhead": 40,
        "store_idle_cycles": 20,
        "store_request_cycles": 90,
    },
    "ultra96": {
        "port_bytes": 8,
        "latency": 200,
        "gemm_cycles": 3,
        "alu_immediate_cycles": 4,
        "alu_register_cycles": 6,
        "compute_overhead": 60,
        "store_idle_cycles": 40,
        "store_request_cycles": 90,
    },
}
CASES = [(machine, field) for machine, fields in CHANGES.items() for field in fields]


@cache
def scheduled(machine: str) -> tuple[Any, ModuleOp, te.ScheduleOp]:
    layer = layers.Layer("layer", 14, 64, 48, 3, 1, 1)
    result = layers.compile_layer(layer, machine, shift="channel", keep=("te",))
    module = result.levels["te"]
    (schedule,) = (op for op in module.ops if isinstance(op, te.ScheduleOp))
    return result, module, schedule


@pytest.mark.parametrize(("machine", "field"), CASES)
def test_a_rate_moves_the_clock_and_the_cost(machine: str, field: str) -> None:
    result, module, schedule = scheduled(machine)
    name = schedule.kernel.root_reference.data
    kernel = SymbolTable.lookup_symbol(module, name)
    assert isinstance(kernel, te.KernelOp)
    base = Target.named(machine)
    changed = base.replace(timing=base.timing.replace(**{field: CHANGES[machine][field]}))
    structure = structure_of(kernel, "layer")
    tiling = search(structure, base, "layer").tiling
    clock, cost = [], []
    for target in (base, changed):
        clock.append(KernelClock(module, name, result.context, target.timing).cycles(schedule))
        cost.append(CostSimulator(structure, target).cycles(tiling))
    assert clock[0] != clock[1]
    assert (clock[1] > clock[0]) == (cost[1] > cost[0]) and cost[0] != cost[1]
    assert cost[1] == pytest.approx(clock[1], rel=0.25)
