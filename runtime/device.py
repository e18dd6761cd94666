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

from vtac.dialects.arguments import Kind
from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.target import ClusterTarget, Machine, cores_of, windows
from vtac.sim import Counters, SimulationError, Simulator
from vtac.sim.cluster import ClusterError, ClusterSimulator

RESERVED_BYTES = 4096
"""Bytes at the start of DRAM that no program may address."""


class Device(Protocol):
    """An accelerator with its memory."""

    @property
    def target(self) -> Machine:
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

        streams: the instructions of each unit, uint64 [N, 2]: the cores by number, then the DMA of
        a cluster that has one. order_seed: where the device can choose, the order in which modules
        take turns. Raises `CompileError` where the program is wrong, or where there are not as many
        streams as the device has units.
        """
        ...


def _is_device(value: object) -> bool:
    names = ("target", "allocate", "write", "read", "run")
    return not isinstance(value, type) and all(hasattr(value, name) for name in names)


DEVICE = Kind("a Device", _is_device)
"""What a module can run on."""


class SimulatorDevice:
    """The functional simulator as a device, in strict mode."""

    def __init__(self, target: Machine) -> None:
        self._target = target
        self._cluster = target if isinstance(target, ClusterTarget) and target.has_windows else None
        self._simulator = Simulator(cores_of(target)[0])
        self._end = RESERVED_BYTES
        first = RESERVED_BYTES
        if self._cluster is not None:
            self._simulators = ClusterSimulator(self._cluster)
            first = windows.semaphores_end(self._cluster.cores)
        self._memory = np.zeros(first, np.uint8)

    @property
    def target(self) -> Machine:
        """The machine that is simulated."""
        return self._target

    def allocate(self, size: int, alignment: int) -> int:
        """The address of fresh bytes at the end of the image, which grows by doubling."""
        address = -(-self._end // alignment) * alignment
        if self._cluster is not None:
            address = windows.ddr_address(self._end, size, alignment)
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
        return self._image().copy()

    def _image(self) -> NDArray[np.uint8]:
        """All memory allocated so far; of a cluster, its windows as well."""
        if self._cluster is None:
            return self._memory[: self._end]
        return self._memory[: max(self._end, windows.semaphores_end(self._cluster.cores))]

    def run(self, streams: Sequence[NDArray[np.uint64]], order_seed: int | None = None) -> Counters:
        """Simulate; a program that breaks a rule of the machine is an error."""
        units = 1 if self._cluster is None else self._cluster.units
        if len(streams) != units:
            what = f"{len(streams)} streams of instructions for a machine of {units} units"
            raise CompileError(Problem("simulator", what, "Pass one stream for each unit."))
        try:
            if self._cluster is not None:
                return self._simulators.run(
                    streams, self._image(), strict=True, order_seed=order_seed
                ).total
            (instructions,) = streams
            return self._simulator.run(
                instructions, self._image(), strict=True, order_seed=order_seed
            )
        except (SimulationError, ClusterError) as error:
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
