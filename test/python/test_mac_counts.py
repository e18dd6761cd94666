"""Multiply-accumulates of nodes against counts made another way.

Convolutions and products of matrices are run on ones: each product then adds 1, so that the sum of
all results is their number. Recurrent operators run in onnx's reference evaluator, whose calls of
``np.dot`` are counted.
"""

from collections.abc import Sequence
from math import prod
from random import Random
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from xdsl.dialects.builtin import TensorType, f32
from xdsl.utils.test_value import create_ssa_value

import vtac
from vtac.dialects.context import VtacContext
from vtac.dialects.graph import HostOp, MacCount, macs_of
from vtac.lowering.onnx_to_graph import import_model
from vtac.tools.driver.discovery import load_dialects
from vtac.tools.driver.placements import Nodes
from vtac.tools.driver.planner import main_function
from vtac.tools.reports.partition_report import share_lines

FLOAT = TensorProto.FLOAT
MICROSOFT = "com.microsoft"


def model_of(
    nodes: Sequence[onnx.NodeProto],
    inputs: dict[str, Sequence[int | str | None] | None],
    outputs: Sequence[str],
    weights: dict[str, np.ndarray] | None = None,
    domains: Sequence[str] = (),
) -> onnx.ModelProto:
    """A model of float inputs; outputs have no declared shapes."""
    graph = helper.make_graph(
        list(nodes),
        "counted",
        [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, FLOAT, None) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()],
    )
    opsets = [helper.make_opsetid("", 17), *(helper.make_opsetid(d, 1) for d in domains)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def imported(model: onnx.ModelProto, **options: Any) -> Nodes:
    """The nodes of a model as the driver sees them."""
    ctx = VtacContext()
    load_dialects(ctx)
    return Nodes.of(import_model(model, ctx, **options))


def on_ones(node: onnx.NodeProto, shapes: Sequence[Sequence[int]]) -> int:
    """The sum of the results of a node without bias and padding whose operands are all 1."""
    names = list(node.input)[: len(shapes)]
    values = [np.ones(shape, np.float32) for shape in shapes]
    model = model_of([node], dict(zip(names, shapes, strict=True)), [node.output[0]])
    session = onnxruntime.InferenceSession(model.SerializeToString())
    (found,) = session.run(None, dict(zip(names, values, strict=True)))
    return round(float(found.astype(np.float64).sum()))


class Growing:
    """A random network that grows node by node, and the count of each node that multiplies."""

    def __init__(self, seed: int):
        self.random = Random(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: dict[str, np.ndarray] = {}
        self.counts: dict[str, int] = {}
        self.numbers = np.random.default_rng(seed)
        self.shape = [self.random.randint(1, 3), self.random.choice([2, 4, 6])]
        self.shape += [self.random.randint(9, 14) for _ in range(self.random.choice([1, 2]))]
        self.first = list(self.shape)

    def weight(self, array: np.ndarray) -> str:
        """The name of a new constant."""
        name = f"w{len(self.weights)}"
        self.weights[name] = array
        return name

    def add(self, kind: str, *weights: Sequence[int], **attributes: Any) -> str:
        """Append a node that reads the last one, and new weights of some shapes; its name."""
        last = self.nodes[-1].output[0] if self.nodes else "x"
        name = f"{kind.lower()}{len(self.nodes)}"
        drawn = (self.numbers.normal(0, 0.1, shape).astype(np.float32) for shape in weights)
        inputs = [last, *map(self.weight, drawn)]
        self.nodes.append(helper.make_node(kind, inputs, [f"{name}_y"], name, **attributes))
        return name

    def reshape(self, *shape: int) -> None:
        """Append a Reshape."""
        last = self.nodes[-1].output[0] if self.nodes else "x"
        inputs = [last, self.weight(np.array(shape, np.int64))]
        self.nodes.append(helper.make_node("Reshape", inputs, [f"shaped{len(self.nodes)}"]))
        self.shape = list(shape)

    def convolution(self) -> None:
        """Grouped, strided, dilated, padded, over one or two axes, transposed or not."""
        random, (batch, channels, *space) = self.random, self.shape
        kind = random.choice(["Conv", "ConvTranspose"])
        group = random.choice([g for g in (1, 2, channels) if channels % g == 0])
        outputs = group * random.randint(1, 3)
        kernel = [random.randint(1, 3) for _ in space]
        how = {
            "group": group,
            "strides": [random.randint(1, 2) for _ in space],
            "dilations": [random.randint(1, 2) for _ in space],
        }
        pads = [random.randint(0, extent - 1) for extent in kernel] * 2
        if kind == "Conv":
            weights, wide = [outputs, channels // group, *kernel], np.array(pads[: len(space)])
        else:
            weights, wide = [channels, outputs // group, *kernel], np.zeros(len(space), int)
        bare = helper.make_node(kind, ["x", "w"], ["y"], **how)
        padded = [batch, channels, *(np.array(space) + 2 * wide).tolist()]
        name = self.add(kind, weights, pads=pads, **how)
        self.counts[name] = on_ones(bare, [padded, weights])
        whole = helper.make_node(kind, ["x", "w"], ["y"], pads=pads, **how)
        self.shape = shape_after(model_of([whole], {"x": self.shape, "w": weights}, ["y"]))

    def dense(self) -> None:
        """A product of the last dimension with a matrix, as MatMul or Einsum."""
        inner, outer = self.shape[-1], self.random.randint(1, 9)
        kind, how = self.random.choice([("MatMul", {}), ("Einsum", {"equation": "...i,io->...o"})])
        bare = helper.make_node(kind, ["x", "w"], ["y"], **how)
        self.counts[self.add(kind, [inner, outer], **how)] = on_ones(
            bare, [self.shape, [inner, outer]]
        )
        self.shape = [*self.shape[:-1], outer]

    def recurrent(self) -> None:
        """RNN, GRU or LSTM over the channels, in one direction or both."""
        steps, batch, inputs = self.shape[1], self.shape[0], prod(self.shape[2:])
        self.reshape(steps, batch, inputs)
        kind = self.random.choice(["RNN", "GRU", "LSTM"])
        rows = {"RNN": 1, "GRU": 3, "LSTM": 4}[kind] * (hidden := self.random.randint(2, 5))
        how: dict[str, Any] = {"hidden_size": hidden}
        directions = self.random.choice([1, 2])
        if directions == 2:
            how["direction"] = "bidirectional"
        if directions == 2 and kind == "RNN":
            how["activations"] = ["Tanh", "Tanh"]
        weights = [directions, rows, inputs], [directions, rows, hidden]
        node = helper.make_node(kind, ["x", "w", "r"], ["y"], **how)
        self.counts[self.add(kind, *weights, **how)] = dots(node, [self.shape, *weights])
        self.shape = [steps, directions, batch, hidden]

    def model(self) -> onnx.ModelProto:
        """The network."""
        return model_of(self.nodes, {"x": self.first}, [self.nodes[-1].output[0]], self.weights)


def dots(node: onnx.NodeProto, shapes: Sequence[Sequence[int]]) -> int:
    """The products in the calls of ``np.dot`` while onnx's reference runs a node.

    The reference of a GRU forms the sums of the hidden gate for both meanings of the reset gate:
    one call for each is taken out again.
    """
    counted, real = 0, np.dot

    def counting(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        nonlocal counted
        counted += a.shape[0] * a.shape[1] * b.shape[1]
        return real(a, b)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(np, "dot", counting)
        model = model_of([node], dict(zip(node.input, shapes, strict=True)), ["y"])
        zeros = [np.zeros(shape, np.float32) for shape in shapes]
        ReferenceEvaluator(model).run(None, dict(zip(node.input, zeros, strict=True)))
    (steps, batch, inputs), (directions, rows, _), (*_, hidden) = shapes
    if node.op_type == "GRU":
        counted -= steps * batch * directions * rows // 3 * (inputs + hidden)
    return counted


def shape_after(model: onnx.ModelProto) -> list[int]:
    """The shape of a model's result by onnx's inference."""
    found = onnx.shape_inference.infer_shapes(model).graph.output[0].type.tensor_type.shape
    return [dim.dim_value for dim in found.dim]


@pytest.mark.parametrize("seed", range(40))
def test_random_networks(seed: int) -> None:
    net = Growing(seed)
    for _ in range(net.random.randint(1, 4)):
        net.convolution()
    net.dense()
    net.recurrent()
    net.dense()
    for calibrated in (False, True):
        found = imported(net.model(), calibrated=calibrated).macs
        assert {name: found[name] for name in net.counts} == {
            name: MacCount(count) for name, count in net.counts.items()
        }
        assert sum(count.least for count in found.values()) == sum(net.counts.values())


@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
@pytest.mark.parametrize("state", [False, True])
def test_unrolled_networks_have_the_products_of_the_whole(kind: str, state: bool) -> None:
    """A state of 0 is not multiplied in the first step."""
    steps, batch, inputs, hidden = 3, 2, 50, 48
    rows = {"RNN": 1, "GRU": 3, "LSTM": 4}[kind] * hidden
    shapes = [[steps, batch, inputs], [1, rows, inputs], [1, rows, hidden]]
    node = helper.make_node(kind, ["x", "w", "r"], ["y"], "layer", hidden_size=hidden)
    count = dots(node, shapes) - (0 if state else batch * rows * hidden)
    numbers = np.random.default_rng(1)
    weights = {
        n: numbers.normal(0, 0.1, s).astype(np.float32)
        for n, s in zip("wr", shapes[1:], strict=True)
    }
    given = {"x": shapes[0]}
    if state:
        node.input.extend(["", "", "s"])
        given["s"] = [1, batch, hidden]
    found = imported(model_of([node], given, ["y"], weights), calibrated=True)
    assert found.kinds == {"layer": kind}
    assert found.macs == {"layer": MacCount(count)}


@pytest.mark.parametrize(
    ("kind", "shapes", "attributes", "count"),
    [
        # 5 queries and 7 keys in heads of together 8 channels: each score and each mean.
        ("MultiHeadAttention", [[1, 5, 8], [1, 7, 8], [1, 7, 8]], {"num_heads": 2}, 2 * 5 * 7 * 8),
        # 3 tokens of 6 numbers: to 3 times 8 channels, then as above.
        ("Attention", [[2, 3, 6], [6, 24], [24]], {"num_heads": 2}, 2 * 3 * (6 * 24 + 2 * 3 * 8)),
        ("FusedMatMul", [[2, 3, 5], [2, 4, 5]], {"transB": 1}, 2 * 3 * 4 * 5),
        ("FastGelu", [[2, 3]], {}, 0),
        ("CDist", [[3, 4], [5, 4]], {}, None),
    ],
)
def test_operators_of_onnxruntime(kind, shapes, attributes, count) -> None:
    names = [f"x{i}" for i in range(len(shapes))]
    node = helper.make_node(kind, names, ["y"], "node", domain=MICROSOFT, **attributes)
    model = model_of([node], dict(zip(names, shapes, strict=True)), ["y"], domains=[MICROSOFT])
    known = {"y": helper.make_tensor_type_proto(FLOAT, result_of(model))}
    found = imported(model, known=known).macs["node"]
    assert found == (MacCount(0, False) if count is None else MacCount(count))


def result_of(model: onnx.ModelProto) -> list[int]:
    """The shape that onnxruntime finds for the result of a model."""
    session = onnxruntime.InferenceSession(model.SerializeToString())
    feeds = {i.name: np.zeros(i.shape, np.float32) for i in session.get_inputs()}
    return list(session.run(None, feeds)[0].shape)


def test_what_shapes_do_not_say_is_said() -> None:
    """Extents that are not known count as 1; subgraphs and other domains are not counted."""
    weights = {"w": np.ones((6, 7), np.float32), "f": np.ones((4, 2, 3, 3), np.float32)}
    once = helper.make_graph(
        [helper.make_node("MatMul", ["m", "w"], ["p"])],
        "once",
        [],
        [helper.make_tensor_value_info("p", FLOAT, None)],
    )
    nodes = [
        helper.make_node("MatMul", ["a", "w"], ["ya"], "unknown rank"),
        helper.make_node("MatMul", ["b", "w"], ["yb"], "unknown batch"),
        helper.make_node("MatMul", ["m", "w"], ["ym"], "known"),
        helper.make_node("Conv", ["i", "f"], ["yi"], "unknown image"),
        helper.make_node("If", ["c"], ["yc"], "branches", then_branch=once, else_branch=once),
    ]
    inputs = {"a": None, "b": ["n", 6], "m": [5, 6], "i": [1, 2, None, 8]}
    model = model_of(nodes, inputs, ["ya", "yb", "ym", "yi", "yc"], weights)
    model.graph.input.append(helper.make_tensor_value_info("c", TensorProto.BOOL, []))
    assert imported(model).macs == {
        "unknown rank": MacCount(6 * 7, False),
        "unknown batch": MacCount(6 * 7, False),
        "known": MacCount(5 * 6 * 7),
        "unknown image": MacCount(4 * 1 * 6 * 2 * 3 * 3, False),
        "branches": MacCount(0, False),
    }


def lstm_behind_a_convolution(batch: int | str) -> onnx.ModelProto:
    """A convolution for the accelerator and a recurrent layer that is too small for it."""
    numbers = np.random.default_rng(3)
    weights = {
        "f": numbers.normal(0, 0.2, (8, 4, 3)).astype(np.float32),
        "w": numbers.normal(0, 0.2, (1, 20, 8)).astype(np.float32),
        "r": numbers.normal(0, 0.2, (1, 20, 5)).astype(np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["x", "f"], ["a"], "conv"),
        helper.make_node("Relu", ["a"], ["b"], "relu"),
        helper.make_node("Transpose", ["b"], ["c"], "turn", perm=[2, 0, 1]),
        helper.make_node("LSTM", ["c", "w", "r"], ["y"], "lstm", hidden_size=5),
    ]
    return model_of(nodes, {"x": [batch, 4, 34]}, ["y"], weights)


def test_recurrent_layers_on_the_host_are_part_of_the_share(tmp_path) -> None:
    samples = {"x": np.random.default_rng(4).normal(0, 1, (4, 4, 34)).astype(np.float32)}
    model = lstm_behind_a_convolution(1)
    module = vtac.compile(model, calibration=samples, criteria=vtac.Criteria(compare=False))
    conv, lstm = 8 * 4 * 3 * 32, 32 * 4 * 5 * (8 + 5)
    assert module.report.partition.macs == (conv + lstm, conv)
    share = (
        f"{conv:,} of {conv + lstm:,} multiply-accumulates offloaded ({conv / (conv + lstm):.1%})"
    )
    assert share_lines(module.report.partition)[1:] == [share]
    module.save(tmp_path / "model.vtapkg")
    again = vtac.load(tmp_path / "model.vtapkg").explain
    assert {p.node: (p.macs, p.macs_known) for p in again} == {
        "conv": (conv, True), "relu": (0, True), "turn": (0, True), "lstm": (lstm, True)
    }  # fmt: skip


@pytest.mark.filterwarnings("ignore")
def test_the_share_names_what_is_not_known() -> None:
    report = vtac.compile(lstm_behind_a_convolution("n")).report.partition
    assert report.uncounted == ("conv", "lstm")
    assert share_lines(report)[1:] == [
        f"0 of at least {8 * 4 * 3 * 32 + 32 * 4 * 5 * (8 + 5):,} multiply-accumulates offloaded"
        " (at most 0.0%)",
        "multiply-accumulates of 2 nodes are not known: conv, lstm",
    ]


def test_attention_that_stays_whole_counts_as_its_body() -> None:
    ctx = VtacContext()
    load_dialects(ctx)
    shapes = {"q": [1, 5, 8], "k": [1, 7, 8], "v": [1, 7, 6]}
    node = helper.make_node("Attention", ["q", "k", "v"], ["y"], q_num_heads=2, kv_num_heads=2)
    model = model_of([node], shapes, ["y"])
    model.opset_import[0].version = 23
    body = sum(macs_of(op).least for op in main_function(import_model(model, ctx)).body.walk())
    types = [TensorType(f32, shape) for shape in (*shapes.values(), [1, 5, 6])]
    whole = HostOp("Attention", [create_ssa_value(t) for t in types[:3]], types[3:])
    assert macs_of(whole) == MacCount(5 * 7 * (8 + 6)) == MacCount(body)
