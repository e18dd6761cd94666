"""The machine that programs are compiled for, as one attribute: ``#target.vta``, or for several
cores ``#target.cluster``.

A VTA is nine log2 parameters (widths, GEMM shape, buffer sizes; the ``vta_config.json`` of the open
hardware), a few features and quirks in which its implementations differ, and its rates. All of it
travels in one attribute, ``vtac.target``, on the module and on each accelerator function, so that a
pass sees the machine without global state. The parameters are those of Moreau et al., "VTA: An Open
Hardware-Software Stack for Deep Learning", and of Apache tvm-vta.

``#target.vta<"pynq">`` is a preset; what differs from it follows by name:
``#target.vta<"chisel-pynq", log_batch = 2, log_block = 3, latency = 64>``. `configuration` has the
fields and the presets, `timing` the rates, `files` the files that describe machines. `cluster` has
the machine of several cores, `windows` its address map.
"""

from xdsl.ir import Dialect

from .attribute import Target
from .cluster import (
    MACHINE,
    ClusterTarget,
    Machine,
    changed_machine,
    cores_of,
    machine_from_fields,
    machine_of,
)
from .cluster_configuration import (
    CLUSTER_FIELDS,
    CLUSTER_PRESETS,
    ClusterConfiguration,
    ClusterTiming,
)
from .configuration import FEATURES, PRESETS, Configuration
from .errors import PresetError, TargetError
from .files import VTA_CONFIG_KEYS
from .lookup import TARGET_ATTRIBUTE, machine_at, target_at
from .system import COMPUTE, CORE, LOAD, STORE, Memory, Module, Queue, System
from .timing import (
    INSTRUCTION_BYTES,
    LOAD_OVERHEAD,
    TIMING_FIELDS,
    TIMING_PRESETS,
    TimingPreset,
)
from .windows import MemoryScope

TargetDialect = Dialect("target", [], [Target, ClusterTarget])

__all__ = [
    "CLUSTER_FIELDS",
    "CLUSTER_PRESETS",
    "COMPUTE",
    "CORE",
    "FEATURES",
    "INSTRUCTION_BYTES",
    "LOAD",
    "LOAD_OVERHEAD",
    "MACHINE",
    "PRESETS",
    "STORE",
    "TARGET_ATTRIBUTE",
    "TIMING_FIELDS",
    "TIMING_PRESETS",
    "VTA_CONFIG_KEYS",
    "ClusterConfiguration",
    "ClusterTarget",
    "ClusterTiming",
    "Configuration",
    "Machine",
    "Memory",
    "MemoryScope",
    "Module",
    "PresetError",
    "Queue",
    "System",
    "Target",
    "TargetDialect",
    "TargetError",
    "TimingPreset",
    "changed_machine",
    "cores_of",
    "machine_at",
    "machine_from_fields",
    "machine_of",
    "target_at",
]
