"""How sums return to int8: the options of the pass ``quantize``."""

from dataclasses import dataclass
from typing import Literal

Sharing = Literal["channel", "block", "auto"]
Requantise = Literal["auto", "shift", "multiply", "exact"]


@dataclass(frozen=True)
class QuantiseOptions:
    """The options of the pass ``quantize``.

    shift: which channels share one shift: ``channel``, ``block`` or ``auto``. requantise: how sums
    return to int8, ``shift``, ``multiply``, ``exact`` or ``auto``.
    """

    shift: str = "auto"
    requantise: str = "auto"
