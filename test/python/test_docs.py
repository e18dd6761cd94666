"""Pages that commands write are up to date."""

import re
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from by_path import ROOT, load
from onnx import helper, numpy_helper
from small_models import one_thread

import vtac

operators = load("docs/operators.py")
own_codegen = load("docs/own_codegen.py")
partitioning = load("docs/partitioning.py")
cluster_plan = load("docs/cluster_plan.py")
schedules = load("docs/schedules.py")
vta = load("docs/vta.py")


def test_the_page_on_schedules_is_up_to_date() -> None:
    assert schedules.PAGE.read_text() == schedules.page(), "make docs"
    assert schedules.KERNEL.read_text() == schedules.kernel_file(), "make docs"


def test_the_table_of_operators_is_up_to_date() -> None:
    assert operators.PAGE.read_text() == operators.page(), "make docs"


def test_reasons_of_operators_are_those_of_the_code() -> None:
    rows = {name: operators.row_of(name, made) for name, made in operators.CONVERTERS.items()}
    assert rows["Relu"].where == rows["Gemm"].where == "accelerator"
    assert rows["Identity"].where == "nowhere"
    # Of the converter, of what it calls, of the quantiser, of a predicate of the codegen.
    assert "the indices of the maxima are used" in rows["MaxPool"].reasons
    assert "its explicit pads are as wide as its kernel" in rows["MaxPool"].reasons
    assert "a window lies wholly in the padding" in rows["MaxPool"].reasons
    assert "a window lies wholly in the padding" not in rows["Conv"].reasons
    assert "its weights are not constant" in rows["Conv"].reasons
    assert any("moves channels" in reason for reason in rows["Reshape"].reasons)


def test_the_page_on_the_machine_is_up_to_date() -> None:
    assert vta.PAGE.read_text() == vta.page(), "make docs"


def test_the_page_on_graph_ops_shows_what_the_files_say() -> None:
    page = (ROOT / "docs/adding-a-graph-op.md").read_text()
    blocks = list(re.finditer(r"```text\n(.*?)```", page, re.DOTALL))
    assert len(blocks) == page.count("```") // 2 == 4
    for block in blocks:
        *_, path = re.findall(r"^`(\S+\.py)`$", page[: block.start()], re.MULTILINE)
        assert block[1] in (ROOT / path).read_text(), f"{path} has no such lines:\n{block[1]}"


def test_what_the_page_on_graph_ops_adds_runs_on_the_accelerator() -> None:
    weights = numpy_helper.from_array(np.eye(16, dtype=np.float32).reshape(16, 16, 1, 1), "w")
    shape = [helper.make_tensor_value_info(n, 1, [1, 16, 4, 4]) for n in "xy"]
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"]), helper.make_node("Abs", ["c"], ["y"])]
    graph = helper.make_graph(nodes, "magnitudes", shape[:1], shape[1:], [weights])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    x = np.random.default_rng(5).integers(-127, 128, (1, 16, 4, 4)).astype(np.float32)
    x[0, 0, 0, :2] = -127, 127
    module = vtac.compile(model, "pynq", {"x": x})
    assert {placement.where for placement in module.explain} == {"vta_0"}
    assert np.abs(module.run({"x": x})["y"] - np.abs(x)).max() <= 1


def test_the_page_on_partitioning_is_up_to_date() -> None:
    assert partitioning.PAGE.read_text() == partitioning.page(), "make docs"


def test_the_page_on_plans_is_up_to_date() -> None:
    assert cluster_plan.PAGE.read_text() == cluster_plan.page(), "make docs"
    assert cluster_plan.PICTURE.read_text() == cluster_plan.drawn(), "make docs"


def test_the_codegen_of_the_page_runs_beside_vta(tmp_path: Path) -> None:
    model = partitioning.network()
    samples = np.random.default_rng(3).uniform(-1, 1, (8, 16, 8, 8)).astype(np.float32)
    codegens = ["vta", own_codegen.TrigonometryCodegen()]
    module = vtac.compile(model, "pynq", {"x": samples}, codegens=codegens)
    where = {placement.node: placement.where for placement in module.explain}
    assert (where["conv"], where["sin"]) == ("vta_0", "trig_0")
    session = onnxruntime.InferenceSession(model.SerializeToString(), one_thread())
    feeds = {"x": samples[:1]}
    (ours,), (theirs,) = module.run(feeds).values(), session.run(None, feeds)
    assert np.abs(ours - theirs).max() < 0.05 * np.abs(theirs).max()

    module.save(tmp_path / "m.vtapkg")
    with pytest.raises(vtac.CompileError, match="needs the engine 'trig'; there are vta"):
        vtac.load(tmp_path / "m.vtapkg")
    again = vtac.load(
        tmp_path / "m.vtapkg", engines={"trig": own_codegen.TrigonometryCodegen.engine}
    )
    assert (again.run(feeds)["y"] == ours).all()
