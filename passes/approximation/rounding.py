"""Weights of a channel rounded together, so that their errors cancel.

Rounding to the nearest integer is best for each weight alone. But the inputs of a channel are
correlated (neighbouring pixels, channels of one ReLU), so the errors of weights can cancel: for
weight errors e and inputs with covariance H, the error of the sums has the power ``e' H e``.
Coordinate descent lowers it: each weight in turn moves to its best integer given all others, until
none moves or the limit of rounds is reached (Behdin et al., "QuantEase", section 3; the objective
is that of Frantar et al., "GPTQ"). Covariances leave out the means of inputs, since biases correct
these (``correction``).
"""

from typing import cast

import numpy as np

from vtac.passes.approximation.integers import Array
from vtac.passes.approximation.planes import Limits

MOST_INPUTS = 1024
"""Channels that sum more products are rounded to nearest: covariances would take too long."""

ENOUGH_WINDOWS, ENOUGH_BATCHES = 64, 16
"""Number of windows for each product of a channel, and of batches, of which one more would hardly
change H: correlated windows of one picture do not make up for other pictures."""

_SWEEPS = 8
"""Rounds over all weights, at most."""

_AT_ONCE = 64
"""Weights of a channel after which the slopes of all others are brought up to date."""


class Moments:
    """First and second moments of the K inputs in each window of a form: [groups, K]."""

    def __init__(self, groups: int, products: int):
        self.count = 0
        self._sums = np.zeros((groups, products))
        self._squares = np.zeros((groups, products, products))

    def add(self, windows: Array) -> None:
        """Add windows [N, groups * K, ...]."""
        groups, products = self._sums.shape
        apart = windows.reshape(len(windows), groups, products, -1)
        rows = np.moveaxis(apart, 0, 2).reshape(groups, products, -1)
        self.count += rows.shape[2]
        self._sums += rows.sum(axis=2)
        self._squares += rows @ rows.transpose(0, 2, 1)

    def covariance(self) -> Array:
        """The covariance of the inputs, [groups, K, K], shrunk towards its diagonal.

        The fewer windows were observed for K inputs, the less covariances of two inputs are known:
        with N windows they count N / (N + K) of what was observed (a linear shrinkage, as that of
        Ledoit and Wolf, "A well-conditioned estimator for large-dimensional covariance matrices").
        Then few samples change few weights.
        """
        means = self._sums / self.count
        found = self._squares / self.count - means[:, :, None] * means[:, None, :]
        products = found.shape[1]
        diagonal = np.arange(products)
        variances = found[:, diagonal, diagonal]
        found *= self.count / (self.count + products)
        found[:, diagonal, diagonal] = variances
        return cast(Array, found)


def batches_apart(batches: int, windows: int, products: int) -> int:
    """Every how many batches one is enough, of so many batches with so many windows each.

    products: K, those of a channel.
    """
    enough = max(ENOUGH_BATCHES, -(-ENOUGH_WINDOWS * products // max(windows, 1)))
    return max(batches // enough, 1)


def alike(groups: int, products: int) -> Array:
    """Covariance to assume for unobserved inputs, up to a factor, [groups, K, K].

    Inputs are taken as uncorrelated, each with a mean about equal to its standard deviation, as
    after a ReLU. Without observations no bias corrects that mean, so it counts here: the errors of
    a channel's weights should add up to 0.
    """
    one = np.eye(products) + np.ones((products, products))
    return cast(Array, np.broadcast_to(one, (groups, products, products)))


def round_together(real: Array, stored: Array, covariance: Array, limits: Limits) -> Array:
    """Integer weights [O, K] near the real ones, with the least power of the error of the sums.

    stored: integer weights to start from. covariance: of the inputs, [groups, K, K]; outputs are
    ordered by group.
    """
    groups, products, _ = covariance.shape
    whole = stored.astype(np.float64).reshape(groups, -1, products)
    # Moving weight k by d changes e' H e by 2 d (e' H)_k + d^2 H_kk: least at d = -(e' H)_k / H_kk.
    slopes = (whole - real.reshape(whole.shape)) @ covariance
    powers = np.einsum("gkk->gk", covariance)
    # A constant input changes only the mean.
    powers = np.where(powers > 1e-9 * powers.max(initial=0), powers, np.inf)
    order = np.argsort(-powers.max(axis=0, where=np.isfinite(powers), initial=0), kind="stable")
    for _ in range(_SWEEPS):
        moved = False
        for first in range(0, products, _AT_ONCE):
            moved |= _move(
                whole, slopes, covariance, powers, order[first : first + _AT_ONCE], limits
            )
        if not moved:
            break
    return cast(Array, whole.reshape(stored.shape))


def _move(
    whole: Array, slopes: Array, covariance: Array, powers: Array, places: Array, limits: Limits
) -> bool:
    """Move some weights of each channel one after the other; whether any moved.

    whole, slopes: [groups, O, K], both changed. places: of the weights. Slopes of other weights
    follow at the end, as one product of matrices (the lazy updates of Frantar et al., "GPTQ",
    section 3.3).
    """
    own = np.ascontiguousarray(slopes[:, :, places])
    among = np.ascontiguousarray(covariance[:, places[:, None], places])
    steps = np.zeros_like(own)
    for number, place in enumerate(places):
        before = whole[:, :, place]
        best = np.rint(before - own[:, :, number] / powers[:, None, place])
        step = np.clip(best, *limits) - before
        if step.any():
            steps[:, :, number] = step
            later = slice(number + 1, None)
            own[:, :, later] += step[:, :, None] * among[:, None, number, later]
    moved = bool(steps.any())
    if moved:
        whole[:, :, places] += steps
        slopes += steps @ covariance[:, places]
    return moved
