"""Compiled programs of a cluster: no hazard, whatever is taken away is found, both clocks agree."""

import io
import json
import random
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from cluster_clock_programs import assert_same_clock
from cluster_mutants import without_one
from cluster_programs import words_of
from numpy.typing import NDArray
from rich.console import Console
from trained_models import model_path, samples_and_inputs

import vtac
from vtac.dialects.errors import CompileError
from vtac.dialects.target import ClusterTarget
from vtac.dialects.vta.cluster_program import BinaryCluster
from vtac.runtime.device import SimulatorDevice
from vtac.runtime.hazards import hazards_of
from vtac.runtime.vta_program import from_function, resources_of
from vtac.sim.cluster import ClusterReport, check_cluster, decode_cluster, estimate_cluster
from vtac.tools.commands import vta_sim

MUTANTS = 150

pytestmark = pytest.mark.skipif(not model_path("mnist8").exists(), reason="../shared is absent")

Launch = tuple[ClusterTarget, list[NDArray[np.uint64]], NDArray[np.uint8]]


class RecordingDevice(SimulatorDevice):
    """A simulator that keeps the launches it is given: streams, and the image before."""

    def __init__(self, target: ClusterTarget) -> None:
        super().__init__(target)
        self.launches: list[Launch] = []

    def run(self, streams: Any, order_seed: int | None = None) -> Any:
        assert isinstance(self.target, ClusterTarget)
        kept = [np.array(stream, np.uint64) for stream in streams]
        self.launches.append((self.target, kept, self.image()))
        return super().run(streams, order_seed)


@cache
def network(cores: int) -> vtac.Module:
    """A small trained network, compiled for some cores."""
    samples, _ = samples_and_inputs("mnist8")
    path, machine = model_path("mnist8"), ClusterTarget.named("cluster-8").replace(cores=cores)
    return vtac.compile(path, machine, {onnx.load(path).graph.input[0].name: samples})


@cache
def launches(cores: int) -> list[Launch]:
    """The launches of one run of `network`."""
    model, (_, inputs) = network(cores), samples_and_inputs("mnist8")
    assert isinstance(model.target, ClusterTarget)
    device = RecordingDevice(model.target)
    (name,) = model.package.inputs
    vtac.Module(model.package, device=device).run({name: np.asarray(inputs)[:1]})
    assert device.launches
    return device.launches


@pytest.mark.parametrize("cores", [1, 2, 3, 5])
def test_compiled_programs_have_no_hazard(cores: int) -> None:
    for machine, streams, image in launches(cores):
        report = check_cluster(machine, streams, image)
        assert report.ok and report.exact, str(report)


@pytest.mark.parametrize("cores", [1, 2, 3])
def test_both_clocks_agree(cores: int) -> None:
    for machine, streams, _ in launches(cores):
        program = decode_cluster(machine, streams, None)
        assert_same_clock(machine, [list(stream) for stream in program.streams])


@pytest.mark.parametrize("cores", [2, 3])
def test_anything_taken_away_is_found(cores: int) -> None:
    for machine, streams, image in launches(cores):
        program = decode_cluster(machine, streams, None)
        mutants = list(without_one(machine, [list(stream) for stream in program.streams]))
        rng = random.Random(cores)
        chosen = rng.sample(mutants, min(MUTANTS, len(mutants)))
        for what, changed in chosen:
            assert not check_cluster(machine, words_of(machine, changed), image).ok, what


def test_profile_and_vta_sim(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The clock tells the same of a module, of its package and of a recorded launch."""
    model = network(2)
    ((machine, streams, _),) = launches(2)
    expected = estimate_cluster(machine, streams).cycles
    profile = model.profile()
    assert profile.cycles == expected
    assert f"{expected:,}" in rendered(profile.table())
    (launch,) = json.loads(profile.json())["launches"]
    assert [unit["unit"] for unit in launch["units"]] == ["core0", "core1", "dma"]
    assert len(profile.csv().splitlines()) == 4
    slower = model.profile(machine.core.timing.replace(latency=64))
    assert slower.cycles > expected
    (report,) = [launch.timing for launch in slower.launches]
    assert isinstance(report, ClusterReport) and report.cores[0].regions
    assert model.memory_use(profile) == (None,)
    with pytest.raises(CompileError, match="3 units of a cluster"):
        profile.launches[0].report  # noqa: B018
    model.save(tmp_path / "m.vtapkg")
    vta_sim.main([str(tmp_path / "m.vtapkg"), "--json", "--check"])
    assert json.loads(capsys.readouterr().out)["cycles"] == pytest.approx(expected, rel=0.02)


def test_the_compiler_checks_hazards(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the checker finds in a cluster's program reaches the caller."""
    package = network(2).package
    (function,) = [f for f in package.functions.values() if f.codegen == "vta"]
    program = from_function(function, package.target, package.blobs, "package")
    resources = resources_of(function, package.blobs, "package")
    assert not hazards_of(program, resources)
    assert isinstance(program, BinaryCluster)
    words = program.cores[0].insns.copy()
    tokens = np.flatnonzero(words[:, 0] & np.uint64(0b1111 << 3))
    words[tokens[len(tokens) // 2], 0] &= ~np.uint64(0b1111 << 3)
    broken = replace(program, cores=(replace(program.cores[0], insns=words), *program.cores[1:]))
    assert hazards_of(broken, resources)


def rendered(table: Any) -> str:
    console = Console(width=200, file=io.StringIO())
    console.print(table)
    file = console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


PROGRAM = """
import sys, warnings
import onnx
import vtac
from trained_models import model_path, samples_and_inputs
samples, _ = samples_and_inputs("mnist8")
path = model_path("mnist8")
name = onnx.load(path).graph.input[0].name
vtac.compile(path, "cluster-4", {name: samples[:8]}).save(sys.argv[1])
"""


def test_packages_are_the_same_in_every_process(tmp_path: Path) -> None:
    """The same network gives the same bytes, whatever the seed of Python's hashes."""
    for seed in ("1", "2"):
        environment = {"PYTHONHASHSEED": seed, "PATH": "", "PYTHONPATH": ":".join(sys.path)}
        command = [sys.executable, "-c", PROGRAM, str(tmp_path / f"{seed}.vtapkg")]
        subprocess.run(command, env=environment, check=True)
    assert (tmp_path / "1.vtapkg").read_bytes() == (tmp_path / "2.vtapkg").read_bytes()


def test_a_cluster_of_one_core_is_as_fast_as_the_core() -> None:
    """With a global buffer and a copy engine that nobody needs, cycles stay those of one core."""
    samples, _ = samples_and_inputs("mnist8")
    path = model_path("mnist8")
    name = onnx.load(path).graph.input[0].name
    found = [
        vtac.compile(path, machine, {name: samples[:8]}).profile().cycles
        for machine in ("chisel-pynq", "cluster-1")
    ]
    assert found[1] <= found[0] * 1.001
