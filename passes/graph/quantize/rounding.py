"""Weights rounded together: what one weight is off by, others of its channel make up for.

To the nearest integer is best for each weight alone. But inputs of a channel go together
(neighbouring pixels, channels of one relu), so the errors of weights can cancel: for errors e and
inputs of covariance H the power of the error of the sums is ``e' H e``. It is lowered one weight at
a time, each moved to its best integer given all others, until none moves or a few rounds are over
(coordinate descent: Behdin et al., "QuantEase", section 3; the objective is that of Frantar et al.,
"GPTQ"). Means do not count: biases take them out (``correction``).
"""

from typing import cast

import numpy as np

from vtac.dialects.context import Array
from vtac.passes.graph.quantize.planes import Limits

MOST_INPUTS = 1024
"""Channels that sum more products are rounded to the nearest: covariances would take too long."""

INPUTS_SEEN = 8
"""For each product that a channel sums, how many inputs must be seen: fewer say nothing of H."""

_SWEEPS = 8
"""Rounds over all weights, at most."""


class Moments:
    """Sums over what the windows of a form read: [groups, K], K products an output."""

    def __init__(self, groups: int, products: int):
        self.count = 0
        self._sums = np.zeros((groups, products))
        self._squares = np.zeros((groups, products, products))

    def add(self, windows: Array) -> None:
        """Take in windows [N, groups * K, ...]."""
        groups, products = self._sums.shape
        apart = windows.reshape(len(windows), groups, products, -1)
        rows = np.moveaxis(apart, 0, 2).reshape(groups, products, -1)
        self.count += rows.shape[2]
        self._sums += rows.sum(axis=2)
        self._squares += rows @ rows.transpose(0, 2, 1)

    @property
    def suffice(self) -> bool:
        """Whether there is enough to say what goes together."""
        return self.count >= INPUTS_SEEN * self._sums.shape[1]

    def covariance(self) -> Array:
        """[groups, K, K]."""
        means = self._sums / self.count
        return cast(Array, self._squares / self.count - means[:, :, None] * means[:, None, :])


def alike(groups: int, products: int) -> Array:
    """What to assume of inputs that nobody has seen, up to a factor: [groups, K, K].

    That they know nothing of each other, but all have a mean about as large as their deviation, as
    behind a relu; without observations no bias takes it out. Then the errors of a channel's weights
    are to sum up to nothing.
    """
    one = np.eye(products) + np.ones((products, products))
    return cast(Array, np.broadcast_to(one, (groups, products, products)))


def round_together(real: Array, stored: Array, covariance: Array, limits: Limits) -> Array:
    """Whole weights [O, K] near the real ones whose errors cancel as far as the inputs allow.

    stored: whole weights to start from. covariance: [groups, K, K] of what they meet; outputs are
    in the order of groups.
    """
    groups, products, _ = covariance.shape
    whole = stored.astype(np.float64).reshape(groups, -1, products)
    # Moving weight k by d changes e' H e by 2 d (e' H)_k + d^2 H_kk: least at d = -(e' H)_k / H_kk.
    slopes = (whole - real.reshape(whole.shape)) @ covariance
    powers = np.einsum("gkk->gk", covariance)
    # What is always the same moves nothing but the mean.
    powers = np.where(powers > 1e-9 * powers.max(initial=0), powers, np.inf)
    order = np.argsort(-powers.max(axis=0, where=np.isfinite(powers), initial=0), kind="stable")
    for _ in range(_SWEEPS):
        moved = False
        for place in order:
            before = whole[:, :, place]
            best = np.rint(before - slopes[:, :, place] / powers[:, None, place])
            steps = np.clip(best, *limits) - before
            if steps.any():
                moved = True
                whole[:, :, place] += steps
                slopes += steps[:, :, None] * covariance[:, None, place, :]
        if not moved:
            break
    return cast(Array, whole.reshape(stored.shape))
