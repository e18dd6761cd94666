"""The machine itself: what VTA computes, and whether a program is safe in every legal order.

Knows the ISA and nothing of how programs are made: it is the second opinion on the compiler.
"""

from .errors import SimulationError
from .functional import Counters, Simulator, execute, run
from .hazards import Hazard, HazardKind, HazardReport, check

__all__ = [
    "Counters",
    "Hazard",
    "HazardKind",
    "HazardReport",
    "SimulationError",
    "Simulator",
    "check",
    "execute",
    "run",
]
