"""Which values share memory, when each tensor is live, and where values lie in their tensor.

A *buffer* is the memory of one tensor. Windows, reshapes and the arguments and results of instances
lie in the buffer of the tensor they come from. The pieces of an assembly or of a concatenation lie
in the buffer of the result, unless they lie elsewhere already; those are copied there. (This is how
`te.BufferAssignment` decides, too.)
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import BlockArgument, Operation, SSAValue

from vtac.dialects.graph import (
    CompositeOp,
    ConcatOp,
    LayersOp,
    ReshapeOp,
    SliceOp,
    TensorAssembleOp,
    TensorWindowOp,
    YieldOp,
    packing,
    shape_of,
)
from vtac.dialects.graph.pieces import bytes_in, unit_of, whole
from vtac.dialects.graph.rectangles import starts_of
from vtac.passes.graph.cluster.layers import activations, is_layer, is_void, ops_in_order


@dataclass
class TensorBuffer:
    """The memory of one tensor.

    size: bytes. first, last: the first step that writes it, and the last one that reads or writes
    it; -1 stands for the launch. reads: how often a layer reads from it. outside: whether it is an
    argument or a result of the function, which lie in DDR.
    """

    tensor: SSAValue
    size: int
    first: int = 1 << 30
    last: int = -1
    reads: int = 0
    outside: bool = False

    @property
    def life(self) -> int:
        """The number of steps for which the buffer occupies memory."""
        return self.last - self.first + 1

    def write(self, step: int) -> None:
        """Record that a step writes a part of the buffer."""
        self.first, self.last = min(self.first, step), max(self.last, step)

    def read(self, step: int) -> None:
        """Record that a step reads from the buffer."""
        self.last, self.reads = max(self.last, step), self.reads + 1


@dataclass
class FunctionBuffers:
    """The buffers of a function. Made by `of`."""

    inside: dict[SSAValue, tuple[SSAValue, Sequence[int] | None]] = field(default_factory=dict)
    """For each value that lies in another one: that one, and at which index; None: a reshape."""
    by_root: dict[SSAValue, TensorBuffer] = field(default_factory=dict)
    copies: dict[Operation, list[tuple[SSAValue, SSAValue]]] = field(default_factory=dict)
    """For each op, the pieces that it copies, each with the tensor that it is copied into."""

    @staticmethod
    def of(function: FuncOp) -> "FunctionBuffers":
        """The buffers of a function and their lives."""
        found = FunctionBuffers()
        arguments = set(function.body.block.args)
        for op in ops_in_order(function):
            found._alias(op, op, arguments)
        found._measure(function)
        return found

    def root(self, value: SSAValue) -> SSAValue:
        """The tensor in whose buffer a value lies."""
        while value in self.inside:
            value = self.inside[value][0]
        return value

    def buffer(self, value: SSAValue) -> TensorBuffer:
        """The buffer in which a value lies."""
        return self.by_root[self.root(value)]

    def offset(self, value: SSAValue) -> int:
        """Bytes from the beginning of its buffer to the first element of a value."""
        chain = []
        while value in self.inside:
            container, start = self.inside[value]
            chain.append((value, start))
            value = container
        strides, offset = _strides(value), 0
        for inner, start in reversed(chain):
            if start is None:
                strides = _strides(inner)
            else:
                units = [unit_of(inner, i) for i in range(len(start))]
                offset += sum(s // u * b for s, u, b in zip(start, units, strides, strict=True))
        return offset

    def outside(self, layer: Operation, *, has_buffer: bool) -> set[SSAValue]:
        """The values of a layer that lie in DDR; all of them without a global buffer."""
        values = [*activations(layer), *layer.results]
        return {v for v in values if not has_buffer or self.buffer(v).outside}

    def _alias(self, op: Operation, at: Operation, arguments: set[BlockArgument]) -> None:
        """Enter the results of an op; at: the op of the function that it is, or lies in."""
        if isinstance(op, LayersOp):
            for argument, operand in zip(op.body.block.args, op.inputs, strict=True):
                self.inside[argument] = operand, (0,) * len(whole(operand))
            return
        if isinstance(op, YieldOp):
            holder = op.parent_op()
            assert holder is not None
            for value, result in zip(op.arguments, holder.results, strict=True):
                self.inside[result] = value, (0,) * len(whole(value))
            return
        if is_void(op):
            self._alias_void(op, at, arguments)

    def _alias_void(self, op: Operation, at: Operation, arguments: set[BlockArgument]) -> None:
        if isinstance(op, TensorWindowOp):
            self.inside[op.result] = op.x, [start for start, _ in op.rectangle]
        elif isinstance(op, SliceOp):
            self.inside[op.result] = op.x, op.starts.get_values()
        elif isinstance(op, ReshapeOp):
            self.inside[op.result] = op.x, None
        elif isinstance(op, TensorAssembleOp):
            starts = [[start for start, _ in r] for r in op.rectangles]
            self._join(op.result, op.pieces, starts, at, arguments)
        elif isinstance(op, ConcatOp):
            self._join(op.result, op.inputs, starts_of(op), at, arguments)
        elif isinstance(op, CompositeOp):
            self._alias_composite(op, arguments)

    def _alias_composite(self, op: CompositeOp, arguments: set[BlockArgument]) -> None:
        for argument, operand in zip(op.body.block.args, op.inputs, strict=True):
            self.inside[argument] = operand, (0,) * len(whole(operand))
        for inner in op.body.block.ops:
            if isinstance(inner, YieldOp):
                for value, result in zip(inner.arguments, op.outputs, strict=True):
                    self.inside[result] = value, (0,) * len(whole(value))
            else:
                self._alias_void(inner, op, arguments)

    def _join(
        self,
        result: SSAValue,
        pieces: Sequence[SSAValue],
        starts: Sequence[Sequence[int]],
        at: Operation,
        arguments: set[BlockArgument],
    ) -> None:
        """Pieces that are whole tensors move into the result; others are copied."""
        for piece, start in zip(pieces, starts, strict=True):
            root, whole_of_it = piece, True
            while root in self.inside:
                container, where = self.inside[root]
                whole_of_it = (
                    whole_of_it and where is not None and shape_of(container) == shape_of(root)
                )
                root = container
            if whole_of_it and root not in arguments and root is not result:
                self.inside[root] = result, start
            else:
                self.copies.setdefault(at, []).append((piece, result))

    def _measure(self, function: FuncOp) -> None:
        """Sizes and lives."""
        step = -1
        for argument in function.body.block.args:
            self._at(argument).write(-1)
            self._at(argument).outside = True
        for op in ops_in_order(function):
            if isinstance(op, ReturnOp):
                for value in op.arguments:
                    self._at(value).read(step)
                    self._at(value).outside = True
            elif is_layer(op):
                step += 1
                for value in activations(op):
                    self._at(value).read(step)
                for value in op.results:
                    self._at(value).write(step)
            for piece, result in self.copies.get(op, ()):
                self._at(piece).read(step + 1)
                self._at(result).write(step)

    def _at(self, value: SSAValue) -> TensorBuffer:
        root = self.root(value)
        if root not in self.by_root:
            self.by_root[root] = TensorBuffer(root, bytes_in(root, whole(root)))
        return self.by_root[root]


def _strides(value: SSAValue) -> list[int]:
    """Bytes between neighbouring units of each dimension of a dense tensor of int8."""
    layout, shape = packing(value.type), list(shape_of(value) or ())
    last = 1
    if layout is not None:
        last = layout.batch.data * layout.block.data
        shape = list(layout.physical_shape(shape)[: len(shape)])
    strides = []
    for extent in reversed(shape):
        strides.append(last)
        last *= extent
    return strides[::-1]
