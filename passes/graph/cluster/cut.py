"""Makes the op that computes a piece of another op's results.

`split_rules` says which rectangles of operands that takes. Here the op is rebuilt on them:
constants are cut, activations are read through windows, and the body of a composite is rebuilt in
the same way. Instances are made so, and so are the parts of a layer on cores.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.ir import Attribute, Block, Operation, SSAValue

from vtac.dialects.context import constant_attr, constant_value, tensor_type
from vtac.dialects.graph import (
    BINDING,
    PLACES,
    RANGES_ATTRIBUTE,
    CompositeOp,
    ConstantOp,
    TensorWindowOp,
    YieldOp,
)
from vtac.dialects.graph.pieces import Rectangle, relative, type_of_piece, whole
from vtac.dialects.graph.split_rules import OpPiece

OF_THE_WHOLE = (BINDING, PLACES, RANGES_ATTRIBUTE)
"""Attributes of a layer that say nothing of its pieces."""

ReadPiece = Callable[[SSAValue, Rectangle], SSAValue]
"""Returns the value that holds a rectangle of a value, where the new op stands."""


def op_on_piece(op: Operation, piece: OpPiece, read: ReadPiece) -> Operation:
    """A detached op that computes a piece of the results of another one.

    read: gives the operands, constants included.
    """
    operands = [
        read(operand, rectangle)
        for operand, rectangle in zip(op.operands, piece.operands, strict=True)
        if rectangle is not None
    ]
    attributes = {name: a for name, a in op.attributes.items() if name not in OF_THE_WHOLE}
    properties: dict[str, Attribute] = {**op.properties, **piece.properties}
    made = type(op).create(
        operands=operands,
        result_types=[type_of_piece(result, piece.made) for result in op.results],
        properties=properties,
        attributes=attributes,
    )
    made.location = op.location
    for before, after in zip(op.results, made.results, strict=True):
        after.name_hint = before.name_hint
    return made


@dataclass
class Cutter:
    """Puts pieces of ops at the end of a block.

    values: what holds each value of the old block, and the rectangle of it that this is.
    """

    ctx: Context
    block: Block
    values: dict[SSAValue, tuple[SSAValue, Rectangle]] = field(default_factory=dict)
    _constants: dict[tuple[ConstantOp, Rectangle], SSAValue] = field(default_factory=dict)
    _windows: dict[tuple[SSAValue, Rectangle], SSAValue] = field(default_factory=dict)

    def add(self, op: Operation, piece: OpPiece) -> Operation:
        """Append the op that computes a piece; its results hold the rectangle that is made."""
        if piece.made == whole(op.results[0]):
            made = self._copy(op)
        elif isinstance(op, CompositeOp):
            made = self._composite(op, piece)
        else:
            made = op_on_piece(op, piece, self.read)
        self.block.add_op(made)
        is_whole = piece.made == whole(op.results[0])
        for before, after in zip(op.results, made.results, strict=True):
            self.values[before] = after, whole(before) if is_whole else piece.made
        return made

    def _copy(self, op: Operation) -> Operation:
        """The same op on whole operands; those of a composite's body are cloned with it."""
        made = op.clone({operand: self.read(operand, whole(operand)) for operand in op.operands})
        for name in OF_THE_WHOLE:
            made.attributes.pop(name, None)
        return made

    def read(self, value: SSAValue, rectangle: Rectangle) -> SSAValue:
        """The value that holds a rectangle of an old value, behind a window if need be."""
        owner = value.owner
        if isinstance(owner, ConstantOp):
            return self._constant(owner, rectangle)
        held, of = self.values[value]
        if of == rectangle:
            return held
        inside = relative(rectangle, of)
        key = held, inside
        if key not in self._windows:
            window = TensorWindowOp(held, inside)
            window.location = owner.location if isinstance(owner, Operation) else window.location
            window.result.name_hint = value.name_hint
            self.block.add_op(window)
            self._windows[key] = window.result
        return self._windows[key]

    def _constant(self, op: ConstantOp, rectangle: Rectangle) -> SSAValue:
        """The constant, or its part in a rectangle, in the new block."""
        key = op, rectangle
        if key not in self._constants:
            made = self._copied(op) if rectangle == whole(op.result) else self._cut(op, rectangle)
            made.location = op.location
            made.result.name_hint = op.result.name_hint
            self.block.add_op(made)
            self._constants[key] = made.result
        return self._constants[key]

    @staticmethod
    def _copied(op: ConstantOp) -> ConstantOp:
        copied = ConstantOp(op.value, op.result.type)
        copied.attributes |= op.attributes
        return copied

    def _cut(self, op: ConstantOp, rectangle: Rectangle) -> ConstantOp:
        array = constant_value(self.ctx, op.value, op.result.type)
        part = array[tuple(slice(*r) for r in rectangle)]
        attr = constant_attr(self.ctx, part, op.result.name_hint or "constant")
        return ConstantOp(attr, tensor_type(part))

    def _composite(self, op: CompositeOp, piece: OpPiece) -> CompositeOp:
        inputs = [self.read(v, r) for v, r in zip(op.inputs, piece.operands, strict=True) if r]
        body = Block(arg_types=[value.type for value in inputs])
        inner = Cutter(self.ctx, body)
        for old, new, r in zip(op.body.block.args, body.args, piece.operands, strict=True):
            new.name_hint = old.name_hint
            assert r is not None
            inner.values[old] = new, r
        last = op.body.block.last_op
        assert isinstance(last, YieldOp)
        for old_op in op.body.block.ops:
            if old_op in piece.inner:
                inner.add(old_op, piece.inner[old_op])
        body.add_op(YieldOp(*(inner.read(value, piece.made) for value in last.arguments)))
        types = [type_of_piece(result, piece.made) for result in op.outputs]
        made = CompositeOp(op.pattern.data, inputs, types, body)
        made.properties |= {n: p for n, p in op.properties.items() if n not in made.properties}
        made.attributes |= {n: a for n, a in op.attributes.items() if n not in OF_THE_WHOLE}
        made.location = op.location
        for before, after in zip(op.outputs, made.outputs, strict=True):
            after.name_hint = before.name_hint
        return made
