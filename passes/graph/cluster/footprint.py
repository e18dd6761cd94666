"""How many bytes a piece of some layers needs at most: the peak over the layers, in order.

Live are the windows that are read of the inputs, until their last reader, and every tensor of the
piece from the layer that makes it to the last that reads it; what is yielded stays. Halo is counted
as it is computed: the footprint of a piece is that of the piece, not a share of the whole's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.ir import Operation, SSAValue

from vtac.dialects.graph import ConstantOp
from vtac.dialects.graph.pieces import (
    Rectangle,
    bytes_in,
    pieces_of,
    units_of,
    whole,
)
from vtac.dialects.graph.split_rules import Demands, OpPiece, demands_of, piece_of
from vtac.passes.graph.cluster.layers import is_layer, is_void

SPLIT_DIMENSIONS = ("n", "h")
"""The dimensions along which instances are split, outermost first."""


@dataclass
class PieceCache:
    """`demands_of`, where each op is asked once for each rectangle."""

    known: dict[tuple[Operation, Rectangle], OpPiece | None] = field(default_factory=dict)

    def piece(self, op: Operation, asked: Rectangle) -> OpPiece | None:
        """As `piece_of`."""
        key = op, asked
        if key not in self.known:
            self.known[key] = piece_of(op, asked)
        return self.known[key]

    def demands(
        self, ops: Sequence[Operation], asked: Mapping[SSAValue, Rectangle]
    ) -> Demands | Operation:
        """As `demands_of`."""
        return demands_of(ops, asked, self.piece)


def asked_of(
    outputs: Sequence[SSAValue], factors: Mapping[str, int]
) -> list[dict[SSAValue, Rectangle]]:
    """For each piece what is asked of each output; empty if an output has not as many pieces."""
    if any(units_of(v, name) < f for v in outputs for name, f in factors.items()):
        return []
    per_output = [pieces_of(value, factors) for value in outputs]
    return [dict(zip(outputs, each, strict=True)) for each in zip(*per_output, strict=True)]


def peak_bytes(
    ops: Sequence[Operation], asked: Mapping[SSAValue, Rectangle], demands: Demands
) -> int:
    """The footprint of a piece of these ops, in order."""
    sizes: dict[SSAValue, int] = {}
    first: dict[SSAValue, int] = {}
    last: dict[SSAValue, int] = {}
    stands_for: dict[SSAValue, list[SSAValue]] = {}

    def use(value: SSAValue, step: int) -> None:
        for root in stands_for.get(value, [value]):
            if root not in sizes:
                sizes[root] = bytes_in(root, demands.values.get(root, whole(root)))
                first[root] = 0
            last[root] = max(last.get(root, 0), step)

    for step, op in enumerate(ops):
        if op not in demands.pieces:
            continue
        operands = [v for v in op.operands if not isinstance(v.owner, ConstantOp)]
        for value in operands:
            use(value, step)
        for result in op.results:
            if is_void(op):
                roots = [r for v in operands for r in stands_for.get(v, [v])]
                stands_for[result] = list(dict.fromkeys(roots))
            else:
                sizes[result] = bytes_in(result, demands.pieces[op].made)
                first[result] = last[result] = step
    for value in asked:
        use(value, len(ops))
    live = [0] * (len(ops) + 2)
    for value, size in sizes.items():
        live[first[value]] += size
        live[last[value] + 1] -= size
    peak = total = 0
    for change in live:
        total += change
        peak = max(peak, total)
    return peak


def largest_footprint(
    ops: Sequence[Operation],
    outputs: Sequence[SSAValue],
    factors: Mapping[str, int],
    cache: PieceCache,
) -> int | None:
    """The footprint of the largest piece; None if a piece cannot be computed."""
    pieces = asked_of(outputs, factors)
    if not pieces:
        return None
    found = []
    for asked in {id(p): p for p in (pieces[0], pieces[len(pieces) // 2], pieces[-1])}.values():
        demands = cache.demands(ops, asked)
        if isinstance(demands, Operation):
            return None
        found.append(peak_bytes(ops, asked, demands))
    return max(found)


def shrinking_layers(
    ops: Sequence[Operation],
    outputs: Sequence[SSAValue],
    factors: Mapping[str, int],
    cache: PieceCache,
) -> int:
    """The number of layers that compute fewer elements for the first piece than for the whole."""
    pieces = asked_of(outputs, factors)
    demands = cache.demands(ops, pieces[0]) if pieces else None
    if not isinstance(demands, Demands):
        return 0
    made = ((op, piece.made) for op, piece in demands.pieces.items() if is_layer(op))
    return sum(rectangle != whole(op.results[0]) for op, rectangle in made)


def possible_factors(outputs: Sequence[SSAValue], name: str, *, divides: bool) -> list[int]:
    """Factors of a dimension that make different largest pieces, in rising order.

    divides: only those that divide the dimension.
    """
    value = min(outputs, key=lambda v: units_of(v, name))
    units, found, largest = units_of(value, name), list[int](), 0
    for factor in range(1, units + 1):
        size = -(-units // factor)
        if (size != largest) if not divides else units % factor == 0:
            found.append(factor)
            largest = size
    return found
