"""Additions to a stream: planes of the sum of fine values.

The accumulators hold the sum in steps ``FRACTION_BITS`` finer than the result's at least, so that
the factors of all addends are whole numbers that are precise enough.
"""

from collections.abc import Sequence

import numpy as np

from vtac.passes.graph.streams.fine import FineValue, OpDraft, rounded_factors

FRACTION_BITS = 7
"""The least bits that the accumulators have below the result's."""

MOST_FRACTION_BITS = 12
"""The most: with a sum of 16 bits and one more for partial sums, they stay in int32."""

LEAST_FACTOR = 64.0
"""Factors of addends are this large where the bits suffice: then they are 1/128 off at most."""

LARGEST = 16200
"""The largest magnitude of a stream. Differences of two such numbers, and the squares of half of
them by 2^13, have 16 bits."""


def fine_step(lo: float, hi: float) -> float:
    """The step of the planes of a value with this range."""
    return max(abs(lo), abs(hi), 2.0**-100) / LARGEST


def emit_sum(draft: OpDraft, addends: Sequence[FineValue], step: float) -> FineValue | None:
    """The sum of some values as planes; None where some partial sum could leave int32.

    step: the step that is wanted for the result. If an addend has two planes, the result takes the
    step of that addend times a power of two instead, so that the addend enters unchanged.
    """
    tied = next((a.step for a in addends if a.low is not None and a.step is not None), None)
    if tied is not None:
        step = float(np.ldexp(tied, int(np.ceil(np.log2(step / tied)))))
    least = min(float(addend.steps.min()) for addend in addends)
    bits = int(np.ceil(np.log2(LEAST_FACTOR * step / least)))
    bits = min(max(bits, FRACTION_BITS), MOST_FRACTION_BITS)
    terms, reach = [], 0.0
    for addend in addends:
        factors = np.ldexp(addend.steps / step, bits)
        factors = np.broadcast_to(factors, (_channels(addend),))
        largest = 128 if addend.low is None else 128 * 257
        reach += largest * float(rounded_factors(factors).max())
        terms.append((addend, factors))
    if reach + 2**bits >= 2**31:
        return None
    parts = [part for addend, factors in terms for part in draft.whole(addend, factors)]
    return draft.planes(draft.gathered(parts), 1 << (bits - 1), bits, step, LARGEST)


def _channels(value: FineValue) -> int:
    return int(value.high.type.get_shape()[1])  # type: ignore[attr-defined]
