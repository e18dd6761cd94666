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

from collections.abc import Mapping
from typing import Any

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
    given = {key.lower() if key in VTA_CONFIG_KEYS else key: v for key, v in entries.items()}
    is_ours = BASE_KEY in given
    if is_ours:
        base = preset_named(given.pop(BASE_KEY))
    else:
        _verify_bare(given)
        base = _hardware(given)
    target, version = given.pop(TARGET_KEY, None), given.pop(VERSION_KEY, None)
    if target is not None and target not in HARDWARE:
        raise TargetError(f"{TARGET_KEY} is {target!r}, but must be one of {listed(HARDWARE)}")
    if version is not None and version not in VERSIONS:
        raise TargetError(f"{VERSION_KEY} is {version!r}, but must be one of {', '.join(VERSIONS)}")
    if FEATURES_KEY in given:
        given = {**_features(given.pop(FEATURES_KEY)), **given}
    return base.replace(**{**given, **features})


def _verify_bare(given: Mapping[str, object]) -> None:
    """Without a base the nine parameters must be there; features and quirks may be."""
    if missing := [name.upper() for name in PARAMETERS if name not in given]:
        raise TargetError(f"vta_config lacks {', '.join(missing)}, or a {BASE_KEY}")
    allowed = (*PARAMETERS, *QUIRKS, TARGET_KEY, VERSION_KEY, FEATURES_KEY)
    if unknown := sorted(set(given) - set(allowed)):
        raise TargetError(
            f"vta_config has unknown keys {', '.join(unknown)}; allowed are"
            f" {', '.join((*VTA_CONFIG_KEYS, TARGET_KEY, VERSION_KEY, FEATURES_KEY))}, and with"
            f" {BASE_KEY} any field of a target"
        )


def _hardware(given: Mapping[str, object]) -> Configuration:
    """The base of a ``vta_config.json``: what TARGET names; for ``sim`` with every feature off."""
    name = HARDWARE.get(str(given.get(TARGET_KEY, "sim")), "sim")
    base = preset_named(name)
    return base.replace(**dict.fromkeys(FEATURES, False)) if name == "sim" else base


def _features(names: object) -> dict[str, bool]:
    if not isinstance(names, list) or not set(map(str, names)) <= set(FEATURES):
        raise TargetError(f"{FEATURES_KEY} of vta_config must be a list of {', '.join(FEATURES)}")
    return {feature: feature in names for feature in FEATURES}
