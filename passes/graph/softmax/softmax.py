"""A softmax over keys in integers, and the product with values behind it.

With z the int32 scores, whose steps are octaves after a factor::

    h = z >> a                       in int8
    m = max of h over the keys       products that select blocks and lanes, and maxima
    D = (2^a m - z) factor           256 n + r: n whole octaves, r from 0 to 255
    e = ((r + b)^2 + c) >> (n + 4)   near 2^(-D / 256), in two planes of int8
    S = sum of e, O = e V            products with ones, and with the values
    y = ((O >> k) x + bias) >> s     S = 2^k' times 1 to 2; Newton steps find x, near 1 / S

Kim et al., "I-BERT: Integer-only BERT Quantization" (2021), section 3.4, subtract the maximum
itself and divide by the sum. Here m is the maximum to a fraction of its range that int8 holds; the
division is postponed behind the product with the values (Milakov and Gimelshein, "Online normalizer
calculation for softmax", 2018); and the factor of the parabola's square is 1, so that it needs no
product.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np

from vtac.dialects.context import Array

OCTAVE_BITS = 8
FARTHEST = 18
"""Behind so many octaves below the maximum, the exponential is 0."""

HEADROOM = 2.0
"""How far scores may exceed those of calibration before they count as equal."""

START = 4
"""By how much the parabola is shifted at the maximum."""

VERTEX, RAISED = -506, 132871
"""b and c: ``((r + b)^2 + c) >> START`` is `ONE` times 2^(-r / 256), 0.27 % off at most."""

ONE = 24372
"""The exponential at the maximum."""

RECIPROCAL_BITS = 14
GUESS = 23870, 8192
"""The first guess of the reciprocal of s from 1 to 2 is ``GUESS[0] - s GUESS[1]``, 4 % off."""

NEWTON_STEPS = 2
GAIN_BITS = 14
"""Bits of the factor that makes reciprocals steps of the result."""

LARGEST_IMMEDIATE = 2**15 - 1
MOST_SHIFT = 18
"""Of the distances, whose offset is an int32."""


@dataclass(frozen=True, eq=False)
class Softmax:
    """The numbers of a softmax over ``keys`` scores, and of the product with values behind it.

    step: the real value of a step of the int32 scores. reach: a bound of their magnitude. span: the
    largest magnitude of real scores that is expected. factor: steps of the result for one step of
    the values.
    """

    keys: int
    step: float
    reach: int
    span: float
    factor: float

    @property
    def octaves(self) -> float:
        """Octaves of a step of the scores."""
        return float(self.step * np.log2(np.e))

    @cached_property
    def coarse(self) -> int:
        """a: by how much scores are shifted for their maximum."""
        most = min(HEADROOM * self.span / self.step, self.reach)
        return max(0, int(np.ceil(np.log2(max(most, 1.0) / 127))))

    @property
    def unit(self) -> float:
        """Octaves of a step of h."""
        return self.octaves * 2.0**self.coarse

    @cached_property
    def scaling(self) -> tuple[int, int]:
        """Multiplier and shift that make distances of differences of scores."""
        ratio = self.octaves * 2**OCTAVE_BITS
        bound = self.reach + 2.0 ** (self.coarse + 7)
        most = min(LARGEST_IMMEDIATE, 2.0**30 / bound)
        shift = min(int(np.floor(np.log2(most / ratio))), MOST_SHIFT)
        return (round(ratio * 2.0**shift), shift) if shift >= 0 else (0, 0)

    @property
    def offset(self) -> int:
        """What is added to the products: `START` octaves, and half a step of h, so that no distance
        is negative."""
        half = int(np.ceil(self.unit * 2 ** (OCTAVE_BITS - 1)))
        return ((START << OCTAVE_BITS) + half) << self.scaling[1]

    @property
    def bounds(self) -> tuple[int, int]:
        """Of the distances with `START` octaves."""
        return START << OCTAVE_BITS, (START + FARTHEST) << OCTAVE_BITS

    @cached_property
    def sum_bits(self) -> int:
        """Sums of exponentials are 2 to the power of this at least."""
        return int(np.floor(np.log2(max(0.995 * ONE * 2.0**-self.unit - 1, 2))))

    @cached_property
    def levels(self) -> int:
        """Powers of two that a sum can lie above the least."""
        return max((self.keys * (ONE + 1)).bit_length() - 1 - self.sum_bits, 1)

    @cached_property
    def gain(self) -> tuple[int, int]:
        """The factor that reciprocals are multiplied by, and the power of two it stands for."""
        bits = GAIN_BITS - 1 - int(np.floor(np.log2(self.factor)))
        return min(round(self.factor * 2.0**bits), (1 << GAIN_BITS) - 1), bits

    @cached_property
    def product_shift(self) -> int:
        """By how much products with values are shifted besides, so that all fits int32."""
        return max(0, self.sum_bits + 8 + RECIPROCAL_BITS + 1 - 30)

    @property
    def shift(self) -> int:
        """s."""
        return self.sum_bits + self.gain[1] - self.product_shift

    def refusal(self) -> str | None:
        """Why there are no such integers; None if there are."""
        if 128 * self.keys * (ONE + 1) >= 2**31:
            return "a sum over its keys could leave int32"
        if self.scaling[0] < 32:
            return "its scores are too coarse for the products"
        if self.sum_bits < 8:
            return "its scores are too far apart for a maximum in int8"
        if not 1 <= self.shift <= 30:
            return "its result is too coarse or too fine for the products"
        return None

    def exponentials(self, scores: Array) -> Array:
        """e for scores [..., keys]."""
        z = scores.astype(np.int64)
        h = np.clip((z + (1 << self.coarse >> 1)) >> self.coarse, -128, 127)
        difference = z - (h.max(axis=-1, keepdims=True) << self.coarse)
        multiplier, shift = self.scaling
        distance = np.clip((difference * -multiplier + self.offset) >> shift, *self.bounds)
        octaves = distance >> OCTAVE_BITS
        u = distance - (octaves << OCTAVE_BITS) + VERTEX
        return cast(Array, (u * u + RAISED) >> octaves)

    def shares(self, scores: Array) -> Array:
        """The softmax that the exponentials stand for, float64 [..., keys]."""
        e = self.exponentials(scores).astype(np.float64)
        return cast(Array, e / np.maximum(e.sum(axis=-1, keepdims=True), 2.0**self.sum_bits))

    def reciprocal(self, total: Array) -> tuple[Array, Array]:
        """k and x for sums of exponentials."""
        s = np.maximum(total, 1 << self.sum_bits)
        k = np.full_like(s, self.product_shift)
        for bits in self.searched:
            more = np.minimum(s >> (self.sum_bits + bits), 1) * bits
            s, k = s >> more, k + more
        x = GUESS[0] - ((s * GUESS[1]) >> self.sum_bits)
        for _ in range(NEWTON_STEPS):
            rest = (2 << RECIPROCAL_BITS) - ((s * x) >> self.sum_bits)
            x = (x * rest) >> RECIPROCAL_BITS
        return k, (x * self.gain[0] + (1 << (GAIN_BITS - 1))) >> GAIN_BITS

    @property
    def searched(self) -> list[int]:
        """Powers of two by which a sum is made smaller where it can be, the largest first."""
        return [1 << bit for bit in reversed(range(self.levels.bit_length()))]

    def at(self, scores: Array, values: Array, ending: "Ending") -> Array:
        """The result, int8 [..., D], for scores [..., keys] and values int8 [keys, D]."""
        e = self.exponentials(scores)
        k, x = self.reciprocal(e.sum(axis=-1, keepdims=True))
        product = (e @ values.astype(np.int64)) >> k
        y = (product * x + ending.bias) >> ending.shift
        return cast(Array, np.clip(y, ending.lo, ending.hi).astype(np.int8))


@dataclass(frozen=True, eq=False)
class Ending:
    """How results are rounded to int8. bias, shift: of each column, int64 [D]."""

    bias: Array
    shift: Array
    lo: int = -128
    hi: int = 127
