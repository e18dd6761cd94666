"""The attribute ``#target.cluster``: cores behind one DDR, with a global buffer and a DMA.

A cluster is some unmodified VTA cores, a software-managed global buffer (GB), semaphores and a copy
engine; ``docs/cluster.md`` describes it, `windows` has its addresses. The machine follows that of
Zhao et al., "Effectively Scheduling Computational Graphs of Deep Neural Networks toward Their
Domain-Specific Accelerators", OSDI 2023.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from xdsl.ir import Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from vtac.dialects.arguments import PATH, instance, takes

from . import windows
from .attribute import Target
from .cluster_configuration import (
    CLUSTER_FIELDS,
    CLUSTER_PRESETS,
    ClusterConfiguration,
    ClusterTiming,
    cluster_faults,
    cluster_from,
    describes_cluster,
    value_from_text,
)
from .configuration import PRESETS
from .entries import SUFFIXES, listed, read_entries
from .errors import TargetError
from .windows import MemoryScope

_ALWAYS_PRINTED = ("cores", "gb_bytes", "dma")


@irdl_attr_definition
class ClusterTarget(Data[ClusterConfiguration]):
    """One cluster: ``#target.cluster<core = #target.vta<"chisel-pynq">, cores = 8, ...>``.

    Frozen, hashable, and cheap to read: every property is a plain Python value.
    """

    name = "target.cluster"

    @classmethod
    def named(cls, name: str) -> "ClusterTarget":
        """The preset of that name (see `CLUSTER_PRESETS`). Raises `TargetError`."""
        if name not in CLUSTER_PRESETS:
            raise TargetError(
                f"there is no cluster preset {name!r}; the presets are {listed(CLUSTER_PRESETS)}"
            )
        return cls(CLUSTER_PRESETS[name])

    @classmethod
    def of(cls, spec: "str | os.PathLike[str] | Machine") -> "ClusterTarget":
        """A cluster from what users write: a preset's name, the path of a file, or a cluster.

        Raises `TargetError`, also for a single machine.
        """
        machine = machine_of(spec)
        if isinstance(machine, ClusterTarget):
            return machine
        raise TargetError(f"{spec} is a single machine, not a cluster")

    @classmethod
    def from_entries(cls, entries: Mapping[str, object]) -> "ClusterTarget":
        """The cluster that a file's entries describe, see `cluster_configuration`.

        Raises `TargetError`.
        """
        return cls(cluster_from(entries))

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> "ClusterTarget":
        """The cluster whose `fields` these are. Raises `TargetError`."""
        core = Target.from_fields(fields["core"])
        return cls(ClusterConfiguration().replace(**{**fields, "core": core}))

    def replace(self, **changes: Any) -> "ClusterTarget":
        """The same cluster with some values changed, those of its core included by their names.

        Raises `TargetError` on an impossible cluster, with all that is wrong.
        """
        return ClusterTarget(self.data.replace(**changes))

    def replace_text(self, changes: Mapping[str, str]) -> "ClusterTarget":
        """As `replace`, the values as text: ``{"gb_bytes": "1048576", "dma": "false"}``."""
        return self.replace(**_values_from(changes))

    def fields(self) -> dict[str, object]:
        """All values by name, for JSON; `from_fields` reads them."""
        values = {key: getattr(self.data, key) for key in CLUSTER_FIELDS if key != "core"}
        return {"core": self.core.fields(), **values}

    def verify(self) -> None:
        """Refuse clusters that the address map or the clock cannot express."""
        if problems := list(cluster_faults(self.data)):
            raise VerifyException("\n".join(problems))

    @property
    def core(self) -> Target:
        """The machine of each core."""
        return self.data.core

    @property
    def cores(self) -> int:
        """How many cores there are."""
        return self.data.cores

    @property
    def gb_bytes(self) -> int:
        """Bytes of the global buffer; 0 without one."""
        return self.data.gb_bytes

    @property
    def dma(self) -> bool:
        """Whether there is a copy engine."""
        return self.data.dma

    @property
    def timing(self) -> ClusterTiming:
        """The rates."""
        return self.data.timing

    @property
    def units(self) -> int:
        """Units with an instruction stream: the cores, and the DMA as the last one."""
        return self.cores + self.dma

    @property
    def has_windows(self) -> bool:
        """Whether GB and semaphores have addresses; else all memory is DDR."""
        return self.units > 1 or self.gb_bytes > 0

    @property
    def preset(self) -> str:
        """A short name: ``cluster-`` and the number of cores."""
        return f"cluster-{self.cores}"

    def unit_name(self, unit: int) -> str:
        """``core0``, ``core1``, ... and ``dma``: names of units in files, traces and messages."""
        return "dma" if unit == self.cores else f"core{unit}"

    def scope_of(self, first: int, end: int) -> MemoryScope | None:
        """The memory that holds all bytes [first, end); None where no single memory does."""
        if not self.has_windows:
            return MemoryScope.DDR
        return windows.scope_of(self.cores, self.gb_bytes, first, end)

    def semaphore_address(self, source: int, destination: int) -> int:
        """The byte address of semaphore (source -> destination), both numbers of units."""
        return windows.semaphore_address(self.cores, source, destination)

    def semaphore_number(self, source: int, destination: int) -> int:
        """The number of semaphore (source -> destination), which commands of the DMA name."""
        return windows.semaphore_number(self.cores, source, destination)

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> ClusterConfiguration:
        """Parse ``<core = #target.vta<...>, cores = 8, change = value, ...>``."""
        position = parser.pos
        changes: dict[str, object] = {}

        def parse_entry() -> None:
            key = parser.parse_identifier()
            parser.parse_punctuation("=")
            changes[key] = _parse_value(parser) if key != "core" else parser.parse_attribute()

        parser.parse_comma_separated_list(parser.Delimiter.ANGLE, parse_entry)
        try:
            return ClusterConfiguration().replace(**changes)
        except TargetError as error:
            parser.raise_error(str(error), position, parser.pos)

    def print_parameter(self, printer: Printer) -> None:
        """Print ``<core = #target.vta<...>, cores = 8, change = value, ...>``."""
        with printer.in_angle_brackets():
            printer.print_string("core = ")
            printer.print_attribute(self.core)
            shown = {key: getattr(self.data, key) for key in _ALWAYS_PRINTED}
            for key, value in {**shown, **self.data.changes()}.items():
                text = str(value).lower() if isinstance(value, bool) else str(value)
                printer.print_string(f", {key} = {text}")


def _parse_value(parser: AttrParser) -> bool | int | float | None:
    if parser.parse_optional_keyword("none") is not None:
        return None
    if (flag := parser.parse_optional_boolean()) is not None:
        return flag
    return parser.parse_number()


Machine = Target | ClusterTarget
"""What programs are compiled for."""


MACHINE = PATH | instance("a Target or a ClusterTarget", Target, ClusterTarget)
"""What `machine_of` takes."""


@takes(spec=MACHINE)
def machine_of(spec: "str | os.PathLike[str] | Machine") -> Machine:
    """A single machine or a cluster from what users write: a preset's name, a path, a machine.

    Raises `TargetError`.
    """
    if isinstance(spec, Target | ClusterTarget):
        return spec
    text = os.fspath(spec)
    if text in CLUSTER_PRESETS:
        return ClusterTarget.named(text)
    if text in PRESETS:
        return Target.named(text)
    if text.endswith(SUFFIXES) or os.path.exists(text):
        entries = read_entries(Path(text))
        if not describes_cluster(entries):
            return Target.from_file(text)
        try:
            return ClusterTarget.from_entries(entries)
        except TargetError as error:
            raise TargetError(*(f"{text}: {problem}" for problem in error.problems)) from None
    raise TargetError(
        f"{text!r} is neither a target preset ({', '.join((*PRESETS, *CLUSTER_PRESETS))}) nor the"
        " path of a vta_config.json or of a machine's .toml or .json"
    )


def changed_machine(machine: Machine, changes: Mapping[str, str]) -> Machine:
    """A machine with some values changed, which are given as text by name (``--set NAME=VALUE``).

    Raises `TargetError` with all that is wrong.
    """
    return machine.replace(**_values_from(changes)) if changes else machine


def _values_from(changes: Mapping[str, str]) -> dict[str, object]:
    values: dict[str, object] = {}
    problems: list[str] = []
    for key, text in changes.items():
        try:
            values[key] = value_from_text(key, text)
        except TargetError as error:
            problems += map(str, error.problems)
    if problems:
        raise TargetError(*problems)
    return values


def machine_from_fields(fields: Mapping[str, Any]) -> Machine:
    """A machine from the values of its fields: a cluster if one is ``core``, else a `Target`.

    Raises `TargetError` where the values make no machine.
    """
    is_cluster = "core" in fields
    return ClusterTarget.from_fields(fields) if is_cluster else Target.from_fields(fields)


def cores_of(machine: Machine) -> tuple[Target, int]:
    """The machine of each core, and how many there are."""
    return (machine, 1) if isinstance(machine, Target) else (machine.core, machine.cores)
