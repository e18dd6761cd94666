"""``graph-place-tensors``: each tensor gets a place in the global buffer, or DDR.

Takes functions for a cluster in their final order; leaves ``graph.places`` on every op that makes
tensors, except constants and windows. A tensor is live from the first step that writes it to the
last one that reads it. Tensors are placed by falling size, each at the first offset that is free
for its life. Where they do not all fit, the one with the longest life goes to DDR, of equal ones
the largest (Zhao et al., "GraphTurbo", OSDI 2023, section 4.3). Arguments and results of the
function lie in DDR, and everything if there is no global buffer.

Options: ``buffer=false`` places everything in DDR, ``buffer=true`` what fits in the global buffer.
Without it, a cluster of one core uses DDR: nobody shares it, and a STORE to the global buffer takes
longer, since it ends when its last request is written. ``keep=N`` leaves the last N bytes of the
global buffer free.

Verified afterwards: places lie in the global buffer, and tensors that are live in the same step do
not overlap.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import VerifyException

from vtac.dialects.graph import PLACES, ConstantOp, PlaceAttr, TensorWindowOp, YieldOp
from vtac.dialects.graph.plan_attributes import PLACE_ALIGNMENT
from vtac.dialects.target import ClusterTarget
from vtac.passes.graph.cluster.buffers import FunctionBuffers, TensorBuffer
from vtac.passes.graph.cluster.layers import ops_in_order, planned_functions


@dataclass(frozen=True)
class GraphPlaceTensorsPass(ModulePass):
    """Place tensors in the global buffer of a cluster, and in DDR what does not fit.

    buffer: whether the global buffer is used; None: if there are several cores. keep: bytes of it
    that stay free.
    """

    name = "graph-place-tensors"

    buffer: bool | None = None
    keep: int = 0

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Place the tensors of every function for a cluster."""
        for function, cluster in planned_functions(op):
            buffers = FunctionBuffers.of(function)
            is_used = cluster.cores > 1 if self.buffer is None else self.buffer
            room = max(cluster.gb_bytes - self.keep, 0) if is_used else 0
            inside = [b for b in buffers.by_root.values() if not b.outside]
            offsets = place(inside, room)
            _record(function, buffers, offsets)
            verify_places(function, cluster)


def place(buffers: Sequence[TensorBuffer], room: int) -> dict[SSAValue, int]:
    """Offsets of tensors in so many bytes; those that are missing go to DDR."""
    kept = [b for b in buffers if _aligned(b.size) <= room]
    kept = within_peak(kept, room)
    while True:
        offsets, misfit = _first_fit(kept, room)
        if misfit is None:
            return offsets
        rivals = [b for b in kept if b.first <= misfit.last and misfit.first <= b.last]
        kept.remove(max(rivals, key=_spill_order))


def _spill_order(buffer: TensorBuffer) -> tuple[int, int]:
    return buffer.life, buffer.size


def within_peak(buffers: list[TensorBuffer], room: int) -> list[TensorBuffer]:
    """What remains when in each step so much is spilled that the rest fits."""
    if not buffers:
        return []
    live = np.zeros(max(b.last for b in buffers) + 3, np.int64)
    kept = list(buffers)
    for b in kept:
        live[b.first + 1 : b.last + 2] += _aligned(b.size)
    while live.max() > room:
        step = int(live.argmax()) - 1
        spilled = max((b for b in kept if b.first <= step <= b.last), key=_spill_order)
        kept.remove(spilled)
        live[spilled.first + 1 : spilled.last + 2] -= _aligned(spilled.size)
    return kept


def _first_fit(
    buffers: Sequence[TensorBuffer], room: int
) -> tuple[dict[SSAValue, int], TensorBuffer | None]:
    """Offsets by falling size, and the first tensor that found none."""
    order = sorted(buffers, key=lambda b: (-b.size, b.first))
    first, last = (np.array([getattr(b, n) for b in order], np.int64) for n in ("first", "last"))
    start = np.full(len(order), -1, np.int64)
    sizes = np.array([_aligned(b.size) for b in order], np.int64)
    for number, buffer in enumerate(order):
        rivals = (first[:number] <= buffer.last) & (last[:number] >= buffer.first)
        chosen = np.flatnonzero(rivals)
        chosen = chosen[np.argsort(start[chosen], kind="stable")]
        at = 0
        for rival in chosen:
            if start[rival] - at >= sizes[number]:
                break
            at = max(at, int(start[rival] + sizes[rival]))
        if at + sizes[number] > room:
            return {}, buffer
        start[number] = at
    return {b.tensor: int(at) for b, at in zip(order, start, strict=True)}, None


def _aligned(size: int) -> int:
    return -(-size // PLACE_ALIGNMENT) * PLACE_ALIGNMENT


def has_places(op: Operation) -> bool:
    """Whether an op makes tensors that have places of their own."""
    skipped = isinstance(op, ConstantOp | TensorWindowOp | YieldOp)
    return not skipped and bool(op.results)


def _record(function: FuncOp, buffers: FunctionBuffers, offsets: dict[SSAValue, int]) -> None:
    for op in ops_in_order(function):
        if has_places(op):
            places = []
            for value in op.results:
                start = offsets.get(buffers.root(value))
                inside = None if start is None else start + buffers.offset(value)
                places.append(PlaceAttr("ddr") if inside is None else PlaceAttr("gb", inside))
            op.attributes[PLACES] = ArrayAttr(places)


def places_of(op: Operation) -> list[PlaceAttr]:
    """The places of the results of an op."""
    places = op.attributes.get(PLACES)
    if not isinstance(places, ArrayAttr) or len(places) != len(op.results):
        raise VerifyException(f"{op.name} has no {PLACES} for its {len(op.results)} results")
    return list(places.data)


def verify_places(function: FuncOp, cluster: ClusterTarget) -> None:
    """Raise `VerifyException` unless tensors lie in the global buffer, apart while they live."""
    buffers = FunctionBuffers.of(function)
    held: list[tuple[int, int, TensorBuffer]] = []
    for op in ops_in_order(function):
        if not has_places(op):
            continue
        for value, where in zip(op.results, places_of(op), strict=True):
            buffer = buffers.buffer(value)
            if where.offset is None:
                continue
            if buffer.outside:
                raise VerifyException(f"{value} is an argument or a result and must lie in ddr")
            start = where.offset - buffers.offset(value)
            if start < 0 or start % PLACE_ALIGNMENT or start + buffer.size > cluster.gb_bytes:
                raise VerifyException(f"{where} is no place for {buffer.size} bytes")
            if buffers.root(value) is value:
                held.append((start, start + buffer.size, buffer))
    held.sort(key=lambda entry: entry[0])
    for number, (_, end, buffer) in enumerate(held):
        for start, _, other in held[number + 1 :]:
            if start >= end:
                break
            if buffer.first <= other.last and other.first <= buffer.last:
                raise VerifyException(
                    f"{buffer.tensor} and {other.tensor} live in steps {other.first} to"
                    f" {buffer.last} at the same offsets"
                )
