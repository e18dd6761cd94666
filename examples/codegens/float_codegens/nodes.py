"""Float functions as lists of nodes, which the codegens ``json`` and ``c`` share.

Both take what a library of kernels in 32-bit floating point has: convolutions and dense layers,
each with or without a relu in the same kernel, and a few single ops.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from xdsl.dialects.builtin import TensorType, f32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue

from vtac.dialects.context import Array, VtacContext, constant_value
from vtac.dialects.graph import (
    AddOp,
    CompositeOp,
    ConstantOp,
    ConvOp,
    GemmOp,
    MaxPoolOp,
    ReluOp,
    ReshapeOp,
    YieldOp,
    is_static,
    shape_of,
)
from vtac.dialects.locations import layer_of
from vtac.dialects.target import Target
from vtac.passes.graph.codegen import Codegen, NamedPattern
from vtac.passes.graph.patterns import Predicate, any_operands, op
from vtac.passes.graph.reasons import Reason, ReasonKind

SPATIAL = 2
"""The number of spatial dimensions of convolution and pooling."""


@dataclass(frozen=True)
class Node:
    """A call of a kernel. op: the kernel. layer: the network's node. shape: shape of the result.

    inputs: numbers of values. Values are numbered in the order: inputs of the function, constants,
    results of the nodes.
    """

    op: str
    layer: str
    inputs: tuple[int, ...]
    shape: tuple[int, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class NodeList:
    """A function: its inputs and constants, its nodes in order, and which values it returns."""

    inputs: tuple[tuple[int, ...], ...]
    constants: tuple[Array, ...]
    nodes: tuple[Node, ...]
    outputs: tuple[int, ...]


def shapes_of(listed: NodeList) -> list[tuple[int, ...]]:
    """The shape of each value, by number."""
    constants = [tuple(array.shape) for array in listed.constants]
    return [*listed.inputs, *constants, *(node.shape for node in listed.nodes)]


class FloatCodegen(Codegen):
    """Takes ops that have a kernel; subclasses make a payload of the nodes (`node_list`)."""

    def patterns(self, target: Target | None) -> Sequence[NamedPattern]:
        """Convolutions and dense layers that end in a relu."""
        taken = self.predicates(target)
        rows: dict[str, type[Operation]] = {"conv_relu": ConvOp, "gemm_relu": GemmOp}
        return [
            NamedPattern(name, op(ReluOp, any_operands(kind).where(taken[kind])))
            for name, kind in rows.items()
        ]

    def predicates(self, target: Target | None) -> Mapping[type[Operation], Predicate]:
        """The ops that have kernels, with the conditions of the kernels."""
        what = f"codegen {self.name}"

        def floats(operation: Operation) -> str | None:
            return _floats(operation, what)

        def window(operation: Operation) -> str | None:
            return _floats(operation, what) or _window(operation, what)

        def same_shape(operation: Operation) -> str | None:
            return _floats(operation, what) or _same_shape(operation)

        return {
            ConvOp: window,
            GemmOp: floats,
            ReluOp: floats,
            AddOp: same_shape,
            MaxPoolOp: window,
            ReshapeOp: floats,
        }


def _floats(operation: Operation, what: str) -> Reason | None:
    for value in (*operation.operands, *operation.results):
        if not isinstance(value.type, TensorType) or value.type.get_element_type() != f32:
            return Reason(
                f"it is not all in f32, which is what {what} computes with", ReasonKind.TYPE
            )
        shape = shape_of(value) or ()
        if not is_static(value) or 0 in shape:
            hint = "" if 0 in shape else "Fix unknown dimensions: --shape."
            return Reason("a shape is not known or empty", ReasonKind.SHAPE, hint)
    return None


def _window(operation: Operation, what: str) -> Reason | None:
    assert isinstance(operation, ConvOp | MaxPoolOp)
    rank = len(operation.kernel_shape())
    if rank != SPATIAL:
        return Reason(f"its window is {rank}-D, {what} has 2-D ones", ReasonKind.SHAPE)
    return None


def _same_shape(operation: Operation) -> Reason | None:
    shapes = [list(shape_of(value) or ()) for value in operation.operands]
    if shapes[0] == shapes[1]:
        return None
    return Reason(f"broadcasting addition of shapes {shapes[0]} and {shapes[1]}", ReasonKind.SHAPE)


def node_list(function: FuncOp, ctx: VtacContext) -> NodeList:
    """The nodes of an outlined function of a `FloatCodegen`."""
    block = function.body.block
    composites = [op for op in block.ops if isinstance(op, CompositeOp)]
    numbers: dict[SSAValue, int] = {argument: i for i, argument in enumerate(block.args)}
    constants: dict[SSAValue, Array] = {}
    for inner in function.body.walk():
        if isinstance(inner, ConstantOp):
            numbers[inner.result] = len(numbers)
            constants[inner.result] = constant_value(ctx, inner.value, inner.result.type)
    nodes: list[Node] = []
    for composite in composites:
        body = composite.body.block
        numbers.update(
            (inside, numbers[outside])
            for inside, outside in zip(body.args, composite.inputs, strict=True)
        )
        node = _node(composite, numbers)
        numbers[composite.outputs[0]] = len(block.args) + len(constants) + len(nodes)
        nodes.append(node)
    last = block.last_op
    assert isinstance(last, ReturnOp)
    return NodeList(
        tuple(shape_of(argument) or () for argument in block.args),
        tuple(constants.values()),
        tuple(nodes),
        tuple(numbers[value] for value in last.arguments),
    )


def _node(composite: CompositeOp, numbers: Mapping[SSAValue, int]) -> Node:
    core, *more = [
        op for op in composite.body.block.ops if not isinstance(op, ConstantOp | YieldOp)
    ]
    attributes: dict[str, Any] = {}
    match core:
        case ConvOp():
            attributes = _window_attributes(core) | {"group": core.group.value.data}
        case MaxPoolOp():
            attributes = _window_attributes(core) | {"kernel": list(core.kernel_shape())}
        case GemmOp():
            attributes = {
                "alpha": core.alpha.value.data,
                "beta": core.beta.value.data,
                "trans_a": bool(core.trans_a.value.data),
                "trans_b": bool(core.trans_b.value.data),
            }
    if isinstance(core, ConvOp | GemmOp):
        attributes["relu"] = bool(more)
    return Node(
        core.name.removeprefix("graph."),
        layer_of(core),
        tuple(numbers[value] for value in core.operands),
        shape_of(composite.outputs[0]) or (),
        attributes,
    )


def _window_attributes(op: ConvOp | MaxPoolOp) -> dict[str, Any]:
    return {
        "strides": list(op.strides.get_values()),
        "pads": list(op.pads.get_values()),
        "dilations": list(op.dilations.get_values()),
    }
