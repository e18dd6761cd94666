"""Concatenations and slices on the accelerator: exact, and without instructions of their own."""

import json
from random import Random

import numpy as np
import pytest
from exact_integers import Oracle
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from integer_groups import REWRITES, IntegerFunction
from moving_functions import SAME, Moves, check_places, function_of
from moving_networks import MovingNetwork
from network_comparison import TARGETS as NETWORK_TARGETS
from network_comparison import assert_exact
from onnx import TensorProto, helper
from random_groups import SMALL, TARGETS
from te_functions import evaluate
from vta_runner import lower_loops, run_loops
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

import vtac
from vtac.dialects import te
from vtac.dialects.target import Target
from vtac.lowering.graph_to_te import GraphToTePass
from vtac.passes.te.insert_copies import InsertCopiesPass

EVERYWHERE = {**TARGETS, **{f"small {name}": target for name, target in SMALL.items()}}


@settings(max_examples=60)
@given(st.randoms(use_true_random=False), st.sampled_from(sorted(TARGETS)))
def test_windows_mean_what_the_graph_means(random: Random, target: str) -> None:
    """Tensor by tensor; afterwards every value has a place, and no place is written twice."""
    moves = Moves(random, TARGETS[target])
    module, f = moves.build(random.randint(1, 9)), moves.f
    f.apply(module, [GraphToTePass])
    f.check(module, lambda m, inputs: evaluate(f.ctx, m, inputs), 2)
    f.apply(module, [InsertCopiesPass])
    f.check(module, lambda m, inputs: evaluate(f.ctx, m, inputs), 2)
    check_places(module)


@settings(max_examples=40)
@given(st.randoms(use_true_random=False), st.sampled_from(sorted(EVERYWHERE)))
def test_moves_are_exact_on_the_simulator(random: Random, target: str) -> None:
    moves = Moves(random, EVERYWHERE[target])
    module, f = moves.build(random.randint(1, 7)), moves.f
    f.lower(module)
    f.check(module, lambda m, inputs: run_loops(f.ctx, m, inputs), 2)


def inception(target: Target) -> tuple[IntegerFunction, list[SSAValue]]:
    """A layer, branches of it, and what reads them side by side; results behind."""
    f = IntegerFunction(target)
    x = f.input(1, 16, 9, 7)
    stem = f.requantize(f.conv(x, 32, (3, 3), **SAME), lo=0)
    wide = f.requantize(f.conv(stem, 48, (3, 3), **SAME))
    pooled = f.max_pool(stem, (3, 3), **SAME)
    narrow = f.requantize(f.conv(f.slice(stem, [0, 16, 0, 0], [1, 16, 9, 7]), 16, (1, 1)))
    return f, [wide, pooled, narrow]


def transfers(module: ModuleOp, f: IntegerFunction) -> list[int]:
    f.lower(module)
    (binary,) = lower_loops(f.ctx, module)
    return [len(binary.insns)]


def test_a_concatenation_and_a_slice_have_no_instruction() -> None:
    """The function that also joins the branches has the calls of the one that returns them."""
    f, branches = inception(TARGETS["1x16"])
    module = f.finish(f.concat(branches, 1))
    f.apply(module, [GraphToTePass, *REWRITES])
    calls = [op for op in function_of(module).body.block.ops if isinstance(op, te.CallOp)]
    assert len(calls) == 4

    apart, branches = inception(TARGETS["1x16"])
    joined, others = inception(TARGETS["1x16"])
    whole = joined.finish(joined.concat(others, 1))
    assert transfers(whole, joined) == transfers(apart.finish(*branches), apart)
    f, branches = inception(TARGETS["1x16"])
    module = f.finish(f.concat(branches, 1))
    f.lower(module)
    f.check(module, lambda m, inputs: run_loops(f.ctx, m, inputs), 2)


def test_concatenations_of_all_layers_so_far_share_one_buffer() -> None:
    """As in DenseNet: each is the front of the next."""
    f = IntegerFunction(TARGETS["1x16"])
    parts = [f.requantize(f.conv(f.input(1, 16, 6, 5), 16, (3, 3), **SAME))]
    for _ in range(3):
        joined = f.concat(parts, 1)
        parts.append(f.requantize(f.conv(joined, 16, (3, 3), **SAME)))
    module = f.finish(f.concat(parts, 1))
    f.apply(module, [GraphToTePass, InsertCopiesPass])
    assert not any("copy" in op.sym_name.data for op in module.ops if isinstance(op, te.KernelOp))
    f.apply(module, REWRITES)
    check_places(module)


def test_a_value_in_two_places_is_copied_once() -> None:
    f = IntegerFunction(TARGETS["1x16"])
    x = f.requantize(f.conv(f.input(1, 16, 6, 5), 16, (3, 3), **SAME))
    y = f.requantize(f.conv(x, 16, (3, 3), **SAME))
    module = f.finish(f.concat([x, y], 1), f.concat([y, x], 2))
    f.apply(module, [GraphToTePass, InsertCopiesPass])
    calls = [op.callee.root_reference.data for op in module.walk() if isinstance(op, te.CallOp)]
    assert calls.count("copy0") == 2
    check_places(module)


@pytest.mark.parametrize("name", sorted(NETWORK_TARGETS))
@settings(max_examples=12, suppress_health_check=[HealthCheck.too_slow])
@given(random=st.randoms(use_true_random=False))
def test_networks_that_join_and_cut_are_exact(name: str, random: Random) -> None:
    """From ONNX: integers are those of the reference, whatever becomes of a concatenation."""
    target = NETWORK_TARGETS[name]
    assert_exact(MovingNetwork(random, target.block).build(random.randint(1, 5)), target, "auto")


def test_a_concatenation_of_a_network_has_no_instruction() -> None:
    """Two branches of one layer, side by side and read by two others."""
    random, rng = Random(1), np.random.default_rng(1)
    network = MovingNetwork(random, 16)
    network.values["x"] = (1, 3, 9, 7)
    stem = network.conv("x", rng, 32)
    branches = [network.conv(stem, rng, 32), network.conv(stem, rng, 32)]
    shape = network.values[stem]
    joined = network.node("Concat", branches, (1, 2 * shape[1], *shape[2:]), axis=1)
    readers = [network.conv(joined, rng), network.pool(joined, rng)]
    tensor = helper.make_tensor_value_info
    graph = helper.make_graph(
        network.nodes,
        "branches",
        [tensor("x", TensorProto.FLOAT, (1, 3, 9, 7))],
        [tensor(name, TensorProto.FLOAT, network.values[name]) for name in readers],
        network.constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    samples = rng.normal(0, 1, (4, 3, 9, 7)).astype(np.float32)
    oracle = Oracle([{"x": samples[:1]}])
    module = vtac.compile(model, "pynq", samples, observe=oracle.observe)
    assert not oracle.judge(module).differences
    (function,) = module.package.functions.values()
    layers = set(json.loads(function.files["names.json"])["layers"])
    assert layers >= {stem, *branches, *readers}
    assert joined not in layers
    placements = {placement.node: placement.where for placement in module.report.placements}
    assert placements[joined] == function.name
