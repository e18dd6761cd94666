"""The public face: compile, run, save and load, on models that run here or there or both."""

import json
import warnings
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from digits_model import MODEL, images
from onnx import TensorProto, helper
from small_models import one_thread

import vtac
from vtac.passes.graph.host_model import HostModel
from vtac.runtime.package import package_to_bytes
from vtac.tools.commands.vta_sim import main as time_program

SAMPLES = images()[:64]


@cache
def digits(shift: str = "auto") -> vtac.Module:
    return vtac.compile(MODEL, "pynq", SAMPLES, shift=shift)


def reference(model: onnx.ModelProto | Path, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    data = model.read_bytes() if isinstance(model, Path) else model.SerializeToString()
    session = onnxruntime.InferenceSession(data, one_thread(), providers=["CPUExecutionProvider"])
    return list(session.run(None, feeds))


def model_of(
    nodes: list[onnx.NodeProto],
    inputs: list[onnx.ValueInfoProto],
    outputs: list[onnx.ValueInfoProto],
    initializers: tuple[onnx.TensorProto, ...] = (),
) -> onnx.ModelProto:
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(initializers))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def tensor(name: str, *shape: int | str, type: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, type, shape)


def test_a_model_compiles_runs_and_agrees() -> None:
    module = digits()
    same = 0
    for image in images()[64:128]:
        (logits,) = module.run({"image": image[None]}).values()
        (expected,) = reference(MODEL, {"image": image[None]})
        same += int(logits.argmax() == expected.argmax())
        assert logits.shape == expected.shape and logits.dtype == np.float32
    assert same >= 62
    assert module.counters.gemm_micro_ops > 0


@pytest.mark.parametrize("shift", ["channel", "block", "auto"])
def test_results_do_not_depend_on_the_order_of_the_modules(shift: str) -> None:
    module = digits(shift)
    feeds = {"image": SAMPLES[:1]}
    expected = module.run(feeds)["logits"]
    for seed in range(3):
        assert (module.run(feeds, order_seed=seed)["logits"] == expected).all()


def test_a_saved_package_gives_the_same_answers(tmp_path: Path) -> None:
    digits().save(tmp_path / "digits.vtapkg")
    loaded = vtac.load(tmp_path / "digits.vtapkg")
    feeds = {"image": SAMPLES[:1]}
    assert (loaded.run(feeds)["logits"] == digits().run(feeds)["logits"]).all()
    assert loaded.report is None


def test_paths_bytes_and_messages_give_the_same_bytes(tmp_path: Path) -> None:
    weights = np.random.default_rng(0).normal(size=(5, 1, 3, 3)).astype(np.float32)
    model = model_of(
        [helper.make_node("Conv", ["image", "w"], ["y"], "conv", pads=[1, 1, 1, 1])],
        [tensor("image", 1, 1, 8, 8)],
        [tensor("y", 1, 5, 8, 8)],
        (onnx.numpy_helper.from_array(weights, "w"),),
    )
    path, target = tmp_path / "model.onnx", vtac.Target.named("pynq")
    onnx.save(model, path)
    sources = (path, str(path), path.read_bytes(), model)
    compiled = [vtac.compile(source, target, {"image": SAMPLES}) for source in sources]
    assert all("vta_0" in module.package.functions for module in compiled)
    assert len({package_to_bytes(module.package) for module in compiled}) == 1


def test_every_node_has_a_place_and_those_on_the_host_a_reason() -> None:
    module = digits()
    where = {placement.node: placement for placement in module.explain}
    assert len(where) == len(onnx.load(MODEL).graph.node)
    assert all(p.where == "vta_0" or p.reason for p in module.explain)
    assert any(p.where == "vta_0" for p in module.explain)


def test_the_report_has_every_level_and_time() -> None:
    report = digits().report
    names = [level.name for level in report.levels]
    assert names == [
        "imported",
        "canonical",
        "calibrated",
        "quantised",
        "graph",
        "te",
        "loops",
        "vta",
    ]
    assert report.levels[-1].ops["vta.program"] == 1
    assert {"import", "calibrate", "quantize", "te-to-vta", "encode"} <= set(report.seconds)
    assert any("'image' has shape [1, 1, 8, 8]" in note for note in report.notes)


def test_the_estimate_of_a_region_is_near_the_cycles_of_the_clock() -> None:
    (region,) = digits().report.partition.regions
    (launch,) = digits().profile().launches
    cost = region.cost
    assert cost.cycles is not None
    own = cost.cycles - HostModel().cycles_a_launch - cost.border / HostModel().bytes_a_cycle
    assert 0.7 < own / launch.report.cycles < 1.4
    assert cost.cycles < cost.host_cycles


def test_shapes_choose_the_batch_and_samples_are_regrouped() -> None:
    module = vtac.compile(MODEL, "pynq", SAMPLES, shapes={"image": (3, 1, 8, 8)})
    one = digits()
    batch = images()[70:73]
    logits = module.run({"image": batch})["logits"]
    for row, image in zip(logits, batch, strict=True):
        single = one.run({"image": image[None]})["logits"][0]
        assert np.abs(row - single).max() < 0.2 * np.abs(single).max()
    np.testing.assert_array_equal(module.run({"image": batch[:1]})["logits"], logits[:1])
    with pytest.raises(vtac.CompileError, match=r"has shape \[1, 1, 8, 7\]"):
        module.run({"image": batch[:1, :, :, :7]})


def test_a_float_model_without_samples_runs_on_the_host_with_a_warning() -> None:
    with pytest.warns(UserWarning) as caught:
        module = vtac.compile(MODEL)
    texts = [str(warning.message) for warning in caught]
    assert any("--calibrate" in text for text in texts)
    assert any("'image' has unknown dimensions, [?, 1, 8, 8]" in text for text in texts)
    assert not module.package.functions
    for batch in (SAMPLES[:1], SAMPLES[:5]):
        (logits,) = module.run({"image": batch}).values()
        assert np.allclose(logits, reference(MODEL, {"image": batch})[0], atol=1e-4)


def test_several_outputs_may_be_one_value_or_an_input() -> None:
    model = model_of(
        [
            helper.make_node("Relu", ["x"], ["y"]),
            helper.make_node("Identity", ["y"], ["z"]),
            helper.make_node("Identity", ["x"], ["same"]),
        ],
        [tensor("x", 2, 3)],
        [tensor("y", 2, 3), tensor("z", 2, 3), tensor("same", 2, 3)],
    )
    x = np.array([[-1, 2, -3], [4, -5, 6]], np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = vtac.compile(model).run({"x": x})
    assert list(result) == ["y", "z", "same"]
    assert (result["y"] == np.maximum(x, 0)).all() and (result["z"] == result["y"]).all()
    assert (result["same"] == x).all()


def test_values_that_are_no_tensors_pass_between_parts() -> None:
    sequence = helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, None)
    model = model_of(
        [
            helper.make_node("SequenceConstruct", ["x", "x"], ["s"]),
            helper.make_node("SequenceLength", ["s"], ["n"]),
        ],
        [tensor("x", 2)],
        [sequence, tensor("n", type=TensorProto.INT64)],
    )
    result = vtac.compile(model).run({"x": np.ones(2, np.float32)})
    assert len(result["s"]) == 2 and result["n"] == 2


def test_operators_the_compiler_does_not_know_run_beside_the_accelerator() -> None:
    rng = np.random.default_rng(0)
    weights = rng.normal(size=(8, 4, 3, 3)).astype(np.float32)
    model = model_of(
        [
            helper.make_node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]),
            helper.make_node("Atan", ["a"], ["b"]),
            helper.make_node("Conv", ["b", "v"], ["c"]),
            helper.make_node("Softmax", ["c"], ["y"], axis=1),
        ],
        [tensor("x", 1, 4, 6, 6)],
        [tensor("y", 1, 5, 6, 6)],
        (
            onnx.numpy_helper.from_array(weights, "w"),
            onnx.numpy_helper.from_array(weights[:5, :, :1, :1].repeat(2, 1), "v"),
        ),
    )
    samples = rng.normal(size=(8, 4, 6, 6)).astype(np.float32)
    module = vtac.compile(model, "sim", samples)
    assert len(module.package.functions) == 2
    assert [step.kind for step in module.package.steps] == [
        "host", "launch", "host", "launch", "host",
    ]  # fmt: skip
    (y,) = module.run({"x": samples[:1]}).values()
    assert np.abs(y - reference(model, {"x": samples[:1]})[0]).max() < 0.05


def test_ir_is_kept_where_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    module = vtac.compile(
        MODEL, "pynq", SAMPLES[:4], keep_ir=["graph", "vta"], save_ir=tmp_path / "ir"
    )
    assert set(module.package.ir) == {"graph", "vta"}
    assert "vta.program @vta_0" in module.package.ir["vta"]
    files = sorted(file.name for file in (tmp_path / "ir").iterdir())
    assert files[:4] == [
        "0_imported.mlir", "0_imported.mlir.npz", "1_canonical.mlir", "1_canonical.mlir.npz",
    ]  # fmt: skip
    # The saved text names the layers, so that their cycles can be told apart.
    (vta,) = (tmp_path / "ir").glob("*_vta.mlir")
    time_program([str(vta), "--function", "vta_0", "--json"])
    regions = [region["label"] for region in json.loads(capsys.readouterr().out)["regions"]]
    convolutions = {node.name for node in onnx.load(MODEL).graph.node if node.op_type == "Conv"}
    assert convolutions <= set(regions)


@pytest.mark.parametrize(
    ("target", "message"), [("pink", "neither a target preset"), ("a.json", "cannot read a.json")]
)
def test_a_target_that_does_not_exist_is_an_error(target: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        vtac.compile(MODEL, target)


def test_only_public_names_are_there() -> None:
    classes = {
        "Codegen",
        "CompileError",
        "CompileOptions",
        "Criteria",
        "InferenceSession",
        "Module",
        "Pipeline",
        "Target",
    }
    functions = {"compile", "compile_for_throughput", "connect", "evaluate", "export_c", "load"}
    functions |= {"report_html", "tune"}
    assert set(vtac.__all__) == {*classes, *functions, "te"}
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = vtac.nothing
