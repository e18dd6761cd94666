"""Updates the calls of a kernel whose results change, and the functions that return them.

The caller of a function learns the change from the `LayoutAttr` of the result.
"""

from collections.abc import Callable, Iterator, Sequence

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FunctionType, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import SSAValue
from xdsl.rewriter import Rewriter

from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.te import (
    LAYOUT_ATTRIBUTE,
    CallOp,
    KernelOp,
    Layout,
    LayoutAttr,
    YieldOp,
    shaped,
)
from vtac.passes.te.parameters import calls_of

Attributes = ArrayAttr[DictionaryAttr]

Part = tuple[SSAValue, Callable[[Layout], Layout]]
"""A new result of a kernel, and its layout given that of the result it stands for."""


def results_of(kernel: KernelOp) -> list[SSAValue]:
    """The tensors that a kernel returns."""
    last = kernel.body.block.last_op
    assert isinstance(last, YieldOp)
    return list(last.values)


def layouts_of(
    attributes: Attributes | None, values: Sequence[SSAValue], hint: str
) -> list[Layout]:
    """The layouts of the parameters or results of a function; the default is that of the tensor
    itself."""
    found = []
    for number, value in enumerate(values):
        attr = attributes.data[number].data.get(LAYOUT_ATTRIBUTE) if attributes else None
        plain = Layout.plain(value.name_hint or f"{hint}{number}", shaped(value).get_shape())
        found.append(attr.data if isinstance(attr, LayoutAttr) else plain)
    return found


def with_layouts(attributes: Attributes | None, layouts: Sequence[Layout]) -> Attributes:
    """The attributes of parameters or results, with these layouts set in them.

    attributes: those before, one for each layout; None if there are none, or if they are for
    another number of parameters or results.
    """
    old = attributes.data if attributes else [DictionaryAttr({})] * len(layouts)
    return ArrayAttr(
        DictionaryAttr({**known.data, LAYOUT_ATTRIBUTE: LayoutAttr(layout)})
        for known, layout in zip(old, layouts, strict=True)
    )


def replace_results(
    module: ModuleOp, kernel: KernelOp, parts: Sequence[Sequence[Part] | None], why: str
) -> None:
    """Let a kernel return other tensors: for each result its replacements, or None to keep it.

    Raises `CompileError` where another kernel reads a result that changes; ``why`` says why it may
    not.
    """
    old, block = kernel.body.block.last_op, kernel.body.block
    assert isinstance(old, YieldOp)
    values: list[SSAValue] = []
    for value, found in zip(old.values, parts, strict=True):
        values += [value] if found is None else [part for part, _ in found]
    Rewriter.erase_op(old)
    block.add_op(YieldOp(*values))
    kernel.properties["function_type"] = FunctionType.from_lists(
        kernel.function_type.inputs.data, [value.type for value in values]
    )
    for call in calls_of(module, kernel):
        _replace_call(call, kernel, parts, why)


def _replace_call(
    call: CallOp, kernel: KernelOp, parts: Sequence[Sequence[Part] | None], why: str
) -> None:
    name = kernel.sym_name.data
    new = CallOp(name, list(call.arguments), kernel.function_type.outputs.data, call.unit)
    new.location, new.attributes = call.location, call.attributes.copy()
    block = call.parent
    assert block is not None
    block.insert_op_before(new, call)
    fresh: Iterator[SSAValue] = iter(new.outputs)
    changed: dict[SSAValue, list[tuple[SSAValue, Callable[[Layout], Layout]]]] = {}
    for before, found in zip(call.outputs, parts, strict=True):
        if found is None:
            after = next(fresh)
            after.name_hint = before.name_hint
            before.replace_all_uses_with(after)
            continue
        if any(not isinstance(use.operation, ReturnOp) for use in before.uses):
            raise CompileError(Problem(f"te.kernel @{name}", why))
        changed[before] = [(next(fresh), layout) for _, layout in found]
        for after, _ in changed[before]:
            after.name_hint = before.name_hint
    last, function = block.last_op, block.parent_op()
    if isinstance(last, ReturnOp) and isinstance(function, FuncOp):
        _replace_return(function, last, changed)
    Rewriter.erase_op(call)


def _replace_return(
    function: FuncOp,
    last: ReturnOp,
    changed: dict[SSAValue, list[tuple[SSAValue, Callable[[Layout], Layout]]]],
) -> None:
    old = list(last.arguments)
    if not any(value in changed for value in old):
        return
    values: list[SSAValue] = []
    layouts: list[Layout] = []
    for value, layout in zip(old, layouts_of(function.res_attrs, old, "result"), strict=True):
        same: list[tuple[SSAValue, Callable[[Layout], Layout]]] = [(value, lambda known: known)]
        for after, change in changed.get(value, same):
            values.append(after)
            layouts.append(change(layout))
    Rewriter.replace_op(last, ReturnOp(*values))
    function.res_attrs = with_layouts(None, layouts)
    function.properties["function_type"] = FunctionType.from_lists(
        function.function_type.inputs.data, [value.type for value in values]
    )
