"""What the clock assumes of a machine: every number that the timing rules leave open.

The skeleton is that of the Chisel design of Apache tvm-vta, one module beside the other, with a
read channel that all readers share and a write channel of its own for STORE; a preset fills in the
numbers. ``chisel-pynq`` and ``chisel-de10`` agree with the design's RTL in every cycle; the others
put the published rates of the HLS design on the same skeleton and are *not* verified against
hardware. An architect's question is a preset with one value changed:
``TimingPreset.named("chisel-pynq").replace(latency=32)``.
"""

import dataclasses
import json
import math
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...dialects.target import Target, TargetError

IDEAL = "-ideal"
"""``NAME-ideal`` is the preset NAME with `TimingPreset.ideal_memory`."""

INSTRUCTION_BYTES = 16


class PresetError(TargetError):
    """A timing preset that does not exist or makes no sense; the message names the choices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimingPreset:
    """The numbers of one machine. Times are in cycles, sizes in what each line says."""

    name: str
    verified: bool = False
    """Whether the RTL agrees in every cycle. `replace` makes it False."""
    clock_mhz: float = 100.0
    """Only turns cycles into seconds."""

    port_bytes: int = 8
    """Bytes of a beat, what a memory channel moves a cycle: a power of two."""
    burst_beats: int = 256
    """Beats of a request at most: a power of two."""
    aligned_bursts: bool = True
    """Whether requests also end at every multiple of a burst's bytes; never do they cross a row."""
    latency: int = 16
    """Delay of a request that finds the memory with nothing to do."""
    outstanding: int = 16
    """Requests of a channel under way at most."""
    request_interval: int = 2
    """Cycles from one request of a reader to its next."""
    read_channels: int = 1
    """1; 2: inp and wgt have their own; 3: so has fetch. Each with its own port and memory."""
    ideal_memory: bool = False
    """Whether memory answers at once, whatever the width: reads and writes cost no beats."""

    fetch_batch: int | None = None
    """Instructions that one fetch asks for; None: as many as fit a burst."""
    fetch_ahead: bool = False
    """Whether the next fetch starts while the last one is dispatched, or only after it."""
    queue_depth: int = 512
    """Instructions that a module's queue holds, the running one included."""
    token_depth: int = 255
    """Tokens that a dependence queue counts; a push beyond is lost."""

    gemm_cycles: int = 1
    """A micro-op of GEMM."""
    alu_immediate_cycles: int = 1
    """A micro-op of ALU with an immediate."""
    alu_register_cycles: int = 2
    """A micro-op of ALU with two accumulators."""
    compute_overhead: int = 6
    """A GEMM or ALU instruction beside its micro-ops."""
    gemm_distance: int = 1
    """Micro-ops from one to the next that may add to the same accumulator (1: neighbours may). A
    rule for programs, which are trusted to keep it; it costs no cycles here. That the HLS design
    needs a distance is known, how much is not: the presets state the depth of a short pipeline."""

    store_idle_cycles: int = 1
    """Reading the next element between the writes of two."""
    store_request_cycles: int = 3
    """Address handshake and response of a write request."""

    extensions: bool = False
    """Whether fetch decodes ALU MUL and LOAD ACC_8BIT; else it stops there for good."""
    inp_beat_limit: int | None = 4096
    """A LOAD INP of exactly so many beats is lost if all its requests leave before its first beat:
    the counter of beats under way wraps to 0. None: the counter is wide enough."""

    def __post_init__(self) -> None:
        for name in _FIELDS:
            _check(name, getattr(self, name))
        if self.read_channels > 3:
            raise PresetError(f"read_channels is {self.read_channels}, but at most 3 have a use")

    @classmethod
    def named(cls, name: str) -> "TimingPreset":
        """The preset of that name, or of NAME-ideal. Raises `PresetError` on an unknown one."""
        base = name.removesuffix(IDEAL)
        if base not in PRESETS:
            raise PresetError(
                f"there is no timing preset {name!r}; the presets are {', '.join(PRESETS)}, each"
                f" also as NAME{IDEAL}"
            )
        if base == name:
            return PRESETS[name]
        return dataclasses.replace(PRESETS[base], name=name, verified=False, ideal_memory=True)

    @classmethod
    def of(cls, spec: "str | os.PathLike[str] | TimingPreset") -> "TimingPreset":
        """A preset from what users write: a name, the path of a file, or a preset.

        A file is TOML or JSON, by its extension: values by name, ``base`` (the preset that they
        change, ``chisel-pynq`` if absent) and ``name``. Raises `PresetError`.
        """
        if isinstance(spec, TimingPreset):
            return spec
        text = os.fspath(spec)
        if Path(text).suffix not in (".toml", ".json"):
            return cls.named(text)
        entries = dict(_read(Path(text)))
        base = entries.pop("base", "chisel-pynq")
        if not isinstance(base, str):
            raise PresetError(f"{text}: base must be the name of a preset, not {base!r}")
        try:
            return cls.named(base).replace(**{"name": Path(text).stem, **entries})
        except PresetError as error:
            raise PresetError(f"{text}: {error}") from None

    def replace(self, **changes: Any) -> "TimingPreset":
        """The same machine with some values changed, so no longer verified.

        Raises `PresetError` on a value that does not exist or makes no sense.
        """
        for key, value in changes.items():
            _check(key, value)
        if not changes.keys() - {"name", "clock_mhz"}:
            return dataclasses.replace(self, **changes)
        return dataclasses.replace(self, **{"verified": False, **changes})

    def replace_text(self, changes: Mapping[str, str]) -> "TimingPreset":
        """As `replace`, the values as text: ``{"latency": "32", "fetch_ahead": "true"}``."""
        return self.replace(**{key: _from_text(key, text) for key, text in changes.items()})

    @property
    def burst_bytes(self) -> int:
        """Bytes of a full burst."""
        return self.burst_beats * self.port_bytes

    @property
    def fetch_instructions(self) -> int:
        """Instructions that one fetch asks for."""
        if self.fetch_batch is not None:
            return self.fetch_batch
        return max(1, self.burst_bytes // INSTRUCTION_BYTES)


_FIELDS = {f.name: f for f in dataclasses.fields(TimingPreset) if f.name != "verified"}
_OPTIONAL = ("fetch_batch", "inp_beat_limit")
_MAY_BE_ZERO = ("latency", "compute_overhead", "store_idle_cycles", "store_request_cycles")
_POWERS_OF_TWO = ("port_bytes", "burst_beats")
_MOST = 1 << 20


def _kind(key: str) -> type:
    if key not in _FIELDS:
        raise PresetError(f"a timing preset has no {key!r}; it has {', '.join(_FIELDS)}")
    if key == "name":
        return str
    return int if key in _OPTIONAL else type(_FIELDS[key].default)


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


def _read(path: Path) -> Mapping[str, object]:
    try:
        text = path.read_text(encoding="utf-8")
        entries = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except OSError as error:
        raise PresetError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise PresetError(f"{path} is not {path.suffix[1:].upper()}: {error}") from None
    if not isinstance(entries, dict):
        raise PresetError(f"{path} must contain one object")
    return entries


_CHISEL = TimingPreset(name="chisel-pynq", verified=True)

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

PRESETS: Mapping[str, TimingPreset] = {
    preset.name: preset
    for preset in (
        _CHISEL,
        dataclasses.replace(_CHISEL, name="chisel-de10", burst_beats=16),
        _HLS,
        dataclasses.replace(_HLS, name="hls-de10nano", burst_beats=16),
        dataclasses.replace(_HLS, name="hls-ultra96", port_bytes=16, clock_mhz=333.0),
    )
}
"""The presets that have a name; each also exists as NAME-ideal."""

_BOARDS = {"de10nano": "hls-de10nano", "ultra96": "hls-ultra96"}
"""Targets whose default timing is ``hls-pynq``, but with their own clock and port."""


def preset_for(
    target: Target, preset: "str | os.PathLike[str] | TimingPreset | None" = None
) -> TimingPreset:
    """The preset that was asked for, or the target's own, which has the target's depths."""
    if preset is not None:
        return TimingPreset.of(preset)
    name = target.timing
    if name == "hls-pynq":
        name = _BOARDS.get(target.preset, name)
    chosen = TimingPreset.named(name)
    depths = {"queue_depth": target.queue_depth, "token_depth": target.token_depth}
    if all(getattr(chosen, key) == value for key, value in depths.items()):
        return chosen
    return chosen.replace(**depths)
