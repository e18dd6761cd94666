"""Constants in the accelerator's layout.

Weights [O, C, k...] lie as [O/BLOCK][C/BLOCK][k...][o][k], blocks output-major as the GEMM core
reads them; a vector with one entry a channel lies as [C/BLOCK][BATCH][BLOCK], repeated over the
batch lanes. Lanes beyond the channels hold zeros, so that spare lanes of activations never count.
"""

from collections.abc import Sequence

import numpy as np

from vtac.dialects.context import Array


def blocks(count: int, block: int) -> int:
    """How many blocks hold ``count`` channels."""
    return -(-count // block)


def pack_vector(vector: Array, batch: int, block: int) -> Array:
    """[C] as int32 [C/BLOCK][BATCH][BLOCK]."""
    count = blocks(len(vector), block)
    padded = np.zeros(count * block, np.int32)
    padded[: len(vector)] = vector
    return np.repeat(padded.reshape(count, 1, block), batch, axis=1)


def fill_block(vector: Array, block: int) -> Array:
    """[C] with the last entry repeated until the last block is full: spare lanes agree with it."""
    return np.pad(vector, (0, -len(vector) % block), mode="edge")


def least_of_blocks(vector: Array, block: int) -> Array:
    """For each channel of a vector [C], spare lanes included, the least entry of its block."""
    filled = fill_block(vector, block).reshape(-1, block)
    return np.repeat(filled.min(axis=1), block)


def pack_weights(weights: Array, block: int) -> Array:
    """int8 [O, C, k...] as [O/BLOCK][C/BLOCK][k...][o][k]."""
    out, channels, *kernel = weights.shape
    outs, ins = blocks(out, block), blocks(channels, block)
    padded = np.zeros((outs * block, ins * block, *kernel), np.int8)
    padded[:out, :channels] = weights
    split = padded.reshape(outs, block, ins, block, *kernel)
    return np.moveaxis(split, (1, 3), (-2, -1)).copy()


def pack_diagonal(weights: Array, block: int) -> Array:
    """int8 [O, C, k...], O and C in equal blocks, only their diagonal: [O/BLOCK][k...][o][k]."""
    packed = pack_weights(weights, block)
    index = np.arange(min(packed.shape[:2]))
    return packed[index, index]


def expand_groups(weights: Array, group: int) -> Array:
    """Weights [O, C/group, k...] as [O, C, k...], zero where groups do not meet."""
    out, inner, *kernel = weights.shape
    expanded = np.zeros((out, inner * group, *kernel), weights.dtype)
    for g in range(group):
        rows = slice(g * out // group, (g + 1) * out // group)
        expanded[rows, g * inner : (g + 1) * inner] = weights[rows]
    return expanded


def is_block_diagonal(out: int, channels: int, group: int, block: int) -> bool:
    """Whether each block of output channels reads only the input block of the same number."""
    if group == 1 or blocks(out, block) != blocks(channels, block):
        return False
    outputs = np.arange(out)
    first = outputs // (out // group) * (channels // group)
    last = first + channels // group - 1
    own = outputs // block
    return bool(np.all(first // block == own) and np.all(last // block == own))


def diagonal_powers(exponents: Sequence[int], block: int) -> Array:
    """2^exponent a channel, exponents 0 to 6, as diagonal blocks [C/BLOCK][o][k]."""
    return pack_diagonal(np.diag(1 << np.asarray(exponents)).astype(np.int8), block)


def band_of(weights: Array, block: int) -> tuple[int, int]:
    """Between which distances (input block less output block) all weights lie that are not 0.

    Blocks as they are packed. Dense weights have a band as wide as there are input blocks, or
    wider; selections of neighbouring channels have one of one or two blocks.
    """
    out, channels = weights.shape[:2]
    used = np.zeros((blocks(out, block) * block, blocks(channels, block) * block), bool)
    used[:out, :channels] = weights.reshape(out, channels, -1).any(axis=2)
    shape = blocks(out, block), block, blocks(channels, block), block
    rows, columns = np.nonzero(used.reshape(shape).any(axis=(1, 3)))
    if not rows.size:
        return 0, 0
    return int((columns - rows).min()), int((columns - rows).max())


def pack_band(weights: Array, block: int, band: tuple[int, int]) -> Array:
    """int8 [O, C, k...] as [O/BLOCK][distance][k...][o][k], for distances within a band."""
    packed = pack_weights(weights, block)
    outs, ins = packed.shape[:2]
    banded = np.zeros((outs, band[1] - band[0] + 1, *packed.shape[2:]), np.int8)
    for place in range(banded.shape[1]):
        rows = np.arange(outs)
        columns = rows + band[0] + place
        inside = (columns >= 0) & (columns < ins)
        banded[rows[inside], place] = packed[rows[inside], columns[inside]]
    return banded
