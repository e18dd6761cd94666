"""``annotate``: each composite gets its codegen, each op that stays its reason.

The second step of BYOC's partitioning (section 3.1.2). A composite belongs to the codegen whose
name starts its pattern's, if that codegen does not refuse it; everything else stays on the host,
and an op that computes says why.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import CallOp, ReturnOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from vtac.dialects.graph import (
    CompositeOp,
    ConstantOp,
    ServesOthers,
    YieldOp,
)
from vtac.dialects.target import Target
from vtac.passes.graph.codegen import Codegen, codegens_of, functions_of_host, target_of_module
from vtac.passes.graph.reasons import (
    HOST_REASON,
    Reason,
    ReasonKind,
    keep_on_host,
    onnx_operator,
)


@dataclass(frozen=True)
class AnnotatePass(ModulePass):
    """Give composites their codegen, and ops that stay on the host a reason."""

    name = "annotate"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Annotate the ops of every function that no codegen has taken."""
        target = target_of_module(op)
        codegens = {codegen.name: codegen for codegen in codegens_of(ctx)}
        for function in functions_of_host(op):
            for block in function.body.blocks:
                for inner in list(block.ops):
                    if isinstance(inner, CompositeOp):
                        _annotate(inner, codegens, target)
                for inner in block.ops:
                    if not isinstance(inner, CompositeOp) and needs_reason(type(inner)):
                        _explain(inner, codegens, target)


def _annotate(
    composite: CompositeOp, codegens: Mapping[str, Codegen], target: Target | None
) -> None:
    name = composite.pattern.data.partition(".")[0]
    if name not in codegens:
        return
    refused = codegens[name].refusal(composite, target)
    if refused is None:
        composite.codegen = StringAttr(name)
    else:
        dissolve(composite, refused)


def _explain(op: Operation, codegens: Mapping[str, Codegen], target: Target | None) -> None:
    if HOST_REASON not in op.attributes:
        said = (codegen.why_not(op, target) for codegen in codegens.values())
        keep_on_host(op, next((text for text in said if text is not None), _usual(op)))


def needs_reason(kind: type[Operation]) -> bool:
    """Whether ops of a kind, if they stay on the host, need a reason.

    All do but calls, returns, and ops that only serve others (`ServesOthers`).
    """
    return not issubclass(kind, CallOp | ReturnOp) and not kind.has_trait(ServesOthers)


def operator_of(op: Operation) -> str:
    """The name of an op's kind for messages: the ONNX operator, if the op itself says which."""
    return onnx_operator(op) or op.name.removeprefix("graph.")


def _usual(op: Operation) -> Reason:
    return Reason(
        f"operator {operator_of(op)} is not supported on the accelerator", ReasonKind.OPERATOR
    )


def dissolve(composite: CompositeOp, reason: str) -> None:
    """Put the ops of a composite back in its place, with the reason why they stay."""
    body, parent = composite.body.block, composite.parent
    assert parent is not None
    values: dict[SSAValue, SSAValue] = dict(zip(body.args, composite.inputs, strict=True))
    for inner in body.ops:
        if isinstance(inner, YieldOp):
            for old, new in zip(composite.outputs, inner.arguments, strict=True):
                values[new].name_hint = old.name_hint or values[new].name_hint
                old.replace_all_uses_with(values[new])
            continue
        copy = inner.clone(values)
        copy.location = inner.location
        if not isinstance(copy, ConstantOp):
            keep_on_host(copy, reason)
        parent.insert_op_before(copy, composite)
    parent.erase_op(composite)
