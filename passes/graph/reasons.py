"""Reasons why an op stays on the host: a text for the user, its kind, and a hint at the way out.

Whoever refuses an op says why with a `Reason`, which is the text itself; a plain string will do
where there is no more to say. `keep_on_host` writes it on the op, `host_reason` reads it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from xdsl.dialects.builtin import DYNAMIC_INDEX, StringAttr
from xdsl.ir import Attribute, Operation, SSAValue

from vtac.dialects.graph import ActivationOp, HostOp, shape_of

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


WAYS_OUT = {
    ReasonKind.OPERATOR: "None on this accelerator: it runs in onnxruntime, and the model's other"
    " layers are not affected. docs/operators.md lists what is supported.",
    ReasonKind.ATTRIBUTE: "Export the model in the form that docs/operators.md lists.",
    ReasonKind.TYPE: "Export the model in float32 and give samples (--calibrate), or quantise it to"
    " int8 or uint8.",
    ReasonKind.SHAPE: "Change the shape in the model, to one that docs/operators.md lists as"
    " supported.",
    ReasonKind.NUMBERS: "Give samples whose values are like those of real inputs (--calibrate).",
    ReasonKind.USED_TWICE: "Remove the model's other use of this value.",
    ReasonKind.CYCLE: "None needed: the rest of the region is a launch of its own.",
    ReasonKind.COST: "Offload all: --host-model none, and no --min-macs.",
    ReasonKind.USER: "Leave the option away that keeps it on the host.",
    ReasonKind.PRECISION: "Lower --min-layer-snr.",
    ReasonKind.CAPACITY: "Choose a --target with larger scratchpads.",
    ReasonKind.LAYOUT: "None needed: only data moves.",
    ReasonKind.OTHER: "Run with --save-ir to see the operation.",
}
"""For each kind of reason the way out that applies where a reason has no hint of its own."""

WAYS_OUT_OF_OPERATORS = {
    **dict.fromkeys(
        ("Softmax", "LogSoftmax"),
        "Where only the order of the results matters, as for a label, end the model before it.",
    ),
    **dict.fromkeys(
        ("LayerNormalization", "InstanceNormalization", "GroupNormalization"),
        "Train with BatchNormalization, which becomes part of the layer before it.",
    ),
    **dict.fromkeys(
        ("Erf", "Gelu", "Sigmoid", "Tanh", "Exp", "Mish", "Softplus"),
        "Train with Relu, Clip, LeakyRelu, HardSigmoid or HardSwish instead.",
    ),
    **dict.fromkeys(
        ("LSTM", "GRU", "RNN"),
        "Fix its shapes (--shape) and give all sequences the same length: a long enough layer is"
        " then unrolled, and its products run on the accelerator.",
    ),
    "Resize": "Resize by whole factors, with mode nearest or linear.",
    "Cast": "Leave conversions out of the model: export it in one element type.",
}
"""For operators that no codegen takes, the form of a network that would do without them."""

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
    return HostReason(text.data, found, _way_out(op, found, hint))


def _way_out(op: Operation, kind: ReasonKind, hint: Attribute | None) -> str:
    """The hint that was written on an op, else what helps with its operator or its kind."""
    if isinstance(hint, StringAttr):
        return hint.data
    return WAYS_OUT_OF_OPERATORS.get(onnx_operator(op), WAYS_OUT[kind])


def onnx_operator(op: Operation) -> str:
    """The ONNX operator that an op of several operators stands for, "" for other ops."""
    if isinstance(op, HostOp):
        return op.op_type.data
    return op.operator.data if isinstance(op, ActivationOp) else ""


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
