"""``--quiet``, ``--verbose`` and ``--json``: what commands print besides what they make."""

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from digits_model import MODEL, save_images

from vtac.tools.commands import (
    vta_compile,
    vta_export,
    vta_opt,
    vta_report,
    vta_run,
    vta_sim,
    vta_translate,
    vtac,
)


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


@pytest.mark.parametrize(
    ("command", "options"),
    [
        (vta_compile, ["MODEL", "--calibrate", "SAMPLES", "--emit", "te", "--explain"]),
        (vta_compile, ["MODEL", "--target", "cluster-2", "--calibrate", "SAMPLES", "--plan"]),
        (vta_compile, ["MODEL", "--calibrate", "SAMPLES", "--layer-errors", "-v"]),
        (vta_compile, ["--print-pipeline"]),
        (vta_compile, ["--print-pipeline", "--from", "te"]),
        (vta_run, ["PACKAGE", "--input", "SAMPLES", "--reference", "MODEL", "--profile"]),
        (vta_run, ["PACKAGE", "--evaluate", "SAMPLES", "--reference", "MODEL", "-v"]),
        (vta_sim, ["PACKAGE", "--check", "-v"]),
        (vta_sim, ["--list-presets"]),
        (vta_opt, ["--list-passes"]),
        (vta_opt, ["--list-xdsl-passes"]),
        (vta_translate, ["--disassemble", "PACKAGE"]),
        (vtac, []),
    ],
)
def test_nothing_but_json_stands_on_standard_output(
    folder: Path,
    package: Path,
    capsys: pytest.CaptureFixture[str],
    command: Any,
    options: list[str],
) -> None:
    names = {"MODEL": MODEL, "SAMPLES": folder / "samples.npz", "PACKAGE": package}
    with contextlib.suppress(SystemExit):
        command.main(["--json", *(str(names.get(option, option)) for option in options)])
    assert json.loads(capsys.readouterr().out)


def test_emitted_ir_is_a_key_of_the_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = [str(MODEL), "--calibrate", str(folder / "samples.npz"), "--emit", "graph"]
    vta_compile.main(given)
    text = capsys.readouterr().out
    vta_compile.main([*given, "--json"])
    assert json.loads(capsys.readouterr().out)["ir"] == text and "graph.pack" in text


def steps(text: str) -> list[str]:
    """The steps that a verbose command has told, without their seconds."""
    return [line.split(" s  ")[1] for line in text.splitlines() if " s  " in line]


@pytest.mark.parametrize(
    ("command", "options", "told"),
    [
        (vta_export, ["--c", "OUT"], ["open PACKAGE", "write OUT"]),
        (vta_sim, ["--check"], ["read PACKAGE", "time the program", "look for hazards"]),
        (vta_run, ["--profile"], ["open PACKAGE", "time the launches"]),
    ],
)
def test_commands_are_verbose_and_quiet(
    package: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    command: Any,
    options: list[str],
    told: list[str],
) -> None:
    names = {"OUT": str(tmp_path / "out"), "PACKAGE": str(package)}
    given = [str(package), *(names.get(option, option) for option in options)]
    command.main([*given, "-v"])
    out, err = capsys.readouterr()
    for name, path in names.items():
        told = [step.replace(name, path) for step in told]
    assert out and set(told) <= set(steps(err))
    command.main(given)
    assert capsys.readouterr() == (out, "")
    if command is not vta_run:  # whose --profile asks for a table
        command.main([*given, "-q"])
        assert capsys.readouterr() == ("", "")


def test_a_report_is_verbose_and_quiet(
    package: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("jinja2", reason="jinja2 is not installed")
    pytest.importorskip("vl_convert", reason="vl-convert-python is not installed")
    page = str(tmp_path / "page.html")
    vta_report.main([str(package), "-o", page, "-v"])
    assert steps(capsys.readouterr().err)[-1] == f"write {page}"
    vta_report.main([str(package), "-o", page, "-q"])
    assert capsys.readouterr() == ("", "")


def test_a_terminal_shows_the_step(package: Path, tmp_path: Path) -> None:
    """On a terminal a step stands in a line of standard error, and not in the output.

    Steps that end at once may not be drawn; the last one is.
    """
    pty = pytest.importorskip("pty", reason="there are no terminals here")
    ours, theirs = pty.openpty()
    code = "from vtac.tools.commands.entry import vta_export; vta_export()"
    command = [sys.executable, "-c", code, str(package), "--c", str(tmp_path / "c"), "--json"]
    environment = {**os.environ, "TERM": "xterm"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, env=environment)
    os.close(theirs)
    shown = b""
    with contextlib.suppress(OSError):  # what reading says at the end of a terminal
        while data := os.read(ours, 10_000):
            shown += data
    os.close(ours)
    out, _ = process.communicate()
    assert process.returncode == 0 and "files" in json.loads(out)
    assert b" write " in shown
