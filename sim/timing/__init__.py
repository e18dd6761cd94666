"""The clock: how many cycles a program takes, and where they go.

A simulation of fetch, load, compute and store with their queues, tokens and memory channels, from
one event to the next. It needs no data: times depend on instructions alone. Read `machine` for the
rules, `channel` for memory, `padding` for the zeros of a load and `work` for what an instruction
costs by itself; `presets` has every number, `accounts` says what the cycles were spent on.
"""

from .accounts import CLASSES, Account, Cause
from .presets import PRESETS, PresetError, TimingPreset, preset_for
from .report import TimingReport, estimate

__all__ = [
    "CLASSES",
    "PRESETS",
    "Account",
    "Cause",
    "PresetError",
    "TimingPreset",
    "TimingReport",
    "estimate",
    "preset_for",
]
