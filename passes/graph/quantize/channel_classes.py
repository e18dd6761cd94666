"""Values of a float network whose channels must lie in one order: classes that can be reordered.

A dense layer mixes its channels, so those of its operand and of its result may each lie in any
order: the weights follow. A depthwise convolution, an addition or a pooling takes each channel by
itself, so its operands and its result share one order. A class holds the values that are tied in
this way. It can be reordered if nothing else needs its order: the host, a concatenation, a slice, a
grouped convolution, a transposition.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.func import ReturnOp
from xdsl.ir import SSAValue

from vtac.dialects.graph import MovesElements, ReshapeOp, UpsampleOp, shape_of
from vtac.passes.graph.float_groups.forms import Form
from vtac.passes.graph.float_groups.groups import Group, PassThrough, Sum
from vtac.passes.graph.float_groups.network import channels_of


@dataclass(frozen=True, eq=False)
class ChannelClass:
    """Values that share the order of their channels, and the sums that compute some of them."""

    values: Sequence[SSAValue]
    sums: Sequence[Sum]


def reorderable(groups: Sequence[Group]) -> list[ChannelClass]:
    """The classes of results of groups whose channels may be reordered, in order of execution."""
    ties = _Ties()
    made = {group.root.results[0] for group in groups}
    covered = {op for group in groups for op in group.covered}
    for group in groups:
        result = group.root.results[0]
        for value in group.inputs:
            if value not in made:
                ties.fix(value)
        readers = (use.operation for use in result.uses)
        if group.leaves_int32 or any(op not in covered or _returns(op) for op in readers):
            ties.fix(result)
        _tie(ties, group)
    classes: dict[SSAValue, list[Group]] = {}
    for group in groups:
        if not ties.is_fixed(group.root.results[0]):
            classes.setdefault(ties.root(group.root.results[0]), []).append(group)
    return [
        ChannelClass([x.root.results[0] for x in members], [x for x in members if _is_sum(x)])  # type: ignore[misc]
        for members in classes.values()
    ]


class _Ties:
    """Values that must share an order (union-find), and those whose order is fixed."""

    def __init__(self) -> None:
        self._parents: dict[SSAValue, SSAValue] = {}
        self._fixed: set[SSAValue] = set()

    def root(self, value: SSAValue) -> SSAValue:
        """The representative of all values whose channels have the same order as this one's."""
        while (parent := self._parents.get(value, value)) is not value:
            self._parents[value] = self._parents.get(parent, parent)
            value = parent
        return value

    def tie(self, first: SSAValue, second: SSAValue) -> None:
        """Require that the channels of two values have the same order."""
        first, second = self.root(first), self.root(second)
        if first is second:
            return
        self._parents[second] = first
        if second in self._fixed:
            self._fixed.add(first)

    def fix(self, value: SSAValue) -> None:
        """Require that the order of the channels of a value is kept."""
        self._fixed.add(self.root(value))

    def is_fixed(self, value: SSAValue) -> bool:
        """Whether the order of the channels of a value must be kept."""
        return self.root(value) in self._fixed


def _is_sum(group: Group) -> bool:
    return isinstance(group, Sum)


def _returns(op: object) -> bool:
    return isinstance(op, ReturnOp)


def _tie(ties: _Ties, group: Group) -> None:
    """What one group needs of the orders of its operands and its result."""
    result = group.root.results[0]
    if isinstance(group, PassThrough):
        if _keeps_channels(group):
            ties.tie(group.inputs[0], result)
        else:
            ties.fix(group.inputs[0])
            ties.fix(result)
    elif not isinstance(group, Sum):
        for value in (*group.inputs, result):
            ties.fix(value)
    else:
        for form in group.forms:
            if by_channel(form):
                ties.tie(form.operand, result)
            elif form.group != 1 or not form.multiplies:
                ties.fix(form.operand)
                ties.fix(result)


def by_channel(form: Form) -> bool:
    """Whether each channel of the result reads the same channel of the operand, and no other."""
    channels = channels_of(form.operand)
    if channels != channels_of(form.result) or (form.only_selects and not form.plain):
        return False
    return form.plain or form.group == channels > 1


def _keeps_channels(group: PassThrough) -> bool:
    """Whether an op that passes int8 through leaves each channel where it is."""
    op = group.root
    before, after = shape_of(op.operands[0]) or (), shape_of(op.results[0]) or ()
    if isinstance(op, ReshapeOp | UpsampleOp) or not op.has_trait(MovesElements):
        return len(before) >= 2 and before[:2] == after[:2]
    return False
