"""A standard scaler before an MLP, as skl2onnx writes them; compilations that offload nothing."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from small_models import floats, run, value_info

import vtac
from vtac.tools.commands import vta_compile
from vtac.tools.driver.compiler import NO_CALIBRATION, NOTHING_OFFLOADED
from vtac.tools.reports.partition_report import share_lines

SIZES = [24, 64, 48, 3]
OFFSETS = np.linspace(-50, 900, SIZES[0])
DEVIATIONS = np.geomspace(0.01, 300, SIZES[0])


def scaled_mlp(batch: int | None) -> onnx.ModelProto:
    """Scaler, then MatMul, Add and Relu three times: scikit-learn's MLPClassifier before its
    softmax."""
    nodes = [
        helper.make_node(
            "Scaler", ["x"], ["a0"], "scaler", domain="ai.onnx.ml",
            offset=OFFSETS.tolist(), scale=(1 / DEVIATIONS).tolist(),
        )
    ]  # fmt: skip
    weights = {}
    for i, (inputs, outputs) in enumerate(pairwise(SIZES)):
        weights |= {
            f"w{i}": floats((inputs, outputs), i) / inputs**0.5,
            f"b{i}": floats((outputs,), 9),
        }
        nodes.append(helper.make_node("MatMul", [f"a{i}", f"w{i}"], [f"m{i}"], f"product{i}"))
        last = i == len(SIZES) - 2
        nodes.append(helper.make_node("Add", [f"m{i}", f"b{i}"], ["y" if last else f"s{i}"]))
        if not last:
            nodes.append(helper.make_node("Relu", [f"s{i}"], [f"a{i + 1}"]))
    graph = helper.make_graph(
        nodes,
        "mlp",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, SIZES[0]])],
        [value_info("y", None)],
        [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def samples(count: int) -> np.ndarray:
    numbers = np.random.default_rng(count).normal(0, 1, (count, SIZES[0]))
    return (numbers * DEVIATIONS + OFFSETS).astype(np.float32)


@pytest.mark.parametrize("batch", [None, 1])
def test_a_scaled_mlp_is_offloaded(batch: int | None) -> None:
    """The scaler stays: it brings features of very different ranges to one, in floats."""
    model, data = scaled_mlp(batch), samples(64)
    module = vtac.compile(model, "pynq", {"x": data}, criteria=vtac.Criteria(compare=False))
    assert [p.node for p in module.explain if p.where == "host"] == ["scaler"]
    products = sum(a * b for a, b in pairwise(SIZES))
    size = module.inputs[0].shape[0]
    assert module.report.partition.macs == (size * products, size * products)
    assert share_lines(module.report.partition)[1].endswith("offloaded (100.0%)")
    expected = np.concatenate([run(model, {"x": data[i : i + 1]})[0] for i in range(64)])
    found = np.concatenate(
        [module.run({"x": data[i : i + size]})["y"] for i in range(0, 64 - size + 1, size)]
    )
    assert np.sqrt(np.mean((found - expected[: len(found)]) ** 2)) < 0.05 * expected.std()


def only_sines() -> onnx.ModelProto:
    graph = helper.make_graph(
        [helper.make_node("Sin", ["x"], ["y"])],
        "g",
        [value_info("x", [1, 8])],
        [value_info("y", None)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_a_compilation_that_offloads_nothing_says_so(tmp_path: Path, capsys) -> None:
    with pytest.warns(UserWarning) as caught:
        vtac.compile(only_sines(), "pynq", {"x": floats((4, 8), 1)})
    assert [str(warning.message) for warning in caught] == [NOTHING_OFFLOADED]
    with pytest.warns(UserWarning) as caught:
        vtac.compile(scaled_mlp(1), "pynq")
    assert [str(warning.message) for warning in caught] == [NO_CALIBRATION]
    onnx.save(only_sines(), tmp_path / "model.onnx")
    np.save(tmp_path / "x.npy", floats((4, 8), 1))
    arguments = [str(tmp_path / "model.onnx"), "--calibrate", str(tmp_path / "x.npy")]
    vta_compile.main([*arguments, "-o", str(tmp_path / "model.vtapkg")])
    assert f"vta-compile: warning: {NOTHING_OFFLOADED}" in capsys.readouterr().err
    with pytest.raises(SystemExit) as ended:
        vta_compile.main([*arguments, "-o", str(tmp_path / "strict.vtapkg"), "--strict"])
    assert ended.value.code == 1
    assert NOTHING_OFFLOADED in capsys.readouterr().err
    assert not (tmp_path / "strict.vtapkg").exists()
