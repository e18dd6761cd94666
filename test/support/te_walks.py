"""Random computes of any form, and walks over all primitives that know little of what is legal.

A kernel is a few small computes over two or three axes: elementwise with scalars of all kinds,
broadcasts, transposed and shifted reads, windows with strides and with values outside. A schedule
is a walk: each step draws a primitive and operands for it. Most walks are legal; the others must be
refused, whatever it is that makes them illegal.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random

from xdsl.dialects import arith
from xdsl.dialects.builtin import FunctionType, IntegerAttr, TensorType, i32
from xdsl.ir import Block, Operation, Region, SSAValue

from vtac.dialects import te

AXES = ("p", "q", "r")
BINARY = (arith.AddiOp, arith.SubiOp, arith.MuliOp, arith.MaxSIOp, arith.MinSIOp)


@dataclass(eq=False)
class WalkStage:
    """A compute, and its axis handles as the walk believes them to be.

    readers: by number. is_inlined: whether it may be substituted into them.
    """

    names: list[str]
    readers: set[int]
    parameters: list[int]
    is_reduction: bool
    is_inlined: bool
    handle: SSAValue | None = None
    axes: list[SSAValue] = field(default_factory=list)
    whole: set[SSAValue] = field(default_factory=set)


def random_computes(random: Random) -> te.KernelOp:
    """A kernel of a few computes, each of which is read or returned."""
    rank = random.choice((1, 2, 2, 3))
    block, values = Block(), list[SSAValue]()
    for number in range(random.randint(1, 2)):
        shape = [random.randint(1, 5) for _ in range(rank)]
        argument = block.insert_arg(TensorType(i32, shape), number)
        argument.name_hint = f"x{number}"
        values.append(argument)
    for number in range(random.randint(2, 4)):
        compute = _compute(random, f"s{number}", values, rank)
        block.add_op(compute)
        compute.result.name_hint = f"s{number}"
        values.append(compute.result)
    unread = [value for value in values if not value.uses and isinstance(value.owner, Operation)]
    block.add_op(te.YieldOp(*unread))
    type = FunctionType.from_lists(block.arg_types, [value.type for value in unread])
    return te.KernelOp("k", type, Region(block))


def stages_of(kernel: te.KernelOp) -> list[WalkStage]:
    """What a walk knows of the computes."""
    computes = list(kernel.computes)
    number = {compute.result: place for place, compute in enumerate(computes)}
    stages = [
        WalkStage(
            [*compute.spatial.names, *compute.reduce.names],
            set(),
            [place for place, read in enumerate(compute.reads) if read.value not in number],
            bool(compute.reduce.data),
            not compute.reduce.data,
        )
        for compute in computes
    ]
    for place, compute in enumerate(computes):
        for read in compute.reads:
            if read.value in number:
                stages[number[read.value]].readers.add(place)
                if read.outside is not None:
                    stages[number[read.value]].is_inlined = False
    return stages


def _compute(random: Random, label: str, values: list[SSAValue], rank: int) -> te.ComputeOp:
    source = random.choice(values[-2:])
    spatial = dict(zip(AXES, source.type.get_shape(), strict=False))
    if random.random() < 0.5:
        return _elementwise(random, label, values, source, spatial)
    taps = {"t": random.randint(1, 3)}
    stride, shift = random.choice((1, 1, 2)), random.randint(-2, 1)
    axis = random.randrange(rank)
    spatial[AXES[axis]] = random.randint(1, 5)
    rows = [te.Row.of([(dim, 1)]) for dim in range(rank)]
    rows[axis] = te.Row.of([(axis, stride), (rank, 1)], shift)
    if random.random() < 0.2:
        rows[axis] = te.Row.of([(axis, -1), (rank, 1)], spatial[AXES[axis]] - 1)
    combine, identity, outside = random.choice(
        (
            (arith.AddiOp, 0, 0),
            (arith.MaxSIOp, -9, -9),
            (arith.MinSIOp, 70, 55),
            (arith.AddiOp, 3, 4),
        )
    )
    factor = random.randint(-2, 3)

    def body(total: SSAValue, value: SSAValue) -> SSAValue:
        constant = arith.ConstantOp(IntegerAttr(factor, i32)).result
        return combine(arith.MuliOp(constant, value).result, total).result

    read = te.Read(source, tuple(rows), outside)
    return te.ComputeOp(
        label, spatial, taps, [read], te.scalar_body([i32, i32], body), i32, identity=identity
    )


def _elementwise(
    random: Random, label: str, values: list[SSAValue], source: SSAValue, spatial: dict[str, int]
) -> te.ComputeOp:
    rank = len(spatial)
    reads = [te.Read(source, te.rows_of(te.identity_map(rank)))]
    other = random.choice(values)
    if random.random() < 0.6:
        order = random.sample(range(rank), rank)
        rows = tuple(te.Row.of([(dim, 1)], random.choice((0, 0, 1))) for dim in order)
        reads.append(te.Read(other, rows, random.randint(-5, 5)))
    operations = random.choices(BINARY, k=2)

    def body(*arguments: SSAValue) -> SSAValue:
        result = arguments[0]
        for operation, argument in zip(operations, arguments[1:], strict=False):
            result = operation(result, argument).result
        constant = arith.ConstantOp(IntegerAttr(random.randint(-4, 4), i32)).result
        return operations[-1](result, constant).result

    types = [i32] * len(reads)
    return te.ComputeOp(label, spatial, {}, reads, te.scalar_body(types, body), i32)


class Walk:
    """Writes a `te.ScheduleOp` step by step; ``careless`` steps do not look at what is legal."""

    def __init__(self, stages: list[WalkStage], random: Random, careless: float) -> None:
        self.random, self.careless = random, careless
        self.block = Block(arg_types=[te.StageType()] * len(stages))
        self.stages = [
            replace(stage, handle=handle, axes=[], whole=set())
            for handle, stage in zip(self.block.args, stages, strict=True)
        ]
        self.placed: set[WalkStage] = set()
        for stage in self.stages:
            stage.axes = list(self.add(te.AxesOp(stage.handle, stage.names)).axes)
            stage.whole = set(stage.axes)

    def add(self, op: Operation) -> Operation:
        self.block.add_op(op)
        return op

    def is_careless(self) -> bool:
        return self.random.random() < self.careless

    def choose(self, legal: Callable[[WalkStage], bool]) -> WalkStage | None:
        """A stage for which a step is legal, or any."""
        found = [stage for stage in self.stages if self.is_careless() or legal(stage)]
        return self.random.choice(found) if found else None

    def schedule(self, steps: int) -> te.ScheduleOp:
        """That many steps; places and copies of loops come last."""
        weights = {
            self.inline: 1,
            self.cache_write: 1,
            self.split: 6,
            self.reorder: 4,
            self.tile: 1,
            self.fuse: 3,
            self.compute_at: 5,
            self.set_scope: 1,
            self.cache_read: 3,
            self.in_place: 1,
            self.copies: 1,
        }
        drawn = self.random.choices(list(weights), list(weights.values()), k=steps)
        if not self.is_careless():
            drawn.sort(key=list(weights).index)
        for step in drawn:
            step()
        return te.ScheduleOp("k", Region(self.block))

    def inline(self) -> None:
        if (stage := self.choose(lambda s: s.is_inlined and bool(s.readers))) is not None:
            self.add(te.InlineOp(stage.handle))
            self.forget(stage)

    def forget(self, stage: WalkStage) -> None:
        """The stage has no handle any more."""
        number = self.stages.index(stage)
        self.stages.remove(stage)
        for other in self.stages:
            readers = (stage.readers if number in other.readers else set()) | other.readers
            other.readers = {r - (r > number) for r in readers if r != number}
            other.parameters = [] if stage.parameters else other.parameters

    def cache_write(self) -> None:
        if (stage := self.choose(lambda s: not s.is_reduction)) is not None:
            self.add(te.CacheWriteOp(stage.handle, te.Scope.ACC, 1))
            stage.parameters = []

    def split(self) -> None:
        if (stage := self.choose(lambda s: True)) is None or not stage.axes:
            return
        places = [
            place
            for place, axis in enumerate(stage.axes)
            if axis in stage.whole or self.is_careless()
        ]
        if not places:
            return
        place = self.random.choice(places)
        sizes = [self.random.randint(1, 3) for _ in range(2)]
        parts = {"sizes": sizes} if self.is_careless() else {"factor": self.random.randint(1, 4)}
        split = self.add(te.SplitOp(stage.axes[place], **parts))
        stage.axes[place : place + 1] = [split.outer, split.inner]

    def reorder(self) -> None:
        """Any order if careless, else neighbours that are no halves of one loop."""
        stage = self.choose(lambda s: len(s.axes) > 1)
        if stage is None or len(stage.axes) < 2:
            return
        if self.is_careless():
            axes = self.random.sample(stage.axes, self.random.randint(2, len(stage.axes)))
            self.add(te.ReorderOp(*axes))
            stage.axes = [axis for axis in stage.axes if axis not in axes] + axes
            return
        place = self.random.randrange(len(stage.axes) - 1)
        outer, inner = stage.axes[place : place + 2]
        if outer.owner is not inner.owner or outer in stage.whole:
            self.add(te.ReorderOp(inner, outer))
            stage.axes[place : place + 2] = [inner, outer]

    def tile(self) -> None:
        stage = self.choose(lambda s: set(s.axes[:2]) <= s.whole)
        if stage is None or len(stage.axes) < 2:
            return
        pair = self.random.sample(stage.axes, 2) if self.is_careless() else stage.axes[:2]
        factors = [self.random.randint(1, 3), self.random.randint(1, 3)]
        tile = self.add(te.TileOp(*pair, factors))
        outer, inner = [tile.first_outer, tile.second_outer], [tile.first_inner, tile.second_inner]
        stage.axes = [*outer, *inner, *(axis for axis in stage.axes if axis not in pair)]

    def fuse(self) -> None:
        stage = self.choose(lambda s: not s.is_reduction)
        if stage is None:
            return
        for place in range(len(stage.axes) - 1):
            pair = stage.axes[place : place + 2]
            if self.is_careless() or set(pair) <= stage.whole:
                fused = self.add(te.FuseOp(*pair)).fused
                stage.axes[place : place + 2] = [fused]
                return

    def compute_at(self) -> None:
        """A stage at an outer loop of its only reader, whole dimensions of its own moved along."""
        stage = self.choose(
            lambda s: len(s.readers) == 1 and set(s.axes) <= s.whole and s not in self.placed
        )
        if stage is None:
            return
        readers = [self.stages[number] for number in stage.readers if number < len(self.stages)]
        root = self.random.choice(self.stages if self.is_careless() or not readers else readers)
        if root.axes and root is not stage:
            self.add(te.ComputeAtOp(stage.handle, self.random.choice(root.axes)))
            self.placed |= {stage, root}

    def set_scope(self) -> None:
        if (stage := self.choose(lambda s: bool(s.readers))) is not None:
            self.add(te.SetScopeOp(stage.handle, te.Scope.ACC, self.random.randint(1, 2)))

    def cache_read(self) -> None:
        stage = self.choose(lambda s: bool(s.parameters))
        if stage is None:
            return
        number = self.random.randrange(3) if self.is_careless() else (stage.parameters or [0])[0]
        cache = self.add(te.CacheReadOp(stage.handle, number, te.Scope.ACC, 1)).cache
        stage.parameters = [other for other in stage.parameters if other != number]
        if stage.axes and self.random.random() < 0.7:
            self.add(te.ComputeAtOp(cache, self.random.choice(stage.axes)))

    def in_place(self) -> None:
        stage = self.choose(lambda s: False)
        if stage is not None:
            self.add(te.InPlaceOp(stage.handle, self.random.randrange(2)))

    def copies(self) -> None:
        """Unroll the outermost loop of a result, or make threads of it; that is the last step."""
        stage = self.choose(lambda s: not s.readers and set(s.axes[:1]) <= s.whole)
        if stage is not None and stage.axes:
            self.add(self.random.choice([te.UnrollOp, te.VthreadOp])(stage.axes.pop(0)))
            if not self.is_careless():
                self.stages = []
