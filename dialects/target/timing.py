"""The rates of a machine: every number that the rules of the clock leave open.

The rules are those of the Chisel design of Apache tvm-vta: three modules side by side, one read
channel that all readers share, and a write channel for STORE. A `TimingPreset` fills in the
numbers. It is a part of the target (`Configuration.timing`), so the clock in ``sim/timing`` and the
cost models of the passes read the same values. ``chisel-pynq`` and ``chisel-de10`` agree with the
design's RTL in every cycle. The others put the published rates of the HLS design on the same rules
and are not verified against hardware.

A preset with one value changed describes another machine:
``TimingPreset.named("chisel-pynq").replace(latency=32)``.
"""

import dataclasses
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vtac.dialects.errors import Problem

from .entries import SUFFIXES, listed, read_entries
from .errors import PresetError

IDEAL = "-ideal"
"""``NAME-ideal`` is the preset NAME with `TimingPreset.ideal_memory`."""

INSTRUCTION_BYTES = 16

LOAD_OVERHEAD = 7
"""Cycles of a LOAD that are neither beats nor the memory's latency."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimingPreset:
    """The rates of one machine. Times are in cycles, sizes in the unit that each line states."""

    name: str
    """Shown in reports. It has no other effect."""
    clock_mhz: float = 100.0
    """Clock frequency; it only converts cycles to seconds."""

    port_bytes: int = 8
    """Bytes of a beat, which a memory channel moves in one cycle: a power of two."""
    burst_beats: int = 256
    """Largest number of beats of a request: a power of two."""
    aligned_bursts: bool = True
    """Whether requests also end at every multiple of a burst's bytes. They never cross a row."""
    latency: int = 16
    """Delay of a request that finds the memory idle."""
    outstanding: int = 16
    """Largest number of requests under way on one channel."""
    request_interval: int = 2
    """Cycles from one request of a reader to its next."""
    read_channels: int = 1
    """1: shared by all readers. 2: inp and wgt have their own. 3: fetch has its own, too. Each
    channel has its own port and memory."""
    ideal_memory: bool = False
    """Whether memory answers at once, whatever the width: reads and writes take no beats."""

    fetch_batch: int | None = None
    """Instructions of one fetch request; None: as many as fit a burst."""
    fetch_ahead: bool = False
    """Whether the next fetch starts while the previous one is dispatched, or only after it."""
    queue_depth: int = 512
    """Instructions that a module's queue holds, the running one included."""
    token_depth: int = 255
    """Tokens that a dependence queue counts; a push beyond them is lost."""

    gemm_cycles: int = 1
    """Cycles of a GEMM micro-op."""
    alu_immediate_cycles: int = 1
    """Cycles of an ALU micro-op with an immediate."""
    alu_register_cycles: int = 2
    """Cycles of an ALU micro-op with two accumulator operands."""
    compute_overhead: int = 6
    """Cycles of a GEMM or ALU instruction besides its micro-ops."""
    gemm_distance: int = 1
    """Least number of micro-ops between two that add to the same accumulator (1: neighbours may).
    A rule for programs, which are trusted to follow it; it costs no cycles here. The HLS design
    needs a distance of unknown size: its presets state the depth of a short pipeline."""

    store_idle_cycles: int = 1
    """Cycles of a STORE to read the next element between the writes of two elements."""
    store_request_cycles: int = 3
    """Cycles of the address handshake and the response of a write request."""

    extensions: bool = False
    """Whether fetch decodes ALU MUL and LOAD ACC_8BIT. Otherwise it stops there for good."""
    inp_beat_limit: int | None = 4096
    """A LOAD INP of exactly so many beats is lost if all its requests leave before its first beat:
    the counter of beats under way wraps to 0. None: the counter is wide enough."""

    def __post_init__(self) -> None:
        if problems := rate_faults({name: getattr(self, name) for name in TIMING_FIELDS}):
            raise PresetError(*problems)
        if self.read_channels > 3:
            raise PresetError(f"read_channels is {self.read_channels}, but at most 3 have a use")

    @classmethod
    def named(cls, name: str) -> "TimingPreset":
        """The preset of that name, or of NAME-ideal. Raises `PresetError` on an unknown name."""
        base = name.removesuffix(IDEAL)
        if base not in TIMING_PRESETS:
            raise PresetError(
                f"there is no timing preset {name!r}; the presets are {listed(TIMING_PRESETS)},"
                f" each also as NAME{IDEAL}"
            )
        if base == name:
            return TIMING_PRESETS[name]
        return dataclasses.replace(TIMING_PRESETS[base], name=name, ideal_memory=True)

    @classmethod
    def of(cls, spec: "str | os.PathLike[str] | TimingPreset") -> "TimingPreset":
        """A preset from what users write: a name, the path of a file, or a preset.

        A file is TOML or JSON, by its extension: values by name, ``base`` (the preset that they
        change, ``chisel-pynq`` if absent) and ``name``. Raises `PresetError`.
        """
        if isinstance(spec, TimingPreset):
            return spec
        text = os.fspath(spec)
        if Path(text).suffix not in SUFFIXES:
            return cls.named(text)
        try:
            entries = read_entries(Path(text))
        except ValueError as error:
            raise PresetError(str(error)) from None
        base = entries.pop("base", "chisel-pynq")
        if not isinstance(base, str):
            raise PresetError(f"{text}: base must be the name of a preset, not {base!r}")
        try:
            return cls.named(base).replace(**{"name": Path(text).stem, **entries})
        except PresetError as error:
            raise PresetError(*(f"{text}: {problem}" for problem in error.problems)) from None

    def replace(self, **changes: Any) -> "TimingPreset":
        """The same rates with some values changed.

        Raises `PresetError` on a value that does not exist or makes no sense.
        """
        if problems := rate_faults(changes):
            raise PresetError(*problems)
        return dataclasses.replace(self, **changes)

    def replace_text(self, changes: Mapping[str, str]) -> "TimingPreset":
        """As `replace`, the values as text: ``{"latency": "32", "fetch_ahead": "true"}``."""
        values: dict[str, object] = {}
        problems: list[Problem] = []
        for key, text in changes.items():
            try:
                values |= {key: (value := _from_text(key, text))}
                problems += [Problem("", fault) for fault in rate_faults({key: value})]
            except PresetError as error:
                problems += error.problems
        if problems:
            raise PresetError(*map(str, problems))
        return self.replace(**values)

    @property
    def verified(self) -> bool:
        """Whether the RTL agrees in every cycle with a machine of these rates."""
        rates = self.replace(name="", clock_mhz=1.0)
        return any(rates == known.replace(name="", clock_mhz=1.0) for known in _VERIFIED)

    @property
    def burst_bytes(self) -> int:
        """Bytes of a full burst."""
        return self.burst_beats * self.port_bytes

    @property
    def fetch_instructions(self) -> int:
        """Instructions of one fetch request."""
        if self.fetch_batch is not None:
            return self.fetch_batch
        return max(1, self.burst_bytes // INSTRUCTION_BYTES)

    def beats(self, size: int) -> int:
        """Beats of so many bytes."""
        return -(-size // self.port_bytes)


TIMING_FIELDS = {f.name: f for f in dataclasses.fields(TimingPreset)}
"""The values of a `TimingPreset`, by name."""

_OPTIONAL = ("fetch_batch", "inp_beat_limit")
_MAY_BE_ZERO = ("latency", "compute_overhead", "store_idle_cycles", "store_request_cycles")
_POWERS_OF_TWO = ("port_bytes", "burst_beats")
_MOST = 1 << 20


def _kind(key: str) -> type:
    if key not in TIMING_FIELDS:
        raise PresetError(f"a timing preset has no {key!r}; it has {listed(TIMING_FIELDS)}")
    if key == "name":
        return str
    return int if key in _OPTIONAL else type(TIMING_FIELDS[key].default)


def rate_faults(values: Mapping[str, object]) -> list[str]:
    """What is wrong with rates by name: names that do not exist, values that make no sense."""
    found = []
    for key, value in values.items():
        try:
            _check(key, value)
        except PresetError as error:
            found.append(str(error))
    return found


def _check(key: str, value: object) -> None:
    kind = _kind(key)
    if value is None and key in _OPTIONAL:
        return
    if kind is float and isinstance(value, int | float) and not isinstance(value, bool):
        if not 0 < value < math.inf:
            raise PresetError(f"{key} must be a number above 0, not {value!r}")
        return
    if type(value) is not kind:
        raise PresetError(f"{key} must be {kind.__name__}, not {value!r}")
    if kind is not int:
        return
    assert isinstance(value, int)
    least = 0 if key in _MAY_BE_ZERO else 1
    if not least <= value <= _MOST:
        raise PresetError(f"{key} must be {least} to {_MOST}, not {value}")
    if key in _POWERS_OF_TWO and value & (value - 1):
        raise PresetError(f"{key} must be a power of two, not {value}")


def _from_text(key: str, text: str) -> object:
    kind = _kind(key)
    if text.lower() == "none" and key in _OPTIONAL:
        return None
    if kind is bool:
        if text.lower() not in ("true", "false"):
            raise PresetError(f"{key} must be true or false, not {text!r}")
        return text.lower() == "true"
    try:
        return kind(text)
    except ValueError:
        raise PresetError(f"{key} must be {kind.__name__}, not {text!r}") from None


_CHISEL = TimingPreset(name="chisel-pynq")
_CHISEL_DE10 = _CHISEL.replace(name="chisel-de10", burst_beats=16)
_VERIFIED = (_CHISEL, _CHISEL_DE10)

_HLS = TimingPreset(
    name="hls-pynq",
    aligned_bursts=False,
    fetch_ahead=True,
    token_depth=1024,
    alu_immediate_cycles=2,
    gemm_distance=4,
    extensions=True,
    inp_beat_limit=None,
)

TIMING_PRESETS: Mapping[str, TimingPreset] = {
    preset.name: preset
    for preset in (
        _CHISEL,
        _CHISEL_DE10,
        _HLS,
        _HLS.replace(name="hls-de10nano", burst_beats=16),
        _HLS.replace(name="hls-ultra96", port_bytes=16, clock_mhz=333.0),
    )
}
"""The presets that have a name; each also exists as NAME-ideal."""
