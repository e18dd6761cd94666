"""The layout of a tensor at the border of an accelerator function: where each element lies.

The *logical* tensor, as its user sees it, has any shape. The *physical* tensor, as the machine
loads it, consists of blocks of lanes, with zeros in spare lanes. Passes that change the type of a
parameter or a result of a function (``te-split-phases``, ``te-byte-planes``, ``te-pack-lanes``)
record the change in its layout, and callers convert arrays with `Layout.pack` and `Layout.unpack`.

A layout is a list of axes and, for each logical dimension, an affine subscript over them, just as
computes read tensors. Each physical dimension consists of one or several axes:
``#te.layout<"x"[5, 20] at [n, 16 * c + k] over (n = 5), (c = 2), (b = 1), (k = 16)>``.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from xdsl.ir import Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from .affine import Row, parse_subscripts, print_subscripts

LAYOUT_ATTRIBUTE = "te.layout"
"""Attribute of a parameter or a result of a function: the `LayoutAttr` of its logical tensor."""

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]
else:  # NumPy takes longer to import than most passes over te run
    Array = Any


@dataclass(frozen=True)
class Dimension:
    """A physical dimension: axes (name, extent), of which the last one changes fastest.

    size: the length of the dimension; elements beyond the product of the extents are zeros.
    """

    axes: tuple[tuple[str, int], ...]
    size: int

    @property
    def extents(self) -> tuple[int, ...]:
        """Extents of the axes."""
        return tuple(extent for _, extent in self.axes)


@dataclass(frozen=True)
class Layout:
    """Where the elements of a logical tensor lie.

    name, shape: those of the logical tensor. rows: for each logical dimension, the subscript over
    all axes. dimensions: those of the physical tensor. zeros: subscripts over the axes; where one
    of them is not 0, the physical element is 0 (this is how blocks hold a diagonal only). byte: if
    the physical tensor is one of four byte planes of an int32 tensor, which one, the lowest being
    0.

    An axis that is in no subscript repeats the tensor. Physical elements whose subscripts lie
    outside the logical shape are 0.
    """

    name: str
    shape: tuple[int, ...]
    rows: tuple[Row, ...]
    dimensions: tuple[Dimension, ...]
    zeros: tuple[Row, ...] = ()
    byte: int | None = None

    @staticmethod
    def plain(name: str, shape: Sequence[int]) -> "Layout":
        """The layout of a tensor whose physical form is the logical one."""
        dimensions = tuple(Dimension(((f"d{d}", n),), n) for d, n in enumerate(shape))
        rows = tuple(Row.of([(d, 1)]) for d in range(len(shape)))
        return Layout(name, tuple(shape), rows, dimensions)

    @property
    def physical(self) -> tuple[int, ...]:
        """Shape of the physical tensor."""
        return tuple(dimension.size for dimension in self.dimensions)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all axes, in the order in which the subscripts count them."""
        return tuple(name for dimension in self.dimensions for name, _ in dimension.axes)

    @property
    def extents(self) -> tuple[int, ...]:
        """Extents of all axes."""
        return tuple(extent for dimension in self.dimensions for extent in dimension.extents)

    def within(
        self,
        dimensions: Sequence[Dimension],
        rows: Sequence[Row],
        zeros: Sequence[Row] = (),
        byte: int | None = None,
    ) -> "Layout":
        """The composition of this layout with a layout of its physical tensor.

        Each physical dimension of this layout has one axis; ``rows`` has its subscript over the
        axes of the new ``dimensions``.
        """
        if any(len(dimension.axes) != 1 for dimension in self.dimensions):
            raise ValueError("the lanes of a layout are put together last")
        return Layout(
            self.name,
            self.shape,
            tuple(row.substituted(rows) for row in self.rows),
            tuple(dimensions),
            (*(row.substituted(rows) for row in self.zeros), *zeros),
            self.byte if byte is None else byte,
        )

    def pack(self, array: Array) -> Array:
        """The array as it lies in memory. Raises `ValueError` on a shape that is not logical."""
        import numpy as np

        if array.shape != self.shape:
            raise ValueError(f"{self.name} is {list(self.shape)}, not {list(array.shape)}")
        found = self._split(array)
        if found is None:
            index, known = self._index
            found = np.where(known, array[index], array.dtype.type(0))
        merged = [math.prod(dimension.extents) for dimension in self.dimensions]
        pads = [(0, d.size - used) for d, used in zip(self.dimensions, merged, strict=True)]
        return np.pad(np.broadcast_to(found, self.extents).reshape(merged), pads)

    def _split(self, array: Array) -> Array | None:
        """The array over all axes, where each of its dimensions is split into axes of its own.

        None if subscripts overlap, as those of windows, or if conditions define zeros; `_index`
        handles these cases, which takes an index for each element.
        """
        import numpy as np

        axes: list[int] = []
        split: list[int] = []
        pads: list[tuple[int, int]] = []
        for row, size in zip(self.rows, array.shape, strict=True):
            step = 1
            digits = sorted(row.terms, key=lambda term: term[1])
            for axis, coefficient in digits:
                if coefficient != step:
                    return None
                step *= self.extents[axis]
            if row.constant or step < size:
                return None
            axes += [axis for axis, _ in reversed(digits)]
            split += [self.extents[axis] for axis, _ in reversed(digits)]
            pads.append((0, step - size))
        if self.zeros or len(set(axes)) < len(axes):
            return None
        filled = np.pad(array, pads) if any(after for _, after in pads) else array
        found = filled.reshape(split).transpose(np.argsort(axes).tolist())
        others = [axis for axis in range(len(self.extents)) if axis not in axes]
        return np.asarray(np.expand_dims(found, others))

    def unpack(self, array: Array, into: Array) -> None:
        """Copy the elements of a physical array to their places in a logical array."""
        import numpy as np

        used = tuple(slice(math.prod(dimension.extents)) for dimension in self.dimensions)
        index, known = self._index
        found = array[used].reshape(self.extents)
        places = tuple(np.broadcast_to(at, self.extents)[known] for at in index)
        into[places] = found[known] if places else found[known][0]

    @cached_property
    def _index(self) -> tuple[tuple[Array, ...], Array]:
        """For all values of the axes, the logical index, clipped to the shape, and its validity."""
        import numpy as np

        axes = np.ogrid[tuple(slice(extent) for extent in self.extents)]
        known: Array = np.ones(self.extents, bool)
        index = []
        for row, size in zip(self.rows, self.shape, strict=True):
            at = _value(row, axes)
            known &= (at >= 0) & (at < size)
            index.append(np.clip(at, 0, size - 1))
        for row in self.zeros:
            known &= _value(row, axes) == 0
        return tuple(index), known


def _value(row: Row, axes: Sequence[Array]) -> Array:
    """The value of a subscript for all values of the axes."""
    import numpy as np

    return np.asarray(row.constant + sum(c * axes[v] for v, c in row.terms))


@irdl_attr_definition
class LayoutAttr(Data[Layout]):
    """``#te.layout<"w"[9, 9] at [c] over (c = 1), (o = 9) in 16, (k = 9) in 16 where [o - k]>``.

    The axes of a dimension stand in one pair of parentheses; ``in`` gives the length of a dimension
    that they do not fill. ``<"w"[9, 9]>`` is a plain layout. See `Layout` for the meaning.
    """

    name = "te.layout"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Layout:
        """Parse what `print_parameter` prints."""
        with parser.in_angle_brackets():
            byte = None
            if parser.parse_optional_keyword("byte"):
                byte = parser.parse_integer(allow_boolean=False, allow_negative=False)
                parser.parse_keyword("of")
            name = parser.parse_str_literal()
            shape = parser.parse_comma_separated_list(
                parser.Delimiter.SQUARE,
                lambda: parser.parse_integer(allow_boolean=False, allow_negative=False),
            )
            if not parser.parse_optional_keyword("at"):
                return replace(Layout.plain(name, shape), byte=byte)
            # In the text, subscripts stand before the axes, so they are first parsed by name.
            names: list[str] = []

            def variable() -> int | None:
                found = parser.parse_optional_identifier()
                if found is None:
                    return None
                if found not in names:
                    names.append(found)
                return names.index(found)

            rows = parse_subscripts(parser, variable)
            parser.parse_keyword("over")
            dimensions = _parse_dimensions(parser)
            zeros: tuple[Row, ...] = ()
            if parser.parse_optional_keyword("where"):
                zeros = parse_subscripts(parser, variable)
            axes = [name for dimension in dimensions for name, _ in dimension.axes]
            for unknown in set(names) - set(axes):
                parser.raise_error(f"there is no axis {unknown}")
            order = [axes.index(name) for name in names]
            return Layout(
                name,
                tuple(shape),
                tuple(row.renamed(order.__getitem__) for row in rows),
                dimensions,
                tuple(row.renamed(order.__getitem__) for row in zeros),
                byte,
            )

    def print_parameter(self, printer: Printer) -> None:
        """Print the logical tensor, its subscripts, the axes, and conditions."""
        layout, names = self.data, self.data.names

        def print_name(variable: int) -> None:
            printer.print_string(names[variable])

        with printer.in_angle_brackets():
            if layout.byte is not None:
                printer.print_string(f"byte {layout.byte} of ")
            printer.print_string_literal(layout.name)
            printer.print_string(str(list(layout.shape)))
            if layout == replace(Layout.plain(layout.name, layout.shape), byte=layout.byte):
                return
            printer.print_string(" at ")
            print_subscripts(printer, layout.rows, print_name)
            printer.print_string(" over ")
            printer.print_string(", ".join(map(_text, layout.dimensions)))
            if layout.zeros:
                printer.print_string(" where ")
                print_subscripts(printer, layout.zeros, print_name)

    def verify(self) -> None:
        """Every logical dimension has its subscript, every physical one holds its axes."""
        layout = self.data
        if len(layout.rows) != len(layout.shape):
            raise VerifyException(
                f"{len(layout.rows)} subscripts for the {len(layout.shape)} dimensions of"
                f' "{layout.name}"'
            )
        if len(set(layout.names)) != len(layout.names):
            raise VerifyException(f"axis names must differ: {', '.join(layout.names)}")
        if any(row.divisor > 1 for row in (*layout.rows, *layout.zeros)):
            raise VerifyException("the subscripts of a layout are not divided")
        for dimension in layout.dimensions:
            if math.prod(dimension.extents) > dimension.size:
                raise VerifyException(f"the axes {_text(dimension)} are longer than the dimension")


def _parse_dimensions(parser: AttrParser) -> tuple[Dimension, ...]:
    def axis() -> tuple[str, int]:
        name = parser.parse_identifier()
        parser.parse_punctuation("=")
        return name, parser.parse_integer(allow_boolean=False, allow_negative=False)

    def dimension() -> Dimension:
        axes = tuple(parser.parse_comma_separated_list(parser.Delimiter.PAREN, axis))
        size = math.prod(extent for _, extent in axes)
        if parser.parse_optional_keyword("in"):
            size = parser.parse_integer(allow_boolean=False, allow_negative=False)
        return Dimension(axes, size)

    return tuple(parser.parse_comma_separated_list(parser.Delimiter.NONE, dimension))


def _text(dimension: Dimension) -> str:
    axes = ", ".join(f"{name} = {extent}" for name, extent in dimension.axes)
    full = math.prod(dimension.extents) == dimension.size
    return f"({axes})" + ("" if full else f" in {dimension.size}")
