"""The address map of a cluster: which bytes are DDR, global buffer (GB) or semaphores.

Cores of a cluster are ordinary VTA cores; the addresses of their transfers say which memory they
reach. The windows of GB and semaphores lie low, so that an image of all memory stays one dense
array:

=========================================================  ==========
bytes                                                      memory
=========================================================  ==========
[0x1000, 0x0100_0000) and from 0x0300_0000 on              DDR
[0x0100_0000, 0x0100_0000 + gb_bytes)                      GB
[0x0200_0000, 0x0200_0000 + 64 (cores + 1)^2)              semaphores
=========================================================  ==========

Semaphore (source -> destination) counts the signals that unit `source` has given and that unit
`destination` has not yet waited for. The units are the cores, by their number, and the DMA, whose
number is that of the cores. A machine of one unit without a GB has no windows: all of its memory
is DDR.
"""

import enum

DDR_BASE = 0x1000
"""First byte of DDR."""

GB_BASE = 0x0100_0000
"""First byte of the global buffer, and the end of low DDR."""

GB_LIMIT = 0x0200_0000
"""End of the addresses that a global buffer may have."""

SEMAPHORE_BASE = 0x0200_0000
"""First byte of the semaphores."""

SEMAPHORE_BYTES = 64
"""Distance between two semaphores."""

SEMAPHORE_DEPTH = 255
"""Signals that a semaphore counts; one more is lost."""

HIGH_DDR_BASE = 0x0300_0000
"""First byte of the rest of DDR."""

MOST_CORES = 15
"""Cores of a cluster at most."""


class MemoryScope(enum.Enum):
    """The memories that a transfer of a cluster may reach."""

    DDR = "DDR"
    GB = "GB"
    SEMAPHORES = "semaphores"

    def __str__(self) -> str:
        return self.value


def scope_of(cores: int, gb_bytes: int, first: int, end: int) -> MemoryScope | None:
    """The memory that holds all bytes [first, end); None where no single memory does."""
    if (first >= DDR_BASE and end <= GB_BASE) or first >= HIGH_DDR_BASE:
        return MemoryScope.DDR
    if first >= GB_BASE and end <= GB_BASE + gb_bytes:
        return MemoryScope.GB
    if first >= SEMAPHORE_BASE and end <= semaphores_end(cores):
        return MemoryScope.SEMAPHORES
    return None


def semaphores_end(cores: int) -> int:
    """The byte behind the last semaphore of a cluster with so many cores."""
    return SEMAPHORE_BASE + SEMAPHORE_BYTES * (cores + 1) ** 2


def semaphore_number(cores: int, source: int, destination: int) -> int:
    """The number of semaphore (source -> destination). Those to one destination are neighbours."""
    if not (0 <= source <= cores and 0 <= destination <= cores):
        raise ValueError(f"units are 0 to {cores}, not {source} and {destination}")
    return destination * (cores + 1) + source


def semaphore_address(cores: int, source: int, destination: int) -> int:
    """The byte address of semaphore (source -> destination)."""
    return SEMAPHORE_BASE + SEMAPHORE_BYTES * semaphore_number(cores, source, destination)


def semaphore_units(cores: int, number: int) -> tuple[int, int]:
    """Source and destination of the semaphore with a number. Raises `ValueError`."""
    if not 0 <= number < (cores + 1) ** 2:
        raise ValueError(f"semaphores are 0 to {(cores + 1) ** 2 - 1}, not {number}")
    destination, source = divmod(number, cores + 1)
    return source, destination


def semaphore_at(cores: int, address: int) -> int | None:
    """The number of the semaphore at a byte address; None if the address is not that of one."""
    number, rest = divmod(address - SEMAPHORE_BASE, SEMAPHORE_BYTES)
    return number if rest == 0 and 0 <= number < (cores + 1) ** 2 else None


def ddr_address(at: int, size: int, alignment: int) -> int:
    """The first address from `at` on where `size` bytes of DDR lie, a multiple of `alignment`."""
    address = -(-max(at, DDR_BASE) // alignment) * alignment
    if address + size > GB_BASE and address < HIGH_DDR_BASE:
        address = -(-HIGH_DDR_BASE // alignment) * alignment
    return address
