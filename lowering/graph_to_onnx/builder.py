"""Collects nodes and weights of an ONNX graph under construction.

A value may have several forms: the logical tensor, the same with channels last, and, if its type
is packed, its bytes in the accelerator's layout. Each form is made when a converter asks for it, so
an op may take its operands in any form.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper
from xdsl.dialects.builtin import DYNAMIC_INDEX, NameLoc
from xdsl.ir import Attribute, Operation, SSAValue

from vtac.dialects.context import Array, VtacContext, constant_value
from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.graph import ConstantOp, packing, shape_of
from vtac.lowering.onnx_to_graph.weights import LARGE_BYTES, reference_to


def place_of(op: Operation) -> str:
    """A description of an op for messages: its layer, if it is located, and its kind."""
    name = f"'{op.location.desc.data}' " if isinstance(op.location, NameLoc) else ""
    return f"op {name}({op.name})"


class ElementOrder(Enum):
    """How the elements of a value lie: [N, C, spatial...], [N, spatial..., C], or as in DRAM."""

    PLAIN = "plain"
    CHANNELS_LAST = "channels last"
    PACKED = "packed"


class OnnxBuilder:
    """A graph under construction.

    opset: the version of the default domain. names: what callers call some of the values. weights:
    where arrays of large constants go, by the name of their initialisers, which then refer to them
    as external data; None: all constants lie in initialisers.
    """

    def __init__(
        self,
        ctx: VtacContext,
        opset: int,
        names: Mapping[SSAValue, str],
        taken: Iterable[str] = (),
        weights: dict[str, Array] | None = None,
    ):
        self.ctx = ctx
        self.opset = opset
        self.nodes: list[NodeProto] = []
        self.initializers: list[TensorProto] = []
        self._arrays = weights
        self._names = names
        self._taken = {*taken, *names.values()}
        self._tried: dict[str, int] = {}
        self._forms: dict[ElementOrder, dict[SSAValue, str]] = {form: {} for form in ElementOrder}
        self._aliases: dict[SSAValue, SSAValue] = {}
        self._weights: dict[tuple[Attribute, Attribute], str] = {}
        self._node_name = ""
        self._node_counts: Counter[str] = Counter()

    # Names.

    def fresh(self, hint: str) -> str:
        """A name that nothing has yet."""
        name, number = hint, self._tried.get(hint, 0)
        while name in self._taken:
            number += 1
            name = f"{hint}_{number}"
        self._taken.add(name)
        self._tried[hint] = number
        return name

    def name_for(self, value: SSAValue) -> str:
        """The name a new logical tensor gets: the caller's, or one made from its hint."""
        own = self._names.get(value) if packing(value.type) is None else None
        return own or self.fresh(value.name_hint or "value")

    def alias(self, inner: SSAValue, outer: SSAValue) -> None:
        """Let a block argument stand for the value passed for it."""
        self._aliases[inner] = self._resolve(outer)

    def bind(self, result: SSAValue, inner: SSAValue) -> None:
        """Let a result be what an inlined body yields, also when the body is inlined again."""
        inner = self._resolve(inner)
        if isinstance(inner.owner, ConstantOp):
            self._aliases[result] = inner
        else:
            for forms in self._forms.values():
                if inner in forms:
                    forms[result] = forms[inner]

    def _resolve(self, value: SSAValue) -> SSAValue:
        while value in self._aliases:
            value = self._aliases[value]
        return value

    # Values.

    def define(self, value: SSAValue, name: str, form: ElementOrder = ElementOrder.PLAIN) -> None:
        """Record under which name a value is computed, and how it lies."""
        self._aliases.pop(value, None)
        for forms in self._forms.values():
            forms.pop(value, None)
        self._forms[form][value] = name

    def name(self, value: SSAValue) -> str:
        """The name of a value as a logical tensor."""
        value = self._resolve(value)
        plain = self._forms[ElementOrder.PLAIN]
        if value not in plain:
            if (last := self.known(value, ElementOrder.CHANNELS_LAST)) is not None:
                rank = len(shape_of(value) or ())
                order = [0, rank - 1, *range(1, rank - 1)]
                plain[value] = self.add("Transpose", [last], self.name_for(value), perm=order)
            elif (packed := self.known(value, ElementOrder.PACKED)) is not None:
                plain[value] = self.unpack(packed, value)
            else:
                plain[value] = self._weight(value)
        return plain[value]

    def known(self, value: SSAValue, form: ElementOrder) -> str | None:
        """The name of a value in a form, if it has been made."""
        return self._forms[form].get(self._resolve(value))

    def stored_name(self, value: SSAValue) -> str:
        """The name of a value as it crosses the border: packed, if its type says so."""
        value = self._resolve(value)
        if packing(value.type) is None:
            return self.name(value)
        packed = self._forms[ElementOrder.PACKED]
        if value not in packed:
            last = self.known(value, ElementOrder.CHANNELS_LAST)
            packed[value] = (
                self.pack(self.name(value), value)
                if last is None
                else self.pack_channels_last(last, value)
            )
        return packed[value]

    def constant(self, value: SSAValue) -> Array | None:
        """The array of a constant; None for any other value."""
        owner = self._resolve(value).owner
        if isinstance(owner, ConstantOp):
            return constant_value(self.ctx, owner.value, owner.result.type)
        return None

    def is_weight(self, name: str) -> bool:
        """Whether a name is that of a constant."""
        return name in self._weights.values()

    def _weight(self, value: SSAValue) -> str:
        array = self.constant(value)
        if array is None:
            raise CompileError(
                Problem(
                    f"value '%{value.name_hint or '?'}'",
                    "is neither an input of the ONNX graph to build nor computed in it",
                )
            )
        assert isinstance(value.owner, ConstantOp)
        key = value.owner.value, value.type
        if key not in self._weights:
            self._weights[key] = self.name_for(value)
            self._initialise(self._weights[key], array)
        return self._weights[key]

    # Nodes.

    def convert(self, op: Operation, converter: Callable[["OnnxBuilder", Any], None]) -> None:
        """Run a converter with its nodes named after the op's layer."""
        self._node_name = op.location.desc.data if isinstance(op.location, NameLoc) else ""
        converter(self, op)

    def add(self, op_type: str, inputs: Sequence[str], output: str = "", **attributes: Any) -> str:
        """Append a node with one output and return its name."""
        output = output or self.fresh(op_type.lower())
        self.append(helper.make_node(op_type, list(inputs), [output], **attributes))
        return output

    def append(self, node: NodeProto) -> None:
        """Append a node, named after the layer at hand; no two have the same name."""
        if self._node_name:
            number = self._node_counts[self._node_name]
            self._node_counts[self._node_name] += 1
            node.name = f"{self._node_name}#{number}" if number else self._node_name
        self.nodes.append(node)

    def weight(self, array: Array, hint: str) -> str:
        """Append an initialiser and return its name."""
        name = self.fresh(hint)
        self._initialise(name, array)
        return name

    def _initialise(self, name: str, array: Array) -> None:
        """Append an initialiser; a large one refers to its array."""
        if self._arrays is None or array.nbytes < LARGE_BYTES:
            self.initializers.append(numpy_helper.from_array(array, name))
        else:
            self._arrays[name] = array
            self.initializers.append(reference_to(name, array))

    def cast(self, name: str, dtype: type[np.generic] | np.dtype[Any], output: str = "") -> str:
        """The tensor with another element type."""
        code = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        return self.add("Cast", [name], output, to=code)

    def reshape(self, name: str, shape: Sequence[int], output: str = "") -> str:
        """The tensor in another shape, one of whose dimensions may be unknown."""
        extents = [-1 if extent == DYNAMIC_INDEX else extent for extent in shape]
        wanted = self.weight(np.array(extents, np.int64), "shape")
        return self.add("Reshape", [name, wanted], output)

    def slice(
        self, name: str, starts: Sequence[int], ends: Sequence[int], axes: Sequence[int]
    ) -> str:
        """The elements between limits along some axes; limits are attributes before opset 10."""
        if self.opset < 10:
            return self.add("Slice", [name], starts=starts, ends=ends, axes=axes)
        limits = (np.array(limit, np.int64) for limit in (starts, ends, axes))
        return self.add("Slice", [name, *(self.weight(limit, "limits") for limit in limits)])

    def require(self, op: Operation, opset: int) -> None:
        """Raise unless the graph's opset has what an op needs."""
        if self.opset < opset:
            raise CompileError(
                Problem(
                    place_of(op),
                    f"needs opset {opset}, but ops beside it are only known in opset {self.opset}",
                    "Convert the model with onnx.version_converter.",
                )
            )

    # Layouts.

    def pack(self, name: str, value: SSAValue) -> str:
        """[N, C, spatial...] as [N/BATCH, C/BLOCK, spatial..., BATCH, BLOCK]; spare lanes are 0."""
        layout, shape = packing(value.type), shape_of(value)
        assert layout is not None and shape is not None
        batch, block = layout.batch.data, layout.block.data
        name, (rows, channels) = self._fill(name, shape, {0: batch, 1: block})
        name = self.reshape(name, (rows, batch, channels, block, *shape[2:]))
        order = [0, 2, *range(4, 2 + len(shape)), 1, 3]
        return self.add("Transpose", [name], self._name_of_packed(value), perm=order)

    def pack_channels_last(self, name: str, value: SSAValue) -> str:
        """``pack`` of [N, spatial..., C], which moves whole blocks of channels."""
        layout, shape = packing(value.type), shape_of(value)
        assert layout is not None and shape is not None
        batch, block = layout.batch.data, layout.block.data
        spatial, rank = shape[2:], len(shape)
        laid = (shape[0], *spatial, shape[1])
        name, (rows, channels) = self._fill(name, laid, {0: batch, rank - 1: block})
        name = self.reshape(name, (rows, batch, *spatial, channels, block))
        order = [0, rank, *range(2, rank), 1, rank + 1]
        return self.add("Transpose", [name], self._name_of_packed(value), perm=order)

    def _name_of_packed(self, value: SSAValue) -> str:
        return self._names.get(value) or self.fresh(f"{value.name_hint or 'value'}.packed")

    def _fill(
        self, name: str, shape: Sequence[int], lanes: Mapping[int, int]
    ) -> tuple[str, list[int]]:
        """The tensor with zeros up to whole lanes along these axes; how many of each it has."""
        counts = []
        for axis, lane in lanes.items():
            counts.append(-(-shape[axis] // lane))
            missing = counts[-1] * lane - shape[axis]
            if missing:
                name = self._pad_end(name, shape, axis, missing)
                shape = (*shape[:axis], counts[-1] * lane, *shape[axis + 1 :])
        return name, counts

    def _pad_end(self, name: str, shape: Sequence[int], axis: int, count: int) -> str:
        if self.opset >= 13:
            pads = np.zeros(2 * len(shape), np.int64)
            pads[len(shape) + axis] = count
            return self.add("Pad", [name, self.weight(pads, "pads")])
        zeros = np.zeros((*shape[:axis], count, *shape[axis + 1 :]), np.int8)
        return self.add("Concat", [name, self.weight(zeros, "zeros")], axis=axis)

    def unpack(self, name: str, value: SSAValue) -> str:
        """The inverse of ``pack``; spare lanes are dropped."""
        layout, shape = packing(value.type), shape_of(value)
        assert layout is not None and shape is not None
        whole = layout.physical_shape(shape)
        rank = len(whole)
        order = [0, rank - 2, 1, rank - 1, *range(2, rank - 2)]
        name = self.add("Transpose", [name], perm=order)
        extents = whole[0] * whole[-2], whole[1] * whole[-1]
        name = self.reshape(name, (*extents, *shape[2:]))
        if extents == shape[:2]:
            return name
        return self.slice(name, [0, 0], shape[:2], [0, 1])


def value_info(name: str, type: onnx.TypeProto | None) -> onnx.ValueInfoProto:
    """A named value, typed where the type is known."""
    return onnx.ValueInfoProto(name=name, type=type)
