"""The names under which observations of values are kept beside the IR.

Results of an op carry theirs in ``graph.value_names``, one string per result, empty for a result
without a name. The function's attribute ``graph.inputs`` names its arguments as the model names its
inputs. Names are part of the IR, also of its text form.
"""

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument, OpResult, SSAValue

VALUE_NAMES_ATTRIBUTE = "graph.value_names"
"""Name of an op's attribute that has the name of each of its results."""

INPUTS_ATTRIBUTE = "graph.inputs"
"""Name of a function's attribute that has the name of each of its arguments."""


def value_name(value: SSAValue) -> str | None:
    """The name of a value; None for a result that has none."""
    if isinstance(value, OpResult):
        names = value.op.attributes.get(VALUE_NAMES_ATTRIBUTE)
        if not isinstance(names, ArrayAttr) or value.index >= len(names):
            return None
        name = names.data[value.index]
        return name.data or None if isinstance(name, StringAttr) else None
    assert isinstance(value, BlockArgument)
    return argument_name(value)


def argument_name(argument: BlockArgument) -> str:
    """The model's name of an input, or ``input_N`` where it is not known."""
    function = argument.block.parent_op()
    names = function.attributes.get(INPUTS_ATTRIBUTE) if isinstance(function, FuncOp) else None
    if isinstance(names, ArrayAttr) and argument.index < len(names):
        name = names.data[argument.index]
        if isinstance(name, StringAttr):
            return name.data
    return f"input_{argument.index}"


def set_value_name(value: OpResult, name: str) -> None:
    """Give a result its name."""
    present = value.op.attributes.get(VALUE_NAMES_ATTRIBUTE)
    names = [StringAttr("")] * len(value.op.results)
    if isinstance(present, ArrayAttr) and len(present) == len(names):
        names = [each if isinstance(each, StringAttr) else StringAttr("") for each in present]
    names[value.index] = StringAttr(name)
    value.op.attributes[VALUE_NAMES_ATTRIBUTE] = ArrayAttr(names)
