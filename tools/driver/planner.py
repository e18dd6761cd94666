"""Cuts a partitioned network into the steps of a package: host parts around launches.

``@main`` consists of calls to accelerator functions and of host ops. Steps alternate: first every
host op whose operands are available, then every launch whose operands are available, and so on;
this makes as few host parts as the dependences allow.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from onnx import TensorProto, helper
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ArrayAttr,
    ModuleOp,
    StringAttr,
    TensorType,
    UnrankedTensorType,
)
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue

from vtac.dialects.context import Array, VtacContext, element_dtype
from vtac.dialects.graph import ConstantOp, OpaqueType, packing
from vtac.lowering.graph_to_onnx import build_model, opsets_of
from vtac.passes.graph.codegen import CODEGEN
from vtac.runtime.host import detach_blobs
from vtac.runtime.package import HOST, LAUNCH, Output, Packing, Step, Value, lifetimes


@dataclass(frozen=True)
class NetworkSteps:
    """The steps of a package, and the values, host parts and blobs that they refer to."""

    inputs: tuple[str, ...]
    outputs: tuple[Output, ...]
    values: tuple[Value, ...]
    steps: tuple[Step, ...]
    host_parts: Mapping[str, bytes]
    blobs: Mapping[str, bytes]


@dataclass(frozen=True)
class _Piece:
    """A step without names yet: host ops, or one call."""

    ops: Sequence[Operation]
    inputs: Sequence[SSAValue]
    outputs: Sequence[SSAValue]

    @property
    def call(self) -> CallOp | None:
        """The call, if it is a launch."""
        return self.ops[0] if isinstance(self.ops[0], CallOp) else None


def main_function(module: ModuleOp) -> FuncOp:
    """The function that holds the network, ``@main``."""
    return next(op for op in module.ops if isinstance(op, FuncOp) and op.sym_name.data == "main")


def strings(attribute: Attribute | None) -> list[str]:
    """The strings of an array attribute."""
    if not isinstance(attribute, ArrayAttr):
        return []
    return [item.data for item in attribute.data if isinstance(item, StringAttr)]


def network_steps(module: ModuleOp, ctx: VtacContext) -> NetworkSteps:
    """The steps of ``@main``, with its host parts as ONNX. Raises `CompileError`."""
    main = main_function(module)
    last = main.body.block.last_op
    assert isinstance(last, ReturnOp)
    pieces = _cut([op for op in main.body.block.ops if op is not last], last.arguments)
    inputs = strings(main.attributes.get("graph.inputs"))
    outputs = strings(main.attributes.get("graph.outputs"))
    names = _names(main, inputs, last.arguments, outputs, pieces)
    opsets = opsets_of(module)
    host_parts: dict[str, bytes] = {}
    blobs: dict[str, bytes] = {}
    steps = []
    for piece in pieces:
        ends = tuple(names[v] for v in piece.inputs), tuple(names[v] for v in piece.outputs)
        if piece.call is not None:
            steps.append(Step(LAUNCH, piece.call.callee.root_reference.data, *ends))
            continue
        part = f"host_{len(host_parts)}"
        weights: dict[str, Array] = {}
        model = build_model(
            piece.ops, piece.inputs, piece.outputs, names, ctx, opsets, weights=weights
        )
        blobs |= detach_blobs(model, weights)
        host_parts[part] = model.SerializeToString(deterministic=True)
        steps.append(Step(HOST, part, *ends))
    results = tuple(
        Output(name, names[value]) for name, value in zip(outputs, last.arguments, strict=True)
    )
    spans = lifetimes(inputs, [output.value for output in results], steps)
    values = (_value(names[value], value.type) for value in names)
    return NetworkSteps(
        tuple(inputs),
        results,
        tuple(
            dataclasses.replace(v, first=spans[v.name][0], last=spans[v.name][1]) for v in values
        ),
        tuple(steps),
        host_parts,
        blobs,
    )


def _cut(ops: Sequence[Operation], results: Sequence[SSAValue]) -> list[_Piece]:
    """Host ops and calls in turn. Constants are not steps; each part has those that it reads."""
    left = [op for op in ops if not isinstance(op, ConstantOp)]
    # A constant that is passed to a call or returned as it is must be made by a host part.
    handed = {value for op in left if isinstance(op, CallOp) for value in op.operands} | {*results}
    left = [op for op in ops if not isinstance(op, ConstantOp) or op.result in handed]
    groups: list[list[Operation]] = []
    done: set[Operation] = {*ops} - {*left}
    calls = False
    while left:
        ready = []
        for op in left:
            if isinstance(op, CallOp) == calls and _operands_ready(op, done):
                done.add(op)
                ready.append(op)
        groups += [[op] for op in ready] if calls else [ready] if ready else []
        left = [op for op in left if op not in done]
        calls = not calls
    return [_piece(group, results) for group in groups]


def _operands_ready(op: Operation, done: set[Operation]) -> bool:
    return all(isinstance(v, BlockArgument) or v.owner in done for v in op.operands)


def _piece(ops: Sequence[Operation], results: Sequence[SSAValue]) -> _Piece:
    inside, wanted = set(ops), set(results)
    inputs = dict.fromkeys(
        value
        for op in ops
        for value in op.operands
        if value.owner not in inside
        and (isinstance(ops[0], CallOp) or not isinstance(value.owner, ConstantOp))
    )
    outputs = [
        value
        for op in ops
        for value in op.results
        if isinstance(op, CallOp)
        or value in wanted
        or any(use.operation not in inside for use in value.uses)
    ]
    listed = list(ops[0].operands) if isinstance(ops[0], CallOp) else list(inputs)
    return _Piece(ops, listed, outputs)


def _names(
    main: FuncOp,
    inputs: Sequence[str],
    results: Sequence[SSAValue],
    outputs: Sequence[str],
    pieces: Iterable[_Piece],
) -> dict[SSAValue, str]:
    """A name for each value that passes between steps: the model's, or one from its hint."""
    names: dict[SSAValue, str] = dict(zip(main.body.block.args, inputs, strict=True))
    for value, name in zip(results, outputs, strict=True):
        if value not in names and name not in names.values():
            names[value] = name
    taken = {*names.values(), *outputs}
    for piece in pieces:
        for value in piece.outputs:
            if value not in names:
                names[value] = _fresh(value.name_hint or "value", taken)
    return names


def _fresh(hint: str, taken: set[str]) -> str:
    name, number = hint, 0
    while name in taken:
        number += 1
        name = f"{hint}_{number}"
    taken.add(name)
    return name


def _value(name: str, type: Attribute) -> Value:
    layout = packing(type)
    shape = None
    if isinstance(type, TensorType):
        shape = tuple(None if e == DYNAMIC_INDEX else e for e in type.get_shape())
    return Value(
        name,
        onnx_type(type),
        shape,
        None if layout is None else Packing(layout.batch.data, layout.block.data),
    )


def onnx_type(type: Attribute) -> str:
    """ONNX's name of a type, ``tensor(float)``."""
    if isinstance(type, OpaqueType):
        return type.onnx_type.data
    assert isinstance(type, TensorType | UnrankedTensorType)
    code = helper.np_dtype_to_tensor_dtype(element_dtype(type.element_type))
    return f"tensor({TensorProto.DataType.Name(code).lower()})"


def functions_taken(module: ModuleOp) -> dict[str, str]:
    """The functions that codegens compile, each with the name of its codegen."""
    return {
        function.sym_name.data: name.data
        for function in module.ops
        if isinstance(function, FuncOp)
        and isinstance(name := function.attributes.get(CODEGEN), StringAttr)
    }
