"""The traits of graph ops hold for what the ops compute, by the integer reference of the tests."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from graph_reference import run_reference
from xdsl.dialects.builtin import BoolAttr, ModuleOp, TensorType, f32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue

from vtac.dialects import graph
from vtac.dialects.context import Array, VtacContext
from vtac.dialects.graph.products import BatchMatMulOp

Make = Callable[..., Operation]

WINDOW = {"strides": [1, 2], "pads": [1, 0, 1, 1], "dilations": [1, 1]}
IMAGE = (2, 4, 5, 6)


def _type(*shape: int) -> TensorType:
    return TensorType(f32, shape)


def _pool(kind: Callable[..., Operation], **more: object) -> Make:
    return lambda x: kind(x, _type(2, 4, 5, 3), kernel=[3, 3], **WINDOW, **more)


POOLED = _pool(graph.AveragePoolOp, count_include_pad=BoolAttr.from_bool(False))
EXAMPLES: dict[type[Operation], tuple[Make, Sequence[Sequence[int]]]] = {
    graph.AddOp: (lambda a, b: graph.AddOp(a, b, _type(*IMAGE)), [IMAGE, (4, 1, 1)]),
    graph.SubOp: (lambda a, b: graph.SubOp(a, b, _type(*IMAGE)), [IMAGE, (4, 1, 1)]),
    graph.MulOp: (lambda a, b: graph.MulOp(a, b, _type(*IMAGE)), [IMAGE, (4, 1, 1)]),
    graph.DivOp: (lambda a, b: graph.DivOp(a, b, _type(*IMAGE)), [IMAGE, (4, 1, 1)]),
    graph.MaxOp: (lambda a, b: graph.MaxOp(a, b, _type(*IMAGE)), [IMAGE, IMAGE]),
    graph.MinOp: (lambda a, b: graph.MinOp(a, b, _type(*IMAGE)), [IMAGE, IMAGE]),
    graph.AbsOp: (lambda x: graph.AbsOp(x, x.type), [IMAGE]),
    graph.ActivationOp: (lambda x: graph.ActivationOp(x, "Selu", x.type, gamma=2.0), [IMAGE]),
    graph.NegOp: (lambda x: graph.NegOp(x, x.type), [IMAGE]),
    graph.ReluOp: (lambda x: graph.ReluOp(x, x.type), [IMAGE]),
    graph.ClipOp: (lambda x: graph.ClipOp(x, x.type), [IMAGE]),
    graph.LeakyReluOp: (lambda x: graph.LeakyReluOp(x, 0.25, x.type), [IMAGE]),
    graph.PReluOp: (lambda x, s: graph.PReluOp(x, s, x.type), [IMAGE, (4, 1, 1)]),
    graph.HardSigmoidOp: (lambda x: graph.HardSigmoidOp(x, 0.25, 0.5, x.type), [IMAGE]),
    graph.HardSwishOp: (lambda x: graph.HardSwishOp(x, x.type), [IMAGE]),
    graph.FakeQuantizeOp: (lambda x: graph.FakeQuantizeOp(x, 0.5, 3, x.type), [IMAGE]),
    graph.BatchNormOp: (
        lambda *v: graph.BatchNormOp(v, 0.25, _type(*IMAGE)),
        [IMAGE, (4,), (4,), (4,), (4,)],
    ),
    graph.ConcatOp: (
        lambda a, b: graph.ConcatOp([a, b], 1, _type(2, 7, 5, 6)),
        [IMAGE, (2, 3, 5, 6)],
    ),
    graph.SliceOp: (
        lambda x: graph.SliceOp(x, [0, 1, 0, 2], [1, 2, 1, 3], _type(2, 2, 5, 2)),
        [IMAGE],
    ),
    graph.TakeChannelsOp: (
        lambda x: graph.TakeChannelsOp(x, [3, 0, 0], _type(2, 3, 5, 6)),
        [IMAGE],
    ),
    graph.PadOp: (
        lambda x: graph.PadOp(x, [0, 1, 0, 2, 0, 0, 3, 0], 2.5, _type(2, 5, 8, 8)),
        [IMAGE],
    ),
    graph.UpsampleOp: (lambda x: graph.UpsampleOp(x, [1, 1, 2, 3], _type(2, 4, 10, 18)), [IMAGE]),
    graph.DepthToSpaceOp: (
        lambda x: graph.DepthToSpaceOp(x, [1, 2], _type(2, 2, 5, 12)),
        [IMAGE],
    ),
    graph.TransposeOp: (lambda x: graph.TransposeOp(x, [2, 0, 3, 1], _type(5, 2, 6, 4)), [IMAGE]),
    graph.ReshapeOp: (lambda x: graph.ReshapeOp(x, _type(8, 30)), [IMAGE]),
    graph.MaxPoolOp: (_pool(graph.MaxPoolOp), [IMAGE]),
    graph.AveragePoolOp: (POOLED, [IMAGE]),
    graph.SumPoolOp: (_pool(graph.SumPoolOp), [IMAGE]),
    graph.GlobalAveragePoolOp: (
        lambda x: graph.GlobalAveragePoolOp(x, _type(2, 4, 1, 1)),
        [IMAGE],
    ),
    graph.ConvOp: (
        lambda x, w, b: graph.ConvOp(x, w, b, _type(2, 6, 5, 3), group=2, **WINDOW),
        [IMAGE, (6, 2, 3, 3), (6,)],
    ),
    graph.GemmOp: (
        lambda a, b, c: graph.GemmOp(a, b, c, _type(3, 5), trans_b=True),
        [(3, 4), (5, 4), (5,)],
    ),
    graph.MatMulOp: (lambda a, b: graph.MatMulOp(a, b, _type(2, 3, 5)), [(2, 3, 4), (4, 5)]),
    BatchMatMulOp: (lambda a, b: BatchMatMulOp(a, b, 2, _type(6, 5)), [(6, 4), (10, 4)]),
}
"""For each op over floats: how it is made of operands, and their shapes."""

ON_INTEGERS = {graph.QuantizeOp, graph.DequantizeOp, graph.ShiftLeftOp, graph.RequantizeOp}
ON_INTEGERS |= {graph.AddBiasOp, graph.RescaleOp, graph.RequantizePlanesOp}
ON_INTEGERS |= {graph.MultiplyShiftOp, graph.ShiftRightByOp}
"""Ops between reals and integers, or on integers alone: element-wise, and of no other trait."""


class Example:
    """An op of one kind as a function of arrays."""

    def __init__(self, kind: type[Operation]):
        make, self.shapes = EXAMPLES[kind]
        block = Block(arg_types=[_type(*shape) for shape in self.shapes])
        self.op = make(*block.args)
        block.add_op(self.op)
        results: list[SSAValue] = [self.op.results[0]]
        block.add_op(ReturnOp(*results))
        types = ([a.type for a in block.args], [results[0].type])
        self.module = ModuleOp([FuncOp("main", types, Region(block))])
        self.module.verify()

    def operands(self, seed: int) -> list[Array]:
        """Small multiples of 1/4: sums of their products are exact."""
        draw = np.random.default_rng(seed).integers
        return [(draw(1, 40, shape) - 8.5).astype(np.float32) / 4 for shape in self.shapes]

    def __call__(self, *operands: Array) -> Array:
        names = {f"input_{i}": array for i, array in enumerate(operands)}
        return run_reference(self.module, names, VtacContext().resources)["output_0"]


def kinds_with(trait: type) -> list[type[Operation]]:
    """The kinds of ops over floats that have a trait."""
    return [kind for kind in EXAMPLES if kind.has_trait(trait)]


def by_name(kind: type[Operation]) -> str:
    return kind.name


def test_every_op_with_a_trait_has_an_example() -> None:
    traits = [graph.ElementWise, graph.MovesElements, graph.SelectsElements]
    traits += [graph.Contracts, graph.Pools, graph.Linear]
    having = {kind for kind in graph.Graph.operations if any(map(kind.has_trait, traits))}
    assert having == {*EXAMPLES, *ON_INTEGERS}
    assert all(kind.has_trait(graph.ElementWise) for kind in ON_INTEGERS)


@pytest.mark.parametrize("kind", kinds_with(graph.MovesElements), ids=by_name)
def test_what_moves_elements_goes_by_their_place_alone(kind: type[Operation]) -> None:
    example = Example(kind)
    numbers = np.cumsum([0, *(np.prod(shape) for shape in example.shapes)])
    first = [
        np.arange(start, stop, dtype=np.float32).reshape(shape) + 1000
        for start, stop, shape in zip(numbers, numbers[1:], example.shapes, strict=False)
    ]
    taken = example(*first).astype(int) - 1000  # below 0: a constant of the op's own
    values = example.operands(1)
    pool = np.concatenate([value.reshape(-1) for value in values])
    own = example(*first)
    assert np.array_equal(example(*values), np.where(taken < 0, own, pool[np.maximum(taken, 0)]))


@pytest.mark.parametrize("kind", kinds_with(graph.SelectsElements), ids=by_name)
def test_what_selects_elements_commutes_with_what_never_decreases(kind: type[Operation]) -> None:
    example = Example(kind)
    values = example.operands(2)

    def rounded(x: Array) -> Array:
        return np.clip(np.rint(x), -3, 4).astype(np.float32)

    assert np.array_equal(rounded(example(*values)), example(*map(rounded, values)))
    assert set(example(*values).reshape(-1)) <= {x for value in values for x in value.reshape(-1)}


@pytest.mark.parametrize("kind", kinds_with(graph.Linear), ids=by_name)
def test_what_is_linear_takes_sums_apart(kind: type[Operation]) -> None:
    example = Example(kind)
    first, second = example.operands(3), example.operands(4)
    count = len(first) if kind is graph.ConcatOp else 1
    rest = first[count:]
    both = [2 * x - y for x, y in zip(first[:count], second[:count], strict=True)]
    expected = 2 * example(*first) - example(*second[:count], *rest)
    np.testing.assert_allclose(example(*both, *rest), expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("kind", kinds_with(graph.ElementWise), ids=by_name)
def test_what_is_element_wise_looks_at_no_neighbour(kind: type[Operation]) -> None:
    example = Example(kind)
    values = example.operands(5)
    changed = values[0].copy()
    changed[1, 2, 3, 4] += 7
    differs = example(*values) != example(changed, *values[1:])
    differs[1, 2, 3, 4] = False
    assert not differs.any()


@pytest.mark.parametrize("kind", kinds_with(graph.Contracts), ids=by_name)
def test_what_contracts_sums_as_many_products_as_it_says(kind: type[Operation]) -> None:
    example = Example(kind)
    ones = [np.ones(shape, np.float32) for shape in example.shapes]
    ones[2:] = [np.zeros_like(x) for x in ones[2:]]  # no bias
    assert example(*ones).max() == example.op.products()  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", kinds_with(graph.Pools), ids=by_name)
def test_what_pools_stays_in_its_channel(kind: type[Operation]) -> None:
    example = Example(kind)
    (x,) = example.operands(6)
    changed = x.copy()
    changed[1, 2] += 1
    differs = example(x) != example(changed)
    assert differs[1, 2].all()
    differs[1, 2] = False
    assert not differs.any()
