"""The interface to an accelerator: memory, and programs that run on it.

The driver of a board would offer this interface; the simulator implements it. Addresses count bytes
in the device's DRAM. The first 4096 bytes are reserved (VTA.h of Apache tvm-vta reserves a page so
that address 0 is never valid).
"""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.target import Target
from vtac.sim import Counters, SimulationError, Simulator

RESERVED_BYTES = 4096
"""Bytes at the start of DRAM that no program may address."""

CORES = 1
"""How many cores a `Target` has, each with a stream of instructions of its own."""


class Device(Protocol):
    """An accelerator with its memory."""

    @property
    def target(self) -> Target:
        """The machine for which programs must be compiled to run on this device."""
        ...

    def allocate(self, size: int, alignment: int) -> int:
        """The address of ``size`` fresh bytes, a multiple of ``alignment``."""
        ...

    def write(self, address: int, data: NDArray[np.uint8]) -> None:
        """Copy bytes to the device."""
        ...

    def read(self, address: int, size: int) -> NDArray[np.uint8]:
        """Copy bytes from the device."""
        ...

    def image(self) -> NDArray[np.uint8]:
        """A copy of all memory allocated so far, from address 0."""
        ...

    def run(self, streams: Sequence[NDArray[np.uint64]], order_seed: int | None = None) -> Counters:
        """Run a program until every core is past its FINISH.

        streams: the instructions of each core, uint64 [N, 2]. order_seed: where the device can
        choose, the order in which modules take turns. Raises `CompileError` where the program is
        wrong, or where there are not as many streams as the device has cores.
        """
        ...


class SimulatorDevice:
    """The functional simulator as a device, in strict mode."""

    def __init__(self, target: Target) -> None:
        self._simulator = Simulator(target)
        self._target = target
        self._memory = np.zeros(RESERVED_BYTES, np.uint8)
        self._end = RESERVED_BYTES

    @property
    def target(self) -> Target:
        """The machine that is simulated."""
        return self._target

    def allocate(self, size: int, alignment: int) -> int:
        """The address of fresh bytes at the end of the image, which grows by doubling."""
        address = -(-self._end // alignment) * alignment
        self._end = address + size
        if self._end > len(self._memory):
            try:
                grown = np.zeros(max(self._end, 2 * len(self._memory)), np.uint8)
            except (MemoryError, ValueError):
                raise CompileError(
                    Problem("simulator", f"this machine has no {self._end} bytes of memory")
                ) from None
            grown[: len(self._memory)] = self._memory
            self._memory = grown
        return address

    def write(self, address: int, data: NDArray[np.uint8]) -> None:
        """Copy bytes into the image."""
        self._range(address, data.size)[:] = data.reshape(-1)

    def read(self, address: int, size: int) -> NDArray[np.uint8]:
        """Copy bytes out of the image."""
        return self._range(address, size).copy()

    def image(self) -> NDArray[np.uint8]:
        """A copy of the image."""
        return self._memory[: self._end].copy()

    def run(self, streams: Sequence[NDArray[np.uint64]], order_seed: int | None = None) -> Counters:
        """Simulate; a program that breaks a rule of the machine is an error."""
        if len(streams) != CORES:
            what = f"{len(streams)} streams of instructions for a machine of {CORES} core"
            raise CompileError(Problem("simulator", what, "Pass one stream for each core."))
        (instructions,) = streams
        try:
            return self._simulator.run(
                instructions, self._memory[: self._end], strict=True, order_seed=order_seed
            )
        except SimulationError as error:
            raise CompileError(Problem("simulator", str(error))) from None

    def _range(self, address: int, size: int) -> NDArray[np.uint8]:
        if not RESERVED_BYTES <= address <= address + size <= self._end:
            raise CompileError(
                Problem("device", f"bytes {address} to {address + size} were never allocated")
            )
        return self._memory[address : address + size]


def total(counters: Iterable[Counters]) -> Counters:
    """The sum of the counters of several launches."""
    result = Counters()
    for counter in counters:
        for field in dataclasses.fields(Counters):
            before: Any = getattr(result, field.name)
            more: Any = getattr(counter, field.name)
            if isinstance(before, dict):
                for key, amount in more.items():
                    before[key] = before.get(key, 0) + amount
            else:
                setattr(result, field.name, before + more)
    return result
