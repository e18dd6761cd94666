"""Histograms of magnitudes that grow with their data, and clipping thresholds derived from them.

Percentile, and the entropy method of TensorRT (Migacz, "8-bit Inference with TensorRT", 2017): the
clipping threshold whose quantised histogram diverges least from the real one.

onnxruntime has such collectors (``onnxruntime.quantization.calibrate``). They print to standard
output, and they extend the histogram by bins of the first batch's width, so that a batch of large
values after one of small values yields millions of bins. Here the number of bins is constant: the
width doubles, and pairs of bins are merged, so that no data of former batches are needed.
"""

from dataclasses import dataclass, field
from math import frexp, inf

import numpy as np

from vtac.dialects.context import Array

BINS = 4096
"""Number of bins of a histogram; data reach at least half of them."""

_LEVELS = 128
"""Number of magnitudes of int8."""

_STRIDE = 16
"""Distance in bins between the thresholds that the entropy method tries."""

_FEWEST = 16 * _LEVELS
"""With fewer values, the entropy method does not clip: they do not represent a distribution."""


@dataclass
class Histogram:
    """Counts of magnitudes in bins from 0 to ``limit``, a power of two.

    zeros: how many values are exactly 0. They are not in the bins, since every threshold represents
    them exactly, and after a ReLU they are about half of all values.
    """

    limit: float = 0.0
    counts: Array = field(default_factory=lambda: np.zeros(BINS, np.int64))
    zeros: int = 0

    def add(self, values: Array) -> None:
        """Count the magnitudes of finite values."""
        magnitudes = np.abs(values[values != 0].astype(np.float64)).ravel()
        self.zeros += values.size - magnitudes.size
        if magnitudes.size == 0:
            return
        self._cover(float(magnitudes.max()))
        bins = np.minimum((magnitudes * (BINS / self.limit)).astype(np.int64), BINS - 1)
        self.counts += np.bincount(bins, minlength=BINS)

    def _cover(self, largest: float) -> None:
        if largest <= self.limit:
            return
        limit = 2.0 ** frexp(largest)[1]
        if self.limit == 0:
            self.limit = limit
        while self.limit < limit:
            self.counts[: BINS // 2] = self.counts[0::2] + self.counts[1::2]
            self.counts[BINS // 2 :] = 0
            self.limit *= 2

    def percentile(self, percent: float) -> float:
        """The magnitude below which ``percent`` of the values lie, up to the width of a bin."""
        total = np.cumsum(self.counts) + self.zeros
        index = int(np.searchsorted(total, total[-1] * percent / 100))
        return self.limit * (min(index, BINS - 1) + 1) / BINS

    def entropy_threshold(self) -> float:
        """The clipping threshold with the least divergence between int8 and real distributions."""
        used = int(np.flatnonzero(self.counts)[-1]) + 1 if self.counts.any() else 0
        candidates = [*range(_LEVELS, used, _STRIDE), used]
        if used <= _LEVELS or self.counts.sum() < _FEWEST:
            return self.limit * used / BINS
        best = min(candidates, key=lambda bins: _divergence(self.counts[:used], bins))
        return float(self.limit * best / BINS)


def _divergence(counts: Array, bins: int) -> float:
    """Kullback-Leibler divergence between a histogram and its int8 form, clipped to some bins."""
    kept = counts[:bins].astype(np.float64)
    real = kept.copy()
    real[-1] += counts[bins:].sum()
    level = np.arange(bins) * _LEVELS // bins
    occupied = kept > 0
    mass = np.bincount(level, kept, _LEVELS)
    share = np.bincount(level, occupied, _LEVELS)
    quantised = np.where(occupied, mass[level] / np.maximum(share[level], 1), 0.0)
    # A bin filled by clipped values only would diverge infinitely; a little mass makes it finite.
    if not quantised.any():
        return inf
    quantised = np.where((real > 0) & (quantised == 0), 1e-4 * quantised.max(), quantised)
    where = real > 0
    p, q = real / real.sum(), quantised / quantised.sum()
    return float((p[where] * np.log(p[where] / q[where])).sum())
