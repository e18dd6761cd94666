"""The machine we compile for, as one attribute: ``#target.vta``.

A VTA is nine log2 parameters (widths, GEMM shape, buffer sizes; the ``vta_config.json`` of the open
hardware), a few features in which its implementations differ, and the depths of its queues. All of
it travels in one attribute, ``vtac.target``, on the module and on each accelerator function, so
that a pass sees the machine without global state. The parameters are those of Moreau et al., "VTA:
An Open Hardware-Software Stack for Deep Learning", and of Apache tvm-vta.

``#target.vta<"pynq">`` is a preset; what differs from it follows by name:
``#target.vta<"sim", log_batch = 2, log_block = 3, alu_mul = false>``.
"""

import dataclasses
import enum
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xdsl.ir import Data, Dialect
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

TARGET_ATTRIBUTE = "vtac.target"
"""Name of the attribute that carries the target on modules, functions and programs."""


class TargetError(ValueError):
    """A machine that does not exist or that nobody could build; the message names the choices."""


class Memory(enum.IntEnum):
    """The buffers, by the memory id that LOAD and STORE carry. ACC_8BIT loads int8 into ACC."""

    UOP = 0
    WGT = 1
    INP = 2
    ACC = 3
    OUT = 4
    ACC_8BIT = 5


@dataclass(frozen=True, slots=True)
class Configuration:
    """Everything that makes one machine, as plain values. The defaults are the preset ``sim``."""

    preset: str = "sim"
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
    uop_entries: int | None = None
    queue_depth: int = 512
    token_depth: int = 1024
    timing: str = "hls-pynq"


_FPGA = Configuration(alu_mul=False, acc_load_int8=False)
_CHISEL = dataclasses.replace(
    _FPGA, alu_imm_src=True, alu_bypass=False, uop_entries=2048, token_depth=255
)

PRESETS: Mapping[str, Configuration] = {
    "sim": Configuration(),
    "pynq": dataclasses.replace(_FPGA, preset="pynq"),
    "de10nano": dataclasses.replace(_FPGA, preset="de10nano"),
    "ultra96": dataclasses.replace(_FPGA, preset="ultra96"),
    "chisel-pynq": dataclasses.replace(_CHISEL, preset="chisel-pynq", timing="chisel-pynq"),
    "chisel-de10": dataclasses.replace(_CHISEL, preset="chisel-de10", timing="chisel-de10"),
}
"""The machines that have a name."""

FEATURES = ("alu_mul", "acc_load_int8", "alu_imm_src", "alu_bypass")
"""The features in which the implementations differ, all off in ``Target.from_vta_config``."""

VTA_CONFIG_KEYS = tuple(
    field.name.upper() for field in dataclasses.fields(Configuration) if "log_" in field.name
)
"""The nine parameters of a ``vta_config.json``."""

_CHANGEABLE = {f.name: f for f in dataclasses.fields(Configuration) if f.name != "preset"}
_FEATURES_KEY = "FEATURES"
_OPTIONAL_CONFIG_KEYS = ("TARGET", "HW_VER", _FEATURES_KEY)
_MICRO_OP_BITS = 32
_WORD_BITS = 64
_SRAM_INDEX_BITS = 16
_LOOP_BITS = 28
_HEADER_BITS = 7


@irdl_attr_definition
class Target(Data[Configuration]):
    """One VTA machine: ``#target.vta<"preset", change = value, ...>``.

    Frozen, hashable, and cheap to read: every property is a plain Python value.
    """

    name = "target.vta"

    @classmethod
    def named(cls, name: str) -> "Target":
        """The preset of that name (see ``PRESETS``). Raises `TargetError` on an unknown one."""
        if name not in PRESETS:
            choices = ", ".join(PRESETS)
            raise TargetError(f"there is no target preset {name!r}; the presets are {choices}")
        return cls(PRESETS[name])

    @classmethod
    def of(cls, spec: "str | os.PathLike[str] | Target") -> "Target":
        """A target from what users write: a preset's name, a ``vta_config.json``, or a Target."""
        if isinstance(spec, Target):
            return spec
        text = os.fspath(spec)
        if text in PRESETS:
            return cls.named(text)
        if text.endswith(".json") or os.path.exists(text):
            return cls.from_vta_config(text)
        raise TargetError(
            f"{text!r} is neither a target preset ({', '.join(PRESETS)}) nor the path of a"
            " vta_config.json"
        )

    @classmethod
    def from_vta_config(
        cls, config: "str | os.PathLike[str] | Mapping[str, object]", **features: Any
    ) -> "Target":
        """The machine of a ``vta_config.json`` (its path, or what it contains).

        Starts from ``sim`` with every feature off but those that a key ``FEATURES`` names (a list;
        ours alone, the hardware's files have none); keyword arguments, as those of `replace`,
        switch features on or off. Raises `TargetError` on an unreadable file, on keys missing or
        unknown, and on a machine whose fields do not fit.
        """
        entries = config if isinstance(config, Mapping) else _read_config(Path(config))
        if unknown := sorted(set(entries) - {*VTA_CONFIG_KEYS, *_OPTIONAL_CONFIG_KEYS}):
            raise TargetError(
                f"vta_config has unknown keys {', '.join(unknown)}; allowed are"
                f" {', '.join((*VTA_CONFIG_KEYS, *_OPTIONAL_CONFIG_KEYS))}"
            )
        if missing := [key for key in VTA_CONFIG_KEYS if key not in entries]:
            raise TargetError(f"vta_config lacks {', '.join(missing)}")
        listed = entries.get(_FEATURES_KEY, [])
        if not isinstance(listed, list) or not set(map(str, listed)) <= set(FEATURES):
            raise TargetError(
                f"{_FEATURES_KEY} of vta_config must be a list of {', '.join(FEATURES)}"
            )
        known = {feature: feature in listed for feature in FEATURES}
        sizes = {key.lower(): entries[key] for key in VTA_CONFIG_KEYS}
        return cls.named("sim").replace(**{**known, **sizes, **features})

    def replace(self, **changes: Any) -> "Target":
        """The same machine with some values changed. Raises `TargetError` on an impossible one."""
        for key, value in changes.items():
            _check_type(key, value)
        try:
            return Target(dataclasses.replace(self.data, **changes))
        except VerifyException as error:
            raise TargetError(str(error)) from None

    def to_vta_config(self) -> dict[str, int]:
        """The nine parameters under their names in ``vta_config.json``; features are not part."""
        return {key: getattr(self.data, key.lower()) for key in VTA_CONFIG_KEYS}

    def to_replay_config(self) -> dict[str, int | list[str]]:
        """`to_vta_config` with the features named under ``FEATURES``: all that execution needs."""
        features = [feature for feature in FEATURES if getattr(self.data, feature)]
        return {**self.to_vta_config(), _FEATURES_KEY: features}

    def verify(self) -> None:
        """Refuse widths, micro-ops, instruction words and depths that the ISA cannot express."""
        data = self.data
        widths = (data.log_inp_width, data.log_wgt_width, data.log_acc_width)
        if widths != (3, 3, 5):
            raise VerifyException(
                f"LOG_INP_WIDTH, LOG_WGT_WIDTH, LOG_ACC_WIDTH must be 3, 3, 5 (int8, int8, int32),"
                f" not {', '.join(map(str, widths))}"
            )
        if data.log_batch < 0 or data.log_block < 0:
            raise VerifyException("LOG_BATCH and LOG_BLOCK must not be negative")
        for memory in (Memory.UOP, Memory.INP, Memory.WGT, Memory.ACC):
            self._verify_depth(memory)
        self._verify_words()
        if not 1 <= self.uop_entries <= self.uop_depth:
            raise VerifyException(
                f"uop_entries is {self.uop_entries}, but the micro-op buffer names 1 to"
                f" {self.uop_depth}"
            )
        if data.queue_depth < 1 or data.token_depth < 1:
            raise VerifyException("queue_depth and token_depth must be at least 1")

    def _verify_depth(self, memory: Memory) -> None:
        size = getattr(self.data, f"log_{memory.name.lower()}_buff_size")
        log_depth = self._log_depth(memory)
        if log_depth < 0:
            raise VerifyException(
                f"LOG_{memory.name}_BUFF_SIZE is {size}: less than one element of"
                f" {self.element_bytes(memory)} bytes"
            )
        if log_depth > _SRAM_INDEX_BITS:
            raise VerifyException(
                f"LOG_{memory.name}_BUFF_SIZE is {size}: 2^{log_depth} elements are more than the"
                f" {_SRAM_INDEX_BITS}-bit sram_base can address"
            )

    def _verify_words(self) -> None:
        uop, inp = self.log_uop_depth, self.log_inp_depth
        wgt, acc = self.log_wgt_depth, self.log_acc_depth
        words = {
            "a micro-op": (acc + max(acc, inp) + wgt, _MICRO_OP_BITS),
            "word 0 of GEMM and ALU": (_HEADER_BITS + 1 + 2 * uop + 1 + _LOOP_BITS, _WORD_BITS),
            "word 1 of GEMM": (2 * (acc + inp + wgt), _WORD_BITS),
            "word 1 of ALU": (4 * acc + 20, _WORD_BITS),
        }
        for what, (bits, limit) in words.items():
            if bits > limit:
                raise VerifyException(
                    f"{what} would need {bits} bits of {limit} (log2 of the depths: UOP {uop},"
                    f" INP {inp}, WGT {wgt}, ACC {acc})"
                )

    @property
    def preset(self) -> str:
        """Name of the preset this machine started from."""
        return self.data.preset

    @property
    def timing(self) -> str:
        """Name of the timing preset the simulator uses unless told otherwise."""
        return self.data.timing

    @property
    def log_inp_width(self) -> int:
        """Log2 of the bits of an input (and output) value."""
        return self.data.log_inp_width

    @property
    def log_wgt_width(self) -> int:
        """Log2 of the bits of a weight."""
        return self.data.log_wgt_width

    @property
    def log_acc_width(self) -> int:
        """Log2 of the bits of an accumulator."""
        return self.data.log_acc_width

    @property
    def log_batch(self) -> int:
        """Log2 of `batch`."""
        return self.data.log_batch

    @property
    def log_block(self) -> int:
        """Log2 of `block`."""
        return self.data.log_block

    @property
    def batch(self) -> int:
        """Rows of an input element: BATCH."""
        return 1 << self.data.log_batch

    @property
    def block(self) -> int:
        """Lanes of an element: BLOCK_IN = BLOCK_OUT."""
        return 1 << self.data.log_block

    @property
    def log_uop_depth(self) -> int:
        """Log2 of `uop_depth`."""
        return self._log_depth(Memory.UOP)

    @property
    def log_inp_depth(self) -> int:
        """Log2 of `inp_depth`."""
        return self._log_depth(Memory.INP)

    @property
    def log_wgt_depth(self) -> int:
        """Log2 of `wgt_depth`."""
        return self._log_depth(Memory.WGT)

    @property
    def log_acc_depth(self) -> int:
        """Log2 of `acc_depth`."""
        return self._log_depth(Memory.ACC)

    @property
    def uop_depth(self) -> int:
        """Micro-ops that the instruction fields can name; the memory may be smaller."""
        return 1 << self._log_depth(Memory.UOP)

    @property
    def uop_entries(self) -> int:
        """Micro-ops that the machine really has."""
        entries = self.data.uop_entries
        return self.uop_depth if entries is None else entries

    @property
    def inp_depth(self) -> int:
        """Elements of the INP buffer."""
        return 1 << self._log_depth(Memory.INP)

    @property
    def wgt_depth(self) -> int:
        """Elements of the WGT buffer."""
        return 1 << self._log_depth(Memory.WGT)

    @property
    def acc_depth(self) -> int:
        """Elements of the ACC buffer, and of OUT."""
        return 1 << self._log_depth(Memory.ACC)

    @property
    def queue_depth(self) -> int:
        """Instructions that wait in a module's queue before fetch blocks."""
        return self.data.queue_depth

    @property
    def token_depth(self) -> int:
        """Tokens that a dependence queue holds."""
        return self.data.token_depth

    @property
    def alu_mul(self) -> bool:
        """Whether the ALU multiplies."""
        return self.data.alu_mul

    @property
    def acc_load_int8(self) -> bool:
        """Whether LOAD knows ACC_8BIT."""
        return self.data.acc_load_int8

    @property
    def alu_imm_src(self) -> bool:
        """Whether an immediate ALU operation reads acc[src] instead of acc[dst]."""
        return self.data.alu_imm_src

    @property
    def alu_bypass(self) -> bool:
        """Whether an ALU micro-op sees the result of the one just before it."""
        return self.data.alu_bypass

    def depth(self, memory: Memory) -> int:
        """Elements of the buffer behind a memory id: what an SRAM index must stay below."""
        if memory is Memory.UOP:
            return self.uop_entries
        return 1 << self._log_depth(memory)

    def element_bytes(self, memory: Memory) -> int:
        """Bytes of one element in DRAM."""
        return 1 << self._log_element(memory)

    def _log_element(self, memory: Memory) -> int:
        data = self.data
        if memory is Memory.UOP:
            return 2
        if memory is Memory.WGT:
            return 2 * data.log_block
        if memory is Memory.ACC:
            return data.log_batch + data.log_block + 2
        return data.log_batch + data.log_block

    def _log_depth(self, memory: Memory) -> int:
        data = self.data
        if memory is Memory.UOP:
            return data.log_uop_buff_size - 2
        if memory is Memory.WGT:
            return data.log_wgt_buff_size - 2 * data.log_block
        if memory is Memory.INP:
            return data.log_inp_buff_size - data.log_batch - data.log_block
        return data.log_acc_buff_size - data.log_batch - data.log_block - 2

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Configuration:
        """Parse ``<"preset", change = value, ...>``."""
        with parser.in_angle_brackets():
            position = parser.pos
            preset = parser.parse_str_literal(" (the name of a target preset)")
            changes: dict[str, object] = {}
            while parser.parse_optional_punctuation(",") is not None:
                key = parser.parse_identifier()
                parser.parse_punctuation("=")
                changes[key] = _parse_value(parser)
            try:
                return cls.named(preset).replace(**changes).data
            except TargetError as error:
                parser.raise_error(str(error), position, parser.pos)

    def print_parameter(self, printer: Printer) -> None:
        """Print ``<"preset", change = value, ...>``, only what differs from the preset."""
        base = PRESETS[self.preset]
        with printer.in_angle_brackets():
            printer.print_string_literal(self.preset)
            for key in _CHANGEABLE:
                value = getattr(self.data, key)
                if value != getattr(base, key):
                    printer.print_string(f", {key} = {_text(value)}")


def _text(value: bool | int | str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f'"{value}"' if isinstance(value, str) else str(value)


def _parse_value(parser: AttrParser) -> bool | int | str:
    for alternative in (parser.parse_optional_boolean, parser.parse_optional_str_literal):
        if (value := alternative()) is not None:
            return value
    return parser.parse_integer()


def _check_type(key: str, value: object) -> None:
    if key not in _CHANGEABLE:
        raise TargetError(f"a target has no {key!r}; it has {', '.join(_CHANGEABLE)}")
    default = getattr(Configuration(), key)
    kind = int if default is None else type(default)
    if not (value is None and default is None) and type(value) is not kind:
        raise TargetError(f"{key} must be {kind.__name__}, not {value!r}")
    if isinstance(value, str) and not value.replace("-", "").replace("_", "").isalnum():
        raise TargetError(f"{key} must be a name of letters, digits, - and _, not {value!r}")


def _read_config(path: Path) -> Mapping[str, object]:
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise TargetError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise TargetError(f"{path} is not JSON: {error}") from None
    if not isinstance(entries, dict):
        raise TargetError(f"{path} must contain one JSON object")
    return entries


TargetDialect = Dialect("target", [], [Target])
