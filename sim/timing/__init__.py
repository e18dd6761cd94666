"""The clock: how many cycles a program takes, and where they go.

A simulation of fetch, load, compute and store with their queues, tokens and memory channels, from
one event to the next. It needs no data: times depend on instructions alone. Read `machine` for the
rules, `channel` for memory, `padding` for the zeros of a load and `work` for what an instruction
costs by itself; the target's `TimingPreset` has every number, `accounts` says how the cycles were
spent.
"""

from ...dialects.target import TIMING_PRESETS, PresetError, TimingPreset
from .accounts import CLASSES, Account, Cause
from .report import RULES, TimingReport, estimate, preset_for

__all__ = [
    "CLASSES",
    "RULES",
    "TIMING_PRESETS",
    "Account",
    "Cause",
    "PresetError",
    "TimingPreset",
    "TimingReport",
    "estimate",
    "preset_for",
]
