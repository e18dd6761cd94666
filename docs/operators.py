"""Writes operators.md: where each ONNX operator runs, and what keeps it on the host.

``make docs``; a test holds the page against what this would write. Nothing about an operator is
written here. Its restrictions are the reasons that users are given (``--explain``), read from the
source of whoever gives them: the converter of the operator (``raise StaysOnHostError``), the
quantiser (``why_not`` of the rule for the op that the converter makes) and the predicates of the
codegen's patterns; operators that a pass rewrites come with what it takes. A new operator or a new
refusal is in the page by being in the code.
"""

import ast
import importlib
import inspect
import pkgutil
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any

import onnx.defs
from xdsl.ir import Operation

import vtac.passes.graph as graph_passes
from vtac.lowering.codegens.vta import VtaCodegen
from vtac.lowering.onnx_to_graph.expansions.expand import EXPANSIONS, OPTIMISED
from vtac.lowering.onnx_to_graph.functions import STANDARD
from vtac.lowering.onnx_to_graph.integer_operators import OPERATORS, QuantisedNode
from vtac.lowering.onnx_to_graph.named import NamedOperator
from vtac.lowering.onnx_to_graph.node import Node, StaysOnHostError
from vtac.lowering.onnx_to_graph.operators import CONVERTERS
from vtac.passes.graph import quantize
from vtac.passes.graph.annotate import needs_reason
from vtac.passes.graph.float_groups.groups import why_not
from vtac.passes.graph.float_groups.rules import RULES
from vtac.passes.graph.patterns import OpPattern
from vtac.passes.graph.quantize.scales import Obstacle
from vtac.passes.graph.reasons import Reason

PAGE = Path(__file__).parent / "operators.md"

OPSET = 22
"""Whose operators are listed: the newest that every onnx we run with knows."""

SHARED = 1 / 3
"""A reason that so many operators have in common is said once."""

LEGEND = """\
| runs on | meaning |
| --- | --- |
| accelerator | in integers where the model is quantised, unless a reason says otherwise |
| between | it says how values are stored: integers beside it take that over |
| nowhere | it is gone when the model is imported |
| host | in onnxruntime |
"""


@dataclass(frozen=True)
class Row:
    """An operator: where it runs, which form of it, and the reasons that keep it on the host."""

    name: str
    where: str
    form: str
    reasons: list[str]


def main() -> None:
    """Write the page."""
    PAGE.write_text(page())


def page() -> str:
    """The text of operators.md."""
    rows = [row_of(name, converter) for name, converter in CONVERTERS.items()]
    rows = sorted([*rows, *_rewritten()], key=lambda row: row.name)
    shared = _shared(rows)
    lines = [
        "# Operators",
        "What becomes of each ONNX operator. Written by `make docs` from the code: the reasons are"
        " those that `vta-compile --explain` gives, `…` stands for shapes and numbers of the case"
        " at hand. What does not run on the accelerator runs on the host; no operator is refused.",
        LEGEND.strip(),
        "## For most operators",
        "A node stays on the host for these reasons, whatever its operator (or most of them):",
        _bullets([*shared, *_general()]),
        "And for these, which depend on its neighbours and on the ranges of values:",
        _bullets(_obstacles()),
        "## Operator by operator",
        _table(rows, set(shared)),
        "These are taken apart when the model is imported, into what ONNX defines them by:"
        f" {', '.join(sorted(STANDARD))}, and a model's own functions.",
        "Operators on quantised tensors are taken apart into DequantizeLinear, the float operator"
        f" and QuantizeLinear: {_on_quantised()}. They stay whole, and on the host, for these"
        " reasons:",
        _bullets(_whole()),
        "Where samples calibrate the network, these are written as operators that the accelerator"
        " has. In floats on the host they stay what they are:",
        _bullets(_expanded()),
        "## On the host",
        f"All other operators of ONNX (here those of opset {OPSET}) run on the host as they are,"
        f" among them control flow, sequences and strings: {', '.join(_others(rows))}.",
    ]
    return "\n\n".join(lines) + "\n"


def row_of(name: str, converter: Callable[..., object]) -> Row:
    """What the code says about an operator."""
    reader = _Reader(raised=True)
    named = isinstance(converter, NamedOperator)
    reader.read(NamedOperator.__call__ if named else converter)
    made = [converter.kind] if named else list(dict.fromkeys(reader.made))
    reasons = list(dict.fromkeys(reader.texts))
    for kind in made:
        reasons += [text for text in _refusals(kind) if text not in reasons]
    text = "" if named else converter.__doc__ or ""
    form = " ".join(textwrap.dedent(text).split("\n\n")[0].split())
    form = form.removesuffix(".").removeprefix(f"{name}: ").replace("``", "`")
    return Row(name, _where(made), "" if form == name else form, reasons)


def _rewritten() -> Iterator[Row]:
    """Operators that a pass over the graph rewrites: each says which (``OPERATOR``) and when."""
    for info in pkgutil.iter_modules(graph_passes.__path__, f"{graph_passes.__name__}."):
        module = importlib.import_module(info.name)
        if hasattr(module, "OPERATOR"):
            form = (inspect.getdoc(module.can_split) or "").partition("\n\n")[2]
            yield Row(module.OPERATOR, "accelerator", " ".join(form.split()).removesuffix("."), [])


def _expanded() -> list[str]:
    """What the operators become that are written as others, each with its names."""
    names: dict[str, list[str]] = {}
    optimised = {f"com.microsoft.{name}": expansion for name, expansion in OPTIMISED.items()}
    for name, expansion in {**EXPANSIONS, **optimised}.items():
        text = inspect.getdoc(expansion) or ""
        names.setdefault(" ".join(text.partition("\n\n")[0].split()), []).append(name)
    return [f"{', '.join(found)}: {text}".replace("``", "`") for text, found in names.items()]


def _where(made: list[type[Operation]]) -> str:
    taken = {kind for kind, _ in _predicates()}
    if not made:
        return "nowhere"
    if not any(map(needs_reason, made)):
        return "between"
    return "accelerator" if any(k in RULES or k in taken for k in made) else "host"


def _refusals(kind: type[Operation]) -> Iterator[str]:
    """Why the quantiser or the codegen would leave an op of a kind."""
    if kind in RULES:
        reader = _Reader()
        limit = VtaCodegen().integer_limits(None).get(kind)
        for function in (limit, *(vars(c).get("why_not") for c in type(RULES[kind]).__mro__)):
            reader.read(function)
        yield from reader.texts
    table = _predicates()
    uses = Counter(predicate for _, predicate in table)
    for other, predicate in table:
        if other is kind and uses[predicate] == 1 and not _computes(kind):
            reader = _Reader()
            reader.read(predicate)
            yield from reader.texts


def _computes(kind: type[Operation]) -> bool:
    return kind in RULES and RULES[kind].computes


@cache
def _predicates() -> list[tuple[type[Operation], FunctionType]]:
    """The kinds of ops at the roots of the codegen's patterns, each with its predicates."""
    patterns = [row.pattern for row in VtaCodegen().patterns(None)]
    return [
        (pattern.op_class, predicate)
        for pattern in patterns
        if isinstance(pattern, OpPattern)
        for predicate in pattern.predicates
        if isinstance(predicate, FunctionType)
    ]


def _general() -> list[str]:
    """What the quantiser asks of every op."""
    reader = _Reader()
    reader.read(why_not)
    return reader.texts


def _obstacles() -> list[str]:
    """What hinders groups of ops, wherever the quantiser finds out."""
    found: list[str] = []
    for info in pkgutil.iter_modules(quantize.__path__, f"{quantize.__name__}."):
        module = importlib.import_module(info.name)
        reader = _Reader()
        for function in vars(module).values():
            if isinstance(function, FunctionType) and function.__module__ == info.name:
                reader.obstacles(function)
        found += [text for text in reader.texts if text not in found]
    return found


def _on_quantised() -> str:
    """The operators on quantised tensors, with the domains of those that have one."""
    return ", ".join(f"{domain}.{name}".removeprefix(".") for domain, name in sorted(OPERATORS))


def _whole() -> list[str]:
    """Why an operator on quantised tensors is not taken apart."""
    reader = _Reader(raised=True)
    reader.read(QuantisedNode.check)
    return reader.texts


def _others(rows: Iterable[Row]) -> list[str]:
    """Operators of the default domain that are in no row; a Constant is a weight."""
    known = {"Constant", *STANDARD, *EXPANSIONS, *(row.name for row in rows)}
    known.update(name for _, name in OPERATORS)
    history = onnx.defs.get_all_schemas_with_history()
    names = {schema.name for schema in history if schema.domain == ""}
    return sorted(name for name in names if name not in known and _is_current(name))


def _is_current(name: str) -> bool:
    """Whether an operator exists in opset ``OPSET``."""
    known = onnx.defs.has(name, OPSET, "")
    return known and not onnx.defs.get_schema(name, OPSET, "").deprecated


_CONVERTING = ("vtac.lowering.onnx", "vtac.passes.graph.channels_first")
"""Where the functions are that converters call to make ops."""


class _Reader:
    """Collects refusals from the source of functions, and the kinds of ops that they make.

    raised: read what is raised with `StaysOnHostError`, also by functions that are called. Else
    what is returned: for ops of a kind, in that case of a match; without one, outside of matches.
    """

    def __init__(self, *, raised: bool = False, kind: type[Operation] | None = None):
        self.raised, self.kind = raised, kind
        self.texts: list[str] = []
        self.made: list[type[Operation]] = []
        self._seen: set[object] = set()

    def read(self, function: Any, whole: bool = False) -> None:
        """Read a function. whole: all of it returns what is wanted."""
        if function in self._seen or not isinstance(function, FunctionType):
            return
        self._seen.add(function)
        tree = _tree(function)
        scope = _Scope(function, tree)
        for node in self._nodes(tree, scope, whole or self.kind is None):
            if self.raised:
                self._raised(node, scope)
            elif isinstance(node, ast.Return) and node.value is not None:
                self._add(node.value, scope)

    def obstacles(self, function: FunctionType) -> None:
        """Read what a function raises as an obstacle, or yields with what it hinders."""
        tree = _tree(function)
        scope = _Scope(function, tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and scope.value(node.func) is Obstacle:
                self._add(node.args[1], scope)
            elif isinstance(node, ast.Yield) and isinstance(node.value, ast.Tuple):
                self._add(node.value.elts[-1], scope)

    def _nodes(self, node: ast.AST, scope: "_Scope", inside: bool) -> Iterator[ast.AST]:
        """The nodes to look at; of a match, only the cases of our kind."""
        if isinstance(node, ast.Match) and not self.raised:
            for case in node.cases:
                if self.kind is not None and scope.covers(case.pattern, self.kind):
                    for statement in case.body:
                        yield from self._nodes(statement, scope, True)
            return
        if inside:
            yield node
        for child in ast.iter_child_nodes(node):
            yield from self._nodes(child, scope, inside)

    def _raised(self, node: ast.AST, scope: "_Scope") -> None:
        if not isinstance(node, ast.Call):
            return
        callee = scope.value(node.func)
        if callee is StaysOnHostError:
            self._add(node.args[0], scope)
        elif isinstance(callee, type) and issubclass(callee, Operation):
            self.made.append(callee)
        elif inspect.isfunction(callee) and callee.__module__.startswith(_CONVERTING):
            self.read(callee)

    def _add(self, node: ast.expr, scope: "_Scope") -> None:
        """Take in the texts that an expression may be."""
        match node:
            case ast.Constant(value=str(text)):
                self._keep(text)
            case ast.JoinedStr():
                parts = (v.value if isinstance(v, ast.Constant) else "…" for v in node.values)
                self._keep("".join(map(str, parts)))
            case ast.IfExp():
                self._add(node.body, scope)
                self._add(node.orelse, scope)
            case ast.Name() if node.id in scope.assigned:
                for value in scope.assigned[node.id]:
                    self._add(value, scope)
            case ast.Name() if isinstance(known := scope.value(node), str):
                self._keep(known)
            case ast.Call():
                callee = scope.value(node.func)
                if callee is Reason:
                    self._add(node.args[0], scope)
                elif inspect.isfunction(callee):
                    self.read(callee, whole=True)

    def _keep(self, text: str) -> None:
        if text not in self.texts:
            self.texts.append(text)


class _Scope:
    """What names mean in a function."""

    def __init__(self, function: FunctionType, tree: ast.FunctionDef):
        closure = inspect.getclosurevars(function)
        self._names: Mapping[str, object] = {**function.__globals__, **closure.nonlocals}
        self.assigned: dict[str, list[ast.expr]] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    if isinstance(target, ast.Name):
                        self.assigned.setdefault(target.id, []).append(node.value)
            elif isinstance(node, ast.NamedExpr):
                self.assigned.setdefault(node.target.id, []).append(node.value)

    def value(self, node: ast.expr) -> object:
        """What a name or an attribute stands for; a parameter ``node`` is a `Node`."""
        if isinstance(node, ast.Name):
            return Node if node.id == "node" else self._names.get(node.id)
        if isinstance(node, ast.Attribute):
            return getattr(self.value(node.value), node.attr, None)
        return None

    def covers(self, pattern: ast.pattern, kind: type[Operation]) -> bool:
        """Whether a pattern of a match names a kind of ops."""
        if isinstance(pattern, ast.MatchOr):
            return any(self.covers(part, kind) for part in pattern.patterns)
        return isinstance(pattern, ast.MatchClass) and self.value(pattern.cls) is kind


@cache
def _tree(function: FunctionType) -> ast.FunctionDef:
    tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    assert isinstance(tree, ast.FunctionDef)
    return tree


def _shared(rows: Iterable[Row]) -> list[str]:
    """The reasons that many operators have in common."""
    listed = list(rows)
    counts = Counter(reason for row in listed for reason in row.reasons)
    return [reason for reason, count in counts.items() if count > SHARED * len(listed)]


def _table(rows: Iterable[Row], shared: set[str]) -> str:
    lines = [
        "| operator | runs on | form | stays on the host because |",
        "| --- | --- | --- | --- |",
    ]
    for row in rows:
        reasons = "; ".join(reason for reason in row.reasons if reason not in shared)
        cells = (row.name, row.where, row.form, reasons)
        lines.append(f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |")
    return "\n".join(lines)


def _bullets(texts: Iterable[str]) -> str:
    return "\n".join(f"- {text}" for text in dict.fromkeys(texts))


if __name__ == "__main__":
    main()
