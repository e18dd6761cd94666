"""The commands of a cluster's DMA, and their bits.

A command is two 64-bit words, fetched as a core's instructions are. Word 0: the opcode (bits 0 to
2), then the bytes of a COPY (40 bits from bit 3) or the number of a semaphore (16 bits from bit 3,
see `dialects.target.windows`). Word 1, of a COPY alone: source and destination, byte addresses of
32 bits each. All other bits are zero.
"""

import enum
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .encoding import EncodingError

COPY_ALIGNMENT = 8
"""Sizes and addresses of a COPY are multiples of so many bytes."""

_OPCODE_BITS = 3
_SIZE_BITS, _NUMBER_BITS, _ADDRESS_BITS = 40, 16, 32


class DmaOpcode(enum.IntEnum):
    """What a command does."""

    COPY = 0
    WAIT = 1
    SIGNAL = 2
    FINISH = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """COPY: so many contiguous bytes from one memory to another."""

    nbytes: int
    source: int
    destination: int


@dataclass(frozen=True, slots=True)
class Wait:
    """WAIT: take one from the semaphore of that number, once its count is above 0."""

    semaphore: int


@dataclass(frozen=True, slots=True)
class Signal:
    """SIGNAL: add one to the semaphore of that number."""

    semaphore: int


@dataclass(frozen=True, slots=True)
class DmaFinish:
    """FINISH: the end of the stream."""


DmaCommand = Copy | Wait | Signal | DmaFinish


def encode_dma(commands: Sequence[DmaCommand]) -> NDArray[np.uint64]:
    """The words of commands, uint64 [n, 2]. Raises `EncodingError` on what does not fit."""
    words = np.zeros((len(commands), 2), np.uint64)
    for index, command in enumerate(commands):
        words[index] = _encode(command, index)
    return words


def _encode(command: DmaCommand, index: int) -> tuple[int, int]:
    match command:
        case Copy(nbytes=nbytes, source=source, destination=destination):
            size = _fitting(nbytes, _SIZE_BITS, "bytes", index)
            low = _fitting(source, _ADDRESS_BITS, "the source", index)
            high = _fitting(destination, _ADDRESS_BITS, "the destination", index)
            return DmaOpcode.COPY | size << _OPCODE_BITS, low | high << _ADDRESS_BITS
        case Wait(semaphore) | Signal(semaphore):
            number = _fitting(semaphore, _NUMBER_BITS, "the semaphore", index)
            opcode = DmaOpcode.WAIT if isinstance(command, Wait) else DmaOpcode.SIGNAL
            return opcode | number << _OPCODE_BITS, 0
        case DmaFinish():
            return DmaOpcode.FINISH, 0


def _fitting(value: int, bits: int, what: str, index: int) -> int:
    if not 0 <= value < 1 << bits:
        text = f"command {index} of the DMA: {what} must fit {bits} bits, but is {value}"
        raise EncodingError(text, index)
    return value


def decode_dma(words: NDArray[np.uint64]) -> list[DmaCommand]:
    """The commands of words, uint64 [n, 2]. Raises `EncodingError` on bits without a meaning."""
    pairs = np.ascontiguousarray(words, np.uint64).reshape(-1, 2).tolist()
    return [_decode(first, second, index) for index, (first, second) in enumerate(pairs)]


def _decode(first: int, second: int, index: int) -> DmaCommand:
    opcode, rest = first & (1 << _OPCODE_BITS) - 1, first >> _OPCODE_BITS
    command: DmaCommand | None = None
    if opcode == DmaOpcode.COPY and rest < 1 << _SIZE_BITS:
        mask = (1 << _ADDRESS_BITS) - 1
        return Copy(nbytes=rest, source=second & mask, destination=second >> _ADDRESS_BITS)
    if opcode == DmaOpcode.WAIT and rest < 1 << _NUMBER_BITS:
        command = Wait(rest)
    elif opcode == DmaOpcode.SIGNAL and rest < 1 << _NUMBER_BITS:
        command = Signal(rest)
    elif opcode == DmaOpcode.FINISH and rest == 0:
        command = DmaFinish()
    if command is None or second:
        raise EncodingError(f"command {index} of the DMA has bits that mean nothing", index)
    return command


def disassemble_dma(command: DmaCommand) -> str:
    """One line that says all about a command."""
    match command:
        case Copy(nbytes=nbytes, source=source, destination=destination):
            return f"COPY {nbytes} bytes from {source:#x} to {destination:#x}"
        case Wait(semaphore):
            return f"WAIT {semaphore}"
        case Signal(semaphore):
            return f"SIGNAL {semaphore}"
        case DmaFinish():
            return "FINISH"
