"""``vta-explore`` as users run it: files, exit codes, processes, interruptions."""

import csv
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from digits_model import MODEL, save_images
from onnx import helper
from small_models import small_model

import vtac
from vtac.dialects.target import Target
from vtac.tools.commands import vta_explore
from vtac.tools.driver.prepared_model import PreparedModel
from vtac.tools.explore_machines import evaluation
from vtac.tools.explore_machines.evaluation import ComparedNetwork, Evaluator
from vtac.tools.explore_machines.outcome import Outcome
from vtac.tools.explore_machines.processes import evaluating

SPACE = ("--vary", "log_block=4,5", "--vary", "log_wgt_buff_size=9,10,12,14,16", "--quiet")
"""Ten points; with a block of 32 one has no room for a block of weights."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    save_images(tmp_path / "samples.npz", 4)
    return tmp_path


def command(*args: str) -> list[str]:
    return [str(MODEL), "--calibrate", "samples.npz", *SPACE, *args]


def refusal(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    capsys.readouterr()
    with pytest.raises(SystemExit) as end:
        vta_explore.main(args)
    assert end.value.code == 1
    said = capsys.readouterr()
    assert not said.out and "Traceback" not in said.err
    return said.err


def test_everything_that_it_writes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = ["--csv", "a.csv", "--picture", "a.svg", "--report", "a.html", "--front", "front"]
    vta_explore.main(command("--jobs", "1", "--json", *files))
    found = json.loads(capsys.readouterr().out)
    assert found["is_whole"] and found["network"] == "digits"
    machines, refused = found["machines"], sum(found["refused"].values())
    assert len(machines) == 9 and refused == 1
    rows = list(csv.DictReader((folder / "a.csv").open()))
    assert [row["cycles"] for row in rows] == [str(m["cycles"] or "") for m in machines]
    front = [machines[number] for number in found["front"]]
    assert [int(row["front"]) for row in rows] == [m in front for m in machines]

    # The machines of the front are files, and a compilation for one gives the cycles told.
    paths = sorted((folder / "front").iterdir())
    assert len(paths) == len(front) > 0
    for path, machine in zip(paths, front, strict=True):
        target = Target.of(path)
        assert {k: target.fields()[k] for k in machine["fields"]} == machine["fields"]
        options = vtac.CompileOptions(criteria=vtac.Criteria(compare=False))
        samples = {"image": np.load("samples.npz")["image"]}
        module = vtac.compile(MODEL, path, samples, options)
        assert module.profile().cycles == machine["cycles"]

    assert (folder / "a.svg").read_text().count("<svg") == 1
    page = (folder / "a.html").read_text()
    assert all(f"{machine['cycles']:,}" in page for machine in front)
    assert "http://" not in page.split("<script>")[0] and "tried" in page


def test_the_table(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    args = command("--jobs", "1", "--machines", "4", "--where", "block < 32")
    args.remove("--quiet")
    vta_explore.main([*args, "--verbose"])
    said = capsys.readouterr()
    assert "machines that no other beats; cost: area" in said.out
    assert "what tells the front apart" in said.out and "block" in said.out
    assert "does not meet 'block < 32'" in said.out
    assert said.err.count(" cycles") == 4


def test_processes_and_the_database_change_nothing(folder: Path) -> None:
    outputs = []
    for number, args in enumerate(
        (
            ["--jobs", "1"],
            ["--jobs", "2", "--database", "m.db"],
            ["--jobs", "3", "--database", "m.db"],
        )
    ):
        vta_explore.main(command("--machines", "5", "--csv", f"{number}.csv", *args))
        outputs.append((folder / f"{number}.csv").read_bytes())
    assert outputs[0] == outputs[1] == outputs[2]


def test_killed_at_any_moment_and_taken_up_again(folder: Path) -> None:
    vta_explore.main(command("--jobs", "1", "--csv", "undisturbed.csv"))
    line = [sys.executable, "-c", "from vtac.tools.commands.vta_explore import main; main()"]
    whole = command("--jobs", "1", "--database", "m.db", "--csv", "resumed.csv")
    seen = 0
    for known in (1, 3, 5):
        process = subprocess.Popen([*line, *whole], start_new_session=True)
        while process.poll() is None and results("m.db") < known:
            time.sleep(0.02)
        assert process.poll() is None, "it ended before it was killed"
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert results("m.db") >= max(seen, known)
        seen = results("m.db")
    vta_explore.main(whole)
    assert (folder / "resumed.csv").read_bytes() == (folder / "undisturbed.csv").read_bytes()


def results(path: str) -> int:
    """How many machines a database knows, while another process writes to it."""
    if not os.path.exists(path):
        return 0
    connection = sqlite3.connect(path)
    try:
        return int(connection.execute("SELECT count(*) FROM machine").fetchone()[0])
    except sqlite3.OperationalError:
        return 0
    finally:
        connection.close()


def test_ctrl_c_keeps_what_is_done(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Target] = []
    timed = evaluation._timed

    def interrupted(prepared: PreparedModel, machine: Target) -> Outcome:
        calls.append(machine)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return timed(prepared, machine)

    monkeypatch.setattr(evaluation, "_timed", interrupted)
    with pytest.raises(SystemExit) as end:
        vta_explore.main(command("--jobs", "1", "--database", "m.db"))
    assert end.value.code == 130 and results("m.db") == 3


def test_machines_that_fail_are_told(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    timed = evaluation._timed

    def broken(prepared: PreparedModel, machine: Target) -> Outcome:
        if machine.block == 32:
            raise KeyError("a mistake of ours")
        return timed(prepared, machine)

    monkeypatch.setattr(evaluation, "_timed", broken)
    vta_explore.main(command("--jobs", "1", "--json"))
    said = capsys.readouterr()
    machines = json.loads(said.out)["machines"]
    why = [machine["why"] for machine in machines if machine["fields"]["log_block"] == 5]
    assert why and all(text == "a fault of vtac: KeyError: 'a mistake of ours'" for text in why)
    assert f"warning: for {len(why)} machines there was a fault of vtac" in said.err


def test_a_machine_that_takes_too_long_is_given_up(folder: Path) -> None:
    evaluator = Evaluator(ComparedNetwork(str(MODEL), "samples.npz"))
    found: dict[int, Outcome] = {}
    with evaluating(evaluator, 2, 0.01) as evaluate:
        machines = [Target.named("pynq"), Target.named("sim")]
        evaluate(machines, found.__setitem__)
    assert set(found) == {0, 1}
    assert all("took longer" in each.why and not each.is_lasting for each in found.values())


def test_machines_without_room_leave_layers_to_the_host(folder: Path) -> None:
    evaluator = Evaluator(ComparedNetwork(str(MODEL), "samples.npz"))
    whole = evaluator(Target.named("chisel-pynq"))
    tiny = Target.named("chisel-pynq").replace(log_acc_buff_size=7, log_inp_buff_size=6)
    part = evaluator(tiny)
    assert whole.host_macs == 0 and whole.macs > 0 and whole.cycles
    assert part.cycles is None or part.macs + part.host_macs == whole.macs
    assert part.host_nodes >= whole.host_nodes


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["absent.onnx"], "absent.onnx: cannot read it"),
        ([str(MODEL)], "the model is a float model and there are no calibration samples"),
        ([str(MODEL), "--machines", "0"], "--machines: 0 is less than 1"),
        ([str(MODEL), "--jobs", "0"], "--jobs: 0 is less than 1"),
        ([str(MODEL), "--seed", "-1"], "--seed: -1 is less than 0"),
        ([str(MODEL), "--limit-cost", "nan"], "'nan' is not a finite number"),
        ([str(MODEL), "--picture", "a.gif"], "a.gif: a picture is one of .png, .svg, .pdf"),
        ([str(MODEL), "--front", "samples.npz"], "samples.npz: is a file"),
        ([str(MODEL), "--csv", "no/a.csv"], "cannot write it: there is no folder"),
        (
            [str(MODEL), "--database", "samples.npz"],
            "samples.npz: cannot use it: file is not a data",
        ),
        ([str(MODEL), "--calibrate", "samples.npz", "--limit-cost", "1"], "has no machine"),
        ([str(MODEL), "--shape", "x"], "--shape x: is not NAME=1,3,32,32"),
        (["samples.npz"], "samples.npz"),
    ],
)
def test_what_is_refused(
    args: list[str], expected: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert expected in refusal(capsys, *args, "--jobs", "1")


def test_all_problems_are_told_at_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = refusal(
        capsys,
        *("absent.onnx", "--calibrate", "none.npz", "--space", "none.toml", "--picture", "a.gif"),
        *("--vary", "x=1", "--cost", "y", "--shape", "z", "--csv", "no/a.csv"),
    )
    for part in ("absent.onnx", "none.npz", "none.toml", "a.gif", "--shape z", "no/a.csv"):
        assert part in said, part
    said = refusal(capsys, str(MODEL), "--vary", "x=1", "--cost", "y", "--picture", "a.gif")
    for part in ("field x", "'y'", "a.gif"):
        assert part in said, part


def test_a_network_without_anything_for_the_accelerator(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = small_model([helper.make_node("Sin", ["x"], ["y"])], {"x": (1, 4)}, ["y"])
    (folder / "sine.onnx").write_bytes(model.SerializeToString())
    np.save("x.npy", np.zeros((2, 4), np.float32))
    said = refusal(capsys, "sine.onnx", "--calibrate", "x.npy", *SPACE, "--jobs", "1")
    assert "there is a program for none of" in said
    assert "nothing runs on the accelerator" in said


def test_without_the_package_for_processes(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pebble", None)
    assert "pip install 'vtac[explore]'" in refusal(capsys, *command("--jobs", "2"))
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    args: Any = command("--jobs", "1", "--machines", "2", "--picture", "a.png")
    assert "pip install 'vtac[plots]'" in refusal(capsys, *args)
