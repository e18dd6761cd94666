"""The place of each op in its file, so that errors of verifiers name per line.

xDSL keeps explicit ``loc(...)`` only. This parser records where each op begins, in a table beside
the IR, which it does not change.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation
from xdsl.parser import Parser
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.lexer import Span

from vtac.dialects.errors import CompileError, Problem

_MOST_REPORTED = 20


@dataclass
class Positions:
    """The place of each parsed op. offset: the number of lines before this part of the file."""

    file: str
    offset: int = 0
    spans: dict[Operation, Span[str]] = field(default_factory=dict)

    def place(self, op: Operation) -> str:
        """``file:line:col`` of an op, or of the nearest enclosing op that was in the file."""
        around: Operation | None = op
        while around is not None:
            if span := self.spans.get(around):
                return self.of(span)
            around = around.parent_op()
        return self.file

    def of(self, span: Span[str]) -> str:
        """``file:line:col`` of the start of a span."""
        location = span.get_location()
        return f"{self.file}:{location.line + self.offset}:{location.col}"


class _Parser(Parser):
    def __init__(self, ctx: Context, text: str, positions: Positions) -> None:
        super().__init__(ctx, text, positions.file)
        self._positions = positions

    def parse_operation(self) -> Operation:
        span = self._current_token.span
        op = super().parse_operation()
        self._positions.spans[op] = span
        return op

    @property
    def here(self) -> Span[str]:
        return self._current_token.span


def parse_module(ctx: Context, text: str, positions: Positions, implicit: bool = True) -> ModuleOp:
    """Parse a module and fill ``positions``.

    Raises `ParseError`, or `CompileError` with a place where an attribute's own verifier refuses.
    """
    parser = _Parser(ctx, text, positions)
    try:
        return parser.parse_module(implicit)
    except VerifyException as error:
        raise CompileError(Problem(positions.of(parser.here), f"error: {error}")) from None


def verify_module(module: ModuleOp, positions: Positions, after: str = "") -> None:
    """Raise `CompileError` with every op (the first twenty) that does not verify."""
    problems = []
    for op, message in _faults(module):
        when = f"after {after}: " if after else ""
        problems.append(
            Problem(positions.place(op), f"error: {when}{describe(op)} does not verify: {message}")
        )
        if len(problems) == _MOST_REPORTED:
            break
    if problems:
        raise CompileError(problems)


def describe(op: Operation) -> str:
    """``'graph.conv'``, with the symbol where an op has one."""
    symbol = op.get_attr_or_prop("sym_name")
    return f"'{op.name}'" + (f" @{symbol.data}" if isinstance(symbol, StringAttr) else "")


def _faults(module: ModuleOp) -> Iterator[tuple[Operation, str]]:
    """Each op that does not verify, with the message. Empty blocks count as their op's fault."""
    for op in module.walk():
        try:
            for block in (block for region in op.regions for block in region.blocks):
                if block.is_empty:
                    block.verify()
            op.verify(verify_nested_ops=False)
        except VerifyException as error:
            yield op, str(error).strip()
