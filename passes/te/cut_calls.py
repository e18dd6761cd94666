"""``te-cut-calls``: a call becomes one call for each core that computes a part of its results.

Takes functions with ``codegen = "vta"`` for a cluster. A call with ``parts`` is cut along the
dimensions of its results, part k in row-major order running on core k. A call without them is cut
so that the largest part is as small as possible, along the outermost dimensions that allow it
(images, then rows, then blocks of channels). Each part reads windows of activations and its share
of constants, and the results are assembled, which moves nothing (`te.BufferAssignment`). Parts of
equal shapes share a kernel (`kernel_regions`). What ``graph.places`` says of the results of the
call holds for what is assembled. A part's kernel says how many cores share the memories that it
reads (`readers_of`), which counts when it is scheduled.

Calls that cannot be cut stay whole, on core 0, and say why in the attribute ``te.uncut``: their
results have different shapes, or another stage of the kernel reads a result. Functions for one
core are left as they are.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    ModuleOp,
    StringAttr,
    TensorType,
    i64,
)
from xdsl.ir import Operation, OpResult, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from vtac.dialects.context import constant_attr, constant_value, tensor_type
from vtac.dialects.graph import PLACES, PlaceAttr
from vtac.dialects.target import cores_of, machine_at
from vtac.dialects.te import (
    LANES,
    AssembleOp,
    Box,
    CallOp,
    ConstantOp,
    KernelOp,
    ViewOp,
    WindowOp,
    shaped,
)
from vtac.passes.te.accelerated import accelerated_functions
from vtac.passes.te.computes import fresh_name
from vtac.passes.te.kernel_regions import Boxes, boxes_for, boxes_of_parts, restricted
from vtac.passes.te.parameters import calls_of
from vtac.passes.te.schedule.structure import READERS_ATTRIBUTE

UNCUT_ATTRIBUTE = "te.uncut"
"""The attribute of a call that says why it is not cut."""

BOUND_WHOLE = "it is to have one part"
"""That reason where the call itself asks for one part."""


@dataclass(frozen=True)
class CutCallsPass(ModulePass):
    """Cut the calls of functions for a cluster into parts, one for each core."""

    name = "te-cut-calls"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """See the module's docstring."""
        kernels = _Kernels(op)
        for function in accelerated_functions(op):
            machine = machine_at(function)
            cores = 1 if machine is None else cores_of(machine)[1]
            if cores > 1:
                for call in [c for c in function.body.block.ops if isinstance(c, CallOp)]:
                    _Cut(ctx, kernels, call, cores).run()


def parts_for(shape: Sequence[int], cores: int) -> tuple[int, ...]:
    """Into how many parts to cut each dimension of a tensor in lanes, for at most so many cores.

    The largest part is as small as possible; of equal choices the one that cuts images first, then
    rows, then channels.
    """
    outer = len(shape) - LANES
    # Activations are [n, c, h, w]: rows come before channels. Columns are not cut.
    order = [0, *range(2, min(outer, 3)), 1][: min(outer, 3)]

    def rank(counts: Sequence[int]) -> tuple[int, int, list[int]]:
        largest = prod(-(-shape[dim] // n) for dim, n in zip(order, counts, strict=True))
        return largest, prod(counts), [-count for count in counts]

    choices = product(*(range(1, min(cores, shape[dim]) + 1) for dim in order))
    chosen = min((counts for counts in choices if prod(counts) <= cores), key=rank)
    return tuple(dict(zip(order, chosen, strict=True)).get(dim, 1) for dim in range(len(shape)))


@dataclass
class _Kernels:
    """The kernels of a module, and those that parts have been given, without duplicates."""

    module: ModuleOp
    made: dict[str, list[KernelOp]] = field(default_factory=dict)

    def of(self, call: CallOp) -> KernelOp | None:
        """The kernel of tensors that a call runs."""
        name = call.callee.root_reference.data
        for op in self.module.ops:
            if isinstance(op, KernelOp) and op.sym_name.data == name and not op.is_lowered:
                return op
        return None

    def add(self, kernel: KernelOp) -> str:
        """The name of a kernel that equals this one; if there is none, this one is added."""
        base = kernel.sym_name.data
        for known in self.made.setdefault(base, []):
            if (known.function_type, known.attributes) == (
                kernel.function_type,
                kernel.attributes,
            ) and (known.body.is_structurally_equivalent(kernel.body)):
                return known.sym_name.data
        names = [op.properties.get("sym_name") for op in self.module.ops]
        taken = {name.data for name in names if isinstance(name, StringAttr)}
        name = fresh_name(f"{base}_part", taken)
        kernel.properties["sym_name"] = StringAttr(name)
        self.made[base].append(kernel)
        self.module.body.block.add_op(kernel)
        return name

    def drop(self, kernel: KernelOp) -> None:
        """Erase a kernel that nothing calls any more."""
        if not calls_of(self.module, kernel):
            Rewriter.erase_op(kernel)


@dataclass
class _Cut:
    """The cutting of one call."""

    ctx: Context
    kernels: _Kernels
    call: CallOp
    cores: int

    def run(self) -> None:
        """Replace the call by calls of its parts, or record why it stays whole."""
        kernel = self.kernels.of(self.call)
        if kernel is None:
            return
        shapes = {tuple(shaped(value).get_shape()) for value in self.call.outputs}
        if len(shapes) > 1:
            self._stays("its results have different shapes")
            return
        (shape,) = shapes
        boxes = boxes_of_parts(shape, self._parts(shape))
        asked = self.call.properties.pop("parts", None)
        if len(boxes) == 1:
            one = f"its result {list(shape)} has one image, row and block of channels"
            self._stays(one if asked is None else BOUND_WHOLE)
            return
        regions = [boxes_for(kernel, [box] * len(self.call.outputs)) for box in boxes]
        if None in regions:
            self._stays("another stage of its kernel reads a result")
            return
        calls = [
            self._part(kernel, region, core, len(boxes))
            for core, region in enumerate(regions, start=self.call.unit)
            if region is not None
        ]
        self._assemble(calls, boxes)
        self.kernels.drop(kernel)

    def _parts(self, shape: Sequence[int]) -> Sequence[int]:
        """The numbers of parts that the call asks for, if it does and its results allow that."""
        cores = self.cores - self.call.unit
        asked = None if self.call.parts is None else self.call.parts.get_values()
        if asked is None or len(asked) != len(shape) or prod(asked) > cores:
            return parts_for(shape, cores)
        return [min(count, size) for count, size in zip(asked, shape, strict=True)]

    def _stays(self, why: str) -> None:
        self.call.attributes[UNCUT_ATTRIBUTE] = StringAttr(why)

    def _part(self, kernel: KernelOp, boxes: Boxes, core: int, parts: int) -> CallOp:
        """Insert the call of a part; parts: how many there are."""
        part_of = restricted(kernel, boxes)
        part_of.attributes[READERS_ATTRIBUTE] = DenseArrayBase.from_list(i64, self._readers(parts))
        name = self.kernels.add(part_of)
        arguments = [
            self._argument(value, boxes[parameter])
            for parameter, value in zip(kernel.body.block.args, self.call.arguments, strict=True)
            if parameter in boxes
        ]
        last = kernel.body.block.last_op
        assert last is not None
        types = [
            TensorType(shaped(value).element_type, [length for _, length in boxes[value]])
            for value in last.operands
        ]
        part = CallOp(name, arguments, types, core)
        part.location = self.call.location
        self._insert(part)
        return part

    def _readers(self, parts: int) -> tuple[int, int]:
        """How many cores share the memory of activations, and that of constants (`readers_of`).

        Each core has a channel of its own to the global buffer, and all share one to DDR.
        """
        values = [v for v in self.call.arguments if not isinstance(v.owner, ConstantOp)]
        return (1 if all(map(_is_in_global_buffer, values)) else parts), parts

    def _argument(self, value: SSAValue, box: Box) -> SSAValue:
        """A box of what the call passes: a window, or a smaller constant."""
        shape = shaped(value).get_shape()
        if box == tuple((0, size) for size in shape):
            return value
        starts, lengths = [start for start, _ in box], [length for _, length in box]
        made: ConstantOp | WindowOp
        if isinstance(value.owner, ConstantOp):
            whole = constant_value(self.ctx, value.owner.value, value.type)
            array = whole[tuple(slice(start, start + length) for start, length in box)]
            attr = constant_attr(self.ctx, array, value.name_hint or "constant")
            made = ConstantOp(attr, tensor_type(array))
        else:
            made = WindowOp(value, starts, TensorType(shaped(value).element_type, lengths))
        made.location = self.call.location
        made.result.name_hint = value.name_hint
        self._insert(made)
        return made.result

    def _assemble(self, calls: Sequence[CallOp], boxes: Sequence[Box]) -> None:
        """Put the results of the parts together in place of those of the call."""
        starts = [[start for start, _ in box] for box in boxes]
        places = self.call.attributes.get(PLACES)
        for number, before in enumerate(self.call.outputs):
            whole = AssembleOp([call.outputs[number] for call in calls], starts, before.type)
            whole.location = self.call.location
            if isinstance(places, ArrayAttr):
                whole.attributes[PLACES] = ArrayAttr([places.data[number]])
            self._insert(whole)
            whole.result.name_hint = before.name_hint
            before.replace_all_uses_with(whole.result)
        constants = [v.owner for v in self.call.arguments if isinstance(v.owner, ConstantOp)]
        Rewriter.erase_op(self.call)
        for constant in dict.fromkeys(constants):
            if not constant.result.uses:
                Rewriter.erase_op(constant)

    def _insert(self, op: CallOp | ConstantOp | WindowOp | AssembleOp) -> None:
        assert self.call.parent is not None
        self.call.parent.insert_op_before(op, self.call)


def _is_in_global_buffer(value: SSAValue) -> bool:
    """Whether a plan places a value, or what it is a window of, in the global buffer."""
    while isinstance(value.owner, WindowOp | ViewOp):
        value = value.owner.x
    owner = value.owner
    places = owner.attributes.get(PLACES) if isinstance(owner, Operation) else None
    if not isinstance(places, ArrayAttr) or not isinstance(value, OpResult):
        return False
    place = places.data[value.index]
    return isinstance(place, PlaceAttr) and place.offset is not None
