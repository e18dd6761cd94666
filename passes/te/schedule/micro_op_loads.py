"""How often micro-ops are loaded: once, or anew whenever the buffer cannot hold further kernels.

As `vta-plan-microops` does it. A product's micro-ops name the buffers of its operands, so each
combination of slots has a kernel of its own.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

from vtac.passes.te.schedule.tile_steps import Action, Kinds, LoadAction, ProductAction, TileSteps

Phases: TypeAlias = tuple[int, ...]
"""The slot in use of each operand of a product, and last the context of the tile."""

Variant: TypeAlias = tuple[int, ...]
"""A kernel of micro-ops: its number, and the slots that it names."""


class MicroOpLoads(NamedTuple):
    """What loading micro-ops takes: how many loads, words of all, and words of the first."""

    loads: int
    words: int
    first: int


class MicroOpCounter:
    """Counts the micro-ops of one tiling."""

    def __init__(self, steps: TileSteps, entries: int):
        self.steps, self.entries = steps, entries
        self._counts: dict[Variant, int] = {}
        self._after: dict[object, tuple[Phases, frozenset[Variant]]] = {}
        self._in_tile: dict[object, tuple[Phases, list[Variant]]] = {}

    def count(self) -> MicroOpLoads:
        """The loads of micro-ops of the whole program."""
        start: Phases = (*[-1 for _ in self.steps.operands], 0)
        _, variants = self._variants(0, (), (), -1, start)
        total = sum(self._counts[variant] for variant in variants)
        if total <= self.entries:
            return MicroOpLoads(1, total, total)
        return self._stretches(start)

    def _variants(
        self, level: int, kinds: Kinds, tile: tuple[object, ...], changed: int, phases: Phases
    ) -> tuple[Phases, frozenset[Variant]]:
        """The slots after the loops from a level on, and the kernels that were used."""
        key = level, kinds, changed, phases
        found = self._after.get(key)
        if found is not None:
            return found
        if level == len(self.steps.loops):
            after, used = self._tile(kinds, tile, changed, phases)
            found = after, frozenset(used)
        else:
            after, variants = phases, set[Variant]()
            for kind, part in self.steps.kinds[level]:
                after, more = self._variants(
                    level + 1, (*kinds, kind), (*tile, part), changed, after
                )
                variants |= more
                changed = level
            found = after, frozenset(variants)
        self._after[key] = found
        return found

    def _tile(
        self, kinds: Kinds, tile: tuple[object, ...], changed: int, phases: Phases
    ) -> tuple[Phases, list[Variant]]:
        key = kinds, changed, phases
        found = self._in_tile.get(key)
        if found is None:
            actions, _ = self.steps.actions(kinds, tile, changed)  # type: ignore[arg-type]
            found = self._in_tile[key] = self._use(actions, phases)
        return found

    def _use(self, actions: Sequence[Action], phases: Phases) -> tuple[Phases, list[Variant]]:
        *places, context = phases
        operands, used = self.steps.operands, dict[Variant, None]()
        for action in actions:
            if isinstance(action, LoadAction):
                at = action.operand
                places[at] = (places[at] + 1) % operands[at].slots
            elif isinstance(action, ProductAction):
                inp, wgt, reduction = action.activations, action.weights, action.reduction
                slots = operands[inp].slots, operands[wgt].slots
                first = places[inp], places[wgt]
                for use in reduction.uses(*slots):
                    at_inp = (first[0] + use.activations) % slots[0]
                    at_wgt = (first[1] + use.weights) % slots[1]
                    variant = use.kernel, context, at_inp, at_wgt
                    used[variant] = None
                    self._counts[variant] = use.micro_ops
                for place, count, turns in zip((inp, wgt), slots, reduction.fills, strict=True):
                    places[place] = (places[place] + turns) % count
        return (*places, (context + 1) % self.steps.contexts), list(used)

    def _stretches(self, phases: Phases) -> MicroOpLoads:
        """The loads where not all kernels fit the buffer: tile by tile."""
        loads, words, first, room = 1, 0, 0, self.entries
        held = set[Variant]()
        for kinds, tile, changed in self._tiles():
            phases, used = self._tile(kinds, tile, changed, phases)
            for variant in used:
                count = self._counts[variant]
                if variant in held:
                    continue
                if count > room and held:
                    held.clear()
                    loads, room = loads + 1, self.entries
                held.add(variant)
                room -= count
                words += count
                first += count if loads == 1 else 0
        return MicroOpLoads(loads, words, first)

    def _tiles(self) -> Iterator[tuple[Kinds, tuple[object, ...], int]]:
        """All tiles in their order, and the outermost loop that has gone on."""

        def visit(
            level: int, kinds: Kinds, tile: tuple[object, ...], changed: int
        ) -> Iterator[tuple[Kinds, tuple[object, ...], int]]:
            if level == len(self.steps.loops):
                yield kinds, tile, changed
                return
            for kind, part in self.steps.kinds[level]:
                yield from visit(level + 1, (*kinds, kind), (*tile, part), changed)
                changed = level

        return visit(0, (), (), -1)
