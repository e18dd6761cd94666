"""Machines with less room than layers need: what does not fit runs on the host, with the reason."""

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from network_comparison import assert_equals_reference
from onnx import TensorProto, helper, numpy_helper
from random_networks import Network, networks

import vtac
from vtac.dialects.errors import CompileError, DoesNotFit, Problem
from vtac.dialects.locations import layer_of
from vtac.dialects.target import Memory, Target
from vtac.dialects.vta import ProgramOp
from vtac.passes.graph.reasons import ReasonKind
from vtac.passes.vta.allocate import AllocatePass
from vtac.passes.vta.insert_dependences import InsertDependencesPass
from vtac.passes.vta.plan_microops import PlanMicroOpsPass
from vtac.runtime.vta_program import from_function

SIM = Target.named("sim")


def machine(uop: int, inp: int, wgt: int, acc: int, **more: object) -> Target:
    """A machine whose buffers have so many elements, given as log2 of their number."""
    elements = {Memory.UOP: uop, Memory.INP: inp, Memory.WGT: wgt, Memory.ACC: acc}
    sizes = {
        f"log_{memory.name.lower()}_buff_size": SIM.data.log_element(memory) + log
        for memory, log in elements.items()
    }
    return SIM.replace(**sizes, **more)


def layers_of_programs(module: vtac.Module) -> set[str]:
    """The layers whose names stand at instructions of the package."""
    found = set[str]()
    for function in module.package.functions.values():
        names = from_function(function, module.target, module.package.blobs, "").names
        found |= set(names.layers if names is not None else ())
    return found - {""}


def assert_explained(module: vtac.Module) -> None:
    """Explanations say what the package does."""
    launched = layers_of_programs(module)
    hosted = {node.node for node in module.explain if node.where == "host"}
    assert not hosted & launched
    for op in module.report.partition.hosted:
        if op.reason.kind is ReasonKind.CAPACITY:
            assert op.node in hosted
            assert op.reason.hint
    functions = {node.where for node in module.explain} - {"host"}
    assert functions == set(module.package.functions)
    assert bool(functions) == bool(launched)


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(
    network=st.booleans().flatmap(lambda exact: networks(exact=exact)),
    uop=st.integers(0, 6),
    inp=st.integers(0, 6),
    wgt=st.integers(0, 6),
    acc=st.integers(0, 7),
    tokens=st.sampled_from([1, 2, 255]),
)
def test_random_networks_on_random_small_machines(
    network: Network, uop: int, inp: int, wgt: int, acc: int, tokens: int
) -> None:
    target = machine(uop, inp, wgt, acc, token_depth=tokens)
    assert_explained(assert_equals_reference(network, target))


def two_layers(first: int, second: int) -> onnx.ModelProto:
    """A max pooling with a window of its own size each, behind a convolution, and one more."""
    weights = np.random.default_rng(0).normal(0, 0.3, (16, 16, 1, 1)).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], name="conv"),
        helper.make_node("MaxPool", ["a"], ["b"], name="large", kernel_shape=[first] * 2),
        helper.make_node("MaxPool", ["b"], ["c"], name="small", kernel_shape=[second] * 2),
        helper.make_node("Conv", ["c", "w"], ["y"], name="last"),
    ]
    extent = 60
    for size in (first, second):
        extent -= size - 1
    graph = helper.make_graph(
        nodes,
        "pools",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 16, 60, 60])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 16, extent, extent])],
        [numpy_helper.from_array(weights, "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def test_only_the_layer_without_room_leaves() -> None:
    """A maximum over 46x46 needs all of its window in the accumulators of pynq at once."""
    samples = np.random.default_rng(1).normal(0, 1, (4, 16, 60, 60)).astype(np.float32)
    module = vtac.compile(two_layers(46, 3), "pynq", samples, criteria=vtac.Criteria(compare=False))
    where = {node.node: node for node in module.explain}
    assert where["large"].where == "host"
    assert "smallest tile needs" in where["large"].reason
    assert "of ACC" in where["large"].reason
    assert all(where[name].where != "host" for name in ("conv", "small", "last"))
    assert_explained(module)


def test_levels_of_a_partition_that_failed_leave_nothing(tmp_path) -> None:
    """Levels are recorded and saved once: those that the final compilation reaches."""
    samples = np.random.default_rng(1).normal(0, 1, (2, 16, 60, 60)).astype(np.float32)
    seen: list[str] = []
    module = vtac.compile(
        two_layers(3, 3),
        machine(0, 0, 0, 0),
        samples,
        save_ir=tmp_path,
        keep_ir=("graph", "te", "vta"),
        observe=lambda level, module, ctx: seen.append(level),
    )
    levels = [level.name for level in module.report.levels]
    assert len(levels) == len(set(levels))
    assert seen.count("graph") > 1
    saved = {file.name for file in tmp_path.iterdir() if file.suffix == ".mlir"}
    assert saved == {f"{number}_{level}.mlir" for number, level in enumerate(levels)}
    assert set(module.report.ir) <= set(levels)


@pytest.mark.parametrize(
    "refusing", [AllocatePass, PlanMicroOpsPass, InsertDependencesPass], ids=lambda p: p.name
)
def test_whichever_pass_finds_no_room(refusing, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a pass behind the scheduler refuses a layer."""
    apply, refused = refusing.apply, "conv"

    def no_room(self, ctx, op) -> None:
        if refused in layers_in(op):
            raise CompileError(DoesNotFit(refused, "no room", layers=(refused,)))
        apply(self, ctx, op)

    def layers_in(op) -> set[str]:
        programs = [program for program in op.ops if isinstance(program, ProgramOp)]
        return {layer_of(inner) for program in programs for inner in program.body.block.ops}

    monkeypatch.setattr(refusing, "apply", no_room)
    samples = np.random.default_rng(1).normal(0, 1, (2, 16, 60, 60)).astype(np.float32)
    module = vtac.compile(two_layers(3, 3), "pynq", samples, criteria=vtac.Criteria(compare=False))
    where = {node.node: node.where for node in module.explain}
    assert where["conv"] == "host"
    assert all(where[name] != "host" for name in ("large", "small", "last"))


def test_what_stays_unknown_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A layer that no node has cannot be kept, and other problems are no question of room."""
    samples = np.random.default_rng(1).normal(0, 1, (2, 16, 60, 60)).astype(np.float32)
    for problem in (
        DoesNotFit("somewhere", "no room"),
        DoesNotFit("somewhere", "no room", layers=("no such layer",)),
        Problem("conv", "something else"),
    ):

        def refuse(self, ctx, op, problem=problem) -> None:
            raise CompileError(problem)

        monkeypatch.setattr(AllocatePass, "apply", refuse)
        with pytest.raises(CompileError, match=problem.what):
            vtac.compile(two_layers(3, 3), "pynq", samples)
