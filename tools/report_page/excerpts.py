"""What the kept IR of a package says about each node, level by level.

The IR is the text that the compiler prints with locations (`vta-compile --keep-ir`): each operation
begins on a line of its own and ends in ``loc(...)``, and regions are indented. An operation belongs
to the node at which it is located, a kernel and its schedule to the nodes whose calls name it.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

_LOCATION = re.compile(r' loc\((?:unknown|"(?:[^"\\]|\\.)*")\)')
_NAMED = re.compile(r' loc\(("(?:[^"\\]|\\.)*")\)$')
_CALL = re.compile(r"\bte\.call @(\"(?:[^\"\\]|\\.)*\"|[\w.$-]+)")
_SYMBOL = re.compile(r"^(te\.kernel|te\.schedule) @(\"(?:[^\"\\]|\\.)*\"|[\w.$-]+)")
_CHOICE = re.compile(r"\bchoice = (\[(?:\"(?:[^\"\\]|\\.)*\"(?:, )?)*\])")
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
_ESTIMATE = re.compile(r"\bestimate = (\d+)")

SCHEDULE = "schedule"
"""The name under which schedules are shown, beside the names of levels."""


@dataclass(frozen=True)
class Excerpt:
    """Lines of a level that belong to a node. total: how many there are before any were cut."""

    level: str
    text: str
    total: int


@dataclass
class NodeIR:
    """The excerpts of a node in the order of levels, and what its schedule was chosen for.

    choices: sentences of the scheduler. estimate: the cycles that it expected.
    """

    excerpts: list[Excerpt] = field(default_factory=list)
    choices: tuple[str, ...] = ()
    estimate: int | None = None


def node_irs(ir: Mapping[str, str], lines: int) -> dict[str, NodeIR]:
    """The IR of each node. ir: the text of each level. lines: the most lines of an excerpt."""
    found: defaultdict[str, NodeIR] = defaultdict(NodeIR)
    for level, text in ir.items():
        parts = _level_parts(text.splitlines())
        for node, own in parts.own.items():
            _add(found[node], level, own, lines)
            for kernel in parts.calls.get(node, ()):
                _add(found[node], level, parts.kernels.get(kernel, []), lines)
                schedule = parts.schedules.get(kernel, [])
                _add(found[node], SCHEDULE, schedule, lines)
                if schedule:
                    _read_choices(found[node], schedule[0])
    return dict(found)


def _add(node: NodeIR, level: str, block: Sequence[str], lines: int) -> None:
    """Add lines to a node, joined with the excerpt of the same level if it has one."""
    if not block:
        return
    text = "\n".join(_LOCATION.sub("", line) for line in block[:lines])
    if node.excerpts and node.excerpts[-1].level == level:
        last = node.excerpts.pop()
        node.excerpts.append(Excerpt(level, f"{last.text}\n{text}", last.total + len(block)))
        return
    node.excerpts.append(Excerpt(level, text, len(block)))


def _read_choices(node: NodeIR, header: str) -> None:
    if match := _CHOICE.search(header):
        node.choices = tuple(_unescaped(text) for text in _STRING.findall(match[1]))
    if match := _ESTIMATE.search(header):
        node.estimate = int(match[1])


@dataclass
class _LevelParts:
    """The lines of a level: those of each node, of each kernel and of each schedule."""

    own: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    calls: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    kernels: dict[str, list[str]] = field(default_factory=dict)
    schedules: dict[str, list[str]] = field(default_factory=dict)


def _level_parts(lines: Sequence[str]) -> _LevelParts:
    parts = _LevelParts()
    _collect(lines[1:-1], parts, "")
    return parts


def _collect(lines: Sequence[str], parts: _LevelParts, around: str) -> None:
    """Sort operations into parts. around: the node of the operation that holds them."""
    for block in _operations(lines):
        if symbol := _SYMBOL.match(block[0]):
            is_kernel = symbol[1] == "te.kernel"
            (parts.kernels if is_kernel else parts.schedules)[symbol[2]] = block
            continue
        node = _node_of(block[-1])
        if node and node != around:
            parts.own[node] += block
            calls = parts.calls[node]
            calls += [m[1] for line in block if (m := _CALL.search(line)) and m[1] not in calls]
        if len(block) > 1:
            _collect(block[1:-1], parts, node or around)


def _operations(lines: Sequence[str]) -> Iterator[list[str]]:
    """The operations of a region, each as its lines without the region's indentation."""
    block: list[str] = []
    indent = 0
    for line in lines:
        depth = len(line) - len(line.lstrip(" "))
        if not block:
            if line.lstrip().startswith("^") or not line.strip():
                continue  # the header of a basic block
            indent = depth
        block.append(line[indent:])
        opens = line.endswith("{")
        closes = depth == indent and line[depth:].startswith("}")
        if not opens and (len(block) == 1 or closes):
            yield block
            block = []


def _node_of(line: str) -> str:
    match = _NAMED.search(line)
    return _unescaped(match[1][1:-1]) if match else ""


def _unescaped(literal: str) -> str:
    """The text of a string literal of MLIR, whose escapes are ``\\\\`` and bytes in two digits."""
    parts = re.split(rb"\\(\\|[0-9A-Fa-f]{2})", literal.encode())
    for place in range(1, len(parts), 2):
        code = parts[place]
        parts[place] = code if code == b"\\" else bytes([int(code, 16)])
    return b"".join(parts).decode(errors="replace")
