"""Each field of a machine moves the clock, and the cost that the scheduler simulates, alike.

The fields are those of the classes themselves, so a new one fails here until it is either tried
(`RATES`, `SIZES`) or listed with the reason why it cannot move a cost (`UNMOVED`).
"""

import dataclasses
from functools import cache
from typing import Any

import pytest
from by_path import load
from xdsl.dialects.builtin import ModuleOp
from xdsl.traits import SymbolTable

from vtac.dialects import te
from vtac.dialects.target import Target
from vtac.dialects.target.configuration import Configuration
from vtac.dialects.target.timing import TIMING_FIELDS
from vtac.passes.te.schedule.search import search
from vtac.passes.te.schedule.simulated_cost import CostSimulator
from vtac.passes.te.schedule.structure import structure_of
from vtac.tools.tensor_expressions.kernel_clock import KernelClock

layers = load("test/benchmarks/resnet_layers.py")

RATES: dict[str, dict[str, Any]] = {
    "chisel-pynq": {
        "port_bytes": 1,
        "burst_beats": 1,
        "latency": 200,
        "outstanding": 1,
        "request_interval": 2000,
        "read_channels": 2,
        "fetch_batch": 4,
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
CASES = [(machine, field) for machine, fields in RATES.items() for field in fields]

SMALL, LARGE = (14, 64, 48, 3, 1, 1), (28, 64, 128, 3, 1, 1)
"""Layers: size, channels in and out, kernel, stride and padding."""

LAYERS = {"request_interval": LARGE, "read_channels": LARGE, "fetch_batch": LARGE}
"""The layer for rates that count only where many requests compete; `SMALL` for the others."""

SIZES: dict[str, dict[str, Any]] = {
    "log_batch": {"log_batch": 1},
    "log_block": {
        "log_block": 3,
        "log_inp_buff_size": 14,
        "log_wgt_buff_size": 16,
        "log_acc_buff_size": 16,
    },
    "log_inp_buff_size": {"log_inp_buff_size": 12},
    "log_wgt_buff_size": {"log_wgt_buff_size": 10},
    "log_acc_buff_size": {"log_acc_buff_size": 12},
    "uop_entries": {"uop_entries": 16},
}
"""Changes after which the layer is compiled anew: a program holds for its machine alone."""

UNMOVED = {
    "name": "shown in reports",
    "preset": "shown in the text form",
    "timing": "its fields are tried one by one",
    "clock_mhz": "cycles become seconds, and stay as many",
    "gemm_distance": "a rule that programs follow",
    "token_depth": "a program whose tokens do not fit is refused",
    "inp_beat_limit": "a rule that programs follow",
    "extensions": "whether an instruction is refused",
    "aligned_bursts": "costs know no addresses, and count requests as if every row were aligned",
    "fetch_ahead": "the clock moves by some ten cycles of a long kernel, less than costs resolve",
    "queue_depth": "costs leave out queues so shallow that modules starve, which no preset has",
    "log_inp_width": "the simulators know one width",
    "log_wgt_width": "the simulators know one width",
    "log_acc_width": "the simulators know one width",
    "log_uop_buff_size": "`uop_entries` follows from it, which is tried",
    "alu_mul": "another instruction, which this layer has no use for",
    "acc_load_int8": "another load, which this layer has no use for",
    "alu_imm_src": "how accumulators are copied, which this layer does not do",
    "alu_bypass": "accumulators that GEMM forwards, at the same rate",
    "shr_sign_of_imm": "the meaning of an instruction",
}


def test_every_field_is_tried_or_has_a_reason() -> None:
    fields = {field.name for field in dataclasses.fields(Configuration)} | set(TIMING_FIELDS)
    assert fields == set(RATES["chisel-pynq"]) | set(SIZES) | set(UNMOVED)
    assert len(fields) == len(RATES["chisel-pynq"]) + len(SIZES) + len(UNMOVED)


@cache
def scheduled(target: str | Target, shape: tuple[int, ...]) -> tuple[Any, ModuleOp, te.ScheduleOp]:
    layer = layers.Layer("layer", *shape)
    result = layers.compile_layer(layer, target, shift="channel", keep=("te",))
    module = result.levels["te"]
    (schedule,) = (op for op in module.ops if isinstance(op, te.ScheduleOp))
    return result, module, schedule


@pytest.mark.parametrize(("machine", "field"), CASES)
def test_a_rate_moves_the_clock_and_the_cost(machine: str, field: str) -> None:
    result, module, schedule = scheduled(machine, LAYERS.get(field, SMALL))
    name = schedule.kernel.root_reference.data
    kernel = SymbolTable.lookup_symbol(module, name)
    assert isinstance(kernel, te.KernelOp)
    base = Target.named(machine)
    changed = base.replace(timing=base.timing.replace(**{field: RATES[machine][field]}))
    structure = structure_of(kernel, "layer")
    tiling = search(structure, base, "layer").tiling
    clock, cost = [], []
    for target in (base, changed):
        clock.append(KernelClock(module, name, result.context, target.timing).cycles(schedule))
        cost.append(CostSimulator(structure, target).cycles(tiling))
    assert clock[0] != clock[1]
    assert (clock[1] > clock[0]) == (cost[1] > cost[0]) and cost[0] != cost[1]
    assert cost[1] == pytest.approx(clock[1], rel=0.25)


@pytest.mark.parametrize("field", SIZES)
def test_a_size_moves_the_clock_and_the_cost(field: str) -> None:
    clock, cost = [], []
    base = Target.named("chisel-pynq")
    for target in (base, base.replace(**SIZES[field])):
        result, module, schedule = scheduled(target, SMALL)
        name = schedule.kernel.root_reference.data
        kernel = SymbolTable.lookup_symbol(module, name)
        assert isinstance(kernel, te.KernelOp)
        clock.append(KernelClock(module, name, result.context).cycles(schedule))
        cost.append(search(structure_of(kernel, "layer"), target, "layer").cycles)
    assert clock[1] > clock[0] and cost[1] > cost[0]
    assert cost[1] == pytest.approx(clock[1], rel=0.1)
