"""Random legal schedules for the kernels of `te_kernels`: tiles, places, orders, all tensorized."""

from random import Random

from te_kernels import Stage
from xdsl.ir import Block, Operation, Region, SSAValue

from vtac.dialects import te


class Scheduler:
    """Writes a `te.ScheduleOp`; all stages live in the tiles of the last one."""

    def __init__(self, stages: list[Stage], random: Random) -> None:
        self.stages, self.random = stages, random
        self.block = Block(arg_types=[te.StageType()] * len(stages))
        self.handles = {
            stage.label: handle for stage, handle in zip(stages, self.block.args, strict=True)
        }
        self.depth: dict[str, int] = {}
        self.shared: set[str] = set()

    def add(self, op: Operation) -> Operation:
        self.block.add_op(op)
        return op

    def schedule(self) -> te.ScheduleOp:
        root = self.stages[-1]
        chain = self.tiled(self.handles[root.label], root.axes, lanes=2)
        copied = self.random.randint(1, len(chain) - 3)
        self.place(root, chain, copied - 1)
        steps = [self.share, lambda: self.store(chain[copied])]
        self.random.shuffle(steps)
        for step in steps:
            step()
        for stage in self.stages:
            if stage.kind != "result":
                self.compute(stage, chain, stage.label in self.shared)
        return te.ScheduleOp("k", Region(self.block))

    def axes(self, stage: SSAValue, names: list[str]) -> list[SSAValue]:
        return list(self.add(te.AxesOp(stage, names)).axes)

    def tiled(self, stage: SSAValue, names: list[str], lanes: int) -> list[SSAValue]:
        """Split some loops, put those that are no lanes in a random order; the lanes stay last."""
        axes = self.axes(stage, names)
        rest = axes[-lanes:] if lanes else []
        pairs: list[list[SSAValue]] = []
        for axis in axes[: len(axes) - lanes]:
            if self.random.random() < 0.5:
                split = self.add(te.SplitOp(axis, factor=self.random.randint(1, 4)))
                pairs.append([split.outer, split.inner])
            else:
                pairs.append([axis])
        order: list[SSAValue] = []
        while pairs:
            pair = self.random.choice(pairs)
            order.append(pair.pop(0))
            pairs = [pair for pair in pairs if pair]
        self.add(te.ReorderOp(*order, *rest))
        return order + rest

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
            loops = self.tiled(handle, names, lanes)
        else:
            loops = self.reduction(handle, names)
        inner = self.random.randint(0, len(loops) - 1 - lanes)
        for number, operand in enumerate(stage.operands):
            if operand is None:
                scope = te.Scope.ACC
                if stage.kind == "contraction":
                    scope = te.Scope.INP if number == 0 else te.Scope.WGT
                cache = self.add(te.CacheReadOp(handle, number, scope, 2)).cache
                places = chain[: self.depth[stage.label] + 1] + loops[:inner]
                self.add(te.ComputeAtOp(cache, self.random.choice(places)))
        at = loops[inner]
        if stage.kind == "alu":
            first = [] if shared else ["reset", "add"]
            self.add(te.TensorizeOp(handle, at, [*first, stage.alu]))
            return
        self.add(te.TensorizeOp(handle, at, ["gemm" if stage.kind == "contraction" else "max"]))
        if stage.starts_from is not None and shared:
            return
        init = self.add(te.InitOp(handle)).init
        loops = self.tiled(init, names[:6], 2)
        by = ["reset"] if stage.kind == "contraction" else ["reset", "add_imm"]
        if stage.starts_from is not None:
            by = ["reset", "add"]
        self.add(te.TensorizeOp(init, self.random.choice(loops[:-2]), by))

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
