"""The machine itself: what VTA computes, how long it takes, and whether a program is safe.

This room knows the ISA and nothing of how programs are made, so it is an independent check of the
compiler.
"""

from .errors import SimulationError
from .functional import Counters, Simulator, execute, run
from .hazards import Hazard, HazardKind, HazardReport, check
from .timing import TimingPreset, TimingReport, estimate

__all__ = [
    "Counters",
    "Hazard",
    "HazardKind",
    "HazardReport",
    "SimulationError",
    "Simulator",
    "TimingPreset",
    "TimingReport",
    "check",
    "estimate",
    "execute",
    "run",
]
