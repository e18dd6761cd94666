"""Profiles of compiled models: where the cycles of each launch go; and what launches leave."""

import csv
import io
import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from small_models import floats, small_model
from xdsl.dialects.builtin import ModuleOp
from xdsl.printer import Printer

import vtac
from vtac.dialects.context import VtacContext
from vtac.dialects.errors import CompileError
from vtac.runtime.executor import Module
from vtac.sim import TimingPreset, execute
from vtac.tools.commands import vta_run, vta_sim
from vtac.tools.files.ir_files import write_ir

SAMPLES = floats((4, 16, 6, 6))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("profile")


@pytest.fixture(scope="module")
def module(folder: Path) -> Module:
    """Two launches: between two convolutions stands what only the host computes."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], name="before", pads=[1, 1, 1, 1]),
        helper.make_node("Sin", ["a"], ["b"], name="between"),
        helper.make_node("Conv", ["b", "v"], ["y"], name="after"),
    ]
    weights = {"w": floats((16, 16, 3, 3), 1), "v": floats((20, 16, 1, 1), 2)}
    model = small_model(nodes, {"x": [1, 16, 6, 6]}, ["y"], weights)
    model = onnx.shape_inference.infer_shapes(model)

    def keep(level: str, module: ModuleOp, ctx: VtacContext) -> None:
        if level == "vta":
            for name, debug in (("plain", False), ("located", True)):
                stream = io.StringIO()
                Printer(stream, print_debuginfo=debug).print_op(module)
                write_ir(folder / f"{name}.mlir", stream.getvalue(), module, ctx)

    return vtac.compile(model, "chisel-pynq", SAMPLES, observe=keep)


@pytest.fixture(scope="module")
def package(module: Module, folder: Path) -> Path:
    path = folder / "m.vtapkg"
    module.save(path)
    return path


def test_each_launch_has_its_layers(module: Module, package: Path) -> None:
    profile = module.profile()
    assert [launch.function for launch in profile.launches] == ["vta_0", "vta_1"]
    labels = [{r.label for r in launch.report.regions} - {""} for launch in profile.launches]
    assert labels == [{"before"}, {"after"}]
    assert profile.cycles == sum(launch.report.cycles for launch in profile.launches) > 1000
    for launch in profile.launches:
        assert sum(r.cycles for r in launch.report.regions) == launch.report.cycles
    assert vtac.load(package).profile().json() == profile.json()


def test_the_same_cycles_from_text_and_package(
    module: Module, package: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """vta-sim reads the last level of IR, and packages; layers come along as locations."""
    for launch in module.profile().launches:
        layers = [region.label for region in launch.report.regions]
        for path, labels in (
            (package, layers),
            (folder / "located.mlir", layers),
            (folder / "plain.mlir", [""]),
        ):
            vta_sim.main([str(path), "--function", launch.function, "--json", "--check"])
            found = json.loads(capsys.readouterr().out)
            assert [region["label"] for region in found["regions"]] == labels
            assert found["program"]["gemm_micro_ops"] == launch.report.total.gemm_micro_ops
            assert abs(found["cycles"] - launch.report.cycles) < 0.1 * launch.report.cycles


def test_another_machine(module: Module) -> None:
    cycles = module.profile().cycles
    slow = TimingPreset.named("chisel-pynq").replace(latency=100)
    assert module.profile(slow).cycles > cycles > module.profile("chisel-pynq-ideal").cycles
    with pytest.raises(ValueError, match="no timing preset 'fast'"):
        module.profile("fast")


def test_a_machine_with_too_few_tokens() -> None:
    """The tiles of a larger layer have more tokens on the way than this machine can hold."""
    conv = helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])
    model = small_model([conv], {"x": [1, 16, 24, 24]}, ["y"], {"w": floats((16, 16, 3, 3), 1)})
    module = vtac.compile(model, "chisel-pynq", floats((2, 16, 24, 24)))
    few = TimingPreset.named("chisel-pynq").replace(token_depth=1, queue_depth=1)
    with pytest.raises(CompileError, match=r"function vta_0: .*deadlock"):
        module.profile(few)


def test_forms(module: Module) -> None:
    profile = module.profile()
    data = json.loads(profile.json())
    assert data["cycles"] == profile.cycles
    assert [launch["function"] for launch in data["launches"]] == ["vta_0", "vta_1"]
    rows = list(csv.DictReader(io.StringIO(profile.csv())))
    wholes = [row for row in rows if row["label"] == "program"]
    assert [row["launch"] for row in wholes] == ["0", "1"]
    assert sum(int(row["cycles"]) for row in wholes) == profile.cycles


def test_command(package: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    vta_run.main([str(package), "--profile"])
    text = capsys.readouterr().out
    assert "launch 1: vta_1" in text and "before" in text and "2 launches" in text
    assert "cycles in which compute waited" in text
    vta_run.main([str(package), "--json", "--preset", "chisel-pynq", "--set", "latency=100"])
    assert json.loads(capsys.readouterr().out)["launches"][0]["preset"].startswith("chisel-pynq")
    np.save(tmp_path / "x.npy", SAMPLES)
    vta_run.main([str(package), "--input", str(tmp_path / "x.npy"), "--csv"])
    assert capsys.readouterr().out.startswith("launch,function,label,instructions,cycles")


def test_files_of_several_launches(package: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib, the extra plots, is absent")
    options = {"--trace": "t.json", "--timeline": "t.svg", "--roofline": "r.png"}
    files = [part for option, name in options.items() for part in (option, str(tmp_path / name))]
    vta_run.main([str(package), *files])
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        *("r.000_vta_0.png", "r.001_vta_1.png", "t.000_vta_0.json", "t.000_vta_0.svg"),
        *("t.001_vta_1.json", "t.001_vta_1.svg"),
    ]
    events = json.loads((tmp_path / "t.001_vta_1.json").read_text())["traceEvents"]
    assert {event["args"]["layer"] for event in events if "layer" in event.get("args", {})} >= {
        "after"
    }


def test_refusals(package: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for options, message in (
        ([], "say what to run it on: --input"),
        (["--preset", "fast"], "no timing preset 'fast'"),
        (["--profile", "--set", "latency"], "is not KEY=VALUE"),
        (["--roofline", "r.gif"], "a picture is one of"),
    ):
        with pytest.raises(SystemExit) as caught:
            vta_run.main([str(package), *options])
        assert caught.value.code == 1
        assert message in capsys.readouterr().err


def test_what_stays_on_the_host_has_no_cycles(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = small_model([helper.make_node("Sin", ["x"], ["y"])], {"x": [1, 4]}, ["y"])
    module = vtac.compile(model, "pynq")
    assert module.profile().launches == () and module.profile().cycles == 0
    assert module.profile().csv() == ""
    module.save(tmp_path / "host.vtapkg")
    vta_run.main([str(tmp_path / "host.vtapkg"), "--profile"])
    assert "everything runs on the host" in capsys.readouterr().out


@pytest.mark.parametrize("seed", [None, 3])
def test_launches_replay_elsewhere(
    module: Module, tmp_path: Path, seed: int | None, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a dump holds is all that another simulator needs, and gives the same bytes."""
    expected = module.run({"x": SAMPLES[:1]})["y"]
    module.run({"x": SAMPLES[1:2]})
    again = module.run({"x": SAMPLES[:1]}, dump=tmp_path, order_seed=seed)["y"]
    np.testing.assert_array_equal(expected, again)
    files = sorted(tmp_path.iterdir())
    assert [file.name for file in files] == ["000_vta_0.npz", "001_vta_1.npz"]
    for file, launch in zip(files, module.profile().launches, strict=True):
        with np.load(file, allow_pickle=False) as dump:
            assert sorted(dump.files) == ["config", "dram_in", "dram_out", "insns"]
            config = json.loads(str(dump["config"]))
            insns, before, after = dump["insns"], dump["dram_in"], dump["dram_out"]
        target = vtac.Target.from_vta_config(config)
        assert (before != after).any()
        for order in (None, 1, 2):
            np.testing.assert_array_equal(execute(target, insns, before, order_seed=order), after)
        vta_sim.main([str(file), "--preset", "chisel-pynq", "--json"])
        assert json.loads(capsys.readouterr().out)["cycles"] == launch.report.cycles
