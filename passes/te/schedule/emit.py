"""Writes a tiling down as a `te.schedule`."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from xdsl.builder import ImplicitBuilder
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, StringAttr, i64
from xdsl.ir import Block, Region, SSAValue

from vtac.dialects.te import (
    AxesOp,
    CacheReadOp,
    ComputeAtOp,
    ComputeWithOp,
    DmaOp,
    InitOp,
    InPlaceOp,
    JoinOp,
    KernelOp,
    ReorderOp,
    ScheduleOp,
    Scope,
    SetScopeOp,
    SplitOp,
    StageType,
    TensorizeOp,
)
from vtac.passes.te.schedule.describe import CHOICE, ESTIMATE, described
from vtac.passes.te.schedule.footprint import axes_of_operand
from vtac.passes.te.schedule.structure import INIT, ScheduledStage, StageRole, Structure
from vtac.passes.te.schedule.tiling import Tiling, even


def schedule_of(
    kernel: KernelOp, structure: Structure, tiling: Tiling, cycles: int, copying: Sequence[str]
) -> ScheduleOp:
    """The schedule that a tiling describes.

    cycles: its estimate. copying: the intrinsics that copy accumulators.
    """
    block = Block(arg_types=[StageType()] * len(structure.stages))
    for argument, stage in zip(block.args, structure.stages, strict=True):
        argument.name_hint = stage.compute.label.data
    with ImplicitBuilder(block):
        _Writer(structure, tiling, copying, block.args).write()
    schedule = ScheduleOp(kernel.sym_name.data, Region(block))
    schedule.attributes[ESTIMATE] = IntegerAttr(cycles, i64)
    schedule.attributes[CHOICE] = ArrayAttr(map(StringAttr, described(structure, tiling)))
    return schedule


@dataclass(frozen=True)
class _Cache:
    """A cached operand: its handle, and whose operand it is."""

    handle: SSAValue
    stage: ScheduledStage
    operand: int


@dataclass
class _Writer:
    structure: Structure
    tiling: Tiling
    copying: Sequence[str]
    handles: Sequence[SSAValue]
    outer: dict[int, SSAValue] = field(default_factory=dict)
    inner: list[SSAValue] = field(default_factory=list)
    caches: list[_Cache] = field(default_factory=list)
    reductions: dict[int, dict[int, SSAValue]] = field(default_factory=dict)
    pieces: list[SSAValue] = field(default_factory=list)

    @cached_property
    def epilogue(self) -> Sequence[ScheduledStage]:
        """The stages that are computed and stored piece by piece."""
        return self.structure.epilogue if self.tiling.piece is not None else ()

    def write(self) -> None:
        """The primitives, in an order in which each finds what it needs."""
        self._tile_root()
        for stage in self.structure.stages:
            self._cache_operands(stage)
        self._place_stages()
        for stage in self.structure.stages:
            if stage.in_place == INIT:
                InPlaceOp(InitOp(self._handle(stage)).init, 0)
            elif stage.in_place is not None:
                InPlaceOp(self._handle(stage), stage.in_place)
        compute_axes = {
            stage.number: self._compute_axis(stage)
            for stage in self.structure.stages
            if stage.role is not StageRole.STORE
        }
        for cache in self.caches:
            self._place_cache(cache)
        if self.epilogue:
            self.inner[0] = self._cut_piece(self.inner)
            JoinOp(*self.pieces)
        for stage in self.structure.stages:
            if stage.role is StageRole.STORE:
                DmaOp(self._handle(stage), self._store_axis(stage))
            else:
                self._tensorize(stage, compute_axes[stage.number])

    def _handle(self, stage: ScheduledStage) -> SSAValue:
        return self.handles[stage.number]

    def _slots(self, place: SSAValue | None, slots: int) -> int:
        return slots if place is not None else 1

    @property
    def _tile_loop(self) -> SSAValue | None:
        """The innermost tile loop, if there is one."""
        loops = [self.outer[axis] for axis in self.tiling.order if axis in self.outer]
        return loops[-1] if loops else None

    def _tile_root(self) -> None:
        """Tile loops of the root outside, the loops of one tile inside."""
        root = self.structure.root
        axes = AxesOp(self._handle(root), root.compute.spatial.names).axes
        for number, sizes in enumerate(self.tiling.tiles):
            if len(sizes) == 1:
                self.inner.append(axes[number])
                continue
            split = _split(axes[number], sizes)
            self.outer[number] = split.outer
            self.inner.append(split.inner)
        loops = [self.outer[axis] for axis in self.tiling.order if axis in self.outer]
        if loops:
            ReorderOp(*loops, *self.inner)

    def _cache_operands(self, stage: ScheduledStage) -> None:
        """Read what comes from main memory through a scratchpad; where, is decided later."""
        inp, wgt, acc = self.tiling.slots
        operands = [(number, Scope.ACC, acc) for number in self.structure.vectors(stage)]
        if stage.role is StageRole.PRODUCT:
            operands = [(stage.activations, Scope.INP, inp), (stage.weights, Scope.WGT, wgt)]
        for operand, scope, slots in operands:
            place = self._tile_loop_of(stage, operand)
            moves = place is not None or self._around(stage, operand)
            cache = CacheReadOp(self._handle(stage), operand, scope, slots if moves else 1).cache
            name = stage.compute.inputs[operand].name_hint or "x"
            cache.name_hint = f"{name}_{scope.value}"
            self.caches.append(_Cache(cache, stage, operand))

    def _place_stages(self) -> None:
        """Every stage in the innermost tile loop, readers before what they read."""
        place, slots = self._tile_loop, self.tiling.slots[2]
        root = self.structure.root
        for stage in self.structure.stages:
            if stage.role is not StageRole.STORE:
                SetScopeOp(self._handle(stage), Scope.ACC, slots if place is not None else 1)
        if place is None:
            return
        for stage in reversed(self.structure.stages):
            if stage.role is not StageRole.STORE:
                ComputeAtOp(self._handle(stage), place)
            elif stage is not root:
                ComputeWithOp(self._handle(stage), place)

    def _compute_axis(self, stage: ScheduledStage) -> SSAValue:
        """The outermost loop of the stage's instruction; loops over reduction tiles outside it."""
        compute = stage.compute
        names = [*compute.spatial.names, *compute.reduce.names]
        axes = AxesOp(self._handle(stage), names).axes
        spatial, taps = axes[: len(stage.extents)], axes[len(compute.spatial) :]
        taps = taps[: len(stage.taps)]
        if stage.role is not StageRole.PRODUCT:
            if taps:
                ReorderOp(*taps, *spatial)
            elif stage in self.epilogue:
                return self._cut_piece(list(spatial))
            return [*taps, *spatial][0]
        outer: dict[int, SSAValue] = {}
        inner: list[SSAValue] = []
        reduction = self.tiling.products[stage.number]
        for number, (axis, sizes) in enumerate(zip(taps, reduction.cuts, strict=True)):
            if len(sizes) == 1:
                inner.append(axis)
                continue
            split = _split(axis, sizes)
            outer[number] = split.outer
            inner.append(split.inner)
        outer = {number: outer[number] for number in reduction.loops}
        self.reductions[stage.number] = outer
        if outer or inner:
            ReorderOp(*outer.values(), *inner, *spatial)
        return [*inner, *spatial][0]

    def _cut_piece(self, axes: list[SSAValue]) -> SSAValue:
        """Cut an axis of a stage of the epilogue into pieces; returns the first loop in a piece."""
        assert self.tiling.piece is not None
        place, size = self.tiling.piece
        split = SplitOp(axes[place], factor=size)
        split.outer.name_hint = split.inner.name_hint = axes[place].name_hint
        axes[place] = split.inner
        ReorderOp(split.outer, *axes)
        self.pieces.append(split.outer)
        return axes[0]

    def _place_cache(self, cache: _Cache) -> None:
        """In the innermost loop that moves its window; outside of all loops if none does."""
        place = self._tile_loop_of(cache.stage, cache.operand)
        around = self._around(cache.stage, cache.operand)
        if around:
            place = list(self.reductions[cache.stage.number].values())[around - 1]
        if place is not None:
            ComputeAtOp(cache.handle, place)

    def _tile_loop_of(self, stage: ScheduledStage, operand: int) -> SSAValue | None:
        """The innermost tile loop of the root that moves an operand's window; None for one that is
        loaded before all loops.
        """
        if (stage.number, operand) in self.tiling.kept:
            return None
        own = self.structure.root_axes[stage.number]
        axes = axes_of_operand(stage, operand, own)
        moving = [axis for axis in self.tiling.order if axis in axes and axis in self.outer]
        return self.outer[moving[-1]] if moving else None

    def _around(self, stage: ScheduledStage, operand: int) -> int:
        """How many reduction loops are around an operand's load."""
        tiling = self.tiling.products.get(stage.number)
        return 0 if tiling is None else tiling.around(stage, operand)

    def _store_axis(self, stage: ScheduledStage) -> SSAValue:
        """The outermost loop that one store covers."""
        if stage is self.structure.root:
            return self.inner[0]
        return AxesOp(self._handle(stage), stage.compute.spatial.names).axes[0]

    def _tensorize(self, stage: ScheduledStage, axis: SSAValue) -> None:
        """Instructions for a stage, and for what its reduction starts from."""
        handle, names = self._handle(stage), stage.compute.spatial.names
        if stage.role is StageRole.ELEMENTWISE:
            before = [] if stage.in_place is not None else ["reset", "add"]
            TensorizeOp(handle, axis, self.copying if stage.copies else [*before, stage.intrinsic])
            return
        if stage.in_place != INIT:
            init = InitOp(handle).init
            start = ["reset"] if _starts_from_zero(stage) else ["reset", "add_imm"]
            TensorizeOp(init, AxesOp(init, names).axes[0], start)
        TensorizeOp(handle, axis, ["gemm" if stage.role is StageRole.PRODUCT else stage.intrinsic])


def _split(axis: SSAValue, sizes: Sequence[int]) -> SplitOp:
    if tuple(sizes) == even(sum(sizes), sizes[0]):
        split = SplitOp(axis, factor=sizes[0])
    else:
        split = SplitOp(axis, sizes=sizes)
    split.outer.name_hint, split.inner.name_hint = f"{axis.name_hint}o", f"{axis.name_hint}i"
    return split


def _starts_from_zero(stage: ScheduledStage) -> bool:
    identity = stage.compute.identity
    return identity is not None and identity.value.data == 0
