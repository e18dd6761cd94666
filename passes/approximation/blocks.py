"""Which channels share a block, so that the layers of a class need one shift per block.

Each channel has in each layer a *natural* shift, which uses all bits of its weights, and a block
takes one shift for all its channels. A channel that gives up b bits has 4^b times the noise of
rounded weights. The channels of a block should therefore have nearly equal natural shifts in every
layer at once: a clustering in as many dimensions as there are layers, with clusters of one size.

One value of a class may have channels that are enlarged by powers of two (``equalisation``). A
factor that is 2^a smaller makes the shift of the layer that computes the value a bits larger, and
that of the layer that reads it a bits smaller, at the price of a rounding that is 2^a coarser. That
is a further freedom, which channels in otherwise unequal blocks use.

The search swaps channels between blocks while that lowers the noise (Lloyd's iteration with
clusters of fixed size), from several sorted orders.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vtac.passes.approximation.integers import Array

LARGEST_LOSS = 12
"""Bits of its weights that a channel may give up at most."""

IMPOSSIBLE = 1e30
"""The noise of a channel in a block whose shift is larger than its natural one."""

MOST_SWAPPED = 1536
"""Layers of more channels are sorted only: every pair of channels is a swap to look at."""

_ROUNDS, _SWEEPS = 12, 60


@dataclass(frozen=True)
class BlockLayer:
    """A layer of a class. shift: the natural shifts [C]. weights, rest: the noise of rounded
    weights at these shifts, and all other noise, [C], each in one unit for all layers.
    """

    shift: Array
    weights: Array
    rest: Array

    def at(self, shift: Array) -> Array:
        """The noise of each channel that loses weights' bits down to these shifts [..., C]."""
        loss = self.shift - shift
        noise = self.weights * 4.0 ** np.clip(loss, 0, LARGEST_LOSS) + self.rest
        return np.where(loss < 0, IMPOSSIBLE, noise)


@dataclass(frozen=True)
class Enlarged:
    """A value whose channels are enlarged. made, read: the places of the layers that compute and
    read it. exponents: of the factors, [C]. rounding: the noise of rounding the value, [C].
    """

    made: int
    read: int
    exponents: Array
    rounding: Array


@dataclass(frozen=True)
class Blocks:
    """The result. numbers: the block of each channel, [C]. reduced: by how many powers of two each
    channel of the enlarged value is enlarged less, [C]. shifts: of each layer, [layers, C].
    """

    numbers: Array
    reduced: Array
    shifts: Array


def choose_blocks(
    layers: Sequence[BlockLayer], enlarged: Enlarged | None, block: int, *, sorts: bool
) -> Blocks:
    """The blocks with the least noise that the search finds.

    block: channels of a block; the last one may have fewer. sorts: whether channels may change
    their block. Without that, blocks are runs of neighbours.
    """
    natural = np.stack([layer.shift for layer in layers])
    tables = _Tables(layers, enlarged)
    count = natural.shape[1]
    runs = np.arange(count) // block
    if not sorts or count <= block:
        return tables.finished(runs, tables.best(runs))
    keys = [natural.sum(axis=0), *natural]
    found = [tables.improved(runs)]
    for number in range(len(keys)):
        order = np.lexsort([*keys[::-1], keys[number]])
        numbers = np.empty(count, np.int64)
        numbers[order] = runs
        found.append(tables.improved(numbers))
    numbers, vectors, _ = min(found, key=lambda each: each[2])
    return tables.finished(numbers, vectors)


class _Tables:
    """The noise of each channel for every shift that a block may have.

    The shifts of the layers around an enlarged value are chosen together, those of other layers one
    by one: each such *choice* has a list of candidates, tuples of shifts, and a table [C,
    candidates].
    """

    def __init__(self, layers: Sequence[BlockLayer], enlarged: Enlarged | None):
        self.layers, self.enlarged = layers, enlarged
        self.choices: list[tuple[tuple[int, ...], Array]] = []
        self.tables: list[Array] = []
        together = () if enlarged is None else (enlarged.made, enlarged.read)
        if enlarged is not None:
            self._add_pair(enlarged)
        for place, layer in enumerate(layers):
            if place not in together:
                candidates = np.unique(layer.shift)
                self.choices.append(((place,), candidates[:, None]))
                self.tables.append(layer.at(candidates[:, None]).T)

    def _add_pair(self, enlarged: Enlarged) -> None:
        made, read = self.layers[enlarged.made], self.layers[enlarged.read]
        most = int(enlarged.exponents.max(initial=0))
        first = np.arange(made.shift.min(), made.shift.max() + most + 1)
        second = np.arange(max(read.shift.min() - most, 0), read.shift.max() + 1)
        candidates = np.stack(np.meshgrid(first, second, indexing="ij"), axis=-1).reshape(-1, 2)
        table = np.full((len(candidates), len(made.shift)), IMPOSSIBLE)
        self._reduced = np.zeros(table.shape, np.int64)
        for less in range(most + 1):
            noise = (
                made.at(candidates[:, :1] - less)
                + read.at(candidates[:, 1:] + less)
                + enlarged.rounding * (4.0**less - 1)
            )
            noise[:, (enlarged.exponents < less) | (read.shift < less)] = IMPOSSIBLE
            better = noise < table
            table = np.where(better, noise, table)
            self._reduced[better] = less
        self.choices.append(((enlarged.made, enlarged.read), candidates))
        self.tables.append(table.T)

    def best(self, numbers: Array) -> list[Array]:
        """For each choice the candidate of each block with the least noise, [blocks]."""
        blocks = int(numbers.max()) + 1
        found = []
        for table in self.tables:
            total = np.zeros((blocks, table.shape[1]))
            np.add.at(total, numbers, table)
            found.append(total.argmin(axis=1))
        return found

    def costs(self, vectors: Sequence[Array]) -> Array:
        """The noise of each channel in each block, [C, blocks]."""
        return np.asarray(sum(t[:, v] for t, v in zip(self.tables, vectors, strict=True)))

    def improved(self, numbers: Array) -> tuple[Array, list[Array], float]:
        """Blocks after swaps, the candidates that they take, and their noise."""
        channels = np.arange(len(numbers))
        vectors = self.best(numbers)
        noise = float(self.costs(vectors)[channels, numbers].sum())
        for _ in range(_ROUNDS if len(numbers) <= MOST_SWAPPED else 0):
            after = _swapped(self.costs(vectors), numbers)
            chosen = self.best(after)
            less = float(self.costs(chosen)[channels, after].sum())
            if less >= noise * (1 - 1e-9):
                break
            numbers, vectors, noise = after, chosen, less
        return numbers, vectors, noise

    def finished(self, numbers: Array, vectors: Sequence[Array]) -> Blocks:
        """The shifts and factors that blocks take."""
        shifts = np.zeros((len(self.layers), len(numbers)), np.int64)
        reduced = np.zeros(len(numbers), np.int64)
        for (places, candidates), chosen in zip(self.choices, vectors, strict=True):
            for column, place in enumerate(places):
                shifts[place] = candidates[chosen[numbers], column]
            if len(places) > 1:
                reduced = self._reduced[chosen[numbers], np.arange(len(numbers))]
        return Blocks(numbers, reduced, shifts)


def _swapped(costs: Array, numbers: Array) -> Array:
    """Blocks after swaps of two channels each, while a swap lowers the costs [C, blocks]."""
    numbers, channels = numbers.copy(), np.arange(len(numbers))
    for _ in range(_SWEEPS):
        own = costs[channels, numbers]
        gain, partner = _best_partners(costs - own[:, None], numbers)
        used = np.zeros(len(numbers), bool)
        for i in np.argsort(gain, kind="stable"):
            j = partner[i]
            if gain[i] >= -1e-12 * abs(own[i] + own[j]):
                break
            if not used[i] and not used[j]:
                numbers[i], numbers[j] = numbers[j], numbers[i]
                used[i] = used[j] = True
        if not used.any():
            break
    return numbers


def _best_partners(change: Array, numbers: Array) -> tuple[Array, Array]:
    """For each channel the least change of costs by a swap with another, and that channel, [C].

    change: of the cost of each channel, if it were in each block, [C, blocks]. Of equal partners
    the first counts. The best partner within each block is found for all channels of a block at
    once, so that no pairs of channels are compared.
    """
    order = np.argsort(numbers, kind="stable")
    starts = np.flatnonzero(np.diff(numbers[order], prepend=-1))
    least = np.minimum.reduceat(change[order], starts)  # [block of the partner, own block]
    found = np.where(change == least[numbers], np.arange(len(numbers))[:, None], len(numbers))
    first = np.minimum.reduceat(found[order], starts)
    total = change + least.T[numbers]
    gain = total.min(axis=1)
    partners = np.where(total == gain[:, None], first.T[numbers], len(numbers))
    return gain, partners.min(axis=1)
