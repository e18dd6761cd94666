"""The canonical text of a kernel of tensors: what a schedule can depend on, and nothing else.

Two kernels have the same text exactly if they differ in nothing but the names of kernel, values,
stages and axes, locations, attributes, and the numbers in the bodies of their computes. Layers of
one shape therefore share their schedule, and a record of a schedule finds its kernel by the digest
of this text. `canonical_kernel` is a kernel with that text and names that follow from it.
"""

import hashlib
from collections.abc import Iterable, Iterator

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, IntegerType, StringAttr
from xdsl.ir import Block, SSAValue

from .affine import Row
from .attributes import DomainAttr
from .compute import ComputeOp, KernelOp
from .reads import Read


def canonical_text(kernel: KernelOp) -> str:
    """The canonical text: one line for the parameters, each compute, and the results.

    Values and iteration variables are numbered in order, parameters first. The kernel must be in
    the form with tensors, before ``te-to-loops``.
    """
    assert not kernel.is_lowered, "the canonical text is that of a kernel of tensors"
    block = kernel.body.block
    numbers: dict[SSAValue, int] = {value: number for number, value in enumerate(block.args)}
    lines = [f"({', '.join(str(type) for type in block.arg_types)})"]
    for compute in kernel.computes:
        numbers[compute.result] = len(numbers)
        lines.append(f"%{numbers[compute.result]} = {_compute(compute, numbers)}")
    last = block.last_op
    assert last is not None
    lines.append(f"yield {', '.join(f'%{numbers[value]}' for value in last.operands)}")
    return "\n".join(lines)


def digest_of_kernel(kernel: KernelOp) -> str:
    """SHA-256 of the canonical text, in hexadecimal."""
    return hashlib.sha256(canonical_text(kernel).encode()).hexdigest()


def canonical_kernel(kernel: KernelOp) -> KernelOp:
    """The kernel ``@kernel`` that stands for all kernels of this canonical text.

    A copy with canonical names, in which numbers in bodies are 1, and attributes and locations are
    left out. Kernels of equal canonical texts give equal copies.
    """
    found = kernel.clone()
    found.properties["sym_name"] = StringAttr("kernel")
    use_canonical_names(found)
    for op in found.walk():
        op.attributes.clear()
        if isinstance(op, arith.ConstantOp) and isinstance(op.result.type, IntegerType):
            op.properties["value"] = IntegerAttr(1, op.result.type)
    return found


def use_canonical_names(kernel: KernelOp) -> None:
    """Call parameters, stages and axes by their number.

    ``p0`` is a parameter, ``s0`` a stage; ``i0`` is a spatial axis, ``r0`` a reduction axis.
    """
    for op in kernel.walk():
        arguments = (value for region in op.regions for value in _arguments(region.blocks))
        for value in (*op.results, *arguments):
            value.name_hint = None
    for number, value in enumerate(kernel.body.block.args):
        value.name_hint = f"p{number}"
    for number, compute in enumerate(kernel.computes):
        compute.properties["label"] = StringAttr(f"s{number}")
        compute.result.name_hint = f"s{number}"
        for name, prefix in (("spatial", "i"), ("reduce", "r")):
            domain = compute.properties[name]
            assert isinstance(domain, DomainAttr)
            axes = [(f"{prefix}{axis}", extent) for axis, extent in enumerate(domain.extents)]
            compute.properties[name] = DomainAttr(axes)


def _arguments(blocks: Iterable[Block]) -> Iterator[SSAValue]:
    for block in blocks:
        yield from block.args


def _compute(compute: ComputeOp, numbers: dict[SSAValue, int]) -> str:
    start = ""
    if compute.init is not None:
        start = f" init %{numbers[compute.init]}"
    elif compute.identity is not None:
        start = f" identity {compute.identity.value.data}"
    reads = ", ".join(_read(read, numbers) for read in compute.reads)
    body = "; ".join(_body(compute.body.block))
    spatial, reduce = list(compute.spatial.extents), list(compute.reduce.extents)
    return f"{spatial} reduce {reduce} ins ({reads}){start} {{{body}}} -> {compute.element_type}"


def _read(read: Read, numbers: dict[SSAValue, int]) -> str:
    rows = ", ".join(map(_row, read.rows))
    outside = "" if read.outside is None else f" outside {read.outside}"
    return f"%{numbers[read.value]}[{rows}]{outside}"


def _row(row: Row) -> str:
    total = " + ".join([*(f"{by} * d{variable}" for variable, by in row.terms), str(row.constant)])
    return total if row.divisor == 1 else f"({total}) / {row.divisor}"


def _body(block: Block) -> Iterator[str]:
    """The operations of a body; constants appear with their type, without their number."""
    numbers: dict[SSAValue, int] = {value: number for number, value in enumerate(block.args)}
    for op in block.ops:
        numbers.update((result, len(numbers)) for result in op.results)
        operands = ", ".join(f"#{numbers[value]}" for value in op.operands)
        properties = "" if isinstance(op, arith.ConstantOp) else _properties(op.properties)
        types = ", ".join(str(type) for type in op.result_types)
        yield f"{op.name}{properties} ({operands}) -> ({types})"


def _properties(properties: dict[str, object]) -> str:
    return "".join(f" {name}={properties[name]}" for name in sorted(properties))
