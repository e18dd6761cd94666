"""Reading and writing the calibrated range of a value.

The attribute ``graph.ranges`` of an op holds one ``#graph.range`` (or unit, for "not known") per
result; the attribute ``graph.range`` of a function's argument holds that of the argument.
"""

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, UnitAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, BlockArgument, OpResult, SSAValue

from vtac.dialects.graph.attributes import RANGES_ATTRIBUTE, RangeAttr

ARGUMENT_RANGE_ATTRIBUTE = "graph.range"
"""Name of a function argument's attribute that carries its range."""


def range_of(value: SSAValue) -> tuple[float, float] | None:
    """The calibrated interval of a value, if it has one."""
    found: Attribute | None = None
    if isinstance(value, OpResult):
        ranges = value.op.attributes.get(RANGES_ATTRIBUTE)
        if isinstance(ranges, ArrayAttr) and value.index < len(ranges):
            found = ranges.data[value.index]
    elif isinstance(value, BlockArgument):
        found = _argument_attributes(value).get(ARGUMENT_RANGE_ATTRIBUTE)
    return found.bounds if isinstance(found, RangeAttr) else None


def set_range(value: SSAValue, lo: float, hi: float) -> None:
    """Record the interval of a value: a result of any op, or an argument of a function."""
    if isinstance(value, OpResult):
        present = value.op.attributes.get(RANGES_ATTRIBUTE)
        ranges: list[Attribute] = [UnitAttr()] * len(value.op.results)
        if isinstance(present, ArrayAttr) and len(present) == len(ranges):
            ranges = list(present.data)
        ranges[value.index] = RangeAttr(lo, hi)
        value.op.attributes[RANGES_ATTRIBUTE] = ArrayAttr(ranges)
    elif isinstance(value, BlockArgument):
        function = value.block.parent_op()
        assert isinstance(function, FuncOp), "ranges belong to arguments of functions"
        arguments = function.arg_attrs
        known = [DictionaryAttr({})] * len(function.args) if arguments is None else arguments.data
        own = {**known[value.index].data, ARGUMENT_RANGE_ATTRIBUTE: RangeAttr(lo, hi)}
        changed = (*known[: value.index], DictionaryAttr(own), *known[value.index + 1 :])
        function.arg_attrs = ArrayAttr(changed)


def _argument_attributes(argument: BlockArgument) -> dict[str, Attribute]:
    function = argument.block.parent_op()
    if not isinstance(function, FuncOp) or function.arg_attrs is None:
        return {}
    return dict(function.arg_attrs.data[argument.index].data)
