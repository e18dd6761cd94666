"""``te-byte-planes``: an int32 result leaves the accelerator as four int8 results.

The machine stores the low byte of an accumulator and nothing else. So the low byte is stored, the
accumulators are shifted right by 8, and so on: three ALU operations and four stores per element.
The caller joins the planes.

Takes kernels of tensors. A function that returns int32 returns planes, lowest first; their
`te.layout` says which byte they are. Kernels with int8 results stay as they are.
"""

from dataclasses import dataclass, replace

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, IntegerType, ModuleOp, i8, i32
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from vtac.dialects.te import (
    ComputeOp,
    KernelOp,
    Layout,
    Read,
    identity_map,
    rows_of,
    scalar_body,
    shaped,
)
from vtac.passes.te.borders import Part, replace_results, results_of
from vtac.passes.te.computes import fresh_label

PLANES = 4
"""Bytes of an int32."""

WHY = "it returns int32, which another kernel reads: int32 leaves the accelerator only as bytes"


@dataclass(frozen=True)
class BytePlanesPass(ModulePass):
    """Return int32 as its bytes."""

    name = "te-byte-planes"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Split the int32 results of every kernel of tensors."""
        for kernel in op.ops:
            if isinstance(kernel, KernelOp) and not kernel.is_lowered:
                results = results_of(kernel)
                wide = [shaped(value).element_type == i32 for value in results]
                if any(wide):
                    parts = [
                        _planes(kernel, value) if is_wide else None
                        for value, is_wide in zip(results, wide, strict=True)
                    ]
                    replace_results(op, kernel, parts, WHY)


def _planes(kernel: KernelOp, value: SSAValue) -> list[Part]:
    """Alternating stores and shifts; each shift may overwrite the accumulators, which have been
    stored."""
    parts: list[Part] = []
    for number in range(PLANES):
        if number:
            value = _stage(kernel, f"shift{number}", value, _shifted, i32)
        plane = _stage(kernel, f"byte{number}", value, lambda x: arith.TruncIOp(x, i8).result, i8)

        def layout(known: Layout, byte: int = number) -> Layout:
            return replace(known, byte=byte)

        parts.append((plane, layout))
    return parts


def _shifted(value: SSAValue) -> SSAValue:
    return arith.ShRSIOp(value, arith.ConstantOp(IntegerAttr(8, i32)).result).result


def _stage(
    kernel: KernelOp, label: str, value: SSAValue, body: object, element: IntegerType
) -> SSAValue:
    shape, maker = shaped(value).get_shape(), value.owner
    names = [f"i{d}" for d in range(len(shape))]
    if isinstance(maker, ComputeOp):
        names = list(maker.spatial.names)
    read = Read(value, rows_of(identity_map(len(shape))))
    compute = ComputeOp(
        fresh_label(kernel, label),
        dict(zip(names, shape, strict=True)),
        {},
        [read],
        scalar_body([i32], body),  # type: ignore[arg-type]
        element,
    )
    if isinstance(maker, ComputeOp):
        compute.location = maker.location
    compute.result.name_hint = compute.label.data
    last = kernel.body.block.last_op
    assert last is not None
    kernel.body.block.insert_op_before(compute, last)
    return compute.result
