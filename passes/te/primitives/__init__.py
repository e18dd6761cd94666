"""The scheduling primitives: what each operation of `te.ScheduleOp` does to a loop nest."""

from collections.abc import Callable, Mapping
from typing import Any

from vtac.dialects import te

from . import buffers, inline, joining, loops, placement, tensorize, threads, transfers
from .nest import Nest, NestStage, RefusedPrimitive

RULES: Mapping[type[te.Primitive], Callable[[Nest, Any], None]] = {
    te.AxesOp: loops.axes,
    te.InitOp: loops.init,
    te.SplitOp: loops.split,
    te.TileOp: loops.tile,
    te.FuseOp: loops.fuse,
    te.ReorderOp: loops.reorder,
    te.JoinOp: joining.join,
    te.CacheReadOp: buffers.cache_read,
    te.CacheWriteOp: buffers.cache_write,
    te.SetScopeOp: buffers.set_scope,
    te.InPlaceOp: buffers.in_place,
    te.DmaOp: transfers.dma,
    te.PadOp: transfers.pad,
    te.ComputeAtOp: placement.compute_at,
    te.ComputeWithOp: placement.compute_with,
    te.InlineOp: inline.inline,
    te.VthreadOp: threads.vthread,
    te.UnrollOp: threads.unroll,
    te.TensorizeOp: tensorize.tensorize,
}
"""The rewrite behind each primitive."""

__all__ = ["RULES", "Nest", "NestStage", "RefusedPrimitive"]
