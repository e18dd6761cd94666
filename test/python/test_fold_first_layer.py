"""fold-first-layer: random convolutions keep their integers, in the reference and in ONNX."""

import numpy as np
from graph_reference import run_reference
from hypothesis import given, settings
from hypothesis import strategies as st
from small_models import run
from xdsl.dialects.builtin import ModuleOp, TensorType, f32, i8, i32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue

from vtac.dialects import graph
from vtac.dialects.context import VtacContext, constant_attr, tensor_type
from vtac.dialects.graph import PackedAttr
from vtac.dialects.target import TARGET_ATTRIBUTE, ClusterTarget, Target
from vtac.lowering.graph_to_onnx import host_model
from vtac.passes.graph.fold_first_layer import FoldFirstLayerPass
from vtac.passes.graph.folds import FoldChooser, WindowedAxis, digits, fold_weights

LAYOUT = PackedAttr(2, 16)
TARGET = Target.named("sim").replace(log_batch=1)


def layer(draw, ctx: VtacContext, rng: np.random.Generator) -> ModuleOp:
    """quantize, convolution, perhaps an addition, requantize; small odd shapes of rank 1 to 3."""
    rank = draw(st.integers(1, 3))
    channels, outputs, batch = draw(st.integers(1, 9)), draw(st.integers(1, 5)), 3
    kernel = [draw(st.integers(1, 3)) for _ in range(rank)]
    dilations = [draw(st.integers(1, 2)) for _ in range(rank)]
    strides = [draw(st.integers(1, 3)) for _ in range(rank)]
    pads = [draw(st.integers(0, 2)) for _ in range(2 * rank)]
    sizes = [dilations[i] * (kernel[i] - 1) + 1 + draw(st.integers(0, 4)) for i in range(rank)]
    counts = [
        graph.window_extent(sizes[i], kernel[i], strides[i], pads[i] + pads[rank + i], dilations[i])
        for i in range(rank)
    ]
    block = Block(arg_types=[TensorType(f32, [batch, channels, *sizes])])

    def add(op) -> SSAValue:
        block.add_op(op)
        return op.results[0]

    def constant(array) -> SSAValue:
        return add(graph.ConstantOp(constant_attr(ctx, array), tensor_type(array)))

    shape = [batch, outputs, *counts]
    x = add(graph.QuantizeOp(block.args[0], 1.0, 0, TensorType(i8, [batch, channels, *sizes])))
    w = constant(rng.integers(-128, 128, [outputs, channels, *kernel]).astype(np.int8))
    numbers = {"strides": strides, "pads": pads, "dilations": dilations}
    numbers["pad_value"] = draw(st.sampled_from([0, -128, 127]))
    acc = add(graph.ConvOp(x, w, None, TensorType(i32, shape), **numbers))
    if draw(st.booleans()):
        acc = add(graph.AddOp(acc, acc, TensorType(i32, shape)))
    largest = draw(st.sampled_from([0, 100, 20_000, 10**7]))
    bias = constant(rng.integers(-largest, largest + 1, outputs).astype(np.int32))
    shift = constant(rng.integers(4, 14, outputs).astype(np.int32))
    y = add(graph.RequantizeOp(acc, bias, shift, TensorType(i8, shape), lo=-128, hi=127, scale=1.0))
    block.add_op(ReturnOp(y))
    function = FuncOp("main", (block.arg_types, [y.type]), Region(block))
    return ModuleOp([function], {TARGET_ATTRIBUTE: TARGET})


@settings(max_examples=60)
@given(st.data(), st.sampled_from([0.0, 0.5, 30.0]), st.sampled_from([1, 8]))
def test_the_integers_stay(data: st.DataObject, border: float, cores: int) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    ctx = VtacContext()
    module = layer(data.draw, ctx, rng)
    if cores > 1:
        module.attributes[TARGET_ATTRIBUTE] = ClusterTarget.named("cluster-8").replace(core=TARGET)
    (function,) = (op for op in module.body.block.ops if isinstance(op, FuncOp))
    x = rng.integers(-128, 128, function.args[0].type.get_shape()).astype(np.float32)
    expected = run_reference(module, {"input_0": x}, ctx.resources)["output_0"]
    FoldFirstLayerPass(border).apply(ctx, module)
    module.verify()
    seen: dict[SSAValue, np.ndarray] = {}
    actual = run_reference(module, {"input_0": x}, ctx.resources, seen.__setitem__)["output_0"]
    np.testing.assert_array_equal(actual, expected)
    packs = {}
    for op in [op for op in function.walk() if isinstance(op, graph.UnfoldOp)]:
        type = TensorType(i8, op.result.type.get_shape(), LAYOUT)
        packs["packed"] = graph.PackOp(op.result, type)
        function.body.block.insert_op_after(packs["packed"], op)
        unfolded = op.result
    model = host_model(module, ctx, extra_outputs={n: p.result for n, p in packs.items()})
    actual, *packed = run(model, {"input_0": x})
    np.testing.assert_array_equal(actual, expected)
    for array in packed:
        np.testing.assert_array_equal(array, in_layout(seen[unfolded]))


def in_layout(x: np.ndarray) -> np.ndarray:
    """[N, C, spatial...] as it lies in DRAM."""
    batch, block = LAYOUT.batch.data, LAYOUT.block.data
    fill = [(0, -x.shape[0] % batch), (0, -x.shape[1] % block), *[(0, 0)] * (x.ndim - 2)]
    whole = np.pad(x, fill)
    split = whole.reshape(-1, batch, whole.shape[1] // block, block, *x.shape[2:])
    return np.moveaxis(split, (1, 3), (-2, -1))


@given(st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=4), st.integers(1, 15))
def test_digits_sum_to_the_bias(values: list[int], lanes: int) -> None:
    constants = np.array([1] + [127] * (lanes - 1))
    found = digits(np.array(values, np.int64), lanes)
    reach = 127 * 127 * (lanes - 1) + 126
    assert (found is not None) == all(abs(value) <= reach for value in values)
    if found is not None:
        np.testing.assert_array_equal(found.astype(np.int64) @ constants, values)
        terms = np.abs(found.astype(np.int64)) @ constants
        np.testing.assert_array_equal(terms, np.abs(values))


@given(st.data(), st.integers(2, 4), st.integers(2, 9), st.integers(1, 20), st.integers(0, 3))
def test_phases_and_their_weights_are_the_convolution(
    data: st.DataObject, stride: int, kernel: int, more: int, pad: int
) -> None:
    size = max(kernel - 2 * pad, 1) + more
    count = (size + 2 * pad - kernel) // stride + 1
    axis = WindowedAxis(size, count, kernel, stride, pad, 1, pad)
    for group in axis.groups():
        seed = data.draw(st.integers(0, 1000))
        x = np.random.default_rng(seed).integers(-9, 9, size)
        w = np.random.default_rng(seed + 1).integers(-9, 9, kernel)
        padded = np.pad(x, pad)
        expected = [padded[i * stride : i * stride + kernel] @ w for i in range(count)]
        if group:
            filled = np.pad(x, (pad, axis.filled_up(group)))
            elements = np.stack([filled[i * stride :][:group] for i in range(axis.extent(group))])
            folded = fold_weights(w[None, None], [group])[0]  # [group, taps]
            taps = range(axis.taps(group))
            assert folded.shape == (group, len(taps))
            found = [sum(elements[i + t] @ folded[:, t] for t in taps) for i in range(count)]
            assert found == expected


def test_a_cluster_reads_fewer_bytes_and_computes_more() -> None:
    rows = WindowedAxis(224, 112, 7, 2, 3, 1, 3)
    assert rows.groups() == [0, 2, 7]
    assert (rows.extent(2), rows.taps(2), rows.filled_up(2)) == (115, 4, 3)


@settings(max_examples=40)
@given(st.data())
def test_a_bias_that_is_copied_needs_no_lanes(data: st.DataObject) -> None:
    """27 taps of three channels leave five lanes of two blocks, and the bias needs more.

    Where a copy of the bias replaces the reset (alu_imm_src), all taps are folded. Where adding it
    takes cycles of its own, one axis stays, whose elements have room for them.
    """
    stride, outputs = data.draw(st.integers(2, 3)), data.draw(st.integers(1, 16))
    count = data.draw(st.integers(16, 80))
    size = stride * (count - 1) + 3
    bias = np.array(data.draw(st.lists(st.integers(-90_000, 90_000), min_size=16, max_size=16)))
    bias[0] = data.draw(st.sampled_from([-1, 1])) * data.draw(st.integers(65_000, 90_000))
    bias = bias[:outputs] if outputs > 1 else np.array([bias[0]])
    types = [[1, 3, size, size], [outputs, 3, 3, 3]]
    block = Block(arg_types=[TensorType(i8, shape) for shape in types])
    conv = graph.ConvOp(
        *block.args,
        None,
        TensorType(i32, [1, outputs, count, count]),
        strides=[stride] * 2,
        pads=[0] * 4,
        dilations=[1] * 2,
    )
    copies = Target.named("chisel-pynq")
    adds = copies.replace(alu_imm_src=False)
    found = [FoldChooser(conv, bias, False, target, 0.5).best() for target in (copies, adds)]
    assert (found[0].groups, found[0].lanes) == ((3, 3), 0)
    if outputs > 1:
        assert sorted(found[1].groups) == [0, 3]
        assert found[1].lanes > -27 % copies.block
