"""Reasons why an op stays on the host: a text for the user, its kind, and a hint at the way out.

Whoever refuses an op says why with a `Reason`, which is the text itself; a plain string will do
where there is no more to say. `keep_on_host` writes it on the op, `host_reason` reads it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from xdsl.dialects.builtin import DYNAMIC_INDEX, StringAttr
from xdsl.ir import Operation, SSAValue

from vtac.dialects.graph import HostOp, shape_of

HOST_REASON = "graph.host_reason"
"""Attribute of an op that stays on the host: why, in words for the user."""

NOTE = "graph.note"
"""Attribute of an op that goes to the accelerator: what was chosen for it and why, for the user."""

_KIND = "graph.host_kind"
_HINT = "graph.host_hint"


class ReasonKind(Enum):
    """Kinds of reasons; the value is the text that users read."""

    OPERATOR = "unsupported operator"
    ATTRIBUTE = "unsupported attribute"
    TYPE = "unsupported type"
    SHAPE = "unsupported shape"
    NUMBERS = "no integers for it"
    USED_TWICE = "used elsewhere"
    CYCLE = "would make a cycle"
    COST = "not worth it"
    USER = "kept by the user"
    PRECISION = "less precise than the user asks for"
    CAPACITY = "no room on the machine"
    LAYOUT = "laid out on the way to the accelerator"
    OTHER = "other reasons"


SETTLED = (ReasonKind.USER, ReasonKind.PRECISION, ReasonKind.CAPACITY, ReasonKind.LAYOUT)
"""Kinds of reasons that are known before codegens are asked: no codegen takes such an op, and the
quantiser does not round it."""


class Reason(str):
    """Why an op stays on the host. hint: the way out, if there is one."""

    kind: ReasonKind
    hint: str

    def __new__(cls, text: str, kind: ReasonKind = ReasonKind.OTHER, hint: str = "") -> "Reason":
        """A reason with this text, kind and hint."""
        reason = super().__new__(cls, text)
        reason.kind, reason.hint = kind, hint
        return reason


@dataclass(frozen=True)
class HostReason:
    """The reason that an op carries as an attribute."""

    text: str
    kind: ReasonKind
    hint: str = ""


def keep_on_host(op: Operation, reason: str) -> None:
    """Write why an op stays on the host, in place of what was written before."""
    forget_reason(op)
    op.attributes[HOST_REASON] = StringAttr(reason)
    if isinstance(reason, Reason):
        op.attributes[_KIND] = StringAttr(reason.kind.name.lower())
        if reason.hint:
            op.attributes[_HINT] = StringAttr(reason.hint)


def forget_reason(op: Operation) -> None:
    """Remove the reason from an op that a codegen takes after all."""
    for name in (HOST_REASON, _KIND, _HINT):
        op.attributes.pop(name, None)


def host_reason(op: Operation) -> HostReason | None:
    """The reason that is written on an op, if there is one."""
    text, kind, hint = (op.attributes.get(name) for name in (HOST_REASON, _KIND, _HINT))
    if not isinstance(text, StringAttr):
        return None
    if isinstance(kind, StringAttr) and kind.data.upper() in ReasonKind.__members__:
        found = ReasonKind[kind.data.upper()]
    else:
        found = ReasonKind.OPERATOR if isinstance(op, HostOp) else ReasonKind.OTHER
    return HostReason(text.data, found, hint.data if isinstance(hint, StringAttr) else "")


def is_settled(op: Operation) -> bool:
    """Whether an op has a reason of a kind in `SETTLED`."""
    found = host_reason(op)
    return found is not None and found.kind in SETTLED


def settled_reasons(ops: Iterable[Operation]) -> dict[Operation, str]:
    """The reasons of those ops that are settled."""
    found = {op: host_reason(op) for op in ops if is_settled(op)}
    return {op: Reason(r.text, r.kind, r.hint) for op, r in found.items() if r is not None}


def unusable_shape(value: SSAValue) -> Reason | None:
    """Why a tensor's shape keeps an op on the host: extents must be known, and not 0."""
    shape = shape_of(value)
    if shape is not None and DYNAMIC_INDEX in shape:
        known = ", ".join("?" if extent == DYNAMIC_INDEX else str(extent) for extent in shape)
        what = f"shape [{known}] is not known when compiling"
        return Reason(what, ReasonKind.SHAPE, "Fix it: --shape.")
    if shape is not None and 0 in shape:
        return Reason(f"shape {list(shape)} has no elements", ReasonKind.SHAPE)
    return None
