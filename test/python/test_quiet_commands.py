"""``--quiet``, ``--verbose`` and ``--json``: what commands print besides what they make."""

import json
from pathlib import Path

import numpy as np
import pytest
from digits_model import MODEL, save_images

from vtac.tools.commands import vta_compile, vta_run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("digits")
    save_images(folder / "samples.npz", 8)
    return folder


@pytest.fixture(scope="module")
def package(folder: Path) -> Path:
    path = folder / "model.vtapkg"
    vta_compile.main(
        [str(MODEL), "--calibrate", str(folder / "samples.npz"), "-o", str(path), "-q"]
    )
    return path


def test_a_quiet_command_prints_nothing_but_writes(
    folder: Path, package: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, samples = folder / "again.vtapkg", str(folder / "samples.npz")
    vta_compile.main([str(MODEL), "--calibrate", samples, "-o", str(out), "--quiet"])
    vta_run.main([str(package), "--input", samples, "-o", str(folder / "y.npz"), "--quiet"])
    assert capsys.readouterr() == ("", "")
    assert out.read_bytes() == package.read_bytes()
    with np.load(folder / "y.npz") as found:
        assert found["logits"].shape == (8, 10)


def test_a_quiet_command_warns(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    vta_compile.main([str(MODEL), "-o", str(folder / "float.vtapkg"), "--quiet"])
    out, err = capsys.readouterr()
    assert out == "" and all(
        line.startswith(("vta-compile: warning: ", "  ")) for line in err.splitlines()
    )
    assert "there are no calibration samples" in err


def test_a_verbose_command_tells_its_steps(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    samples = str(folder / "samples.npz")
    vta_compile.main([str(MODEL), "--calibrate", samples, "-o", str(folder / "v.vtapkg"), "-v"])
    steps = [
        line.split(" s  ")[1] for line in capsys.readouterr().err.splitlines() if " s  " in line
    ]
    wanted = ["quantize", "te-schedule", "vta-insert-dependences", "encode"]
    assert [step for step in steps if step in wanted] == wanted


def test_the_report_as_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    samples, path = str(folder / "samples.npz"), str(folder / "json.vtapkg")
    args = [str(MODEL), "--calibrate", samples, "-o", path, "--json", "--evaluate", samples]
    vta_compile.main(args)
    found = json.loads(capsys.readouterr().out)
    assert found["package"] == path and found["target"].startswith("#target.vta")
    assert found["outputs"] == {"logits": "tensor(float)[1, 10]"}
    assert {node["where"] for node in found["nodes"]} == {"vta_0"}
    (region,) = found["regions"]
    assert region["function"] == "vta_0"
    assert 0 < sum(node["macs"] for node in found["nodes"]) <= region["macs"]
    assert found["instructions"].keys() == {"vta_0"} and found["seconds"]["te-schedule"] > 0
    assert "logits" in json.dumps(found["evaluation"]) and "layer_errors" not in found
