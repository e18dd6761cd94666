"""Compiles a network for one machine after the other, and counts cycles by the clock.

What does not depend on the machine (import, normal form, calibration) is done once in each process,
and what depends on few fields of it (quantisation) once for each of their values (`PreparedModel`).
All that the accelerator can compute runs there: whether the host would be quicker is not asked, so
that machines are compared by the same work.
"""

import os
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.target import Target
from vtac.sim.errors import SimulationError
from vtac.tools.driver.compiled_cache import compilation_digest
from vtac.tools.driver.compiler import NO_CALIBRATION, NOTHING_OFFLOADED
from vtac.tools.driver.levels import Criteria
from vtac.tools.driver.options import CompileOptions
from vtac.tools.driver.prepared_model import PreparedModel
from vtac.tools.explore_machines.outcome import Outcome

FAULT = "a fault of vtac: "
"""The beginning of reasons that are no fault of the machine's."""


@dataclass(frozen=True)
class ComparedNetwork:
    """A network that machines are compared by: plain values, which other processes can be given.

    model, samples: paths. shapes: of inputs with symbolic dimensions. shift, requantise: as those
    of `CompileOptions`.
    """

    model: str
    samples: str | None = None
    shapes: Mapping[str, tuple[int, ...]] | None = None
    shift: str = "auto"
    requantise: str = "auto"

    @property
    def options(self) -> CompileOptions:
        """The options of its compilations."""
        return CompileOptions(
            shapes=self.shapes,
            shift=self.shift,
            requantise=self.requantise,
            criteria=Criteria(compare=False),
            codegens=("vta",),
            tuning=False,
        )

    @property
    def digest(self) -> str:
        """Tells apart everything besides the machine that decides cycles, the compiler included."""
        any_machine = Target.named("sim")
        return compilation_digest(self.model, any_machine, self.samples, self.options)


class NetworkError(CompileError):
    """The fault is the network's, whatever the machine."""


class Evaluator:
    """Compiles a network for machines and times it."""

    def __init__(self, network: ComparedNetwork) -> None:
        self.network = network

    @cached_property
    def prepared(self) -> PreparedModel:
        """The network up to where machines part. Raises `CompileError` if it cannot be read."""
        network = self.network
        return PreparedModel(network.model, "sim", network.samples, network.options)

    def __call__(self, machine: Target) -> Outcome:
        """What becomes of a machine. Raises `CompileError` only where no machine would do."""
        prepared = self.prepared
        started = time.perf_counter()
        try:
            found = _timed(prepared, machine)
        except NetworkError:
            raise
        except CompileError as error:
            more = len(error.problems) - 1
            others = f" (and {more} more)" if more else ""
            found = Outcome(None, f"{_one_line(str(error.problems[0]))}{others}")
        except SimulationError as error:
            found = Outcome(None, _one_line(str(error)))
        except Exception as error:  # one machine of many must not end the exploration
            found = Outcome(None, f"{FAULT}{type(error).__name__}: {_one_line(str(error))}")
        millis = round((time.perf_counter() - started) * 1000)
        return Outcome(**{**vars(found), "millis": millis})


def _timed(prepared: PreparedModel, machine: Target) -> Outcome:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = prepared.compile(machine)
    hosted = [placement for placement in module.explain if placement.where == "host"]
    macs = sum(placement.macs for placement in module.explain)
    on_host = sum(placement.macs for placement in hosted)
    if not module.package.functions:
        if NO_CALIBRATION in module.report.warnings:
            raise NetworkError(Problem("", NO_CALIBRATION))
        return Outcome(None, NOTHING_OFFLOADED.partition(";")[0], host_nodes=len(hosted))
    cycles = module.profile().cycles
    return Outcome(cycles, "", macs - on_host, len(hosted), on_host)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def processors() -> int:
    """How many processes this machine can run at one time."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
