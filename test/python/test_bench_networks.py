"""The page on networks: what its command measures, keeps and writes; the networks it builds."""

import dataclasses
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from by_path import ROOT, load
from onnx import TensorProto, helper, numpy_helper
from small_models import one_thread

import vtac

bench = load("test/benchmarks/bench_networks.py")
mobile = load("test/benchmarks/mobile_networks.py")
resnet18 = load("test/benchmarks/resnet18.py")


def record(**fields: object):
    """A record with figures of its own."""
    given = {"cycles": 1200, "work": 900, "bound": 1000, "launches": 1, "nodes": (4, 3)}
    given["products"] = (8, 6)
    return bench.Record(**{**given, **fields})


def test_records_survive_a_file(tmp_path: Path) -> None:
    records = {
        "mnist8": record(
            top1=(0.5, 0.75, None), equal=(1.0, None), distance={"biases": 3}, kinds={"clips": 7}
        ),
        "mlperf_ad_qdq": record(error=(0.125, None)),
    }
    path = tmp_path / "deep" / "records.json"
    assert bench.load(path) == {}
    bench.save(path, records)
    assert bench.load(path) == records


def test_the_page_lists_what_is_far_from_its_bound_and_no_other() -> None:
    near = record(cycles=1090)
    far = record(cycles=1110, distance={"biases": 110}, layers={"c": 222}, kinds={"clips": 99})
    text = bench.page({"mnist8": near, "mlperf_ad_qdq": far}, {"mnist8": record(cycles=4321)}, "x")
    _, cycles, above, kinds, *_ = text.split("\n| network")
    assert "| mnist8 | 4,321 | 1,090 | 900 | 1,000 | 1.09 | 1 | 75.00 % | 75.0 % |" in cycles
    assert "| mlperf_ad_qdq |  | 1,110 | 900 | 1,000 | 1.11 |" in cycles
    assert "mnist8" not in above
    assert "| mlperf_ad_qdq | 1.11 | 210 | 100 |  | 110 |" in above
    assert above.split("\n## ")[0].rstrip().endswith("| c 20% |")
    assert "| mlperf_ad_qdq |  |  |  |  |  |  | 99 |  |  | 9% |" in kinds


def test_accuracies_stand_in_their_columns() -> None:
    new = record(top1=(0.9, 0.95, 0.8), equal=(0.97, 0.85))
    text = bench.page({"mnist8": new}, {"mnist8": record(top1=(0.7, 0, 0), equal=(0.6, 0))}, "x")
    assert "| mnist8 | 95.0 | 80.0 | 70.0 | 90.0 | 85.0 | 60.0 | 97.0 |" in text


def test_the_page_in_docs_is_what_its_command_writes() -> None:
    """The headings and the text; figures take minutes and are measured by the command."""
    page = (ROOT / "docs/networks.md").read_text()
    for part in bench.TEXT.split("\n\n"):
        if "{" not in part and not part.startswith("|"):
            assert part.strip() in page, part


@pytest.mark.parametrize("target", ["chisel-pynq", "pynq"])
def test_a_record_adds_up(target: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    weights = [rng.normal(0, 0.1, s).astype(np.float32) for s in ((16, 16, 3, 3), (16, 16, 1, 1))]
    initial = [numpy_helper.from_array(w, f"w{i}") for i, w in enumerate(weights)]
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["a"], name="first", pads=[1] * 4),
        helper.make_node("Relu", ["a"], ["b"], name="relu"),
        helper.make_node("Conv", ["b", "w1"], ["c"], name="second"),
        helper.make_node("Softmax", ["c"], ["y"], name="soft", axis=1),
    ]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 16, 8, 8]) for n in "xy"]
    graph = helper.make_graph(nodes, "small", ends[:1], ends[1:], initial)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = tmp_path / "small.onnx"
    onnx.save(model, path)
    samples = rng.normal(size=(6, 1, 16, 8, 8)).astype(np.float32)
    given = bench.Network(path, "x", samples[:4], samples[4:])
    found = bench.measure(given, target, tmp_path, judged=True)
    module = vtac.compile(path, target, {"x": samples[:4]})
    (launch,) = module.profile().launches
    account = launch.report.total
    (flow,) = module.flow_bounds(module.profile())
    assert (found.cycles, found.work) == (launch.report.cycles, account.lower_bound)
    assert found.bound == max(found.work, flow.cycles) and found.work < flow.cycles
    assert found.nodes == (4, 3)
    assert found.products == (64 * 16 * 16 * 10,) * 2
    assert sum(found.distance.values()) == found.cycles - found.work
    assert min(found.distance.values()) >= 0
    assert set(found.distance) <= set(bench.REASONS) and set(found.kinds) <= set(bench.KINDS)
    assert sum(found.kinds.values()) == account.bounds["compute"]
    assert found.kinds["products"] == account.gemm_micro_ops * launch.report.preset.gemm_cycles
    assert found.error[0] is not None and 0 < found.error[0] < 0.1
    assert found.error[1] is not None and 0 < found.error[1] < 0.1
    silent = bench.measure(given, target, tmp_path, judged=False)
    assert silent == dataclasses.replace(found, error=(None, None))


def test_errors_are_shares_of_the_deviation() -> None:
    expected = [{"a": np.array([1.0, -1.0]), "b": np.array([2.0, -2.0])}]
    found = [{"b": np.array([2.0, -2.0]), "a": np.array([1.5, -0.5])}]
    assert bench.error(found, expected) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("make", "convolutions", "products"),
    [
        (lambda: mobile.mobilenet_v1(96), 27, 7.49e6),
        (lambda: mobile.mobilenet_v2(224), 52, 300.8e6),
    ],
)
def test_mobile_networks_are_those_of_their_papers(make, convolutions, products) -> None:
    model = make()
    onnx.checker.check_model(model, full_check=True)
    kinds = [node.op_type for node in model.graph.node]
    assert kinds.count("Conv") == convolutions
    shapes = {t.name: list(t.dims) for t in model.graph.initializer}
    inferred = onnx.shape_inference.infer_shapes(model).graph
    values = [*inferred.value_info, *inferred.output]
    extents = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in values}
    counted = sum(
        np.prod(extents[node.output[0]]) * np.prod(shapes[node.input[1]][1:])
        for node in model.graph.node
        if node.op_type in ("Conv", "Gemm")
    )
    assert counted == pytest.approx(products, rel=0.01)


def test_what_a_builder_computes_is_what_onnxruntime_computes() -> None:
    model = mobile.mobilenet_v1(resnet18.SAMPLE_SIZE)
    session = onnxruntime.InferenceSession(model.SerializeToString(), one_thread())
    pictures = resnet18.images(4, 0, resnet18.SAMPLE_SIZE)
    logits = [session.run(None, {"image": picture[None]})[0] for picture in pictures]
    assert np.isfinite(logits).all()
    assert np.std(logits, axis=0).min() > 0.01
