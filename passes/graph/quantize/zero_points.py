"""Which values have the zero point -128: those that are never negative.

A value after a relu uses half of a symmetric int8; with all of [-128, 127] for [0, hi] its steps
are half as large (Jacob et al., section 2.1). Readers pay nothing: a zero point adds one number per
channel to a sum of products, which the bias subtracts again. Padding holds the zero point too
(``pad_value`` of `ConvOp` and `SumPoolOp`; te-correct-borders makes this cheap).
"""

from collections.abc import Callable, Iterable, Sequence

from xdsl.ir import SSAValue

from vtac.passes.graph.float_groups.contractions import Contraction
from vtac.passes.graph.float_groups.groups import Group, Sum
from vtac.passes.graph.float_groups.network import Network

LOWEST = -128


def find_shifted(
    network: Network, groups: Sequence[Group], variable: Callable[[SSAValue], SSAValue]
) -> set[SSAValue]:
    """The variables with zero point -128.

    variable: maps a value to the representative of the values that share its scale, such as the
    operand and the result of a max pooling.
    """
    values = [value for group in groups for value in _values(group)]
    shifted = {variable(value) for value in values}
    for value in values:
        found = network.range_of(value)
        if found is None or found[0] < 0 or found[1] <= 0 or network.constant(value) is not None:
            shifted.discard(variable(value))
    for group in groups:
        if isinstance(group, Contraction):  # here a zero point would cost a product of its own
            shifted -= {variable(value) for value in group.inputs}
        for form in group.forms if isinstance(group, Sum) else ():
            if form.outside < 0:
                shifted.discard(variable(form.operand))
    return shifted


def _values(group: Group) -> Iterable[SSAValue]:
    """The values that a group reads or makes as int8."""
    yield from group.inputs
    if not group.leaves_int32:
        yield group.root.results[0]
