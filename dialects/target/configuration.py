"""The parameters of a machine, and presets for the machines that have a name.

Sizes, features and quirks are fields of `Configuration`; the rates are a part of it, `timing`.
Everything that depends on the machine reads these fields; nothing asks for a preset's name.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from .entries import listed
from .errors import TargetError
from .system import CORE, Memory, System
from .timing import TIMING_FIELDS, TIMING_PRESETS, TimingPreset, rate_faults


@dataclass(frozen=True, slots=True)
class Configuration:
    """All parameters of one machine, as plain values. The defaults are the preset ``sim``."""

    system: ClassVar[System] = CORE
    """The modules, and who reaches which memory: those of VTA."""
    preset: str = "sim"
    """Name of the preset that this machine started from. It only shortens the text form."""
    log_inp_width: int = 3
    log_wgt_width: int = 3
    log_acc_width: int = 5
    log_batch: int = 0
    log_block: int = 4
    log_uop_buff_size: int = 15
    log_inp_buff_size: int = 15
    log_wgt_buff_size: int = 18
    log_acc_buff_size: int = 17
    alu_mul: bool = True
    acc_load_int8: bool = True
    alu_imm_src: bool = False
    alu_bypass: bool = True
    shr_sign_of_imm: bool = False
    """Whether SHR with two operands takes its direction from the sign of the immediate field, so
    that a negative amount does not shift left."""
    uop_entries: int | None = None
    """Micro-ops that the buffer holds; None: as many as the instruction fields name."""
    timing: TimingPreset = TIMING_PRESETS["hls-pynq"]
    """The rates, see `TimingPreset`."""

    def replace(self, **changes: Any) -> "Configuration":
        """The same machine with some values changed, those of `timing` included by their names.

        ``timing`` itself is the name of a timing preset or a `TimingPreset`; further rates change
        it. A feature that fetch must decode is decoded. Raises `TargetError`.
        """
        own = {key: value for key, value in changes.items() if key not in TIMING_FIELDS}
        rates = {key: value for key, value in changes.items() if key in TIMING_FIELDS}
        problems = [*faults(own), *rate_faults(rates)]
        if problems:
            raise TargetError(*problems)
        if own.get("alu_mul") or own.get("acc_load_int8"):
            rates.setdefault("extensions", True)
        timing = TimingPreset.of(own.pop("timing", self.timing))
        return dataclasses.replace(self, **own, timing=timing.replace(**rates))

    def changes(self) -> dict[str, object]:
        """The fields that differ from the preset, as arguments of `replace`."""
        base = PRESETS[self.preset]
        found = {
            key: getattr(self, key)
            for key in _CHANGEABLE
            if key != "timing" and getattr(self, key) != getattr(base, key)
        }
        known = base.timing
        if self.timing.name != known.name and _is_named(self.timing.name):
            known = TimingPreset.named(self.timing.name)
            found["timing"] = known.name
        if "alu_mul" in found or "acc_load_int8" in found:
            known = known.replace(extensions=known.extensions or self._has_extensions)
        for key in TIMING_FIELDS:
            if (value := getattr(self.timing, key)) != getattr(known, key):
                found[key] = value
        return found

    def fields(self) -> dict[str, object]:
        """All values by name, those of `timing` among them, as plain values for JSON."""
        found = {key: getattr(self, key) for key in ("preset", *_CHANGEABLE) if key != "timing"}
        rates = {key: getattr(self.timing, key) for key in TIMING_FIELDS if key != "name"}
        return {**found, "timing": self.timing.name, **rates}

    def log_element(self, memory: Memory) -> int:
        """Log2 of the bytes of one element in DRAM."""
        if memory is Memory.UOP:
            return 2
        if memory is Memory.WGT:
            return 2 * self.log_block
        if memory is Memory.ACC:
            return self.log_batch + self.log_block + 2
        return self.log_batch + self.log_block

    def log_depth(self, memory: Memory) -> int:
        """Log2 of the elements that a buffer's parameter makes room for (of OUT that of ACC)."""
        if memory is Memory.UOP:
            return self.log_uop_buff_size - self.log_element(Memory.UOP)
        if memory is Memory.WGT:
            return self.log_wgt_buff_size - self.log_element(Memory.WGT)
        if memory is Memory.INP:
            return self.log_inp_buff_size - self.log_element(Memory.INP)
        return self.log_acc_buff_size - self.log_element(Memory.ACC)

    @property
    def _has_extensions(self) -> bool:
        return self.alu_mul or self.acc_load_int8


_CHANGEABLE = {f.name: f for f in dataclasses.fields(Configuration) if f.name != "preset"}

_FPGA = Configuration(alu_mul=False, acc_load_int8=False)
_CHISEL = dataclasses.replace(
    _FPGA, alu_imm_src=True, alu_bypass=False, shr_sign_of_imm=True, uop_entries=2048
)


def _preset(base: Configuration, name: str, timing: str) -> Configuration:
    return dataclasses.replace(base, preset=name, timing=TIMING_PRESETS[timing])


PRESETS: Mapping[str, Configuration] = {
    "sim": Configuration(),
    "pynq": _preset(_FPGA, "pynq", "hls-pynq"),
    "de10nano": _preset(_FPGA, "de10nano", "hls-de10nano"),
    "ultra96": _preset(_FPGA, "ultra96", "hls-ultra96"),
    "chisel-pynq": _preset(_CHISEL, "chisel-pynq", "chisel-pynq"),
    "chisel-de10": _preset(_CHISEL, "chisel-de10", "chisel-de10"),
}
"""The machines that have a name."""

FEATURES = ("alu_mul", "acc_load_int8", "alu_imm_src", "alu_bypass")
"""The features in which the implementations differ, all off in a bare ``vta_config.json``."""

QUIRKS = ("shr_sign_of_imm",)
"""The quirks that change what a program does; those that cost time are in `TimingPreset`."""

PARAMETERS = tuple(name for name in _CHANGEABLE if name.startswith("log_"))
"""The nine parameters, as fields; in a ``vta_config.json`` their names are in capitals."""


def preset_named(name: object) -> Configuration:
    """The machine of that name. Raises `TargetError` on an unknown one."""
    if not isinstance(name, str) or name not in PRESETS:
        raise TargetError(f"there is no target preset {name!r}; the presets are {listed(PRESETS)}")
    return PRESETS[name]


def configuration_of(fields: Mapping[str, Any]) -> Configuration:
    """The machine whose fields `Configuration.fields` returned, in this or an earlier version.

    Earlier versions had only the name of a timing preset, and named ``hls-pynq`` where a board's
    own rates were meant. Raises `TargetError`.
    """
    changes = dict(fields)
    base = preset_named(changes.pop("preset", None))
    if not changes.keys() & _RATES and changes.get("timing") == "hls-pynq":
        del changes["timing"]
    if "timing" in changes and not _is_named(str(changes["timing"])):
        changes["name"] = changes.pop("timing")
    return base.replace(**changes)


_RATES = TIMING_FIELDS.keys() - {"name", "queue_depth", "token_depth"}


def _is_named(timing: str) -> bool:
    try:
        TimingPreset.named(timing)
    except TargetError:
        return False
    return True


def faults(values: Mapping[str, object]) -> list[str]:
    """What is wrong with the names and the types of values, rates aside."""
    return [text for key, value in values.items() if (text := _fault(key, value))]


def _fault(key: str, value: object) -> str:
    if key not in _CHANGEABLE:
        choices = listed({**_CHANGEABLE, **TIMING_FIELDS})
        return f"a target has no {key!r}; it has {choices}"
    if key == "timing":
        is_preset = isinstance(value, str | TimingPreset)
        return "" if is_preset else f"timing must be the name of a timing preset, not {value!r}"
    default = getattr(Configuration(), key)
    kind = int if default is None else type(default)
    if not (value is None and default is None) and type(value) is not kind:
        return f"{key} must be {kind.__name__}, not {value!r}"
    return ""
