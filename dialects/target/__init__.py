"""The machine that programs are compiled for, as one attribute: ``#target.vta``.

A VTA is nine log2 parameters (widths, GEMM shape, buffer sizes; the ``vta_config.json`` of the open
hardware), a few features and quirks in which its implementations differ, and its rates. All of it
travels in one attribute, ``vtac.target``, on the module and on each accelerator function, so that a
pass sees the machine without global state. The parameters are those of Moreau et al., "VTA: An Open
Hardware-Software Stack for Deep Learning", and of Apache tvm-vta.

``#target.vta<"pynq">`` is a preset; what differs from it follows by name:
``#target.vta<"chisel-pynq", log_batch = 2, log_block = 3, latency = 64>``. `configuration` has the
fields and the presets, `timing` the rates, `files` the files that describe machines.
"""

from .attribute import Target, TargetDialect
from .configuration import FEATURES, PRESETS, Configuration, Memory
from .errors import PresetError, TargetError
from .files import VTA_CONFIG_KEYS
from .timing import INSTRUCTION_BYTES, TIMING_FIELDS, TIMING_PRESETS, TimingPreset

TARGET_ATTRIBUTE = "vtac.target"
"""Name of the attribute that carries the target on modules, functions and programs."""

__all__ = [
    "FEATURES",
    "INSTRUCTION_BYTES",
    "PRESETS",
    "TARGET_ATTRIBUTE",
    "TIMING_FIELDS",
    "TIMING_PRESETS",
    "VTA_CONFIG_KEYS",
    "Configuration",
    "Memory",
    "PresetError",
    "Target",
    "TargetDialect",
    "TargetError",
    "TimingPreset",
]
