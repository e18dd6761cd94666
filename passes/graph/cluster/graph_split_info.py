"""``graph-split-info``: how each layer, or each group, can be split into instances.

Takes functions for a cluster; leaves ``graph.splits`` on each layer of the function and each group:
one ``#graph.split`` for each dimension, n and then h, along which pieces can be made that fit the
global buffer (Zhao et al., "GraphTurbo", OSDI 2023, Algorithm 1). The factor is the least for which
the footprint of a piece, halo and a stage for weights included, is at most the room; ops is the
number of layers that then compute less. Layers no piece of which fits have none.

Options: ``room`` bytes, by default the global buffer; ``stage`` bytes of it for weights;
``mode=paper`` takes only factors that divide the dimension; ``rows=false`` splits n alone.

Verified afterwards: a factor is at most the number of pieces that there can be, and ops at least 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import VerifyException

from vtac.dialects.graph import SPLITS, GroupOp, SplitAttr
from vtac.dialects.graph.pieces import units_of
from vtac.passes.graph.cluster.footprint import (
    SPLIT_DIMENSIONS,
    PieceCache,
    largest_footprint,
    possible_factors,
    shrinking_layers,
)
from vtac.passes.graph.cluster.layers import is_layer, planned_functions
from vtac.passes.graph.cluster.modes import Mode, mode_named

WEIGHT_STAGE = 128 << 10
"""Bytes of the global buffer that are kept for weights on their way to the cores."""


@dataclass(frozen=True)
class GraphSplitInfoPass(ModulePass):
    """Say how layers and groups can be split."""

    name = "graph-split-info"

    room: int | None = None
    stage: int = WEIGHT_STAGE
    mode: str = "cost"
    rows: bool = True

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Look at every layer and group of functions for a cluster."""
        mode = mode_named(self.name, self.mode)
        for function, cluster in planned_functions(op):
            room = cluster.gb_bytes if self.room is None else self.room
            splits = Splits(room - self.stage, mode, self.rows)
            for each in function.body.block.ops:
                if isinstance(each, GroupOp):
                    ops = [o for o in each.body.block.ops if o is not each.body.block.last_op]
                    each.attributes[SPLITS] = ArrayAttr(splits.of(ops, each.yielded))
                elif is_layer(each):
                    each.attributes[SPLITS] = ArrayAttr(splits.of([each], each.results))
            verify_splits(function)


@dataclass
class Splits:
    """Finds the splits of groups of ops for so many bytes. rows: whether h is split, too."""

    room: int
    mode: Mode
    rows: bool = True

    def __post_init__(self) -> None:
        self.cache = PieceCache()

    def of(self, ops: Sequence[Operation], outputs: Sequence[SSAValue]) -> list[SplitAttr]:
        """One split for each dimension along which some pieces fit."""
        found = []
        for name in SPLIT_DIMENSIONS if self.rows else SPLIT_DIMENSIONS[:1]:
            factors = possible_factors(outputs, name, divides=self.mode is Mode.PAPER)
            least = self._least(ops, outputs, name, factors)
            if least is not None:
                tried = {name: max(least, factors[1] if len(factors) > 1 else 1)}
                count = shrinking_layers(ops, outputs, tried, self.cache)
                if count:
                    found.append(SplitAttr(name, least, count))
        return found

    def fits(self, ops: Sequence[Operation], outputs: Sequence[SSAValue], **factors: int) -> bool:
        """Whether the largest piece fits the room."""
        size = largest_footprint(ops, outputs, factors, self.cache)
        return size is not None and size <= self.room

    def _least(
        self,
        ops: Sequence[Operation],
        outputs: Sequence[SSAValue],
        name: str,
        factors: Sequence[int],
    ) -> int | None:
        """The least factor whose pieces fit: footprints fall as factors rise."""
        if not self.fits(ops, outputs, **{name: factors[-1]}):
            return None
        low, high = 0, len(factors) - 1
        while low < high:
            middle = (low + high) // 2
            if self.fits(ops, outputs, **{name: factors[middle]}):
                high = middle
            else:
                low = middle + 1
        return factors[low]


def best_split(splits: Sequence[SplitAttr]) -> SplitAttr | None:
    """Most layers, then the smallest factor, then the outermost dimension (Eq. 1)."""

    def rank(split: SplitAttr) -> tuple[int, int, int]:
        depth = SPLIT_DIMENSIONS.index(split.dimension.data)
        return split.ops.data, -split.factor.data, -depth

    return max(splits, key=rank, default=None)


def splits_of(op: Operation) -> list[SplitAttr] | None:
    """The recorded splits of a layer or a group; None if there are none recorded."""
    splits = op.attributes.get(SPLITS)
    return list(splits.data) if isinstance(splits, ArrayAttr) else None


def verify_splits(function: FuncOp) -> None:
    """Raise `VerifyException` unless recorded splits can be made and split something."""
    for op in function.body.block.ops:
        outputs = op.yielded if isinstance(op, GroupOp) else op.results
        for split in splits_of(op) or ():
            most = min(units_of(value, split.dimension.data) for value in outputs)
            if split.factor.data > most:
                raise VerifyException(f"{split} makes more than {most} pieces")
            if split.ops.data < 1:
                raise VerifyException(f"{split} splits nothing")
