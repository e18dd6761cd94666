"""Decisions of a cluster's plan as attributes: splits, core bindings, places."""

from collections.abc import Sequence

from xdsl.dialects.builtin import IntAttr, NoneAttr, StringAttr
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from vtac.dialects.graph.pieces import DIMENSIONS

SPLITS = "graph.splits"
"""Name of the attribute with the splits that are possible: an array of ``#graph.split``, one per
dimension."""

SPLIT = "graph.split"
"""Name of the attribute with the chosen split of a group: an array of ``#graph.split``, at most one
per dimension. The group becomes as many instances as the product of the factors; none for an empty
array: it stays whole."""

BINDING = "graph.binding"
"""Name of the attribute with the ``#graph.binding`` of a layer."""

PLACES = "graph.places"
"""Name of the attribute that carries one ``#graph.place`` per result of an op."""

PLACE_ALIGNMENT = 64
"""Offsets of tensors in the global buffer are multiples of this, as addresses in DRAM are."""


@irdl_attr_definition
class SplitAttr(ParametrizedAttribute):
    """``#graph.split<n, factor 4, ops 13>``: a split of a group along one dimension of its output.

    factor: the number of instances. ops: how many layers of the group then compute less. (Zhao et
    al., "GraphTurbo", OSDI 2023, section 3.1: the tuple (split_d, n_d, f_d, d).)
    """

    name = "graph.split"

    dimension: StringAttr
    factor: IntAttr
    ops: IntAttr

    def __init__(self, dimension: str | StringAttr, factor: int | IntAttr, ops: int | IntAttr):
        super().__init__(
            StringAttr(dimension) if isinstance(dimension, str) else dimension,
            factor if isinstance(factor, IntAttr) else IntAttr(factor),
            ops if isinstance(ops, IntAttr) else IntAttr(ops),
        )

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        """Parse ``<n, factor 4, ops 13>``."""
        with parser.in_angle_brackets():
            dimension = parser.parse_identifier()
            parser.parse_punctuation(",")
            parser.parse_keyword("factor")
            factor = parser.parse_integer(allow_boolean=False, allow_negative=False)
            parser.parse_punctuation(",")
            parser.parse_keyword("ops")
            ops = parser.parse_integer(allow_boolean=False, allow_negative=False)
        return StringAttr(dimension), IntAttr(factor), IntAttr(ops)

    def print_parameters(self, printer: Printer) -> None:
        """Print ``<n, factor 4, ops 13>``."""
        with printer.in_angle_brackets():
            text = f"{self.dimension.data}, factor {self.factor.data}, ops {self.ops.data}"
            printer.print_string(text)

    def verify(self) -> None:
        """Entries or rows are split, into one instance or more."""
        if self.dimension.data not in ("n", "h"):
            raise VerifyException(f"instances split n or h, not {self.dimension.data}")
        if self.factor.data < 1:
            raise VerifyException("a split has a factor of 1 or more")


@irdl_attr_definition
class BindingAttr(ParametrizedAttribute):
    """``#graph.binding<n = 2, h = 4, c = 1>``: the parts of a layer and their cores.

    The first result of the layer is cut into n ranges of batch entries, h ranges of rows and c
    ranges of channels, as `pieces_of` does. (All results of a layer have one shape if it is cut.)
    Parts are numbered row-major in the dimensions of the tensor, n outermost, then c, then h, and
    part p runs on core ``first + p``. So n * h * c is at most the number of cores; other cores have
    no part.

    A part computes its rectangle of the results and nothing else. What it reads of each operand
    follows from the rules of `split_rules`: parts share no results, but may share rows of operands.
    first: the first core, 0 if it is not written.
    """

    name = "graph.binding"

    n: IntAttr
    h: IntAttr
    c: IntAttr
    first: IntAttr

    def __init__(
        self,
        n: int | IntAttr = 1,
        h: int | IntAttr = 1,
        c: int | IntAttr = 1,
        first: int | IntAttr = 0,
    ):
        super().__init__(*(v if isinstance(v, IntAttr) else IntAttr(v) for v in (n, h, c, first)))

    @property
    def factors(self) -> dict[str, int]:
        """The number of ranges of each dimension, by name."""
        return {"n": self.n.data, "h": self.h.data, "c": self.c.data}

    @property
    def parts(self) -> int:
        """The number of parts, each of which a core of its own computes."""
        return self.n.data * self.h.data * self.c.data

    @property
    def cores(self) -> range:
        """The cores, by the number of the part."""
        return range(self.first.data, self.first.data + self.parts)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        """Parse ``<n = 2, h = 4, c = 1>``, perhaps with ``first = 4`` behind it."""

        def entry(name: str) -> IntAttr:
            parser.parse_keyword(name)
            parser.parse_punctuation("=")
            return IntAttr(parser.parse_integer(allow_boolean=False, allow_negative=False))

        with parser.in_angle_brackets():
            found = [entry("n")]
            for name in ("h", "c"):
                parser.parse_punctuation(",")
                found.append(entry(name))
            has_first = parser.parse_optional_punctuation(",") is not None
            found.append(entry("first") if has_first else IntAttr(0))
        return found

    def print_parameters(self, printer: Printer) -> None:
        """Print ``<n = 2, h = 4, c = 1>``, and the first core if it is not 0."""
        entries = [f"{name} = {factor}" for name, factor in self.factors.items()]
        if self.first.data:
            entries.append(f"first = {self.first.data}")
        with printer.in_angle_brackets():
            printer.print_string(", ".join(entries))

    def verify(self) -> None:
        """Each dimension has at least one range."""
        if min(self.factors.values()) < 1 or self.first.data < 0:
            raise VerifyException("factors of a binding are 1 or more, cores 0 or more")


DDR, GB = "ddr", "gb"
"""The memories that a tensor can be placed in."""


@irdl_attr_definition
class PlaceAttr(ParametrizedAttribute):
    """``#graph.place<gb, 65536>`` or ``#graph.place<ddr>``: the memory that holds a tensor.

    The offset is that of the tensor's first element from the beginning of the global buffer, in
    bytes. Tensors that are no part of another one are dense in their packed layout. A part of an
    assembled tensor has the strides of that tensor, and the offset that its first element has
    there. Where tensors lie in DDR is left to the lowering.
    """

    name = "graph.place"

    memory: StringAttr
    at: IntAttr | NoneAttr

    def __init__(self, memory: str | StringAttr, at: int | IntAttr | NoneAttr | None = None):
        super().__init__(
            StringAttr(memory) if isinstance(memory, str) else memory,
            NoneAttr() if at is None else IntAttr(at) if isinstance(at, int) else at,
        )

    @property
    def offset(self) -> int | None:
        """The offset in the global buffer; None in DDR."""
        return self.at.data if isinstance(self.at, IntAttr) else None

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        """Parse ``<gb, 65536>`` or ``<ddr>``."""
        with parser.in_angle_brackets():
            memory = parser.parse_identifier()
            if parser.parse_optional_punctuation(",") is None:
                return StringAttr(memory), NoneAttr()
            at = parser.parse_integer(allow_boolean=False, allow_negative=False)
        return StringAttr(memory), IntAttr(at)

    def print_parameters(self, printer: Printer) -> None:
        """Print ``<gb, 65536>`` or ``<ddr>``."""
        offset = "" if self.offset is None else f", {self.offset}"
        with printer.in_angle_brackets():
            printer.print_string(f"{self.memory.data}{offset}")

    def verify(self) -> None:
        """Places in the global buffer have an offset, places in DDR have none."""
        if self.memory.data not in (DDR, GB):
            raise VerifyException(f"tensors lie in gb or ddr, not in {self.memory.data}")
        if (self.memory.data == GB) != (self.offset is not None):
            raise VerifyException("places in gb have an offset, places in ddr have none")


assert set(BindingAttr().factors) == set(DIMENSIONS)
