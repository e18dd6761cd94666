"""Launches of compiled models as plain programs: what ``Module.run(dump=...)`` writes."""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vtac.dialects.target import Target
from vtac.runtime.executor import Module


@dataclass(frozen=True)
class Program:
    """A program with the memory that it starts from."""

    name: str
    target: Target
    insns: NDArray[np.uint64]
    dram: NDArray[np.uint8]


def launches_of(name: str, module: Module, feeds: Mapping[str, Any]) -> list[Program]:
    """The launches of one run of a model."""
    with tempfile.TemporaryDirectory() as folder:
        module.run(feeds, dump=folder)
        programs = []
        for file in sorted(Path(folder).iterdir()):
            with np.load(file, allow_pickle=False) as dump:
                programs.append(Program(name, module.target, dump["insns"], dump["dram_in"]))
        return programs
