"""The attribute ``#target.vta``: one VTA machine."""

import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from xdsl.ir import Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from vtac.dialects.arguments import PATH, TEXT, instance, takes, verify_arguments

from .configuration import (
    FEATURES,
    PRESETS,
    QUIRKS,
    Configuration,
    configuration_of,
    preset_named,
)
from .entries import SUFFIXES, read_entries
from .errors import TargetError
from .files import BASE_KEY, FEATURES_KEY, VTA_CONFIG_KEYS, configuration_from, in_the_spelling_of
from .system import Memory, System
from .timing import LOAD_OVERHEAD, TimingPreset
from .verification import verify


@irdl_attr_definition
class Target(Data[Configuration]):
    """One VTA machine: ``#target.vta<"preset", change = value, ...>``.

    Frozen, hashable, and cheap to read: every property is a plain Python value.
    """

    name = "target.vta"

    def __hash__(self) -> int:
        """That of the configuration, worked out once: what depends on a target is often cached."""
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash(self.data)

    def __getstate__(self) -> dict[str, object]:
        """What is pickled: not the hash, which is another one in another process."""
        return {"data": self.data}

    @classmethod
    @takes(name=TEXT)
    def named(cls, name: str) -> "Target":
        """The preset of that name (see ``PRESETS``). Raises `TargetError` on an unknown one."""
        return cls(preset_named(name))

    @classmethod
    def of(cls, spec: "str | os.PathLike[str] | Target") -> "Target":
        """A target from what users write: a preset's name, the path of a file, or a Target.

        `files` describes what a file may hold. Raises `TargetError`.
        """
        if isinstance(spec, Target):
            return spec
        verify_arguments("argument", {"spec": PATH | instance("a Target", Target)}, {"spec": spec})
        text = os.fspath(spec)
        if text in PRESETS:
            return cls.named(text)
        if text.endswith(SUFFIXES) or os.path.exists(text):
            return cls.from_file(text)
        raise TargetError(
            f"{text!r} is neither a target preset ({', '.join(PRESETS)}) nor the path of a"
            " vta_config.json or of a machine's .toml or .json"
        )

    @classmethod
    @takes(path=PATH)
    def from_file(cls, path: "str | os.PathLike[str]", **features: Any) -> "Target":
        """The machine that a file describes; its name is the file's unless the file has one.

        Keyword arguments, as those of `replace`, change it further. Raises `TargetError`, which
        names the file and the key.
        """
        entries = read_entries(Path(path))
        if BASE_KEY in entries:
            entries = {"name": Path(path).stem, **entries}
        try:
            return cls.from_vta_config(entries, **features)
        except TargetError as error:
            raise TargetError(*(f"{path}: {problem}" for problem in error.problems)) from None

    @classmethod
    def from_vta_config(
        cls, config: "str | os.PathLike[str] | Mapping[str, object]", **features: Any
    ) -> "Target":
        """The machine of a ``vta_config.json`` (its path, or what it contains), see `files`.

        TARGET names the machine whose features, quirks and rates it has. For ``sim``, or without
        TARGET, every feature is off. A key ``FEATURES`` (a list; ours alone) says which features
        are on; keyword arguments, as those of `replace`, switch further ones on or off. Raises
        `TargetError` on an unreadable file, on keys missing or unknown, and on a machine whose
        fields do not fit.
        """
        if not isinstance(config, Mapping):
            return cls.from_file(config, **features)
        with in_the_spelling_of(config):
            return cls._verified(configuration_from(config, **features))

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> "Target":
        """The machine whose `fields` these are, of this or an earlier version.

        Raises `TargetError`.
        """
        return cls._verified(configuration_of(fields))

    @classmethod
    def _verified(cls, configuration: Configuration) -> "Target":
        try:
            return cls(configuration)
        except VerifyException as error:
            raise TargetError(*str(error).splitlines()) from None

    def replace(self, **changes: Any) -> "Target":
        """The same machine with some values changed, rates included: ``replace(latency=32)``.

        ``timing``, the name of a timing preset or a `TimingPreset`, changes all rates. Raises
        `TargetError` on an impossible machine.
        """
        return self._verified(self.data.replace(**changes))

    def fields(self) -> dict[str, object]:
        """All values by name, for JSON; `from_fields` reads them."""
        return self.data.fields()

    def to_vta_config(self) -> dict[str, int]:
        """The nine parameters under their names in ``vta_config.json``; features are not part."""
        return {key: getattr(self.data, key.lower()) for key in VTA_CONFIG_KEYS}

    def to_replay_config(self) -> dict[str, object]:
        """`to_vta_config` with features and quirks: all that execution needs, without the rates."""
        features = [feature for feature in FEATURES if getattr(self.data, feature)]
        quirks = {quirk: True for quirk in QUIRKS if getattr(self.data, quirk)}
        return {**self.to_vta_config(), FEATURES_KEY: features, **quirks}

    def verify(self) -> None:
        """Refuse widths, micro-ops, instruction words and depths that the ISA cannot express."""
        verify(self.data)

    @property
    def preset(self) -> str:
        """Name of the preset this machine started from."""
        return self.data.preset

    @property
    def timing(self) -> TimingPreset:
        """The rates."""
        return self.data.timing

    @property
    def system(self) -> System:
        """The modules, and who reaches which memory."""
        return self.data.system

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
        return self.data.log_depth(Memory.UOP)

    @property
    def log_inp_depth(self) -> int:
        """Log2 of `inp_depth`."""
        return self.data.log_depth(Memory.INP)

    @property
    def log_wgt_depth(self) -> int:
        """Log2 of `wgt_depth`."""
        return self.data.log_depth(Memory.WGT)

    @property
    def log_acc_depth(self) -> int:
        """Log2 of `acc_depth`."""
        return self.data.log_depth(Memory.ACC)

    @property
    def uop_depth(self) -> int:
        """The number of micro-ops that the fields of instructions can name; the memory may hold
        fewer."""
        return 1 << self.data.log_depth(Memory.UOP)

    @property
    def uop_entries(self) -> int:
        """The number of micro-ops that the memory of the machine holds."""
        entries = self.data.uop_entries
        return self.uop_depth if entries is None else entries

    @property
    def inp_depth(self) -> int:
        """Elements of the INP buffer."""
        return 1 << self.data.log_depth(Memory.INP)

    @property
    def wgt_depth(self) -> int:
        """Elements of the WGT buffer."""
        return 1 << self.data.log_depth(Memory.WGT)

    @property
    def acc_depth(self) -> int:
        """Elements of the ACC buffer, and of OUT."""
        return 1 << self.data.log_depth(Memory.ACC)

    @property
    def queue_depth(self) -> int:
        """Instructions that wait in a module's queue before fetch blocks."""
        return self.data.timing.queue_depth

    @property
    def token_depth(self) -> int:
        """Tokens that a dependence queue holds."""
        return self.data.timing.token_depth

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

    @property
    def shr_sign_of_imm(self) -> bool:
        """Whether the sign of the immediate field, not of the amount, is the direction of a SHR
        with two operands.
        """
        return self.data.shr_sign_of_imm

    def depth(self, memory: Memory) -> int:
        """Elements of the buffer behind a memory id: what an SRAM index must stay below."""
        if memory is Memory.UOP:
            return self.uop_entries
        return 1 << self.data.log_depth(memory)

    def element_bytes(self, memory: Memory) -> int:
        """Bytes of one element in DRAM."""
        return 1 << self.data.log_element(memory)

    def largest_load(self, memory: Memory) -> int:
        """Elements of one LOAD at most: what the buffer holds, and less than the machine may lose.

        See `TimingPreset.inp_beat_limit`.
        """
        limit = self.timing.inp_beat_limit
        if memory is not Memory.INP or limit is None:
            return self.depth(memory)
        lost = max(limit * self.timing.port_bytes // self.element_bytes(memory), 2)
        return min(self.depth(memory), lost - 1)

    def loads_apart(self, memory: Memory, rows: int, count: int, step: int) -> bool:
        """Whether every ``step``-th element of rows is better loaded alone than with all between.

        rows, count: rows of a rectangle, and elements that are wanted of each. A LOAD has one
        distance, so elements loaded alone take an instruction for each row at most, and a request
        for each element. Otherwise one instruction loads the rectangle, whose rows have more beats;
        as these also delay other loads, that must take less than half of the time.
        """
        timing = self.timing
        beats = timing.beats(self.element_bytes(memory))
        answered = -(-(timing.latency + 2 + beats) // timing.outstanding)
        request = max(beats, timing.request_interval, answered)
        start = timing.latency + LOAD_OVERHEAD
        alone = rows * (start + count * request)
        return alone <= 2 * (start + rows * ((count - 1) * step + 1) * beats)

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
        with printer.in_angle_brackets():
            printer.print_string_literal(self.preset)
            for key, value in self.data.changes().items():
                printer.print_string(f", {key} = ")
                if isinstance(value, str):
                    printer.print_string_literal(value)
                else:
                    printer.print_string(_text(value))


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) or value is None else str(value)


def _parse_value(parser: AttrParser) -> bool | int | float | str | None:
    if parser.parse_optional_keyword("none") is not None:
        return None
    for alternative in (parser.parse_optional_boolean, parser.parse_optional_str_literal):
        if (value := alternative()) is not None:
            return value
    return parser.parse_number()
