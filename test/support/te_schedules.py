"""Random legal schedules for the kernels of `te_kernels`: tiles, places, orders, all tensorized.

Every primitive that goes with instructions is drawn: splits by factors and by sizes, tile, fuse,
reorder, places, caches with and without pads, in_place, dma, unroll and vthread at the end.
"""

from random import Random

from te_kernels import Stage
from xdsl.ir import Block, Operation, Region, SSAValue

from vtac.dialects import te


class Scheduler:
    """Writes a `te.ScheduleOp`; all stages live in the tiles of the last one."""

    def __init__(self, stages: list[Stage], random: Random, *, pads: bool = False) -> None:
        self.stages, self.random, self.pads = stages, random, pads
        self.block = Block(arg_types=[te.StageType()] * len(stages))
        self.handles = {
            stage.label: handle for stage, handle in zip(stages, self.block.args, strict=True)
        }
        self.depth: dict[str, int] = {}
        self.shared: set[str] = set()
        self.known: set[SSAValue] = set()

    def add(self, op: Operation) -> Operation:
        self.block.add_op(op)
        return op

    def schedule(self, name: str = "k") -> te.ScheduleOp:
        root = self.stages[-1]
        chain = self.tiled(self.handles[root.label], root.axes, root.extents, lanes=2)
        if self.random.random() < 0.4:
            chain = self.fused(chain)
        copied = self.random.randint(1, len(chain) - 3)
        self.place(root, chain, copied - 1)
        steps = [self.share, lambda: self.store(chain[copied])]
        self.random.shuffle(steps)
        for step in steps:
            step()
        for stage in self.stages:
            if stage.kind != "result":
                self.compute(stage, chain, stage.label in self.shared)
        self.copied([axis for axis in chain[:copied] if axis in self.known])
        return te.ScheduleOp(name, Region(self.block))

    def axes(self, stage: SSAValue, names: list[str]) -> list[SSAValue]:
        return list(self.add(te.AxesOp(stage, names)).axes)

    def split(self, axis: SSAValue, extent: int) -> list[SSAValue]:
        """Outer and inner loop; of the outer one the range is known."""
        if extent > 1 and self.random.random() < 0.3:
            sizes = [self.random.randint(1, extent - 1)]
            sizes.append(extent - sizes[0])
            split = self.add(te.SplitOp(axis, sizes=sizes))
        else:
            split = self.add(te.SplitOp(axis, factor=self.random.randint(1, 4)))
        self.known.add(split.outer)
        return [split.outer, split.inner]

    def tiled(
        self, stage: SSAValue, names: list[str], extents: list[int], lanes: int
    ) -> list[SSAValue]:
        """Split some loops, put those that are no lanes in a random order; the lanes stay last."""
        axes = self.axes(stage, names)
        self.known.update(axes)
        rest = axes[-lanes:] if lanes else []
        free = list(zip(axes, extents, strict=True))[: len(axes) - lanes]
        pairs: list[list[SSAValue]] = []
        if len(free) > 1 and self.random.random() < 0.2:
            (first, _), (second, _) = free[-2:]
            factors = [self.random.randint(1, 3), self.random.randint(1, 3)]
            tile = self.add(te.TileOp(first, second, factors))
            self.known.update((tile.first_outer, tile.second_outer))
            pairs += [[tile.first_outer, tile.first_inner], [tile.second_outer, tile.second_inner]]
            free = free[:-2]
        for axis, extent in free:
            pairs.append(self.split(axis, extent) if self.random.random() < 0.5 else [axis])
        order: list[SSAValue] = []
        while pairs:
            pair = self.random.choice(pairs)
            order.append(pair.pop(0))
            pairs = [pair for pair in pairs if pair]
        self.add(te.ReorderOp(*order, *rest))
        return order + rest

    def fused(self, chain: list[SSAValue]) -> list[SSAValue]:
        """Two of the outermost loops as one, where their ranges are known."""
        for place in range(len(chain) - 4):
            pair = chain[place : place + 2]
            uneven = any(
                isinstance(axis.owner, te.SplitOp) and axis.owner.sizes is not None for axis in pair
            )
            if all(axis in self.known for axis in pair) and not uneven:
                fused = self.add(te.FuseOp(*pair)).fused
                self.known.add(fused)
                return [*chain[:place], fused, *chain[place + 2 :]]
        return chain

    def place(self, root: Stage, chain: list[SSAValue], deepest: int) -> None:
        """Compute every other stage in one of the root's outer loops, readers first."""
        self.depth[root.label] = deepest
        for stage in reversed(self.stages[:-1]):
            handle = self.handles[stage.label]
            if stage.kind == "result":
                self.add(te.ComputeWithOp(handle, chain[deepest]))
                self.depth[stage.label] = deepest
                continue
            self.add(te.SetScopeOp(handle, te.Scope.ACC, self.random.randint(1, 2)))
            place = min(self.depth[reader.label] for reader in stage.readers)
            planes = any(s.kind == "result" for s in self.stages[:-1])
            if self.random.random() < 0.3 and not planes:
                place = self.random.randint(0, place)
            self.depth[stage.label] = place
            self.add(te.ComputeAtOp(handle, chain[place]))

    def store(self, axis: SSAValue) -> None:
        """Make copies of the stages that return the kernel's results."""
        for stage in self.stages[:-1]:
            if stage.kind == "result":
                axes = self.axes(self.handles[stage.label], stage.axes)
                self.add(te.DmaOp(self.handles[stage.label], self.random.choice(axes[:-2])))
        self.add(te.DmaOp(self.handles[self.stages[-1].label], axis))

    def share(self) -> None:
        """Let stages work in place where their first operand is not read later."""
        for number, stage in enumerate(self.stages):
            source = stage.starts_from
            if stage.kind == "alu":
                source = stage.operands[0]
            if source is None or self.depth[source.label] != self.depth[stage.label]:
                continue
            later = [r for r in source.readers if self.stages.index(r) > number]
            if later or (stage.kind == "alu" and source in stage.operands[1:]):
                continue
            handle = self.handles[stage.label]
            if stage.kind != "alu":
                handle = self.add(te.InitOp(handle)).init
            elif self.random.random() < 0.2:
                continue
            self.add(te.InPlaceOp(handle, 0))
            self.shared.add(stage.label)

    def compute(self, stage: Stage, chain: list[SSAValue], shared: bool) -> None:
        handle = self.handles[stage.label]
        lanes = 3 if stage.kind == "contraction" else 0 if stage.kind == "window" else 2
        names = stage.axes
        if stage.kind == "alu":
            loops = self.tiled(handle, names, [1] * len(names), lanes)
        else:
            loops = self.reduction(handle, names)
        inner = self.random.randint(0, len(loops) - 1 - lanes)
        for number, operand in enumerate(stage.operands):
            if operand is None:
                self.cache(stage, number, chain[: self.depth[stage.label] + 1] + loops[:inner])
        at = loops[inner]
        if stage.kind == "alu":
            first = [] if shared else ["reset", "add"]
            self.add(te.TensorizeOp(handle, at, [*first, stage.alu]))
            return
        self.add(te.TensorizeOp(handle, at, ["gemm" if stage.kind == "contraction" else "max"]))
        if stage.starts_from is not None and shared:
            return
        init = self.add(te.InitOp(handle)).init
        loops = self.tiled(init, names[:6], [1] * 6, 2)
        by = ["reset"] if stage.kind == "contraction" else ["reset", "add_imm"]
        if stage.starts_from is not None:
            by = ["reset", "add"]
        self.add(te.TensorizeOp(init, self.random.choice(loops[:-2]), by))

    def cache(self, stage: Stage, number: int, places: list[SSAValue]) -> None:
        """Read a parameter through a scratchpad, loaded in one of the loops, perhaps with pads."""
        scope = te.Scope.ACC
        if stage.kind == "contraction":
            scope = te.Scope.INP if number == 0 else te.Scope.WGT
        slots = self.random.randint(1, 2)
        cache = self.add(te.CacheReadOp(self.handles[stage.label], number, scope, slots)).cache
        if self.pads and scope is te.Scope.INP and stage.is_padded and self.random.random() < 0.5:
            self.add(te.PadOp(cache))
        self.add(te.ComputeAtOp(cache, self.random.choice(places)))

    def reduction(self, handle: SSAValue, names: list[str]) -> list[SSAValue]:
        """Lanes last: put the loops b, o (and k) inside all others, then tile those."""
        axes = self.axes(handle, names)
        lanes = [axis for axis, name in zip(axes, names, strict=True) if name in "bok"]
        others = [axis for axis in axes if axis not in lanes]
        self.random.shuffle(others)
        split = self.random.choice(others)
        halves = self.add(te.SplitOp(split, factor=self.random.randint(1, 3)))
        where = others.index(split)
        order = [*others[:where], halves.outer, halves.inner, *others[where + 1 :]]
        self.add(te.ReorderOp(*order, *lanes))
        return order + (lanes if len(lanes) == 3 else [])

    def copied(self, loops: list[SSAValue]) -> None:
        """Unroll one of the loops in the end, or make threads of its iterations."""
        if loops and self.random.random() < 0.5:
            kind = self.random.choice([te.UnrollOp, te.VthreadOp])
            self.add(kind(self.random.choice(loops)))
