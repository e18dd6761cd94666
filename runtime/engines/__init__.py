"""The run halves of codegens: ``runtime/engines/NAME.py`` runs what codegen NAME made.

Each module offers ``ENGINE``. An engine is found by the name in the package, among the modules of
this folder and nowhere else, so that a package cannot choose what is imported.
"""

import importlib
import pkgutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

import numpy as np

from vtac.dialects.errors import CompileError, Problem
from vtac.runtime.device import Device
from vtac.sim import Counters, TimingPreset, TimingReport

if TYPE_CHECKING:
    from vtac.runtime.package.contents import Function, Package

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class LaunchOptions:
    """How to run a launch: the seed of `Device.run`; a file to write (`Module.run`), or None."""

    order_seed: int | None = None
    dump: Path | None = None


@dataclass(frozen=True)
class LaunchResult:
    """What a launch leaves: arrays of bytes, one an output, and what it did."""

    outputs: Sequence[Array]
    counters: Counters


class Session(Protocol):
    """The functions of one package, ready to run: constants are in place."""

    def launch(
        self, function: str, inputs: Sequence[Array], options: LaunchOptions
    ) -> LaunchResult:
        """Run a function on arrays in their physical layout."""
        ...


@runtime_checkable
class TimedSession(Protocol):
    """A session that knows how long its functions take on the machine."""

    def time(self, function: str, preset: str | TimingPreset | None) -> TimingReport:
        """The clock's report of a launch, with the layers of the network as labels.

        preset: as in `vtac.sim.estimate`. Raises `CompileError` on a program that the preset's
        machine cannot run.
        """
        ...


class Engine(Protocol):
    """The run half of a codegen."""

    def verify(self, package: "Package", function: "Function", where: str) -> None:
        """Raise `CompileError` unless the function's metadata and files are sound."""
        ...

    def open(self, package: "Package", device: Device) -> Session:
        """Make the functions of this engine ready to run."""
        ...


def engine_named(name: str, where: str) -> Engine:
    """The engine of a codegen. Raises `CompileError` on a name that is none."""
    known = sorted(info.name for info in pkgutil.iter_modules(__path__))
    if name not in known:
        raise CompileError(
            Problem(where, f"needs the engine {name!r}; there are {', '.join(known)}")
        )
    return cast(Engine, importlib.import_module(f"{__name__}.{name}").ENGINE)
