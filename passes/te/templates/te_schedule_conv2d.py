"""``te-schedule-conv2d``: TVM's template for 2D convolutions on VTA, as a schedule.

The template is ``schedule_conv2d_packed`` of Apache TVM's VTA operators; tuned tiles for ResNet-18
are published with it, so it is what the default rule is measured against:

- tiles of rows, then of output channels, then of columns, outside; one buffer for accumulators,
  and the elementwise stages and their vectors in the innermost of these loops;
- a product in the order input channels, columns, kernel columns, kernel rows, output channels,
  rows; both operands are loaded for each tile of input channels, the padding by the DMA, so that it
  is multiplied like everything else;
- virtual threads split the output channels, or the rows. Nothing else overlaps loads with
  computing: no buffer has a second slot.

TVM deals tiles out to threads in turn; here each thread has a run of neighbouring tiles, so that
threads meet at the same loops.

Takes kernels of one product over two spatial axes, and otherwise elementwise stages in place; other
kernels are left to te-schedule. Leaves a `te.schedule` beside each. Options: `Tiles`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.builder import ImplicitBuilder
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Region, SSAValue
from xdsl.passes import ModulePass

from vtac.dialects.errors import CompileError
from vtac.dialects.target import TARGET_ATTRIBUTE, Target
from vtac.dialects.te import (
    AxesOp,
    CacheReadOp,
    ComputeAtOp,
    DmaOp,
    InitOp,
    InPlaceOp,
    KernelOp,
    PadOp,
    ReorderOp,
    ScheduleOp,
    Scope,
    SetScopeOp,
    SplitOp,
    StageType,
    TensorizeOp,
    VthreadOp,
    copying_intrinsics,
)
from vtac.passes.te.schedule.structure import (
    INIT,
    ScheduledStage,
    StageRole,
    Structure,
    structure_of,
)

AXES = 4
"""Of a result before its lanes: batch, channels, rows, columns."""


@dataclass(frozen=True)
class Tiles:
    """The parameters of the template.

    h, w, ci, co: rows, columns, blocks of input and of output channels of a tile.
    oc_threads, h_threads: virtual threads over output channels and over rows.
    """

    h: int
    w: int
    ci: int = 1
    co: int = 1
    oc_threads: int = 1
    h_threads: int = 1


@dataclass(frozen=True)
class TeScheduleConv2dPass(ModulePass):
    """Write TVM's template schedule for each convolution that has no schedule yet."""

    name = "te-schedule-conv2d"

    h: int
    w: int
    ci: int = 1
    co: int = 1
    oc_threads: int = 1
    h_threads: int = 1

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Schedule every kernel that the template fits."""
        target = op.attributes.get(TARGET_ATTRIBUTE)
        copying = copying_intrinsics(target) if isinstance(target, Target) else ()
        tiles = Tiles(self.h, self.w, self.ci, self.co, self.oc_threads, self.h_threads)
        scheduled = {s.kernel.root_reference.data for s in op.ops if isinstance(s, ScheduleOp)}
        for kernel in list(op.ops):
            if not isinstance(kernel, KernelOp) or kernel.is_lowered:
                continue
            structure = _structure(kernel)
            if structure is not None and kernel.sym_name.data not in scheduled:
                schedule = conv2d_schedule(kernel, structure, tiles, copying)
                op.body.block.insert_op_after(schedule, kernel)


def _structure(kernel: KernelOp) -> Structure | None:
    """What a kernel consists of, if the template fits."""
    try:
        structure = structure_of(kernel, "")
    except CompileError:
        return None
    return structure if misfit(structure) is None else None


def misfit(structure: Structure) -> str | None:
    """Why the template does not fit a kernel; None if it does."""
    products = structure.products
    others = [stage for stage in structure.stages if stage.role is not StageRole.PRODUCT]
    if len(structure.roots) != 1 or len(products) != 1:
        return "it has other than one product and one result"
    if len(structure.root.extents) != AXES or len(products[0].taps) != AXES - 1:
        return "its product is no convolution over rows and columns"
    if products[0].compute.init is not None and products[0].in_place != INIT:
        return "its sum starts from a tensor that is read elsewhere too"
    computed = [stage for stage in others if stage.role is not StageRole.STORE]
    if any(stage.in_place != 0 and not _starts(structure, stage) for stage in computed):
        return "an operation on its accumulators is not in place"
    return None


def _starts(structure: Structure, stage: ScheduledStage) -> bool:
    """Whether it copies a parameter to where the product's sum starts."""
    return stage.copies and stage.compute.result is structure.products[0].compute.init


def conv2d_schedule(
    kernel: KernelOp, structure: Structure, tiles: Tiles, copying: Sequence[str]
) -> ScheduleOp:
    """The template, filled in for a kernel. copying: the intrinsics that copy accumulators."""
    block = Block(arg_types=[StageType()] * len(structure.stages))
    for argument, stage in zip(block.args, structure.stages, strict=True):
        argument.name_hint = stage.compute.label.data
    with ImplicitBuilder(block):
        _Template(structure, tiles, copying, block.args).write()
    return ScheduleOp(kernel.sym_name.data, Region(block))


class _Template:
    """Writes the primitives of one schedule."""

    def __init__(
        self,
        structure: Structure,
        tiles: Tiles,
        copying: Sequence[str],
        handles: Sequence[SSAValue],
    ) -> None:
        self.structure, self.tiles, self.handles = structure, tiles, handles
        self.copying = copying

    def write(self) -> None:
        """Tiles, then stages from the result to the product, then instructions, then threads."""
        threads = self._tile_result()
        others = [stage for stage in self.structure.stages if stage is not self.structure.root]
        for stage in others:
            SetScopeOp(self._handle(stage), Scope.ACC)
        for stage in reversed(others):
            self._place(self._handle(stage))
        for stage in others:
            if stage.role is StageRole.PRODUCT:
                self._product(stage)
            else:
                self._elementwise(stage)
        DmaOp(self._handle(self.structure.root), self.inner)
        for thread in reversed(threads):
            VthreadOp(thread)

    def _handle(self, stage: ScheduledStage) -> SSAValue:
        return self.handles[stage.number]

    def _place(self, handle: SSAValue) -> None:
        if self.innermost is not None:
            ComputeAtOp(handle, self.innermost)

    def _tile_result(self) -> list[SSAValue]:
        """Loops over threads and tiles outside, those of one tile inside. Returns the threads."""
        root, tiles = self.structure.root, self.tiles
        n, c, h, w = AxesOp(self._handle(root), root.compute.spatial.names).axes[:AXES]
        _, channels, rows, columns = root.extents
        c_thread, c_tile, c_inner = _cut(c, channels, tiles.co, tiles.oc_threads)
        h_thread, h_tile, h_inner = _cut(h, rows, tiles.h, tiles.h_threads)
        _, w_tile, w_inner = _cut(w, columns, tiles.w, 1)
        threads = [loop for loop in (c_thread, h_thread) if loop is not None]
        loops = [*threads, *(loop for loop in (h_tile, c_tile, w_tile) if loop is not None)]
        ReorderOp(*loops, n, c_inner, h_inner, w_inner)
        self.innermost, self.inner = (loops[-1] if loops else None), n
        return threads

    def _product(self, stage: ScheduledStage) -> None:
        """The GEMM core's part: operands loaded for each tile of input channels."""
        handle, compute = self._handle(stage), stage.compute
        axes = AxesOp(handle, [*compute.spatial.names, *compute.reduce.names]).axes
        n, c, h, w = axes[:AXES]
        ci, kh, kw = axes[len(compute.spatial) :][: AXES - 1]
        _, outer, inner = _cut(ci, stage.taps[0], self.tiles.ci, 1)
        ReorderOp(*([] if outer is None else [outer]), n, inner, w, kw, kh, c, h)
        for operand, scope in ((stage.activations, Scope.INP), (stage.weights, Scope.WGT)):
            cache = CacheReadOp(handle, operand, scope).cache
            cache.name_hint = f"{compute.inputs[operand].name_hint or 'x'}_{scope.value}"
            if stage.reads[operand].outside is not None:
                PadOp(cache)
            if outer is not None:
                ComputeAtOp(cache, outer)
            else:
                self._place(cache)
        init = InitOp(handle).init
        if stage.in_place == INIT:
            InPlaceOp(init, 0)
        else:
            TensorizeOp(init, AxesOp(init, compute.spatial.names).axes[0], ["reset"])
        TensorizeOp(handle, n, ["gemm"])

    def _elementwise(self, stage: ScheduledStage) -> None:
        """An operation of the ALU, its vectors loaded beside it: in place, or a copy of one."""
        handle = self._handle(stage)
        if not stage.copies:
            InPlaceOp(handle, 0)
        for operand in self.structure.vectors(stage):
            cache = CacheReadOp(handle, operand, Scope.ACC).cache
            cache.name_hint = f"{stage.compute.inputs[operand].name_hint or 'v'}_acc"
            self._place(cache)
        axis = AxesOp(handle, stage.compute.spatial.names).axes[0]
        TensorizeOp(handle, axis, self.copying if stage.copies else [stage.intrinsic])


def _cut(
    axis: SSAValue, extent: int, tile: int, threads: int
) -> tuple[SSAValue | None, SSAValue | None, SSAValue]:
    """The loops over threads, over the tiles of one, and in a tile; None for those of one turn."""
    thread, loop = None, None
    share = -(-extent // (tile * threads)) * tile
    if threads > 1 and share < extent:
        thread, axis = _split(axis, share, "v")
        extent = share
    if tile < extent:
        loop, axis = _split(axis, tile, "o")
    return thread, loop, axis


def _split(axis: SSAValue, size: int, suffix: str) -> tuple[SSAValue, SSAValue]:
    name = axis.name_hint
    split = SplitOp(axis, factor=size)
    split.outer.name_hint, split.inner.name_hint = f"{name}{suffix}", name
    return split.outer, split.inner
