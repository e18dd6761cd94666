"""Schedule spaces in IR: `te.space` lists the knobs of a kernel, `te.point` is one of its points.

    te.space @y template "tiles" version 1 {
      te.knob "tile.j" ordered [4, 2, 1]
      te.knob "order" permutation [i, j]
      te.knob "slots.inp" ordered [1, 2, 3, 4] default 2
      te.knob "piece" choice [none, "j/2", "j/4"]
    }
    te.point @y {order = [j, i], tile.j = 2}

Values are written out. Whether a point fits the machine is not part of the verifier: passes over
schedules judge that.
"""

import re
from collections.abc import Iterable, Sequence

from xdsl.dialects.builtin import FlatSymbolRefAttr, IntegerAttr, StringAttr, SymbolRefAttr, i64
from xdsl.ir import Block, Data, Operation, Region
from xdsl.irdl import (
    irdl_attr_definition,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
)
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.traits import HasParent, IsolatedFromAbove, NoTerminator, SymbolUserOpInterface
from xdsl.utils.exceptions import VerifyException

from .compute import KernelOp
from .knobs import Knob, KnobKind, Knobs, Point, Value, value_text
from .operation import TeOperation, declared, integer, string

_BARE = re.compile(r"[A-Za-z_][\w$.]*", re.ASCII)
"""What xDSL's lexer takes for an identifier."""


def _parse_value(parser: AttrParser) -> Value:
    """Parse a number, a truth value, ``none``, a word, or a list of numbers or of words."""
    entries = parser.parse_optional_comma_separated_list(
        parser.Delimiter.SQUARE, lambda: _parse_single(parser)
    )
    if entries is None:
        return _parse_single(parser)
    words = tuple(entry for entry in entries if isinstance(entry, str))
    numbers = tuple(entry for entry in entries if type(entry) is int)
    if len(words) == len(entries):
        return words
    if len(numbers) == len(entries):
        return numbers
    return parser.raise_error("a list of a knob has numbers or words")


def _parse_single(parser: AttrParser) -> int | bool | str | None:
    for known, value in (("true", True), ("false", False), ("none", None)):
        if parser.parse_optional_keyword(known):
            return value
    number = parser.parse_optional_integer(allow_boolean=False)
    if number is not None:
        return number
    word = parser.parse_optional_str_literal()
    return parser.parse_identifier() if word is None else word


def _print_value(printer: Printer, value: Value) -> None:
    if isinstance(value, tuple):
        with printer.in_square_brackets():
            entries: Sequence[Value] = value
            for place, entry in enumerate(entries):
                printer.print_string(", " * (place > 0))
                _print_value(printer, entry)
    elif isinstance(value, str):
        _print_word(printer, value)
    else:
        printer.print_string(value_text(value))


def _print_word(printer: Printer, word: str) -> None:
    if _BARE.fullmatch(word) and word not in ("true", "false", "none"):
        printer.print_string(word)
    else:
        printer.print_string_literal(word)


@irdl_attr_definition
class KnobAttr(Data[Knob]):
    """``#te.knob<"slots.inp" ordered [1, 2, 3] default 2>``: a knob with its values.

    The default is left out where it is the first value. A permutation has its default alone.
    """

    name = "te.knob"

    @staticmethod
    def parse_knob(parser: AttrParser) -> Knob:
        """Parse what stands between the angle brackets."""
        name = parser.parse_str_literal("the name of a knob")
        kind = KnobKind(parser.expect(lambda: _parse_kind(parser), "the kind of a knob expected"))
        listed = _parse_values(parser)
        if kind is KnobKind.PERMUTATION:
            words = tuple(str(value) for value in listed)
            if any(not isinstance(value, str) for value in listed):
                parser.raise_error("a permutation is one of words")
            return Knob(name, kind, (), words)
        if not listed:
            parser.raise_error(f'knob "{name}" has no values')
        default = listed[0]
        if parser.parse_optional_keyword("default"):
            default = _parse_value(parser)
        return Knob(name, kind, listed, default)

    @staticmethod
    def print_knob(printer: Printer, knob: Knob) -> None:
        """Print what `parse_knob` reads."""
        printer.print_string_literal(knob.name)
        printer.print_string(f" {knob.kind.value} ")
        if knob.kind is KnobKind.PERMUTATION:
            _print_value(printer, knob.default)
            return
        with printer.in_square_brackets():
            printer.print_list(knob.values, lambda value: _print_value(printer, value))
        if knob.default != knob.values[0]:
            printer.print_string(" default ")
            _print_value(printer, knob.default)

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Knob:
        """Parse ``<"tile.j" ordered [4, 2, 1]>``."""
        with parser.in_angle_brackets():
            return cls.parse_knob(parser)

    def print_parameter(self, printer: Printer) -> None:
        """Print what `parse_parameter` reads."""
        with printer.in_angle_brackets():
            self.print_knob(printer, self.data)

    def verify(self) -> None:
        """Values differ, and the default is one of them."""
        knob = self.data
        if not knob.name:
            raise VerifyException("a knob has a name")
        listed = knob.default if knob.kind is KnobKind.PERMUTATION else knob.values
        assert isinstance(listed, tuple)
        texts = [value_text(value) for value in listed]
        if twice := sorted({text for text in texts if texts.count(text) > 1}):
            raise VerifyException(f'knob "{knob.name}" has {", ".join(twice)} twice')
        if not knob.has(knob.default):
            raise VerifyException(
                f'knob "{knob.name}" has no value {value_text(knob.default)}, its default'
            )


def _parse_kind(parser: AttrParser) -> str | None:
    kinds = [kind.value for kind in KnobKind]
    return next((kind for kind in kinds if parser.parse_optional_keyword(kind)), None)


def _parse_values(parser: AttrParser) -> tuple[Value, ...]:
    return tuple(
        parser.parse_comma_separated_list(parser.Delimiter.SQUARE, lambda: _parse_value(parser))
    )


@irdl_attr_definition
class PointAttr(Data[tuple[tuple[str, Value], ...]]):
    """``#te.point<{order = [j, i], tile.j = 2}>``: values by knobs, by the names of these."""

    name = "te.point"

    def __init__(self, point: Point | Iterable[tuple[str, Value]]):
        super().__init__(tuple(sorted(dict(point).items())))

    @property
    def point(self) -> Point:
        """The values by the names of their knobs."""
        return dict(self.data)

    @staticmethod
    def parse_values(parser: AttrParser) -> tuple[tuple[str, Value], ...]:
        """Parse ``{order = [j, i], tile.j = 2}``."""

        def pair() -> tuple[str, Value]:
            name = parser.parse_optional_str_literal()
            name = parser.parse_identifier() if name is None else name
            parser.parse_punctuation("=")
            return name, _parse_value(parser)

        pairs = parser.parse_comma_separated_list(parser.Delimiter.BRACES, pair)
        if len(dict(pairs)) < len(pairs):
            parser.raise_error("a point has one value for a knob")
        return tuple(sorted(pairs))

    @staticmethod
    def print_values(printer: Printer, values: tuple[tuple[str, Value], ...]) -> None:
        """Print what `parse_values` reads."""

        def pair(entry: tuple[str, Value]) -> None:
            _print_word(printer, entry[0])
            printer.print_string(" = ")
            _print_value(printer, entry[1])

        with printer.in_braces():
            printer.print_list(values, pair)

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[tuple[str, Value], ...]:
        """Parse ``<{tile.j = 2}>``."""
        with parser.in_angle_brackets():
            return cls.parse_values(parser)

    def print_parameter(self, printer: Printer) -> None:
        """Print what `parse_parameter` reads."""
        with printer.in_angle_brackets():
            self.print_values(printer, self.data)


class _OfKernel(SymbolUserOpInterface):
    """The kernel exists; its space has what a point of it says."""

    def verify(self, op: Operation) -> None:
        """Look the kernel up, and, for a point, its space."""
        assert isinstance(op, SpaceOp | PointOp)
        name = op.kernel.root_reference.data
        if declared(op, KernelOp, name) is None:
            raise VerifyException(f"there is no te.kernel {op.kernel}")
        beside = () if op.parent is None else op.parent.ops
        spaces = [s for s in beside if isinstance(s, SpaceOp) and s.kernel == op.kernel]
        if len(spaces) > 1:
            raise VerifyException(f"{op.kernel} has {len(spaces)} schedule spaces")
        if isinstance(op, SpaceOp):
            return
        if not spaces:
            raise VerifyException(f"there is no te.space {op.kernel}")
        wrong = spaces[0].knobs.check(op.point)
        if wrong is not None:
            raise VerifyException(wrong)


@irdl_op_definition
class SpaceOp(TeOperation):
    """The schedule space of a kernel, as a template declares it: knobs, in their order."""

    name = "te.space"

    kernel = prop_def(FlatSymbolRefAttr)
    template = prop_def(StringAttr)
    version = prop_def(IntegerAttr.constr(i64))
    body = region_def("single_block")

    traits = traits_def(IsolatedFromAbove(), NoTerminator(), _OfKernel())

    def __init__(self, kernel: str, template: str, version: int, body: Region):
        super().__init__(
            properties={
                "kernel": SymbolRefAttr(kernel),
                "template": string(template),
                "version": integer(version),
            },
            regions=[body],
        )

    @staticmethod
    def of(kernel: str, template: str, version: int, knobs: Knobs) -> "SpaceOp":
        """The space of a kernel with these knobs."""
        block = Block([KnobOp(knob) for knob in knobs.knobs.values()])
        return SpaceOp(kernel, template, version, Region(block))

    @classmethod
    def parse(cls, parser: Parser) -> "SpaceOp":
        """Parse ``@y template "tiles" version 1 {...}``."""
        kernel = parser.parse_symbol_name().data
        parser.parse_keyword("template")
        template = parser.parse_str_literal()
        parser.parse_keyword("version")
        version = parser.parse_integer(allow_boolean=False, allow_negative=False)
        attributes = parser.parse_optional_attr_dict_with_keyword()
        region = parser.parse_region()
        if not region.blocks:
            region.add_block(Block())
        space = cls(kernel, template, version, region)
        if attributes is not None:
            space.attributes |= attributes.data
        return space

    def print(self, printer: Printer) -> None:
        """Print what `parse` reads."""
        printer.print_string(" ")
        printer.print_symbol_name(self.kernel.root_reference.data)
        printer.print_string(" template ")
        printer.print_string_literal(self.template.data)
        printer.print_string(f" version {self.version.value.data}")
        printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" ")
        printer.print_region(self.body, print_empty_block=False)

    @property
    def knobs(self) -> Knobs:
        """The knobs, in their order."""
        return Knobs(op.knob.data for op in self.body.block.ops if isinstance(op, KnobOp))

    def verify_(self) -> None:
        """There are only knobs, whose names differ."""
        names = []
        for op in self.body.block.ops:
            if not isinstance(op, KnobOp):
                raise VerifyException(f"{op.name} is no knob")
            names.append(op.knob.data.name)
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise VerifyException(f"two knobs are called {', '.join(twice)}")


@irdl_op_definition
class KnobOp(TeOperation):
    """A knob of the schedule space around it."""

    name = "te.knob"

    knob = prop_def(KnobAttr)

    traits = traits_def(HasParent(SpaceOp))

    def __init__(self, knob: Knob):
        super().__init__(properties={"knob": KnobAttr(knob)})

    @classmethod
    def parse(cls, parser: Parser) -> "KnobOp":
        """Parse ``"tile.j" ordered [4, 2, 1]``."""
        return cls(KnobAttr.parse_knob(parser))

    def print(self, printer: Printer) -> None:
        """Print what `parse` reads."""
        printer.print_string(" ")
        KnobAttr.print_knob(printer, self.knob.data)


@irdl_op_definition
class PointOp(TeOperation):
    """A point of a kernel's schedule space. Knobs that it does not name have their defaults.

    cost: its cycles by the cost model of the template, if they are known.
    """

    name = "te.point"

    kernel = prop_def(FlatSymbolRefAttr)
    values = prop_def(PointAttr)
    cost = opt_prop_def(IntegerAttr.constr(i64))

    traits = traits_def(_OfKernel())

    def __init__(self, kernel: str, point: Point, cost: int | None = None):
        super().__init__(
            properties={
                "kernel": SymbolRefAttr(kernel),
                "values": PointAttr(point),
                "cost": None if cost is None else integer(cost),
            }
        )

    @property
    def point(self) -> Point:
        """The values by the names of their knobs."""
        return self.values.point

    @classmethod
    def parse(cls, parser: Parser) -> "PointOp":
        """Parse ``@y {tile.j = 2} cost 33403``."""
        kernel = parser.parse_symbol_name().data
        values = PointAttr.parse_values(parser)
        cost = parser.parse_integer() if parser.parse_optional_keyword("cost") else None
        return cls(kernel, dict(values), cost)

    def print(self, printer: Printer) -> None:
        """Print what `parse` reads."""
        printer.print_string(" ")
        printer.print_symbol_name(self.kernel.root_reference.data)
        printer.print_string(" ")
        PointAttr.print_values(printer, self.values.data)
        if self.cost is not None:
            printer.print_string(f" cost {self.cost.value.data}")
