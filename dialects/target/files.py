"""Machines described by files.

Two forms, each as JSON or TOML. A ``vta_config.json`` of the open hardware has the nine parameters
and perhaps ``TARGET`` and ``HW_VER``. A file of our own names a preset as ``base`` and then any
field of a `Configuration` (the nine parameters, features, quirks) or of its `TimingPreset`:

    base = "chisel-pynq"
    log_block = 5
    port_bytes = 32
    latency = 40

In both forms the nine parameters may stand in capitals or not, and ``FEATURES`` lists the features
that are on, all others being off.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeGuard

from .configuration import FEATURES, PARAMETERS, QUIRKS, Configuration, preset_named
from .entries import listed
from .errors import TargetError

BASE_KEY, TARGET_KEY, VERSION_KEY, FEATURES_KEY = "base", "TARGET", "HW_VER", "FEATURES"

VTA_CONFIG_KEYS = tuple(name.upper() for name in PARAMETERS)
"""The nine parameters of a ``vta_config.json``."""

HARDWARE: Mapping[str, str] = {
    "sim": "sim",
    "tsim": "chisel-pynq",
    "pynq": "pynq",
    "zcu104": "ultra96",
    "ultra96": "ultra96",
    "de10nano": "de10nano",
    "chisel-pynq": "chisel-pynq",
    "chisel-de10": "chisel-de10",
}
"""What the values of ``TARGET`` mean.

``tsim`` is VTA's own simulator of the Chisel design, and zcu104 has the port and the clock of
ultra96. Names of our presets are values, too.
"""

VERSIONS = ("0.0.1", "0.0.2")
"""The values of ``HW_VER`` that are read: the nine parameters mean the same in each."""


def configuration_from(entries: Mapping[str, object], **features: Any) -> Configuration:
    """The machine that a file's entries describe; ``features`` are further changes.

    Raises `TargetError` on keys that are missing or unknown and on values that make no sense.
    """
    given = {_field(key): value for key, value in entries.items()}
    is_ours = BASE_KEY in given
    problems = [*_twice(entries), *_board_faults(given), *([] if is_ours else _bare_faults(given))]
    named = given.pop(FEATURES_KEY, None)
    if named is not None and not _are_features(named):
        problems.append(f"{FEATURES_KEY} of vta_config must be a list of {', '.join(FEATURES)}")
    base = preset_named(given.pop(BASE_KEY)) if is_ours else _hardware(given)
    values = {key: given[key] for key in given.keys() - {TARGET_KEY, VERSION_KEY}}
    if not is_ours:  # what is unknown then is listed already
        values = {key: value for key, value in values.items() if key in (*PARAMETERS, *QUIRKS)}
    try:
        changed = base.replace(**{**values, **features})
    except TargetError as error:
        problems += map(str, error.problems)
    if problems:
        raise TargetError(*problems)
    if not _are_features(named):
        return changed
    on = {feature: feature in named for feature in FEATURES}
    return base.replace(**{**on, **values, **features})


def _field(key: str) -> str:
    return key.lower() if key in VTA_CONFIG_KEYS else key


def _twice(entries: Mapping[str, object]) -> list[str]:
    """Parameters that stand in capitals and not."""
    both = [key for key in entries if key != _field(key) and _field(key) in entries]
    return [f"{key} is given twice, in capitals and not" for key in both]


def _board_faults(given: Mapping[str, object]) -> list[str]:
    """What is wrong with ``TARGET`` and ``HW_VER``."""
    found = []
    target, version = given.get(TARGET_KEY), given.get(VERSION_KEY)
    if target is not None and target not in tuple(HARDWARE):
        found.append(f"{TARGET_KEY} is {target!r}, but must be one of {listed(HARDWARE)}")
    if version is not None and version not in VERSIONS:
        found.append(f"{VERSION_KEY} is {version!r}, but must be one of {', '.join(VERSIONS)}")
    return found


@contextmanager
def in_the_spelling_of(entries: Mapping[str, object]) -> Iterator[None]:
    """Name parameters in a `TargetError` as the entries do, in capitals or not."""
    spelled = {_field(key): key for key in entries if key != _field(key)}
    try:
        yield
    except TargetError as error:
        texts = (
            re.sub(r"\w+", lambda word: spelled.get(word[0], word[0]), str(problem))
            for problem in error.problems
        )
        raise TargetError(*texts) from None


def _bare_faults(given: Mapping[str, object]) -> list[str]:
    """Without a base the nine parameters must be there; features and quirks may be."""
    found = []
    if missing := [name.upper() for name in PARAMETERS if name not in given]:
        found.append(f"vta_config lacks {', '.join(missing)}, or a {BASE_KEY}")
    allowed = (*PARAMETERS, *QUIRKS, TARGET_KEY, VERSION_KEY, FEATURES_KEY)
    if unknown := sorted(set(given) - set(allowed)):
        found.append(
            f"vta_config has unknown keys {', '.join(unknown)}; allowed are"
            f" {', '.join((*VTA_CONFIG_KEYS, TARGET_KEY, VERSION_KEY, FEATURES_KEY))}, and with"
            f" {BASE_KEY} any field of a target"
        )
    return found


def _hardware(given: Mapping[str, object]) -> Configuration:
    """The base of a ``vta_config.json``: what TARGET names; for ``sim`` with every feature off."""
    name = HARDWARE.get(str(given.get(TARGET_KEY, "sim")), "sim")
    base = preset_named(name)
    return base.replace(**dict.fromkeys(FEATURES, False)) if name == "sim" else base


def _are_features(names: object) -> TypeGuard[list[str]]:
    return isinstance(names, list) and set(map(str, names)) <= set(FEATURES)
