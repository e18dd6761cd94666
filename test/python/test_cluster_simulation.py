"""``vta-sim`` on a folder of streams: report, trace, hazards, and what it refuses."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from clock_programs import load
from cluster_programs import Program, random_cluster_program, words_of

from vtac.dialects.errors import CompileError
from vtac.dialects.target import ClusterTarget, Memory
from vtac.dialects.target.windows import GB_BASE
from vtac.dialects.vta.dma import Copy, DmaFinish, Signal
from vtac.dialects.vta.encoding import Finish
from vtac.runtime.cluster_streams import read_streams, write_streams
from vtac.sim.cluster import estimate_cluster
from vtac.sim.cluster.timing import cluster_rooflines, gb_occupancy
from vtac.sim.cluster.trace import cluster_trace_events
from vtac.tools.commands import vta_sim

CLUSTER = ClusterTarget.named("cluster-2").replace(gb_bytes=8192)


@pytest.fixture(scope="module")
def program() -> Program:
    found = random_cluster_program(CLUSTER, 4, tasks=14)
    assert {task.unit for task in found.tasks} == {0, 1, 2}
    return found


@pytest.fixture(scope="module")
def folder(program: Program, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("program") / "streams"
    write_streams(path, CLUSTER, program.words(), program.image)
    return path


def test_folders_round_trip(folder: Path, program: Program) -> None:
    cluster, streams, image = read_streams(folder)
    assert cluster == CLUSTER
    for found, expected in zip(streams, program.words(), strict=True):
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(image, program.image)


def run(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    vta_sim.main(args)
    return capsys.readouterr().out


def test_reports(folder: Path, program: Program, capsys: pytest.CaptureFixture[str]) -> None:
    report = estimate_cluster(CLUSTER, program.words())
    found = json.loads(run(capsys, str(folder), "--json"))
    assert found["cycles"] == report.cycles
    assert [unit["unit"] for unit in found["units"]] == ["core0", "core1", "dma"]
    assert [unit["semaphore"] for unit in found["units"]] == list(report.waited)
    rows = list(csv.DictReader(run(capsys, str(folder), "--csv").splitlines()))
    assert [int(row["cycles"]) for row in rows] == [u["cycles"] for u in found["units"]]
    table = run(capsys, str(folder), "--check")
    assert f"{report.cycles:,}" in table and "no hazards" in table and "core1" in table


def test_values_of_the_clock(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def cycles(*changes: str) -> int:
        options = [text for change in changes for text in ("--set", change)]
        found: int = json.loads(run(capsys, str(folder), "--json", *options))["cycles"]
        return found

    assert cycles("sem_latency=200") > cycles()
    assert cycles("ddr_beat_cycles=8", "latency=64") > cycles()


def test_rooflines(program: Program) -> None:
    report = estimate_cluster(CLUSTER, program.words())
    ddr, gb = cluster_rooflines(report)
    assert (ddr.name, gb.name) == ("DDR", "GB")
    assert ddr.roofs.peak == 2 * 256 and (ddr.roofs.bandwidth, gb.roofs.bandwidth) == (8, 16)
    for line in (ddr, gb):
        assert 0 < line.reached <= line.limit <= line.roofs.peak


def test_occupancy_of_gb() -> None:
    """A block of 64 bytes is needed from its COPY to the end of the second load."""
    cluster = ClusterTarget.named("cluster-1").replace(gb_bytes=8192)
    wait = load(Memory.INP, cluster.semaphore_address(1, 0), 1, 1)
    loads = [load(Memory.INP, GB_BASE, 1, 4), load(Memory.INP, GB_BASE, 1, 2, push_next=True)]
    copies = [
        Copy(nbytes=64, source=8192, destination=GB_BASE),
        Copy(nbytes=640, source=8192, destination=GB_BASE + 4096),
    ]
    commands = [*copies, Signal(cluster.semaphore_number(1, 0)), DmaFinish()]
    streams = [[wait, *loads, Finish(pop_prev=True)], commands]
    report = estimate_cluster(cluster, words_of(cluster, streams))
    levels = gb_occupancy(report)
    start = int(report.timeline(1).start[0])
    ends = [int(report.timeline(0).end[index]) for index in (1, 2)]
    assert levels.cycles.tolist() == [start, *ends]
    assert levels.amounts.tolist() == [64, 32, 0] and levels.peak == 64


def test_regions(program: Program) -> None:
    """Layers over all cores: their bytes and multiply-accumulates are those of the launch."""
    labels = [
        [f"layer {n * 3 // len(words)}" for n in range(len(words))] for words in program.words()[:2]
    ]
    report = estimate_cluster(CLUSTER, program.words(), labels)
    assert [region.label for region in report.regions] == ["layer 0", "layer 1", "layer 2"]
    assert sum(region.macs for region in report.regions) == report.macs > 0
    assert sum(region.waited for region in report.regions) == sum(report.waited[:2])
    gb = [sum(classes.values()) for classes in report.gb_bytes[:2]]
    assert sum(region.gb_bytes for region in report.regions) == sum(gb)
    for region in report.regions:
        assert 0 <= region.start < region.end <= report.cycles and 0 < region.utilisation <= 1


def test_trace(folder: Path, program: Program, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    vta_sim.main([str(folder), "--trace", str(path)])
    events = json.loads(path.read_text())["traceEvents"]
    report = estimate_cluster(CLUSTER, program.words())
    assert events == json.loads(json.dumps(cluster_trace_events(report)))
    names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert names == {1: "core0", 2: "core1", 3: "dma"}
    slices: dict[str, list[Any]] = {"WAIT": [], "SIGNAL": [], "COPY": []}
    for event in events:
        if event["ph"] == "X":
            assert event["dur"] > 0
            slices.get(event["name"], []).append(event)
    assert all(slices.values())
    arrows = [e for e in events if e.get("cat") == "semaphore"]
    assert len(arrows) == 2 * len(report.semaphore_edges) > 0
    for begin, end in zip(arrows[::2], arrows[1::2], strict=True):
        assert (begin["ph"], end["ph"], begin["id"]) == ("s", "f", end["id"])
        assert begin["pid"] != end["pid"] and begin["ts"] <= end["ts"]
    ids = [e["id"] for e in events if e["ph"] == "s"]
    assert len(ids) == len(set(ids))


def test_hazards_are_errors(folder: Path, tmp_path: Path, program: Program) -> None:
    words = program.words()
    words[2] = words[2][[-1]]
    write_streams(tmp_path, CLUSTER, words)
    with pytest.raises(SystemExit):
        vta_sim.main([str(tmp_path), "--check"])


def test_refused_folders(folder: Path, tmp_path: Path, program: Program) -> None:
    with pytest.raises(CompileError, match=r"has no machine.json"):
        read_streams(tmp_path)
    write_streams(tmp_path, CLUSTER, program.words())
    with pytest.raises(CompileError, match="says itself that it is for"):
        read_streams(tmp_path, CLUSTER.replace(cores=1))
    (tmp_path / "machine.json").unlink()
    with pytest.raises(CompileError, match=r"has dma.bin, which"):
        read_streams(tmp_path, CLUSTER.replace(dma=False))
    with pytest.raises(CompileError, match=r"has no core2.bin"):
        read_streams(tmp_path, CLUSTER.replace(cores=3))
    (tmp_path / "core1.bin").write_bytes(b"12345")
    with pytest.raises(CompileError, match="whole number of instructions"):
        read_streams(tmp_path, CLUSTER)
    (tmp_path / "core1.bin").write_bytes(bytes(16))
    np.savez(tmp_path / "image.npz", other=np.zeros(8))
    with pytest.raises(CompileError, match="has no dram_in"):
        read_streams(tmp_path, CLUSTER)
    (tmp_path / "machine.json").write_text("{}")
    with pytest.raises(CompileError, match="is not a cluster"):
        read_streams(tmp_path)
    for wrong in (["--timeline", "x.gif"], ["--set", "gb_bytes=7"], ["--target", "pynq"]):
        with pytest.raises(SystemExit):
            vta_sim.main([str(folder), *wrong])


def test_pictures(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    timeline, roofline = tmp_path / "t.svg", tmp_path / "r.svg"
    vta_sim.main([str(folder), "--timeline", str(timeline), "--roofline", str(roofline)])
    assert timeline.read_text().startswith("<?xml") and roofline.read_text().startswith("<?xml")
