"""Pieces of ops: whatever rectangle is asked for, the piece computes exactly that."""

from random import Random

import numpy as np
import pytest
from integer_groups import IntegerFunction
from piece_functions import check_piece, entry, piece_function, random_rectangle
from random_groups import KINDS, TARGETS, RandomGroup
from xdsl.dialects.func import ReturnOp

from vtac.dialects import graph
from vtac.dialects.graph.pieces import even_ranges, pieces_of, volume, whole
from vtac.dialects.graph.split_rules import piece_of

SEEDS = range(12)


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", KINDS)
def test_pieces_of_groups(kind: str, target: str, fused: bool) -> None:
    """Random groups, cut along every set of dimensions."""
    cut = 0
    for seed in SEEDS:
        random = Random(f"{kind} {target} {fused} {seed}")
        group = RandomGroup(random, TARGETS[target])
        module = group.build(kind, fused)
        (last,) = (op for op in entry(module).body.block.ops if isinstance(op, ReturnOp))
        dimensions = random.choice([[0], [2, 1], [1], [0, 2], [0, 1, 2, 3]])
        rectangle = random_rectangle(random, last.arguments[0], dimensions)
        made = piece_function(group.function, module, rectangle)
        if made is None:
            assert kind == "batch_matmul", "only rows of several entries cannot be cut anywhere"
            continue
        cut += rectangle != whole(last.arguments[0])
        check_piece(group.function, made, rectangle)
    assert cut >= 1


@pytest.mark.parametrize("target", TARGETS)
def test_joined_and_cut(target: str) -> None:
    """Concatenations along each axis and slices, where every cut is at whole elements."""
    for seed in range(40):
        random = Random(f"{target} {seed}")
        f = IntegerFunction(TARGETS[target], seed)
        axis = random.randrange(4)
        units = (f.target.batch, f.target.block, 1, 1)
        shape = [2 * f.target.batch, 2 * f.target.block, random.randint(2, 7), random.randint(2, 7)]
        parts = []
        for _ in range(3):
            shape[axis] = units[axis] * random.randint(1, 3)
            parts.append(f.input(*shape))
        joined = f.concat(parts, axis)
        full = f.values[joined].shape
        starts = [u * random.randrange(-(-n // u)) for n, u in zip(full, units, strict=True)]
        value = f.slice(joined, starts, [n - s for n, s in zip(full, starts, strict=True)])
        module = f.finish(value)
        rectangle = random_rectangle(random, value, [0, 1, 2, 3])
        made = piece_function(f, module, rectangle)
        assert made is not None
        check_piece(f, made, rectangle)


def test_a_large_kernel_keeps_its_halo() -> None:
    """Rows of a strided, dilated convolution read what the formula of the module says."""
    f = IntegerFunction(TARGETS["1x16"])
    x = f.input(1, 16, 20, 6)
    numbers = {"strides": (2, 1), "dilations": (3, 1), "pads": (4, 0, 4, 0)}
    op = f.conv(x, 16, (3, 1), **numbers).owner
    piece = piece_of(op, ((0, 1), (0, 16), (3, 5), (0, 6)))
    assert piece is not None
    assert piece.operands[0] == ((0, 1), (0, 16), (2, 11), (0, 6))
    assert piece.properties["pads"] == graph.integers([0, 0, 0, 0])
    first = piece_of(op, ((0, 1), (0, 16), (0, 1), (0, 6)))
    assert first is not None
    assert first.operands[0] == ((0, 1), (0, 16), (0, 3), (0, 6))
    assert first.properties["pads"] == graph.integers([4, 0, 0, 0])


def test_what_cannot_be_cut() -> None:
    """Channels in the middle of a group, and of an element of the layout."""
    f = IntegerFunction(TARGETS["1x16"])
    x = f.input(1, 64, 4, 4)
    op = f.conv(x, 64, (1, 1), group=2).owner
    rows = ((0, 1), (0, 4), (0, 4))
    assert piece_of(op, (rows[0], (0, 16), *rows[1:])) is None
    assert piece_of(op, (rows[0], (0, 32), *rows[1:])) is not None
    small = f.conv(f.input(1, 16, 4, 4), 64, (1, 1), group=16).owner
    assert piece_of(small, (rows[0], (0, 16), *rows[1:])) is None  # reads channels 0 to 4


@pytest.mark.parametrize("extent", [1, 5, 16, 17, 56])
@pytest.mark.parametrize("unit", [1, 4])
def test_even_ranges(extent: int, unit: int) -> None:
    """They cover, differ by one unit at most, and cuts of a divisor are cuts of a factor."""
    for factor in range(1, 12):
        ranges = even_ranges(extent, factor, unit)
        assert [i for lo, hi in ranges for i in range(lo, hi)] == list(range(extent))
        sizes = [-(-(hi - lo) // unit) for lo, hi in ranges]
        assert max(sizes) - min(sizes) <= 1
        coarse = {lo for lo, _ in even_ranges(extent, factor, unit)}
        assert coarse <= {lo for lo, _ in even_ranges(extent, 2 * factor, unit)}


def test_pieces_cover() -> None:
    """Every factor of every dimension, odd extents, elements of several entries."""
    f = IntegerFunction(TARGETS["4x8"])
    x = f.input(9, 20, 7, 3)
    for n in (1, 2, 3):
        for h in (1, 3, 7):
            for c in (1, 2, 3):
                pieces = pieces_of(x, {"n": n, "h": h, "c": c})
                assert len(pieces) == n * h * c
                seen = np.zeros(f.values[x].shape, int)
                for piece in pieces:
                    seen[tuple(slice(lo, hi) for lo, hi in piece)] += 1
                assert seen.min() == seen.max() == 1
                assert sum(map(volume, pieces)) == seen.size
