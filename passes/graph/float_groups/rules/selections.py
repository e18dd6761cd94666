"""Rules of what selects elements: joining, cutting, padding, taking channels.

A concatenation on channels is a sum of convolutions with weights 0 and 1; a slice or a pad is one
whose windows start inside or outside their operand (negative or positive pads).
"""

from collections.abc import Sequence
from typing import Generic

import numpy as np
from xdsl.ir import Operation, SSAValue

from vtac.dialects.context import Array
from vtac.dialects.graph import ConcatOp, PadOp, SliceOp, TakeChannelsOp
from vtac.passes.graph.float_groups.forms import Form, selection
from vtac.passes.graph.float_groups.network import Network
from vtac.passes.graph.float_groups.rules.rule import (
    ErrorContext,
    LinearRule,
    OpT,
    Rules,
    Terms,
    known_shape,
    largest,
)
from vtac.passes.graph.reasons import Reason, ReasonKind

LARGEST_FLOAT32 = float(np.finfo(np.float32).max)

KEEPS_BATCH = Reason(
    "it changes the batch: only channels and space can be joined, cut and padded",
    ReasonKind.ATTRIBUTE,
)


class _Selection(LinearRule[OpT], Generic[OpT]):
    """The common part of the rules of this module."""

    def error(self, op: OpT, errors: Sequence[Array], around: ErrorContext) -> Array | None:
        """Every element has the error of the element of the operand that it is."""
        return largest(*errors)


class _Cut(_Selection[OpT], Generic[OpT]):
    """Selections along any dimension."""

    def why_not(self, op: OpT, network: Network) -> str | None:
        """There is an integer form if the op leaves the batch as it is."""
        batch = known_shape(op.results[0])[0]
        changes = any(known_shape(operand)[0] != batch for operand in op.operands)
        return KEEPS_BATCH if changes else None


class Concat(_Cut[ConcatOp]):
    """A form for each operand; a spatial slice that only the concatenation reads becomes part of
    the form."""

    def enter(self, op: ConcatOp, factor: Array, terms: Terms) -> None:
        """Add each operand in its place."""
        axis, first = op.axis.value.data, 0
        for operand in op.inputs:
            rank = len(known_shape(operand))
            pads = [0] * (2 * rank)
            pads[axis] = first
            first += known_shape(operand)[axis]
            pads[rank + axis] = known_shape(op.result)[axis] - first
            cut = terms.maker(operand)
            if isinstance(cut, SliceOp) and _takes_cut(op, cut):
                terms.covered[cut] = None
                pads = [pad + more for pad, more in zip(pads, _cut_pads(cut), strict=True)]
                steps = cut.steps.get_values()
                terms.forms.append(_taken(op, cut.x, terms.result, factor, pads, steps))
            else:
                terms.forms.append(_taken(op, operand, terms.result, factor, pads))


class Slice(_Cut[SliceOp]):
    """Windows that start and end inside the operand."""

    def enter(self, op: SliceOp, factor: Array, terms: Terms) -> None:
        """One form."""
        steps = op.steps.get_values()
        terms.forms.append(_taken(op, op.x, terms.result, factor, _cut_pads(op), steps))


class Pad(_Cut[PadOp]):
    """Windows that start and end outside the operand."""

    def why_not(self, op: PadOp, network: Network) -> str | None:
        """An integer form pads space only, by a number that the operand's int8 represents."""
        if (reason := super().why_not(op, network)) is not None:
            return reason
        pads, rank = op.pads.get_values(), len(known_shape(op.x))
        if not any((*pads[2:rank], *pads[rank + 2 :])):
            return None
        value, given = op.value.value.data, network.given(op.x)
        lo, hi = (-LARGEST_FLOAT32, LARGEST_FLOAT32) if given is None else given.range
        if not lo <= value <= hi:
            what = f"it pads space with {value:g}, out of the range of its operand"
            return Reason(what, ReasonKind.NUMBERS)
        return None

    def enter(self, op: PadOp, factor: Array, terms: Terms) -> None:
        """Add one form, and the constant in channels of which the operand has no element."""
        pads, value = op.pads.get_values(), op.value.value.data
        form = _taken(op, op.x, terms.result, factor, pads, outside=value)
        terms.forms.append(form)
        part = np.zeros(known_shape(op.result)[1])
        part[: pads[1]] = value
        part[len(part) - pads[len(pads) // 2 + 1] :] = value
        terms.bias += factor * part


class TakeChannels(_Selection[TakeChannelsOp]):
    """Rows of the identity."""

    def enter(self, op: TakeChannelsOp, factor: Array, terms: Terms) -> None:
        """One form."""
        matrix = np.eye(known_shape(op.x)[1])[list(op.indices.get_values())]
        terms.forms.append(selection(op, op.x, terms.result, factor, matrix=matrix))


def _takes_cut(op: ConcatOp, cut: SliceOp) -> bool:
    """Whether a form can join channels and cut space at once."""
    return op.axis.value.data == 1 and known_shape(cut.x)[:2] == known_shape(cut.result)[:2]


def _cut_pads(op: SliceOp) -> list[int]:
    """How far inside its operand the windows of a slice begin and end, as negative pads."""
    starts, steps = op.starts.get_values(), op.steps.get_values()
    reached = [
        start + (count - 1) * step + 1
        for start, step, count in zip(starts, steps, known_shape(op.result), strict=True)
    ]
    ends = [reach - size for reach, size in zip(reached, known_shape(op.x), strict=True)]
    return [*(-start for start in starts), *ends]


def _taken(
    source: Operation,
    operand: SSAValue,
    result: SSAValue,
    factor: Array,
    pads: Sequence[int],
    steps: Sequence[int] | None = None,
    outside: float = 0.0,
) -> Form:
    """The form for pads (perhaps negative) and steps over all dimensions but the batch."""
    shape = known_shape(operand)
    rank, channels = len(shape), shape[1]
    steps = steps or [1] * rank
    group, matrix = channels, np.ones((channels, 1))
    if pads[1] or pads[rank + 1] or steps[1] != 1:
        outputs = (channels + pads[1] + pads[rank + 1] - 1) // steps[1] + 1
        taken = np.arange(outputs) * steps[1] - pads[1]
        group, matrix = 1, (taken[:, None] == np.arange(channels)).astype(np.float64)
    spatial = [*pads[2:rank], *pads[rank + 2 :]]
    return selection(source, operand, result, factor, matrix=matrix, group=group,
                     strides=steps[2:], pads=spatial, outside=outside)  # fmt: skip


RULES: Rules = {
    ConcatOp: Concat(),
    PadOp: Pad(),
    SliceOp: Slice(),
    TakeChannelsOp: TakeChannels(),
}
"""The rules of this module."""
