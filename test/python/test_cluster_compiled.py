"""Compiled programs of a cluster: no hazard, whatever is taken away is found, both clocks agree."""

import random
from functools import cache
from typing import Any

import numpy as np
import onnx
import pytest
from cluster_clock_programs import assert_same_clock
from cluster_mutants import without_one
from cluster_programs import words_of
from numpy.typing import NDArray
from trained_models import model_path, samples_and_inputs

import vtac
from vtac.dialects.target import ClusterTarget
from vtac.runtime.device import SimulatorDevice
from vtac.sim.cluster import check_cluster, decode_cluster

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
def launches(cores: int) -> list[Launch]:
    """The launches of a small trained network on some cores."""
    samples, inputs = samples_and_inputs("mnist8")
    path, machine = model_path("mnist8"), ClusterTarget.named("cluster-8").replace(cores=cores)
    name = onnx.load(path).graph.input[0].name
    model = vtac.compile(path, machine, {name: samples})
    device = RecordingDevice(machine)
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
