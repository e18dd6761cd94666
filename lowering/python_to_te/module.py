"""Makes a module of te from tensors of Python: kernels over logical tensors, and their calls.

Tensors that exchange int32 values share a kernel, since only int8 values can be passed from one
kernel to another. A tensor without dimensions gets one of extent 1. Tensors remain logical here;
``te-pack-lanes`` packs them into lanes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FunctionType,
    IntegerAttr,
    ModuleOp,
    NameLoc,
    NoneAttr,
    StringAttr,
    TensorType,
    i8,
    i32,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from vtac.dialects.context import VtacContext, constant_attr, tensor_type
from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.target import TARGET_ATTRIBUTE, Target
from vtac.dialects.te import (
    LAYOUT_ATTRIBUTE,
    CallOp,
    ComputeOp,
    ConstantOp,
    KernelOp,
    Layout,
    LayoutAttr,
    Read,
    Row,
    YieldOp,
    scalar_body,
    standard_intrinsics,
)
from vtac.lowering.python_to_te.expressions import (
    INT8,
    Apply,
    Axis,
    Computed,
    Constant,
    Element,
    Number,
    Placeholder,
    Reduction,
    Scalar,
    Tensor,
    elements,
    is_product,
)

FUNCTION = "main"
"""The name of the accelerator function."""

UNIT = "unit"
"""The name of the axis of a tensor without dimensions."""

_OPERATIONS: Mapping[str, Callable[[SSAValue, SSAValue], Operation]] = {
    "add": arith.AddiOp,
    "mul": arith.MuliOp,
    "max": arith.MaxSIOp,
    "min": arith.MinSIOp,
    "shr": arith.ShRSIOp,
    "shl": arith.ShLIOp,
}


def module_of(outputs: Sequence[Tensor], target: Target, ctx: VtacContext) -> ModuleOp:
    """A module with one function of the placeholders (oldest first) that returns ``outputs``.

    Constants are stored in the context. Raises `CompileError` with all problems.
    """
    order = _in_order(_computed(outputs))
    if not target.alu_mul:
        _check_products(order, target)
    groups = _groups(order)
    inputs = sorted({t for c in order for t in _read_by(c) if isinstance(t, Placeholder)}, key=_age)
    block = Block(arg_types=[_type(tensor) for tensor in inputs])
    caller = _Caller(ctx, block, _Names({FUNCTION, *_intrinsics(target)}))
    for tensor, argument in zip(inputs, block.args, strict=True):
        argument.name_hint = tensor.name
        caller.values[tensor] = argument
    returned = {*outputs, *(t for c in order for t in _read_by(c) if _group(groups, t, c) is None)}
    kernels = []
    for members in _sorted_groups(order, groups):
        results = [tensor for tensor in members if tensor in returned]
        kernels.append(_kernel(members, results, caller))
    block.add_op(ReturnOp(*(caller.values[tensor] for tensor in outputs)))
    type = FunctionType.from_lists(block.arg_types, [_type(tensor) for tensor in outputs])
    function = FuncOp(
        FUNCTION, type, Region(block), arg_attrs=_layouts(inputs), res_attrs=_layouts(outputs)
    )
    function.attributes |= {"codegen": StringAttr("vta"), TARGET_ATTRIBUTE: target}
    return ModuleOp([function, *kernels], {TARGET_ATTRIBUTE: target})


@cache
def _intrinsics(target: Target) -> frozenset[str]:
    """Names of intrinsics, which kernels must not have."""
    return frozenset(op.sym_name.data for op in standard_intrinsics(target))


def _age(tensor: Tensor) -> int:
    return tensor.number


def _read_by(tensor: Computed) -> list[Tensor]:
    return list(dict.fromkeys(element.tensor for element in elements(tensor.value)))


def _computed(outputs: Sequence[Tensor]) -> list[Computed]:
    """The outputs. Raises `CompileError` if one is not computed or occurs twice."""
    problems = [
        Problem(tensor.name, "an output is an input", "Compute something from it.")
        for tensor in outputs
        if not isinstance(tensor, Computed)
    ]
    if len(set(outputs)) != len(outputs):
        problems.append(Problem("", "a tensor is an output twice"))
    if problems or not outputs:
        raise CompileError(problems or Problem("", "there is no output"))
    return [tensor for tensor in outputs if isinstance(tensor, Computed)]


def _in_order(outputs: Sequence[Computed]) -> list[Computed]:
    """All tensors that the outputs need, each after those that it reads."""
    needed: set[Computed] = set()
    stack = list(outputs)
    while stack:
        tensor = stack.pop()
        if tensor not in needed:
            needed.add(tensor)
            stack += [t for t in _read_by(tensor) if isinstance(t, Computed)]
    return sorted(needed, key=_age)


def _check_products(order: Sequence[Computed], target: Target) -> None:
    """Check products: only the GEMM core multiplies, and it multiplies int8."""
    problems = [
        Problem(
            tensor.name,
            "multiplies (or subtracts) int32 values, for which this target has no instruction",
            "Multiply int8 elements in a tensor of their own, requantise in between (bilinear takes"
            " a shift), or take a target with alu_mul, such as sim.",
        )
        for tensor in order
        if not is_product(tensor.value) and _multiplies(tensor.value)
    ]
    if problems:
        raise CompileError(problems)


def _multiplies(value: Scalar) -> bool:
    if isinstance(value, Reduction) and is_product(value.operand):
        return False
    is_mul = isinstance(value, Apply) and value.head == "mul"
    return is_mul or any(map(_multiplies, value.parts))


def _groups(order: Sequence[Computed]) -> dict[Tensor, list[Computed]]:
    """For each tensor, the members of its kernel: readers of int32 share that of its producer."""
    groups: dict[Tensor, list[Computed]] = {}
    for tensor in order:
        joined = [tensor]
        for other in _read_by(tensor):
            if other in groups and other.dtype != INT8 and tensor not in groups[other]:
                joined += [t for t in groups[other] if t not in joined]
        for member in joined:
            groups[member] = joined
        joined.sort(key=_age)
    return groups


def _group(
    groups: Mapping[Tensor, list[Computed]], tensor: Tensor, reader: Computed
) -> list[Computed] | None:
    """The kernel of two tensors that must share one, else None."""
    found = groups.get(tensor)
    return found if found is groups[reader] else None


def _sorted_groups(
    order: Sequence[Computed], groups: Mapping[Tensor, list[Computed]]
) -> list[list[Computed]]:
    """The kernels in order: each one after those whose results it reads."""
    done: dict[int, list[Computed]] = {}
    left = list({id(groups[tensor]): groups[tensor] for tensor in order}.values())
    while left:
        for members in left:
            before = {id(groups[t]) for m in members for t in _read_by(m) if t in groups}
            if before - {id(members)} <= done.keys():
                done[id(members)] = members
                left.remove(members)
                break
        else:
            names = ", ".join(tensor.name for members in left for tensor in members)
            raise CompileError(
                Problem(
                    names,
                    "kernels need each other's results: int32 values would have to be stored",
                    "Make what several tensors read int8.",
                )
            )
    return list(done.values())


@dataclass
class _Names:
    """Unused names."""

    taken: set[str] = field(default_factory=set)

    def fresh(self, wanted: str) -> str:
        """The name, with the smallest unused number appended if it is taken."""
        name, number = wanted, 0
        while name in self.taken:
            number += 1
            name = f"{wanted}{number}"
        self.taken.add(name)
        return name


@dataclass
class _Caller:
    """The function under construction: the values of its tensors, and names of kernels."""

    ctx: VtacContext
    block: Block
    names: _Names
    values: dict[Tensor, SSAValue] = field(default_factory=dict)

    def value(self, tensor: Tensor) -> SSAValue:
        """The value of a tensor in the function."""
        if tensor not in self.values and isinstance(tensor, Constant):
            array = tensor.array.reshape(_shape(tensor))
            op = ConstantOp(constant_attr(self.ctx, array, tensor.name), tensor_type(array))
            op.result.name_hint = tensor.name
            self.block.add_op(op)
            self.values[tensor] = op.result
        return self.values[tensor]


def _kernel(members: Sequence[Computed], results: Sequence[Computed], caller: _Caller) -> KernelOp:
    """Build the kernel of some tensors, and add its call to the function."""
    inside: set[Tensor] = set(members)
    given = [t for t in dict.fromkeys(t for m in members for t in _read_by(m)) if t not in inside]
    block = Block(arg_types=[_type(tensor) for tensor in given])
    values: dict[Tensor, SSAValue] = dict(zip(given, block.args, strict=True))
    for tensor, argument in zip(given, block.args, strict=True):
        argument.name_hint = tensor.name
    labels, name = _Names(), caller.names.fresh(results[-1].name)
    for tensor in members:
        stage = _stage(tensor, labels.fresh(tensor.name), values)
        stage.location = NameLoc(StringAttr(name), NoneAttr())
        block.add_op(stage)
        values[tensor] = stage.result
    block.add_op(YieldOp(*(values[tensor] for tensor in results)))
    types = [_type(tensor) for tensor in results]
    kernel = KernelOp(name, FunctionType.from_lists(block.arg_types, types), Region(block))
    call = CallOp(name, [caller.value(tensor) for tensor in given], types)
    call.location = NameLoc(StringAttr(name), NoneAttr())
    caller.block.add_op(call)
    for tensor, output in zip(results, call.outputs, strict=True):
        output.name_hint = tensor.name
        caller.values[tensor] = output
    return kernel


def _stage(tensor: Computed, label: str, values: Mapping[Tensor, SSAValue]) -> ComputeOp:
    """Append the compute of one tensor."""
    value = tensor.value
    reduction = value if isinstance(value, Reduction) else None
    outer = tensor.axes or (Axis(UNIT, 1),)
    axes = (*outer, *(reduction.axes if reduction else ()))
    number = {axis: position for position, axis in enumerate(axes)}
    inner = reduction.operand if reduction else value
    found = elements(inner)
    if isinstance(inner, Apply) and is_product(inner):
        found = [v for v in inner.operands if isinstance(v, Element)]
    reads = [_read(element, number, values) for element in found]
    for element, read in zip(found, reads, strict=True):
        _check_inside(tensor, element, read, axes)
    place: dict[Read, int] = {}
    if not is_product(inner):
        for read in reads:
            place.setdefault(read, len(place))
    unique = list(place) or reads
    positions = [place.get(read, position) for position, read in enumerate(reads)]

    def body(*scalars: SSAValue) -> SSAValue:
        accumulator, rest = (scalars[0], scalars[1:]) if reduction else (None, scalars)
        writer = _BodyWriter()
        for element, position in zip(found, positions, strict=True):
            writer.elements.setdefault(element, []).append(rest[position])
        if reduction is None:
            return writer.result(value)
        assert accumulator is not None
        return _OPERATIONS[reduction.head](accumulator, writer.wide(inner)).results[0]

    element_type = i8 if tensor.dtype == INT8 else i32
    types: list[Attribute] = [element_type] if reduction else []
    types += [_element_type(element) for element in _firsts(found, positions)]
    compute = ComputeOp(
        label,
        {axis.name: axis.extent for axis in outer},
        _reduce_names(outer, reduction),
        unique,
        scalar_body(types, body),
        element_type,
        identity=reduction.start if reduction else None,
    )
    compute.result.name_hint = label
    return compute


def _firsts(found: Sequence[Element], positions: Sequence[int]) -> list[Element]:
    """The first element of each operand."""
    first = dict(zip(reversed(positions), reversed(found), strict=True))
    return [first[position] for position in sorted(first)]


def _element_type(element: Element) -> Attribute:
    return i8 if element.dtype == INT8 else i32


def _reduce_names(outer: Sequence[Axis], reduction: Reduction | None) -> dict[str, int]:
    """Names of the reduction's axes that differ from those of the tensor."""
    names = _Names({axis.name for axis in outer})
    return {names.fresh(axis.name): axis.extent for axis in (reduction.axes if reduction else ())}


def _read(element: Element, number: Mapping[Axis, int], values: Mapping[Tensor, SSAValue]) -> Read:
    rows = [
        Row.of([(number[axis], c) for axis, c in i.terms.items()], i.constant, i.divisor)
        for i in element.indices
    ]
    if not rows:  # A tensor without dimensions has extent 1 here; so may have its reader.
        rows = [Row.of([(0, 1)] if next(iter(number)).name == UNIT else [])]
    return Read(values[element.tensor], tuple(rows), element.outside)


def _check_inside(tensor: Computed, element: Element, read: Read, axes: Sequence[Axis]) -> None:
    """Raise `CompileError` if a read may lie outside its tensor and has no value for that."""
    extents = [axis.extent for axis in axes]
    for dim, (row, size) in enumerate(zip(read.rows, _shape(element.tensor), strict=True)):
        low, high = row.interval(extents)
        if element.outside is None and (low < 0 or high >= size or row.divisor > 1):
            name = element.tensor.name
            quotient = ", a quotient," if row.divisor > 1 else ""
            raise CompileError(
                Problem(
                    tensor.name,
                    f"reads {name} at {low} to {high}{quotient} in dimension {dim} of {size}",
                    f"Say what lies outside: {name}.outside(0)[...].",
                )
            )


@dataclass
class _BodyWriter:
    """Writes a scalar expression as operations of a body."""

    elements: dict[Element, list[SSAValue]] = field(default_factory=dict)
    written: dict[Scalar, SSAValue] = field(default_factory=dict)

    def result(self, scalar: Scalar) -> SSAValue:
        """The result of a body; a single element is extended, to pass through the accumulators."""
        if isinstance(scalar, Element) and scalar.dtype == INT8:
            return arith.TruncIOp(self.wide(scalar), i8).result
        if isinstance(scalar, Apply) and scalar.head == "narrow":
            return arith.TruncIOp(self.wide(scalar.operands[0]), i8).result
        return self.wide(scalar)

    def wide(self, scalar: Scalar) -> SSAValue:
        """The value of a scalar, extended to int32."""
        if isinstance(scalar, Element):
            places = self.elements[scalar]
            value = places.pop(0) if len(places) > 1 else places[0]
            return value if value.type == i32 else arith.ExtSIOp(value, i32).result
        if scalar not in self.written:
            self.written[scalar] = self._operation(scalar)
        return self.written[scalar]

    def _operation(self, scalar: Scalar) -> SSAValue:
        if isinstance(scalar, Number):
            return arith.ConstantOp(IntegerAttr(scalar.value, i32)).result
        assert isinstance(scalar, Apply)
        if scalar.head == "narrow":
            return arith.ExtSIOp(self.result(scalar), i32).result
        a, b = (self.wide(operand) for operand in scalar.operands)
        return _OPERATIONS[scalar.head](a, b).results[0]


def _shape(tensor: Tensor) -> tuple[int, ...]:
    return tensor.shape or (1,)


def _type(tensor: Tensor) -> TensorType[Attribute]:
    return TensorType(i8 if tensor.dtype == INT8 else i32, _shape(tensor))


def _layouts(tensors: Sequence[Tensor]) -> "ArrayAttr[DictionaryAttr]":
    """The plain layout of each parameter or result, each with a name of its own."""
    names = _Names()
    layouts = [Layout.plain(names.fresh(tensor.name), _shape(tensor)) for tensor in tensors]
    return ArrayAttr(
        DictionaryAttr({LAYOUT_ATTRIBUTE: LayoutAttr(layout)})
        for layout in (
            known if tensor.shape else replace(known, shape=(), rows=())
            for known, tensor in zip(layouts, tensors, strict=True)
        )
    )
