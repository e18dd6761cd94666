"""The parameters of a cluster as plain values, its presets, and the files that describe one.

A file (JSON or TOML) names a cluster preset as ``base``, or has a key ``cores`` or ``core``, and
then any field of a `ClusterConfiguration`. ``core`` is the name of a preset of a single machine,
or an object of the form that `files` describes; any field of the core may also stand beside the
cluster's own:

    base = "cluster-4"
    gb_bytes = 1048576
    ddr_beat_cycles = 2
    latency = 40          # a rate of the core
"""

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .attribute import Target
from .configuration import PARAMETERS, Configuration
from .entries import listed
from .errors import TargetError
from .system import Memory
from .timing import TIMING_FIELDS, TimingPreset
from .windows import GB_BASE, GB_LIMIT, MOST_CORES, SEMAPHORE_BYTES

_DEFAULT_CORE = Target.named("chisel-pynq")
_GB_GRANULE = 4096
_MOST_CYCLES = 1 << 20
_MOST_BANKS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterTiming:
    """The rates of a cluster: those of a core, and those of the memories that cores share.

    Times are in cycles. ``docs/cluster.md`` has the rules in which these numbers stand.
    """

    core: TimingPreset
    """The rates of each core."""
    ddr_latency: int
    """Delay of a request that finds DDR idle."""
    ddr_channels: int
    """Channels of DDR; with 2, pages of 4 KiB alternate between them."""
    ddr_beat_cycles: int
    """Cycles of a beat of DDR."""
    gb_latency: int
    """Delay of a request that finds the read channel of GB, or of semaphores, idle."""
    gb_banks: int
    """Banks of GB: a power of two."""
    sem_latency: int
    """Cycles from the write of a signal until it counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConfiguration:
    """All parameters of a cluster. The defaults are the preset ``cluster-8``."""

    core: Target = _DEFAULT_CORE
    """The machine of each core."""
    cores: int = 8
    """Cores, 1 to 15."""
    gb_bytes: int = 2 << 20
    """Bytes of the global buffer: a multiple of 4096, at most 16 MiB; 0: there is none."""
    dma: bool = True
    """Whether there is a copy engine between DDR and GB."""
    ddr_latency: int | None = None
    """See `ClusterTiming`; None: that of the core."""
    ddr_channels: int = 1
    ddr_beat_cycles: int = 1
    gb_latency: int = 6
    gb_banks: int | None = None
    """See `ClusterTiming`; None: 1 for one core, otherwise the least power of two that is at least
    the number of cores + 1, so that no two units ever need the same bank in the same cycle."""
    sem_latency: int = 4

    @property
    def timing(self) -> ClusterTiming:
        """The rates, defaults filled in."""
        banks = 1 if self.cores == 1 else 1 << self.cores.bit_length()
        return ClusterTiming(
            core=self.core.timing,
            ddr_latency=self.core.timing.latency if self.ddr_latency is None else self.ddr_latency,
            ddr_channels=self.ddr_channels,
            ddr_beat_cycles=self.ddr_beat_cycles,
            gb_latency=self.gb_latency,
            gb_banks=banks if self.gb_banks is None else self.gb_banks,
            sem_latency=self.sem_latency,
        )

    def replace(self, **changes: Any) -> "ClusterConfiguration":
        """The same cluster with some values changed, those of its core included by their names.

        ``core`` itself is whatever `Target.of` takes, or an object of a core's entries. Raises
        `TargetError` with all that is wrong.
        """
        own = {key: value for key, value in changes.items() if key in CLUSTER_FIELDS}
        rest = {key: value for key, value in changes.items() if key not in CLUSTER_FIELDS}
        problems = [fault for key, value in own.items() if (fault := _type_fault(key, value))]
        core = self.core
        try:
            core = _core_from(own.get("core", core))
        except TargetError as error:
            problems += map(str, error.problems)
        known = {key: value for key, value in rest.items() if key in _CORE_FIELDS}
        if unknown := [key for key in rest if key not in known]:
            problems.append(
                f"a cluster has no {', '.join(map(repr, unknown))}; it has"
                f" {listed(CLUSTER_FIELDS)}, and each of its cores {listed(_CORE_FIELDS)}"
            )
        try:
            core = core.replace(**known) if known else core
        except TargetError as error:
            problems += map(str, error.problems)
        if problems:
            raise TargetError(*problems)
        changed = dataclasses.replace(self, **{**own, "core": core})
        if problems := list(cluster_faults(changed)):
            raise TargetError(*problems)
        return changed

    def changes(self) -> dict[str, object]:
        """The rates that differ from their defaults, by name."""
        fields = dataclasses.fields(self)
        return {
            field.name: value
            for field in fields
            if field.name not in ("core", "cores", "gb_bytes", "dma")
            and (value := getattr(self, field.name)) != field.default
        }


CLUSTER_FIELDS: Mapping[str, Any] = {
    field.name: field.default for field in dataclasses.fields(ClusterConfiguration)
}
"""The values of a `ClusterConfiguration` by name, with their defaults."""

_CORE_FIELDS: Mapping[str, object] = dict.fromkeys(
    (*(f.name for f in dataclasses.fields(Configuration) if f.name != "preset"), *TIMING_FIELDS)
)

CLUSTER_PRESETS: Mapping[str, ClusterConfiguration] = {
    f"cluster-{cores}": ClusterConfiguration(cores=cores) for cores in (1, 2, 4, 8)
}
"""The clusters that have a name: so many cores ``chisel-pynq``, a GB of 2 MiB and a DMA."""


def describes_cluster(entries: Mapping[str, object]) -> bool:
    """Whether the entries of a file describe a cluster, not a single machine."""
    return entries.get("base") in CLUSTER_PRESETS or "cores" in entries or "core" in entries


def cluster_from(entries: Mapping[str, object]) -> ClusterConfiguration:
    """The cluster that a file's entries describe. Raises `TargetError`."""
    values = {_spelled(key): value for key, value in entries.items()}
    base = values.pop("base", "cluster-8")
    if not isinstance(base, str) or base not in CLUSTER_PRESETS:
        raise TargetError(
            f"base must be a cluster preset ({listed(CLUSTER_PRESETS)}), not {base!r}"
        )
    return CLUSTER_PRESETS[base].replace(**values)


def _spelled(key: str) -> str:
    return key.lower() if key.lower() in PARAMETERS else key


def _core_from(value: object) -> Target:
    if isinstance(value, Mapping):
        return Target.from_vta_config({str(key): entry for key, entry in value.items()})
    if isinstance(value, str | Target):
        return Target.of(value)
    raise TargetError(f"core must be a preset, a path or an object of values, not {value!r}")


def value_from_text(key: str, text: str) -> object:
    """A value of a cluster or of its core, from what stands behind ``--set KEY=``.

    Raises `TargetError` where the text is none of the values that the key may have.
    """
    if key in ("core", "timing"):
        return text
    if key in TIMING_FIELDS:
        return getattr(TimingPreset(name="").replace_text({key: text}), key)
    words: dict[str, object] = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    try:
        return int(text, 0)
    except ValueError:
        raise TargetError(f"{key} must be a whole number, true, false or none, not {text!r}") from (
            None
        )


def _type_fault(key: str, value: object) -> str:
    default = CLUSTER_FIELDS[key]
    if key == "core" or (value is None and default is None):
        return ""
    kind = int if default is None else type(default)
    return "" if type(value) is kind else f"{key} must be {kind.__name__}, not {value!r}"


def cluster_faults(data: ClusterConfiguration) -> Iterator[str]:
    """All that is wrong with a cluster whose values have the right types."""
    if not 1 <= data.cores <= MOST_CORES:
        yield f"cores must be 1 to {MOST_CORES}, not {data.cores}"
    most = GB_LIMIT - GB_BASE
    if not 0 <= data.gb_bytes <= most or data.gb_bytes % _GB_GRANULE:
        yield f"gb_bytes must be a multiple of {_GB_GRANULE} up to {most}, not {data.gb_bytes}"
    least = {"ddr_latency": 0, "ddr_beat_cycles": 1, "gb_latency": 0, "sem_latency": 0}
    for key, low in least.items():
        value = getattr(data, key)
        if value is not None and not low <= value <= _MOST_CYCLES:
            yield f"{key} must be {low} to {_MOST_CYCLES}, not {value}"
    if data.ddr_channels not in (1, 2):
        yield f"ddr_channels must be 1 or 2, not {data.ddr_channels}"
    yield from _bank_faults(data)
    yield from _core_faults(data)


def _bank_faults(data: ClusterConfiguration) -> Iterator[str]:
    banks = data.gb_banks
    if banks is None:
        return
    if not 1 <= banks <= _MOST_BANKS or banks & (banks - 1):
        yield f"gb_banks must be a power of two up to {_MOST_BANKS}, not {banks}"
    elif banks < data.cores + data.dma and data.cores > 1:
        yield (
            f"gb_banks is {banks}, but {data.cores + data.dma} units take turns: two of them would"
            " need one bank in the same cycle"
        )


def _core_faults(data: ClusterConfiguration) -> Iterator[str]:
    size = data.core.element_bytes(Memory.INP)
    if size > SEMAPHORE_BYTES:
        yield (
            f"an INP element has {size} bytes, but a wait loads one from a semaphore, and those are"
            f" {SEMAPHORE_BYTES} bytes apart"
        )
    timing = data.core.timing
    if timing.read_channels != 1:
        yield (
            f"read_channels is {timing.read_channels}, but a core of a cluster reads DDR through"
            " one channel"
        )
    if timing.ideal_memory:
        yield "ideal_memory has no meaning in a cluster, whose cores share their memories"
