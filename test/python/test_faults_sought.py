"""Faults in what codegens have built are found whoever looks for them, and in their order."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from wide_networks import samples_of, wide_network

import vtac
from vtac.dialects.errors import CompileError, Problem
from vtac.passes import side_by_side
from vtac.runtime.engines.vta import VtaEngine
from vtac.tools.driver import packing
from vtac.tools.driver.packing import MANY_INSTRUCTIONS, Built, faults_sought


class Counting(VtaEngine):
    """An engine for which a program is the number of its instructions and its faults."""

    def instructions(self, built: object) -> int:
        assert isinstance(built, tuple)
        return int(built[0])

    def faults(self, built: object, resources: Mapping[str, Any]) -> Sequence[Problem]:
        assert isinstance(built, tuple)
        return [Problem(name, str(os.getpid())) for name in built[1]]


@pytest.mark.parametrize("seed", range(20))
def test_all_faults_are_returned_from_either_process(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(side_by_side, "_may_fork", lambda: True)
    rng = np.random.default_rng(seed)
    programs: Built = {
        f"f{i}": ("vta", (int(rng.integers(0, MANY_INSTRUCTIONS)), [f"f{i}.{k}" for k in range(n)]))
        for i, n in enumerate(rng.integers(0, 4, 5).tolist())
    }
    many = sum(program[0] for _, program in programs.values()) >= MANY_INSTRUCTIONS  # type: ignore[index]
    found = faults_sought(programs, lambda *_: Counting(), {})()
    expected = [name for _, program in programs.values() for name in program[1]]  # type: ignore[index]
    assert [problem.where for problem in found] == expected
    assert all((problem.what != str(os.getpid())) == many for problem in found)


@pytest.mark.parametrize("least", [0, 1 << 30], ids=["beside", "here"])
def test_a_compilation_fails_with_the_faults(least: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "MANY_INSTRUCTIONS", least)
    monkeypatch.setattr(VtaEngine, "faults", lambda *_: [Problem("here", "two may change places")])
    network = wide_network("layers", 2)
    with pytest.raises(CompileError, match="two may change places"):
        vtac.compile(network, "sim", samples_of(network))
