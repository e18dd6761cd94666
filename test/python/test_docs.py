"""Pages that a command writes are what it would write today."""

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from by_path import load
from small_models import one_thread

import vtac

operators = load("docs/operators.py")
own_codegen = load("docs/own_codegen.py")
partitioning = load("docs/partitioning.py")
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


def test_the_page_on_partitioning_is_up_to_date() -> None:
    assert partitioning.PAGE.read_text() == partitioning.page(), "make docs"


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
