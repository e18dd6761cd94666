"""Random networks of float ops, and random codegens that take some of them."""

from collections.abc import Mapping, Sequence

import numpy as np
from hypothesis import strategies as st
from xdsl.dialects.builtin import (
    FloatAttr,
    ModuleOp,
    NameLoc,
    NoneAttr,
    StringAttr,
    TensorType,
    f32,
    f64,
)
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue

from vtac.dialects import graph
from vtac.dialects.context import Array, VtacContext, constant_attr
from vtac.dialects.locations import layer_of
from vtac.dialects.payload import Payload
from vtac.dialects.target import Target
from vtac.passes.graph.annotate import AnnotatePass
from vtac.passes.graph.codegen import Codegen, NamedPattern
from vtac.passes.graph.evaluate import evaluate
from vtac.passes.graph.match_patterns import MatchPatternsPass
from vtac.passes.graph.merge_regions import MergeRegionsPass
from vtac.passes.graph.outline_regions import OutlineRegionsPass
from vtac.passes.graph.patterns import Predicate, any_operands, wildcard
from vtac.passes.graph.patterns import op as pattern
from vtac.passes.graph.prune_regions import PruneRegionsPass

TYPE = TensorType(f32, [1, 4])
ONE, TWO = (graph.ReluOp, graph.ClipOp), (graph.AddOp, graph.MatMulOp)
PATTERNS = {
    "relu_of_add": pattern(graph.ReluOp, pattern(graph.AddOp, wildcard(), wildcard())),
    "add_of_relu": pattern(
        graph.AddOp, wildcard(), pattern(graph.ReluOp, wildcard()), commutative=True
    ),
    "clip_of_clip": pattern(graph.ClipOp, any_operands(graph.ClipOp)),
    "add_of_adds": pattern(graph.AddOp, any_operands(graph.AddOp), any_operands(graph.AddOp)),
}
SQUARE = np.arange(16, dtype=np.float32).reshape(4, 4) / 16


class RandomCodegen(Codegen):
    """Takes some patterns and some single ops."""

    name = "random"

    def __init__(self, name: str, kinds: Sequence[type[Operation]], patterns: Sequence[str]):
        self.name = name  # type: ignore[misc]
        self.kinds, self._patterns = kinds, patterns

    def patterns(self, target: Target | None) -> Sequence[NamedPattern]:
        return [NamedPattern(name, PATTERNS[name]) for name in self._patterns]

    def predicates(self, target: Target | None) -> Mapping[type[Operation], Predicate]:
        return dict.fromkeys(self.kinds, lambda _: None)

    def build(self, function: Operation, ctx: VtacContext) -> Payload:
        raise AssertionError("nothing is built here")


@st.composite
def codegens(draw: st.DrawFn) -> list[RandomCodegen]:
    """One to three, by falling priority."""
    names = draw(st.permutations(["a", "b", "c"]))[: draw(st.integers(1, 3))]
    kinds, patterns = st.sampled_from([*ONE, *TWO]), st.sampled_from(sorted(PATTERNS))
    return [
        RandomCodegen(
            name,
            draw(st.lists(kinds, max_size=3, unique=True)),
            draw(st.lists(patterns, max_size=2, unique=True)),
        )
        for name in names
    ]


@st.composite
def networks(draw: st.DrawFn) -> ModuleOp:
    """A network of up to fourteen ops, each at its own layer, that use one another at will."""
    block = Block(arg_types=[TYPE, TYPE])
    values: list[SSAValue] = list(block.args)
    square = graph.ConstantOp(constant_attr(VtacContext(), SQUARE), TensorType(f32, [4, 4]))
    block.add_op(square)
    for i in range(draw(st.integers(1, 14))):
        # Mostly what is near: long chains with branches.
        near = values[-4:] if draw(st.booleans()) else values
        a, b = draw(st.sampled_from(near)), draw(st.sampled_from(values))
        made: Operation
        match draw(st.integers(0, 4)):
            case 0:
                made = graph.ReluOp(a, TYPE)
            case 1:
                made = graph.ClipOp(a, TYPE, min=FloatAttr(-0.5, f64), max=FloatAttr(2.0, f64))
            case 2:
                made = graph.MatMulOp(a, square.result, TYPE)
            case _:
                made = graph.AddOp(a, b, TYPE)
        made.location = NameLoc(StringAttr(f"op{i}"), NoneAttr())
        block.add_op(made)
        values.append(made.results[0])
    results = draw(st.lists(st.sampled_from(values), min_size=1, max_size=4))
    block.add_op(ReturnOp(*results))
    return ModuleOp([FuncOp("main", ([TYPE, TYPE], [TYPE] * len(results)), Region(block))])


def partition(
    module: ModuleOp,
    codegens: Sequence[Codegen],
    max_ops: int | None = None,
    pruning: PruneRegionsPass | None = None,
) -> None:
    """All of the partitioner, as the driver runs it."""
    ctx = VtacContext(codegens=lambda: codegens)
    for codegen in codegens:
        MatchPatternsPass(codegen.name).apply(ctx, module)
    AnnotatePass().apply(ctx, module)
    MergeRegionsPass(max_ops).apply(ctx, module)
    (pruning or PruneRegionsPass()).apply(ctx, module)
    OutlineRegionsPass().apply(ctx, module)
    module.verify()


def functions_of(module: ModuleOp) -> dict[str, FuncOp]:
    return {f.sym_name.data: f for f in module.ops if isinstance(f, FuncOp)}


def layers_in(function: FuncOp) -> list[str]:
    """The layers of the ops that compute in a function, bodies of composites included."""
    skipped = graph.CompositeOp | graph.ConstantOp | graph.YieldOp | ReturnOp | CallOp
    return [layer_of(op) for op in function.body.walk() if not isinstance(op, skipped)]


def run(block: Block, arguments: Sequence[Array], functions: Mapping[str, FuncOp]) -> list[Array]:
    """What a block returns; a KeyError would mean that an op stands before what it uses."""
    values: dict[SSAValue, Array] = dict(zip(block.args, arguments, strict=True))
    for op in block.ops:
        inputs = [values[value] for value in op.operands]
        if isinstance(op, ReturnOp | graph.YieldOp):
            return inputs
        if isinstance(op, CallOp):
            called = functions[op.callee.root_reference.data]
            results = run(called.body.block, inputs, functions)
        elif isinstance(op, graph.CompositeOp):
            results = run(op.body.block, inputs, functions)
        elif isinstance(op, graph.ConstantOp):
            results = [SQUARE]
        else:
            found = evaluate(op, inputs)
            assert found is not None
            results = [found]
        values.update(zip(op.results, results, strict=True))
    raise AssertionError("a block must end")
