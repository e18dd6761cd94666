"""The command vta-sim."""

import json
from pathlib import Path

import numpy as np
import pytest
from clock_programs import gemm, load, store, sync

from vtac.dialects.target import Memory, Target
from vtac.dialects.vta.encoding import Finish, Instruction, encode
from vtac.tools.commands.vta_sim import main

CHISEL = Target.named("chisel-pynq")
PROGRAM = [
    load(Memory.UOP, 4096, 1, 4),
    load(Memory.INP, 8192, 4, 4, push_next=True),
    load(Memory.WGT, 12288, 1, 1, push_next=True),
    gemm(2, 2, 4, pop_prev=True, reset=True),
    gemm(2, 2, 4, pop_prev=True, push_next=True),
    store(32768, 1, 1, pop_prev=True, push_prev=True),
    Finish(pop_next=True),
]


def write(path: Path, program: list[Instruction]) -> str:
    """An .npz as the golden files are, or bare words."""
    words = encode(CHISEL, program)
    if path.suffix == ".npz":
        config = json.dumps(CHISEL.to_vta_config())
        np.savez(path, insns=words, config=np.array(config), dram_in=np.zeros(65536, np.uint8))
    else:
        path.write_bytes(words.tobytes())
    return str(path)


def failure(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    """What the command says when it fails; status 1, no traceback."""
    with pytest.raises(SystemExit) as caught:
        main(args)
    assert caught.value.code == 1
    error = capsys.readouterr().err
    assert error.startswith("vta-sim: error: ")
    assert "Traceback" not in error
    return error


def test_report_on_words_and_archives(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = write(tmp_path / "p.bin", PROGRAM)
    archive = write(tmp_path / "p.npz", PROGRAM)
    outputs = []
    for path in (words, archive):
        main([path, "--target", "chisel-de10", "--json"])
        outputs.append(json.loads(capsys.readouterr().out))
    assert outputs[0] == outputs[1]
    assert outputs[0]["preset"] == "chisel-de10"
    assert outputs[0]["verified"] is True
    main([words, "--target", "chisel-de10"])
    assert f"{outputs[0]['cycles']:,}" in capsys.readouterr().out
    main([words, "--target", "chisel-de10", "--csv"])
    assert capsys.readouterr().out.startswith("label,instructions,cycles")


def test_another_machine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, cycles = write(tmp_path / "p.npz", PROGRAM), []
    file = tmp_path / "slow.toml"
    file.write_text('base = "chisel-pynq"\nlatency = 100\n')
    for options in (
        ["--preset", "chisel-pynq"],
        ["--preset", str(file)],
        ["--preset", "chisel-pynq", "--set", "latency=100"],
        ["--preset", "chisel-pynq-ideal"],
    ):
        main([path, "--json", *options])
        cycles.append(json.loads(capsys.readouterr().out)["cycles"])
    assert cycles[1] == cycles[2] > cycles[0] > cycles[3]


def test_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib, the extra plots, is absent")
    path = write(tmp_path / "p.npz", PROGRAM)
    trace, timeline, roofline = (str(tmp_path / n) for n in ("t.json", "t.svg", "r.png"))
    main([path, "--trace", trace, "--timeline", timeline, "--roofline", roofline])
    assert json.loads(Path(trace).read_text())["traceEvents"]
    assert "<svg" in Path(timeline).read_text()
    assert Path(roofline).read_bytes().startswith(b"\x89PNG")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["p.npz", "r.png", "t.json", "t.svg"]


def test_hazards(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main([write(tmp_path / "p.npz", PROGRAM), "--target", "chisel-pynq", "--check"])
    assert "no hazards" in capsys.readouterr().out
    racy = write(tmp_path / "racy.npz", [*PROGRAM[:5], store(32768, 1, 1), Finish()])
    error = failure(capsys, racy, "--target", "chisel-pynq", "--check")
    assert "not ordered before FINISH" in error


def test_refusals(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "p.npz", PROGRAM)
    words = write(tmp_path / "p.bin", PROGRAM)
    stuck = write(tmp_path / "stuck.npz", [sync("compute", pop_prev=True), Finish()])
    (tmp_path / "odd.bin").write_bytes(b"12345")
    assert "which program" in failure(capsys)
    assert "need their machine" in failure(capsys, words)
    assert "whole number of instructions" in failure(
        capsys, str(tmp_path / "odd.bin"), "--target", "sim"
    )
    assert "instruction 0" in failure(capsys, stuck)
    assert "deadlock" in failure(capsys, stuck)
    assert "no timing preset 'fast'" in failure(capsys, path, "--preset", "fast")
    assert "is not KEY=VALUE" in failure(capsys, path, "--set", "latency")
    assert "has no 'speed'" in failure(capsys, path, "--set", "speed=1")
    assert "a picture is one of" in failure(capsys, path, "--timeline", "t.gif")
    assert "cannot write it" in failure(capsys, path, "--trace", str(tmp_path / "no" / "t.json"))
    assert "cannot read it" in failure(capsys, str(tmp_path / "absent.npz"))


def test_presets_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--list-presets"])
    text = capsys.readouterr().out
    assert "hls-ultra96" in text
    assert "store_idle_cycles" in text
