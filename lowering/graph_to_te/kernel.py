"""Builds a kernel: its parameters, its computes over logical tensors, and the operands of its call.

The parameters of a kernel are activations, then constants. While it is built, each value of the
graph has a tensor of te. `KernelBuilder.finish` packs the tensors into lanes, as ``te-pack-lanes``
does; the lanes of activations are those of the function's layout.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from zlib import crc32

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    FunctionType,
    IntegerAttr,
    IntegerType,
    TensorType,
    i8,
    i32,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from vtac.dialects.context import Array, tensor_type
from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.graph import packing
from vtac.dialects.locations import layer_of
from vtac.dialects.target import Target
from vtac.dialects.te import ComputeOp, KernelOp, Read, Row, YieldOp, scalar_body
from vtac.passes.te.lanes.choices import TensorLanes
from vtac.passes.te.lanes.packed_kernel import LaneAssignment, PackedKernel
from vtac.passes.te.lanes.search import KernelStage, choose_lanes

SPATIAL_NAMES = {1: ("w",), 2: ("h", "w"), 3: ("d", "h", "w")}


@dataclass(frozen=True)
class BlockedLayout:
    """The layout of activations of one accelerator function in memory.

    rank: number of spatial dimensions of all activations. Those with fewer dimensions get trailing
    extents of 1, so that reshaping [N, C, 1, 1] to [N, C] is void.
    entries: number of matrices in a batch, if the rows of an activation are those of all matrices,
    one below the other. More than one entry makes an additional, first axis.
    """

    target: Target
    rank: int
    entries: int = 1

    def logical(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape [entries, N, C, spatial...] for a shape [N, C, spatial...]."""
        spatial = (*shape[2:], *(1 for _ in range(self.rank + 2 - len(shape))))
        if self.entries > 1:
            return (self.entries, shape[0] // self.entries, shape[1], *spatial)
        return (shape[0], shape[1], *spatial)

    def tensor(self, type: Attribute) -> Attribute:
        """The type of a packed tensor before packing into lanes; any other type as it is."""
        if packing(type) is None:
            return type
        assert isinstance(type, TensorType)
        return TensorType(type.element_type, self.logical(type.get_shape()))

    def lanes(self, type: Attribute) -> TensorLanes | None:
        """The lanes of a packed tensor type, None for any other type."""
        layout = packing(type)
        if layout is None:
            return None
        rows, columns = layout.batch.data, layout.block.data
        return TensorLanes(
            ((self.channel - 1, rows),) if rows > 1 else (),
            ((self.channel, columns),),
            layout.holds_weights,
        )

    @property
    def computed(self) -> TensorLanes:
        """The lanes of all tensors that stages compute."""
        batch, block = self.target.batch, self.target.block
        rows = ((self.channel - 1, batch),) if batch > 1 else ()
        return TensorLanes(rows, ((self.channel, block),))

    def type(self, type: Attribute) -> Attribute:
        """The physical type of a packed tensor; any other type as it is."""
        layout = packing(type)
        if layout is None:
            return type
        assert isinstance(type, TensorType)
        shape, lanes = list(self.logical(type.get_shape())), (layout.batch.data, layout.block.data)
        for dim, lane in zip((self.channel - 1, self.channel), lanes, strict=True):
            shape[dim] = -(-shape[dim] // lane)
        return TensorType(type.element_type, [*shape, *lanes])

    @property
    def spatial_names(self) -> tuple[str, ...]:
        """Names of the spatial axes between channels and lanes."""
        return SPATIAL_NAMES.get(self.rank, tuple(f"s{i}" for i in range(self.rank)))

    @property
    def outer_names(self) -> tuple[str, ...]:
        """Names of the axes in front of the spatial ones; the last is that of the channels."""
        return ("g", "n", "c") if self.entries > 1 else ("n", "c")

    @property
    def channel(self) -> int:
        """The number of the channel axis."""
        return len(self.outer_names) - 1

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all axes of an activation."""
        return (*self.outer_names, *self.spatial_names)

    def domain(self, shape: Sequence[int]) -> dict[str, int]:
        """The iteration domain of a stage with a result of this shape [N, C, spatial...]."""
        return dict(zip(self.names, self.logical(shape), strict=True))


@dataclass
class KernelBuilder:
    """A kernel under construction.

    layout: that of the function that calls the kernel.
    constant_of: returns the array of a constant of the graph, None for any other value.
    activations: the first operands of the call; their parameters exist from the start.
    read: the types as which some of them are read, where these are other than their own.
    constants: the operands of the call after the activations, each with a hint for its name.
    values: the te tensor of each graph value that has one.
    """

    layout: BlockedLayout
    constant_of: Callable[[SSAValue], Array | None]
    activations: Sequence[SSAValue]
    read: Mapping[SSAValue, Attribute] = field(default_factory=dict)
    constants: list[tuple[Array, str]] = field(default_factory=list)
    values: dict[SSAValue, SSAValue] = field(default_factory=dict)
    block: Block = field(default_factory=Block)
    _alike: dict[tuple[str, tuple[int, ...], int], list[int]] = field(default_factory=dict)
    """Constants by type, shape and checksum."""
    _labels: dict[str, int] = field(default_factory=dict)
    """The labels of computes, and the last number that was put behind each."""

    def __post_init__(self) -> None:
        for value in self.activations:
            type = self.layout.tensor(self._type(value))
            argument = self.block.insert_arg(type, len(self.block.args))
            argument.name_hint = value.name_hint
            self.values[value] = argument

    def _type(self, value: SSAValue) -> Attribute:
        """The type as which an activation is read."""
        return self.read.get(value, value.type)

    def constant(self, value: SSAValue, what: str) -> Array:
        """The array of an operand that must be constant. Raises `CompileError` if it is not."""
        array = self.constant_of(value)
        if array is None:
            raise CompileError(
                Problem(
                    value.name_hint or "",
                    f"{what} of a layer on the accelerator must be constant",
                    "Keep this layer on the host.",
                )
            )
        return array

    def parameter(self, array: Array, hint: str) -> SSAValue:
        """The parameter for a constant; equal constants share a parameter."""
        first = len(self.activations)
        key = array.dtype.str, array.shape, crc32(np.ascontiguousarray(array).data)
        alike = self._alike.setdefault(key, [])
        for index in alike:
            if np.array_equal(self.constants[index][0], array):
                return self.block.args[first + index]
        alike.append(len(self.constants))
        self.constants.append((array, hint))
        argument = self.block.insert_arg(tensor_type(array), len(self.block.args))
        argument.name_hint = hint.rpartition(".")[2]
        return argument

    def channels_of(self, value: SSAValue) -> int:
        """The extent of the channels of a graph value's tensor."""
        type = self.values[value].type
        assert isinstance(type, TensorType)
        return int(type.get_shape()[self.layout.channel])

    def compute(
        self,
        label: str,
        spatial: Mapping[str, int],
        reads: Sequence[Read],
        body: Callable[..., SSAValue],
        element: IntegerType,
        *,
        reduce: Mapping[str, int] | None = None,
        identity: int | None = None,
    ) -> SSAValue:
        """Append a compute. ``body`` gets a reduction's accumulator, then one scalar per read."""
        name = self._fresh(label)
        types: list[Attribute] = [element] if reduce else []
        for read in reads:
            assert isinstance(read.value.type, TensorType)
            types.append(read.value.type.element_type)
        op = ComputeOp(
            name,
            spatial,
            reduce or {},
            reads,
            scalar_body(types, body),
            element,
            identity=identity if reduce else None,
        )
        op.result.name_hint = name
        self.block.add_op(op)
        return op.result

    def _fresh(self, label: str) -> str:
        """The label, or one made from it that no compute has yet."""
        name, number = label, self._labels.get(label, 0)
        while name in self._labels:
            number += 1
            name = f"{label}_{number}"
        self._labels[label] = number
        self._labels.setdefault(name, 0)
        return name

    def elementwise(
        self,
        label: str,
        x: SSAValue,
        body: Callable[..., SSAValue],
        element: IntegerType = i32,
        *,
        others: Sequence[SSAValue] = (),
        vectors: Sequence[SSAValue] = (),
    ) -> SSAValue:
        """Append a compute over ``x``, tensors of its shape, and vectors of channels."""
        assert isinstance(x.type, TensorType)
        spatial = dict(zip(self.layout.names, x.type.get_shape(), strict=True))
        rank = len(spatial)
        same = tuple(axis(i) for i in range(rank))
        reads = [Read(value, same) for value in (x, *others)]
        reads += [Read(value, (axis(self.layout.channel),)) for value in vectors]
        return self.compute(label, spatial, reads, body, element)

    def finish(self, name: str, results: Sequence[SSAValue]) -> "Finished":
        """The kernel with these results, packed into lanes, and the operands of its call."""
        self.block.add_op(YieldOp(*results))
        type = FunctionType.from_lists(self.block.arg_types, [value.type for value in results])
        kernel = KernelOp(name, type, Region(self.block))
        stages = self._stages(kernel)
        choices = choose_lanes(stages, self.layout.target)
        packed = PackedKernel(
            kernel,
            LaneAssignment(choices, {stage.compute: stage for stage in stages}),
            self.layout.target,
        )
        packed.rewrite()
        count = len(self.activations)
        constants = []
        for number, placement in packed.given[count:]:
            array, hint = self.constants[number - count]
            constants.append((packed.pack(number, placement, array), hint))
        return Finished(kernel, kernel.function_type.outputs.data, constants)

    def _stages(self, kernel: KernelOp) -> list[KernelStage]:
        """The computes, the producers of their operands, and the lanes of activations."""
        lanes = {
            self.values[value]: self.layout.lanes(self._type(value)) for value in self.activations
        }
        made: dict[SSAValue, KernelStage] = {}
        for compute in kernel.computes:
            known = [lanes.get(read.value) for read in compute.reads]
            made[compute.result] = KernelStage(
                compute,
                f'te.kernel @{kernel.sym_name.data}, stage "{compute.label.data}"',
                tuple(made.get(read.value) for read in compute.reads),
                None if compute.init is None else made[compute.init],
                {number: found for number, found in enumerate(known) if found is not None},
                self.layout.computed,
            )
        return list(made.values())


@dataclass(frozen=True)
class Finished:
    """A kernel in lanes.

    results: the types of its results. constants: the operands of its call after the activations,
    each with a hint for its name.
    """

    kernel: KernelOp
    results: Sequence[Attribute]
    constants: Sequence[tuple[Array, str]]


def axis(index: int) -> Row:
    """The subscript that consists of one iteration variable."""
    return Row(((index, 1),))


def immediate(value: int) -> SSAValue:
    """An int32 constant in the current body."""
    return arith.ConstantOp(IntegerAttr(value, i32)).result


def widen(value: SSAValue) -> SSAValue:
    """A scalar of the current body, extended to int32."""
    return value if value.type == i32 else arith.ExtSIOp(value, i32).result


def narrow(value: SSAValue) -> SSAValue:
    """The low byte of a scalar of the current body."""
    return arith.TruncIOp(value, i8).result


def label_of(op: Operation) -> str:
    """The name of an op for messages: that of its ONNX node if it has one."""
    return layer_of(op) or op.name


def unsupported(op: Operation, what: str, hint: str) -> CompileError:
    """The error for something in an op that the accelerator does not support, with a hint."""
    return CompileError(Problem(label_of(op), f"the accelerator does not take {what}", hint))
