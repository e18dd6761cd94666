"""Formulas over the figures of a machine, such as ``sram_bytes + 80 * multipliers``.

A formula is an expression of Python's grammar, restricted to numbers, names, arithmetic,
comparisons, ``and``, ``or``, ``not``, and calls of a few functions. It is parsed by `ast` and
interpreted node by node, so a text can do nothing else.
"""

import ast
import math
import operator
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise

from vtac.dialects.errors import CompileError, Problem
from vtac.tools.commands.diagnostics import close_matches

Value = float
"""What a formula computes with: numbers, of which comparisons give 0 and 1."""

LONGEST = 300
"""The most characters of a formula, which also bounds how deeply its parts are nested."""

_BINARY: Mapping[type[ast.operator], Callable[[Value, Value], Value]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_UNARY: Mapping[type[ast.unaryop], Callable[[Value], Value]] = {
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
    ast.Not: operator.not_,
}
_COMPARISONS: Mapping[type[ast.cmpop], Callable[[Value, Value], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_FUNCTIONS: Mapping[str, tuple[Callable[..., Value], int | None]] = {
    "min": (min, None),
    "max": (max, None),
    "abs": (abs, 1),
    "ceil": (math.ceil, 1),
    "log2": (math.log2, 1),
    "sqrt": (math.sqrt, 1),
}
"""The functions, with the number of their arguments; None: one or more."""


@dataclass(frozen=True)
class Formula:
    """A formula that has been checked. names: those that it reads."""

    text: str
    names: frozenset[str]
    _expression: ast.expr

    @classmethod
    def parse(cls, text: str, names: Collection[str], where: str) -> "Formula":
        """The formula of a text.

        names: those that it may read. where: what messages call it. Raises `CompileError` with
        everything that is wrong.
        """
        if len(text) > LONGEST:
            raise CompileError(Problem(where, f"has more than {LONGEST} characters"))
        try:
            expression = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            what = f"{text!r} is no formula: {getattr(error, 'msg', error)}"
            raise CompileError(Problem(where, what)) from None
        if faults := list(dict.fromkeys(_faults(expression, names))):
            raise CompileError([Problem(where, f"{text!r}: {fault}") for fault in faults])
        called = {id(node.func) for node in ast.walk(expression) if isinstance(node, ast.Call)}
        read = frozenset(
            node.id
            for node in ast.walk(expression)
            if isinstance(node, ast.Name) and id(node) not in called
        )
        return cls(text.strip(), read, expression)

    def value(self, figures: Mapping[str, float]) -> float:
        """The value for the figures of a machine, by name.

        Raises ArithmeticError or ValueError where it has none, as in a division by zero.
        """
        found = float(_value(self._expression, figures))
        if not math.isfinite(found):
            raise ValueError(f"{self.text} is {found}")
        return found


def _faults(node: ast.expr, names: Collection[str]) -> Iterator[str]:
    """What is wrong with an expression, its parts included."""
    match node:
        case ast.Constant(value=value):
            if type(value) not in (int, float):
                yield f"{value!r} is no number"
        case ast.Name(id=name):
            if name not in names:
                yield f"there is no {name!r}{close_matches(name, sorted(names))}"
        case ast.BinOp(left=left, op=op, right=right):
            if type(op) not in _BINARY:
                yield f"{ast.unparse(node)!r} is no arithmetic of + - * / // %"
            yield from _faults(left, names)
            yield from _faults(right, names)
        case ast.UnaryOp(op=op, operand=operand):
            if type(op) not in _UNARY:
                yield f"{ast.unparse(node)!r} is no arithmetic of + - * / // %"
            yield from _faults(operand, names)
        case ast.BoolOp(values=values):
            for part in values:
                yield from _faults(part, names)
        case ast.Compare(left=left, ops=ops, comparators=others):
            if any(type(op) not in _COMPARISONS for op in ops):
                yield f"{ast.unparse(node)!r} is no comparison of < <= > >= == !="
            for side in (left, *others):
                yield from _faults(side, names)
        case ast.Call():
            yield from _call_faults(node, names)
        case _:
            yield f"{ast.unparse(node)!r} is not allowed in a formula"


def _call_faults(node: ast.Call, names: Collection[str]) -> Iterator[str]:
    name = node.func.id if isinstance(node.func, ast.Name) else ast.unparse(node.func)
    if name not in _FUNCTIONS:
        yield f"there is no function {name!r}; there are {', '.join(_FUNCTIONS)}"
        return
    count = _FUNCTIONS[name][1]
    plain = not node.keywords and not any(isinstance(a, ast.Starred) for a in node.args)
    if not plain or not node.args or (count is not None and len(node.args) != count):
        yield f"{name} takes {'numbers' if count is None else 'one number'}"
        return
    for argument in node.args:
        yield from _faults(argument, names)


def _value(node: ast.expr, figures: Mapping[str, float]) -> Value:
    match node:
        case ast.Constant(value=int() | float() as value):
            return value
        case ast.Name(id=name):
            if name not in figures:
                raise ValueError(f"the machine has no number {name}")
            return figures[name]
        case ast.BinOp(left=left, op=op, right=right):
            return _BINARY[type(op)](_value(left, figures), _value(right, figures))
        case ast.UnaryOp(op=op, operand=operand):
            return _UNARY[type(op)](_value(operand, figures))
        case ast.BoolOp(op=ast.And(), values=values):
            return all(_value(value, figures) for value in values)
        case ast.BoolOp(values=values):
            return any(_value(value, figures) for value in values)
        case ast.Compare(left=left, ops=ops, comparators=others):
            sides = [_value(part, figures) for part in (left, *others)]
            pairs = zip(ops, pairwise(sides), strict=True)
            return all(_COMPARISONS[type(op)](*pair) for op, pair in pairs)
        case ast.Call(func=ast.Name(id=name), args=arguments):
            given = [_value(argument, figures) for argument in arguments]
            function, count = _FUNCTIONS[name]
            return function(*given) if count == 1 else reduce(function, given)
    raise AssertionError(f"{ast.dump(node)} passed the check")
