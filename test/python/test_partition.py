"""Partitioning keeps what a network means: on random graphs, by uninterpreted functions.

Each op is taken as a function nobody knows anything of, so a value is the term that computes it.
Before and after partitioning the results must be the same terms, and every op must run once, after
what it needs: a cycle between regions could not be put in any order.
"""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp, TensorType, i8
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue

from vtac.dialects.context import VtacContext
from vtac.dialects.graph import CompositeOp, HostOp, YieldOp
from vtac.passes.graph.merge_regions import REGION, MergeRegionsPass
from vtac.passes.graph.outline_regions import OutlineRegionsPass

TYPE = TensorType(i8, [1, 16])


def composite(name: str, inputs: list[SSAValue]) -> CompositeOp:
    body = Block(arg_types=[TYPE] * len(inputs))
    body.add_op(YieldOp(body.args[0]))
    return CompositeOp(name, inputs, [TYPE], body, codegen="vta")


@st.composite
def modules(draw: st.DrawFn) -> ModuleOp:
    """A network of up to twelve ops, some of them for the accelerator, that use one another."""
    block = Block(arg_types=[TYPE, TYPE])
    values: list[SSAValue] = list(block.args)
    for i in range(draw(st.integers(1, 12))):
        inputs = draw(st.lists(st.sampled_from(values), min_size=1, max_size=3))
        op: Operation
        if draw(st.booleans()):
            op = composite(f"vta.op{i}", inputs)
        else:
            op = HostOp(f"Op{i}", inputs, [TYPE])
        block.add_op(op)
        values.append(op.results[0])
    results = draw(st.lists(st.sampled_from(values), min_size=1, max_size=4))
    block.add_op(ReturnOp(*results))
    types = [TYPE, TYPE], [TYPE] * len(results)
    return ModuleOp([FuncOp("main", types, Region(block))])


def function_of(module: ModuleOp, name: str) -> FuncOp:
    (found,) = (f for f in module.walk() if isinstance(f, FuncOp) and f.sym_name.data == name)
    return found


def run(function: FuncOp, arguments: list[str], module: ModuleOp, ran: Counter[str]) -> list[str]:
    """The terms a function returns; a KeyError would mean that an op stands before what it uses."""
    terms: dict[SSAValue, str] = dict(zip(function.body.block.args, arguments, strict=True))
    for op in function.body.block.ops:
        inputs = [terms[value] for value in op.operands]
        if isinstance(op, ReturnOp):
            return inputs
        if isinstance(op, CallOp):
            name = op.callee.root_reference.data
            (callee,) = (
                f for f in module.walk() if isinstance(f, FuncOp) and f.sym_name.data == name
            )
            results = run(callee, inputs, module, ran)
        else:
            assert isinstance(op, CompositeOp | HostOp)
            name = op.pattern.data if isinstance(op, CompositeOp) else op.op_type.data
            ran[name] += 1
            results = [f"{name}({', '.join(inputs)})"]
        terms.update(zip(op.results, results, strict=True))
    raise AssertionError("a function must end in a return")


def meaning(module: ModuleOp) -> tuple[list[str], Counter[str]]:
    ran: Counter[str] = Counter()
    return run(function_of(module, "main"), ["x", "y"], module, ran), ran


@given(modules())
def test_partitioning_keeps_the_terms(module: ModuleOp) -> None:
    before = meaning(module)
    context = VtacContext()
    MergeRegionsPass().apply(context, module)
    OutlineRegionsPass().apply(context, module)
    module.verify()
    assert meaning(module) == before


@given(modules())
def test_regions_are_convex_and_cannot_grow(module: ModuleOp) -> None:
    """No path leaves a region and returns; and two neighbours are apart only if merging would."""
    MergeRegionsPass().apply(VtacContext(), module)
    main = next(f for f in module.walk() if isinstance(f, FuncOp))
    ops = list(main.body.block.ops)
    numbers = [op.attributes.get(REGION, f"host {i}") for i, op in enumerate(ops)]
    reaches = {
        (numbers[ops.index(v.owner)], numbers[i])
        for i, op in enumerate(ops)
        for v in op.operands
        if isinstance(v.owner, Operation)
    }
    edges = {(a, b) for a, b in reaches if a != b}
    closed = set(edges)
    while more := {(a, d) for a, b in closed for c, d in edges if b == c} - closed:
        closed |= more
    assert not any(a == b for a, b in closed), "regions form a cycle"
    for a, b in edges:
        if isinstance(a, str) or isinstance(b, str):
            continue
        detour = any((a, c) in closed and (c, b) in closed for c in numbers if c not in (a, b))
        assert detour, f"regions {a} and {b} could be one"
