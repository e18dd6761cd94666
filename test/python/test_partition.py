"""Partitioning keeps what a network means, and its regions are what they should be.

Random networks of ops, random codegens by random priorities. Regions form no cycle, every op is in
exactly one place, regions are convex and cannot grow, and the results are those of before: as
numbers, and as terms of functions that nobody knows anything of.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from random_partitions import TYPE as FLOATS
from random_partitions import (
    RandomCodegen,
    codegens,
    functions_of,
    layers_in,
    networks,
    partition,
    run,
)
from xdsl.dialects.builtin import ModuleOp, StringAttr, TensorType, i8
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue

from vtac.dialects.context import VtacContext
from vtac.dialects.graph import AddOp, ClipOp, CompositeOp, HostOp, ReluOp, YieldOp
from vtac.dialects.locations import layer_of
from vtac.dialects.target import Target
from vtac.passes.graph.codegen import CODEGEN
from vtac.passes.graph.merge_regions import REGION, MergeRegionsPass
from vtac.passes.graph.outline_regions import OutlineRegionsPass
from vtac.passes.graph.prune_regions import PruneRegionsPass
from vtac.passes.graph.reasons import HostReason, Reason, ReasonKind, host_reason
from vtac.tools.driver.compiler import compile_model
from vtac.tools.driver.levels import Criteria
from vtac.tools.driver.placements import FREE

TYPE = TensorType(i8, [1, 16])
INPUTS = [np.float32([[1.5, -2.0, 0.25, 3.0]]), np.float32([[-1.0, 0.5, 2.0, -0.125]])]
SIZES = st.none() | st.integers(1, 5)


def composite(name: str, inputs: list[SSAValue], codegen: str) -> CompositeOp:
    body = Block(arg_types=[TYPE] * len(inputs))
    inner = HostOp("Unknown", body.args, [TYPE])
    body.add_ops([inner, YieldOp(inner.outputs[0])])
    return CompositeOp(name, inputs, [TYPE], body, codegen=codegen)


@st.composite
def modules(draw: st.DrawFn) -> ModuleOp:
    """A network of up to fourteen ops that use one another, some for one or another codegen."""
    block = Block(arg_types=[TYPE, TYPE])
    values: list[SSAValue] = list(block.args)
    for i in range(draw(st.integers(1, 14))):
        inputs = draw(st.lists(st.sampled_from(values), min_size=1, max_size=3))
        codegen = draw(st.sampled_from(["a", "a", "b", ""]))
        op: Operation
        if codegen:
            op = composite(f"{codegen}.op{i}", inputs, codegen)
        else:
            op = HostOp(f"Op{i}", inputs, [TYPE])
        block.add_op(op)
        values.append(op.results[0])
    results = draw(st.lists(st.sampled_from(values), min_size=1, max_size=4))
    block.add_op(ReturnOp(*results))
    types = [TYPE, TYPE], [TYPE] * len(results)
    return ModuleOp([FuncOp("main", types, Region(block))])


def terms(function: FuncOp, arguments: list[str], module: ModuleOp, ran: Counter[str]) -> list[str]:
    """The terms a function returns; a KeyError would mean that an op stands before what it uses."""
    known: dict[SSAValue, str] = dict(zip(function.body.block.args, arguments, strict=True))
    for op in function.body.block.ops:
        inputs = [known[value] for value in op.operands]
        if isinstance(op, ReturnOp):
            return inputs
        if isinstance(op, CallOp):
            called = functions_of(module)[op.callee.root_reference.data]
            results = terms(called, inputs, module, ran)
        else:
            assert isinstance(op, CompositeOp | HostOp)
            name = op.pattern.data if isinstance(op, CompositeOp) else op.op_type.data
            ran[name] += 1
            results = [f"{name}({', '.join(inputs)})"]
        known.update(zip(op.results, results, strict=True))
    raise AssertionError("a function must end in a return")


def meaning(module: ModuleOp) -> tuple[list[str], Counter[str]]:
    ran: Counter[str] = Counter()
    return terms(functions_of(module)["main"], ["x", "y"], module, ran), ran


class Particular(RandomCodegen):
    """Wants second operands from outside."""

    def outer_values(self, composite: CompositeOp) -> Sequence[SSAValue]:
        return composite.inputs[1:2]


@given(modules(), SIZES)
@settings(max_examples=60)
def test_partitioning_keeps_the_terms(module: ModuleOp, max_ops: int | None) -> None:
    before = meaning(module)
    context = VtacContext()
    MergeRegionsPass(max_ops).apply(context, module)
    OutlineRegionsPass().apply(context, module)
    module.verify()
    assert meaning(module) == before


@given(modules(), SIZES)
@settings(max_examples=60)
def test_regions_are_convex_and_cannot_grow(module: ModuleOp, max_ops: int | None) -> None:
    """No path leaves a region and returns; and two neighbours are apart only if merging would.

    Second operands of a's composites come from outside.
    """
    context = VtacContext(codegens=lambda: [Particular("a", [], [])])
    MergeRegionsPass(max_ops).apply(context, module)
    ops = list(functions_of(module)["main"].body.block.ops)
    places = {op: str(op.attributes.get(REGION, f"host {i}")) for i, op in enumerate(ops)}
    owners = {places[op]: op.codegen for op in ops if isinstance(op, CompositeOp)}
    sizes = Counter(places.values())
    outer = {
        (places[op.operands[1].owner], places[op])
        for op in ops
        if owners.get(places[op]) == StringAttr("a") and len(op.operands) > 1
        if isinstance(op.operands[1].owner, Operation)
    }
    assert not any(a == b for a, b in outer)
    edges = {
        (places[v.owner], places[op])
        for op in ops
        for v in op.operands
        if isinstance(v.owner, Operation) and places[v.owner] != places[op]
    }
    closed = set(edges)
    while more := {(a, d) for a, b in closed for c, d in edges if b == c} - closed:
        closed |= more
    assert not any(a == b for a, b in closed), "regions form a cycle"
    assert all(len({op.codegen for op in ops if places[op] == p}) == 1 for p in owners)
    assert max_ops is None or all(sizes[p] <= max_ops for p in owners)
    for a, b in edges:
        if a in owners and owners[a] == owners.get(b):
            detour = any((a, c) in closed and (c, b) in closed for c in sizes if c not in (a, b))
            full = max_ops is not None and sizes[a] + sizes[b] > max_ops
            kept = not outer.isdisjoint({(a, b), (b, a)})
            assert detour or full or kept, f"regions {a} and {b} could be one"


@given(networks(), codegens(), SIZES)
@settings(max_examples=60)
def test_results_stay_and_every_op_is_in_one_place(
    module: ModuleOp, chosen: list[RandomCodegen], max_ops: int | None
) -> None:
    main = functions_of(module)["main"]
    before = run(main.body.block, INPUTS, {})
    kinds = {layer_of(op): type(op) for op in main.body.block.ops if layer_of(op)}
    partition(module, chosen, max_ops)
    functions = functions_of(module)
    after = run(functions["main"].body.block, INPUTS, functions)
    assert all((a == b).all() for a, b in zip(before, after, strict=True))

    homes = {name: layers_in(function) for name, function in functions.items()}
    assert sorted(layer for layers in homes.values() for layer in layers) == sorted(kinds)
    names = [codegen.name for codegen in chosen]
    for name, layers in homes.items():
        codegen = functions[name].attributes.get(CODEGEN)
        assert (name == "main") == (codegen is None)
        rank = names.index(codegen.data) if isinstance(codegen, StringAttr) else len(chosen)
        for layer in layers:
            # Whoever takes such an op alone has not been passed over.
            assert all(kinds[layer] not in better.kinds for better in chosen[:rank])
    for op in functions["main"].body.block.ops:
        assert not layer_of(op) or isinstance(op, CallOp) or host_reason(op) is not None


@given(networks(), codegens())
@settings(max_examples=30)
def test_what_is_pruned_is_as_it_was(module: ModuleOp, chosen: list[RandomCodegen]) -> None:
    before = run(functions_of(module)["main"].body.block, INPUTS, {})
    partition(module, chosen, pruning=PruneRegionsPass(min_macs=16, max_border_bytes=48))
    functions = functions_of(module)
    after = run(functions["main"].body.block, INPUTS, functions)
    assert all((a == b).all() for a, b in zip(before, after, strict=True))
    for name, function in functions.items():
        if name != "main":
            assert len(function.args) + len(function.function_type.outputs) <= 3  # of 16 bytes
            assert any("matmul" in op.name for op in function.body.walk())


def test_a_network_of_two_thousand_ops() -> None:
    """Each op also uses the first result; the host's, every other one at first, are detours."""
    block = Block(arg_types=[TYPE])
    values: list[SSAValue] = list(block.args)
    for i in range(2000):
        inputs = [values[-1], values[min(1, len(values) - 1)]]
        on_host = i % 2 and i < 1000
        op = HostOp(f"Op{i}", inputs, [TYPE]) if on_host else composite(f"a.op{i}", inputs, "a")
        block.add_op(op)
        values.append(op.results[0])
    block.add_op(ReturnOp(values[-1]))
    module = ModuleOp([FuncOp("main", ([TYPE], [TYPE]), Region(block))])
    MergeRegionsPass().apply(VtacContext(), module)
    assert len({op.attributes[REGION] for op in block.ops if REGION in op.attributes}) == 501


class Squeamish(RandomCodegen):
    """Takes no group that holds a clip."""

    def refusal(self, composite: CompositeOp, target: Target | None) -> str | None:
        clips = any(isinstance(op, ClipOp) for op in composite.walk())
        return Reason("no clips", ReasonKind.OTHER, "Do not clip.") if clips else None


def test_a_codegen_may_refuse_what_its_patterns_match() -> None:
    block = Block(arg_types=[FLOATS])
    relu = ReluOp(block.args[0], FLOATS)
    clip = ClipOp(relu.result, FLOATS)
    block.add_ops([relu, clip, ReturnOp(clip.result)])
    module = ModuleOp([FuncOp("main", ([FLOATS], [FLOATS]), Region(block))])
    partition(module, [Squeamish("a", [ReluOp, ClipOp], [])])
    left = [op for op in block.ops if not isinstance(op, ReturnOp)]
    assert [type(op) for op in left] == [CallOp, ClipOp]
    assert host_reason(left[1]) == HostReason("no clips", ReasonKind.OTHER, "Do not clip.")


def test_a_wildcard_may_stand_for_what_another_part_of_the_pattern_makes() -> None:
    block = Block(arg_types=[FLOATS])
    inner = AddOp(block.args[0], block.args[0], FLOATS)
    outer = AddOp(inner.result, block.args[0], FLOATS)
    root = AddOp(outer.result, inner.result, FLOATS)
    block.add_ops([inner, outer, root, ReturnOp(root.result)])
    module = ModuleOp([FuncOp("main", ([FLOATS], [FLOATS]), Region(block))])
    before = run(block, INPUTS[:1], {})
    partition(module, [RandomCodegen("a", [], ["add_of_adds"])])
    (found,) = (op for op in module.walk() if isinstance(op, CompositeOp))
    assert len(found.inputs) == 1
    functions = functions_of(module)
    assert (run(functions["main"].body.block, INPUTS[:1], functions)[0] == before[0]).all()


def test_a_node_of_which_nothing_is_left_says_so() -> None:
    """One weight for every element is a scale: the integers stay what they are."""
    weight = numpy_helper.from_array(np.full((1, 1, 1, 1), 0.7, np.float32), "w")
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"], name="scaled")]
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 1, 3, 3]) for n in "xy"]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    x = np.random.default_rng(0).normal(size=(1, 1, 3, 3)).astype(np.float32)
    module = compile_model(model, "pynq", {"x": x}, criteria=Criteria(compare=False))
    (placement,) = module.explain
    assert placement.node == "scaled" and placement.reason == FREE
    np.testing.assert_allclose(module.run({"x": x})["y"], 0.7 * x, atol=0.02)
