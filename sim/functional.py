"""The functional simulator: the exact contents of DRAM after a program, without timing.

It needs the binary alone. This module controls a run (order of instructions, reports, counters);
the meaning of instructions is in `machine` (fast) and, as the plain definition, in `reference`.
"""

import threading
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..dialects.target import Target
from .errors import Fault, SimulationError
from .launch import Counters, Launch, launch
from .machine import FastMachine
from .reference import ReferenceMachine


class FunctionalCore(Protocol):
    """An implementation of the instructions; `position` is the place of the one that runs."""

    position: int

    def begin(self, program: Launch, dram: NDArray[np.uint8], /) -> None:
        """Make ready to run a program from undefined buffers on ``dram``, in place."""

    def advance(self, until: int, /) -> None:
        """Run its instructions that have not run, up to place ``until``; raises `Fault`."""


class Simulator:
    """A VTA with the interface of a device: launch after launch on one DRAM image.

    Buffers, micro-ops and tokens are undefined or empty at each launch. One launch at a time: there
    is one machine. ``machine`` chooses between the fast one, which remembers the programs that it
    has run, and `ReferenceMachine`, the plain definition.
    """

    def __init__(
        self, target: Target, machine: Callable[[Target], FunctionalCore] = FastMachine
    ) -> None:
        self.target = target
        self._machine = machine(target)

    def run(
        self,
        insns: NDArray[np.uint64],
        dram: NDArray[np.uint8],
        strict: bool = True,
        order_seed: int | None = None,
    ) -> Counters:
        """Run a program, uint64 [N, 2], on ``dram`` (uint8, contiguous), which it changes in place.

        Strict mode also refuses programs that implementations of VTA run differently, or that leave
        tokens. Without a seed the modules take turns in program order as far as tokens allow; with
        one, in a random order that tokens allow. Raises `SimulationError`; the image may then have
        changed in part.
        """
        if dram.dtype != np.uint8 or dram.ndim != 1 or not dram.flags.c_contiguous:
            raise ValueError("dram must be a contiguous uint8 array of one dimension")
        words = np.ascontiguousarray(insns, np.uint64)
        program = launch(self.target, words.tobytes(), len(dram), strict, order_seed)
        try:
            self._machine.begin(program, dram)
            self._machine.advance(len(program.instructions))
        except Fault as fault:
            position = self._machine.position
            place, instruction = program.places[position], program.instructions[position]
            raise SimulationError(place, instruction, str(fault)) from None
        return replace(program.counters, bytes_moved=dict(program.counters.bytes_moved))


_SIMULATORS = 8
"""Simulators that `run` and `execute` keep, with the programs that each of them remembers."""


@lru_cache(maxsize=_SIMULATORS)
def _simulator(target: Target, thread: int) -> Simulator:
    """The simulator of a target in a thread: a program that runs again is not planned again."""
    return Simulator(target)


def run(
    target: Target,
    insns: NDArray[np.uint64],
    dram: NDArray[np.uint8],
    strict: bool = True,
    order_seed: int | None = None,
) -> tuple[NDArray[np.uint8], Counters]:
    """The DRAM image after a program, a new array, and what the run did (see `Simulator.run`).

    Programs are remembered by target and thread, the latest ones: a second call on the same program
    is as fast as `Simulator.run`.
    """
    image = np.array(dram, dtype=np.uint8)
    simulator = _simulator(target, threading.get_ident())
    counters = simulator.run(insns, image, strict, order_seed)
    return image, counters


def execute(
    target: Target,
    insns: NDArray[np.uint64],
    dram: NDArray[np.uint8],
    strict: bool = True,
    order_seed: int | None = None,
) -> NDArray[np.uint8]:
    """The DRAM image after a program, a new array (see `Simulator.run`)."""
    return run(target, insns, dram, strict, order_seed)[0]


__all__ = ["Counters", "ReferenceMachine", "Simulator", "execute", "run"]
