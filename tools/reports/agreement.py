"""How well two arrays agree: sums over any number of pairs, from which the usual figures follow."""

from dataclasses import dataclass
from math import inf, log10, sqrt
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass
class Agreement:
    """Sums over pairs of arrays of equal shape: a reference, and what was found instead.

    Only pairs of finite numbers are compared. odd: pairs of which only one is finite, or whose
    infinities differ.
    """

    count: int = 0
    odd: int = 0
    largest: float = 0.0
    largest_difference: float = 0.0
    total_difference: float = 0.0
    signal: float = 0.0
    noise: float = 0.0
    product: float = 0.0
    found_power: float = 0.0

    def add(self, reference: Array, found: Array) -> None:
        """Add another pair of arrays."""
        a, b = reference.astype(np.float64).ravel(), found.astype(np.float64).ravel()
        finite = np.isfinite(a) & np.isfinite(b)
        if not finite.all():
            self.odd += int((~finite & ~((a == b) | (np.isnan(a) & np.isnan(b)))).sum())
            a, b = a[finite], b[finite]
        if a.size == 0:
            return
        difference = np.abs(a - b)
        self.count += a.size
        self.largest = max(self.largest, float(np.abs(a).max()))
        self.largest_difference = max(self.largest_difference, float(difference.max()))
        self.total_difference += float(difference.sum())
        self.signal += float(a @ a)
        self.noise += float(difference @ difference)
        self.product += float(a @ b)
        self.found_power += float(b @ b)

    @property
    def mean_difference(self) -> float:
        """The mean magnitude of the differences."""
        return self.total_difference / max(1, self.count)

    @property
    def snr(self) -> float:
        """The power of the reference over that of the difference, in dB; infinity without any."""
        if self.noise == 0:
            return inf
        return 10 * log10(self.signal / self.noise) if self.signal else -inf

    @property
    def cosine(self) -> float:
        """The cosine of the angle between both, as vectors; 1 where both are 0."""
        if self.signal == 0 or self.found_power == 0:
            return float(self.signal == self.found_power)
        return self.product / sqrt(self.signal * self.found_power)
