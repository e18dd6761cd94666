"""The layout of a packed buffer in DRAM: boxes of a tensor, one after the other.

A packed buffer has the shape and the subscripts of its tensor, but another order of elements: it is
a list of boxes, each in row-major order. A copy from it moves one box and so reads one contiguous
run. oneDNN and TVM have such blocked layouts of weights; here the boxes are those that the loads of
a schedule visit, in that order.

The list is represented by regions and successive cuts, as nests of loops visit them, so that a
thousand boxes take one line of text: ``cut (0 by 2, 1 by 1)`` is the tensor in slices of 2 along
dimension 0, each of which is cut into slices of 1 along dimension 1.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.dialects.builtin import MemRefLayoutAttr, MemRefType
from xdsl.ir import Attribute, Data, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import DiagnosticException, VerifyException

Box: TypeAlias = tuple[tuple[int, int], ...]
"""Start and length in each dimension."""


@dataclass(frozen=True, slots=True)
class SliceCut:
    """Cuts a box along one dimension into slices of one size, or of the sizes in a list."""

    dim: int
    by: int | tuple[int, ...]

    @staticmethod
    def of(dim: int, sizes: Sequence[int]) -> "SliceCut":
        """The cut that makes slices of these sizes."""
        step = sizes[0]
        if all(size == step for size in sizes[:-1]) and sizes[-1] <= step:
            return SliceCut(dim, step)
        return SliceCut(dim, tuple(sizes))

    def slices(self, box: Box) -> Iterator[Box]:
        """The slices of a box, in order. Raises `VerifyException` if sizes do not fit it."""
        if self.dim >= len(box):
            raise VerifyException(f"a cut along dimension {self.dim} of {len(box)}")
        start, length = box[self.dim]
        by = self.by
        if isinstance(by, int):
            by = tuple(min(by, length - done) for done in range(0, length, by))
        if sum(by) != length:
            raise VerifyException(f"slices of {list(by)} do not fill the {length} of a dimension")
        for size in by:
            yield (*box[: self.dim], (start, size), *box[self.dim + 1 :])
            start += size


@dataclass(frozen=True, slots=True)
class Region:
    """A box of the tensor, or the whole tensor (None), to which the cuts are applied in turn."""

    box: Box
    cuts: tuple[SliceCut, ...] = ()

    def pieces(self, shape: Sequence[int]) -> list[Box]:
        """The boxes into which it is cut, in order."""
        pieces = [self.box or tuple((0, size) for size in shape)]
        for cut in self.cuts:
            pieces = [piece for box in pieces for piece in cut.slices(box)]
        return pieces


@irdl_attr_definition
class PackedAttr(MemRefLayoutAttr, Data[tuple[Region, ...]]):
    """``#te.packed<cut (0 by 2, 1 by 1)>``: the order in which the boxes of a buffer lie in DRAM.

    Several regions, ``#te.packed<[0 : 1, 0 : 4], [1 : 3, 0 : 4] cut (1 by 2)>``, follow each other.
    The bytes are those of a one-dimensional array of `size` elements.
    """

    name = "te.packed"

    @staticmethod
    def of(boxes: Sequence[Box], shape: Sequence[int]) -> "PackedAttr":
        """The layout that holds these boxes of a tensor in this order."""
        whole = tuple((0, size) for size in shape)
        regions = _fold(boxes)
        return PackedAttr(tuple(Region(() if r.box == whole else r.box, r.cuts) for r in regions))

    def boxes(self, shape: Sequence[int]) -> list[Box]:
        """All boxes, in the order in which they lie in DRAM.

        Raises `VerifyException` if they are not boxes of a tensor of this shape.
        """
        boxes = [box for region in self.data for box in region.pieces(shape)]
        for box in boxes:
            if len(box) != len(shape):
                raise VerifyException(f"a box of {len(box)} dimensions in a tensor of {len(shape)}")
            for (start, length), size in zip(box, shape, strict=True):
                if not 0 <= start < start + length <= size:
                    raise VerifyException(
                        f"range {start} : {length} of a box leaves the dimension of {size}"
                    )
        return boxes

    def offsets(self, shape: Sequence[int]) -> dict[Box, int]:
        """Where each box begins, in elements of the tensor."""
        boxes = self.boxes(shape)
        return dict(zip(boxes, itertools.accumulate(map(volume, boxes), initial=0), strict=False))

    def size(self, shape: Sequence[int]) -> int:
        """The number of elements that are stored."""
        return sum(map(volume, self.boxes(shape)))

    def get_affine_map(self) -> AffineMap:
        """Always raises: slices may be uneven, so no affine map describes the layout.

        A pass that asks for the map does not support packed buffers.
        """
        raise DiagnosticException("the elements of a packed buffer lie at no affine offsets")

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[Region, ...]:
        """Parse ``<[0 : 1, 0 : 4], [1 : 3, 0 : 4] cut (1 by 2)>``."""
        return tuple(
            parser.parse_comma_separated_list(parser.Delimiter.ANGLE, lambda: _parse_region(parser))
        )

    def print_parameter(self, printer: Printer) -> None:
        """Print what `parse_parameter` reads."""
        with printer.in_angle_brackets():
            printer.print_string(", ".join(map(_text, self.data)))

    def verify(self) -> None:
        """Check that there is at least one region, and that every slice has at least size 1."""
        sizes = (
            size
            for region in self.data
            for cut in region.cuts
            for size in ((cut.by,) if isinstance(cut.by, int) else cut.by)
        )
        if not self.data or min(sizes, default=1) < 1:
            raise VerifyException(
                "a packed layout has at least one region, a slice at least size 1"
            )


def volume(box: Box) -> int:
    """Elements in a box."""
    return math.prod(length for _, length in box)


def packing_of(where: SSAValue | Attribute) -> PackedAttr | None:
    """The layout of a packed buffer (or memref type); None if it is not packed."""
    type = where.type if isinstance(where, SSAValue) else where
    layout = type.layout if isinstance(type, MemRefType) else None
    return layout if isinstance(layout, PackedAttr) else None


def _parse_region(parser: AttrParser) -> Region:
    def extent() -> tuple[int, int]:
        start = parser.parse_integer(allow_boolean=False, allow_negative=False)
        parser.parse_punctuation(":")
        return start, parser.parse_integer(allow_boolean=False, allow_negative=False)

    def size() -> int:
        return parser.parse_integer(allow_boolean=False, allow_negative=False)

    def cut() -> SliceCut:
        dim = size()
        parser.parse_keyword("by")
        sizes = parser.parse_optional_comma_separated_list(parser.Delimiter.SQUARE, size)
        return SliceCut(dim, size() if sizes is None else tuple(sizes))

    box = parser.parse_optional_comma_separated_list(parser.Delimiter.SQUARE, extent)
    cuts: list[SliceCut] = []
    if parser.parse_optional_keyword("cut"):
        cuts = parser.parse_comma_separated_list(parser.Delimiter.PAREN, cut)
    elif box is None:
        parser.raise_error("expected a box or cuts")
    return Region(tuple(box or ()), tuple(cuts))


def _text(region: Region) -> str:
    parts = []
    if region.box:
        parts.append("[" + ", ".join(f"{start} : {length}" for start, length in region.box) + "]")
    if region.cuts:
        cuts = (f"{cut.dim} by {_sizes(cut)}" for cut in region.cuts)
        parts.append(f"cut ({', '.join(cuts)})")
    return " ".join(parts) or "[]"


def _sizes(cut: SliceCut) -> str:
    return str(cut.by if isinstance(cut.by, int) else list(cut.by))


def _fold(boxes: Sequence[Box]) -> list[Region]:
    """The boxes as few regions; their cuts are found from the outermost one inwards."""
    if len(boxes) == 1:
        return [Region(boxes[0])]
    hull = _hull(boxes)
    for dim in range(len(hull)):
        slices = _slices(boxes, dim, hull)
        if slices is None:
            continue
        parts = [_fold(slice) for slice in slices]
        if all(len(part) == 1 and part[0].cuts == parts[0][0].cuts for part in parts):
            cut = SliceCut.of(dim, [_hull(slice)[dim][1] for slice in slices])
            return [Region(hull, (cut, *parts[0][0].cuts))]
        return [region for part in parts for region in part]
    return [Region(box) for box in boxes]


def _slices(boxes: Sequence[Box], dim: int, hull: Box) -> list[Sequence[Box]] | None:
    """Group the boxes into as many runs as possible whose hulls are slices of ``hull``, in order.

    None if there are not at least two such runs.
    """
    ends = list(itertools.accumulate((sum(box[dim]) for box in boxes), max))
    starts = list(itertools.accumulate((box[dim][0] for box in reversed(boxes)), min))[::-1]
    borders = [i for i in range(1, len(boxes)) if ends[i - 1] == starts[i]]
    if not borders:
        return None
    runs = [boxes[i:j] for i, j in itertools.pairwise([0, *borders, len(boxes)])]
    for run in runs:
        part = _hull(run)
        if part[:dim] != hull[:dim] or part[dim + 1 :] != hull[dim + 1 :]:
            return None
    return runs


def _hull(boxes: Sequence[Box]) -> Box:
    """The smallest box that contains these."""
    ranges = []
    for parts in zip(*boxes, strict=True):
        start = min(parts)[0]
        ranges.append((start, max(map(sum, parts)) - start))
    return tuple(ranges)
