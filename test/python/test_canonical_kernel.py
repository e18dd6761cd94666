"""The canonical text of a kernel: names do not matter, everything that changes the result does."""

from random import Random

import pytest
from te_interpreter import kernel_named
from te_kernels import random_kernel
from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, StringAttr, UnitAttr, i32

from vtac.dialects import te

NUMBERS = range(40)


def kernel(number: int) -> te.KernelOp:
    module, _ = random_kernel(Random(number))
    return kernel_named(module, "k")


def renamed(number: int) -> te.KernelOp:
    """The same kernel with other names everywhere, and an attribute."""
    found = kernel(number)
    found.properties["sym_name"] = StringAttr("other")
    found.attributes["note"] = UnitAttr()
    for value in found.body.block.args:
        value.name_hint = f"z{value.index}"
    for place, compute in enumerate(found.computes):
        compute.properties["label"] = StringAttr(f"stage_{place}")
        compute.result.name_hint = None
        for name, prefix in (("spatial", "s"), ("reduce", "r")):
            extents = compute.properties[name].extents
            axes = {f"{prefix}{axis}": extent for axis, extent in enumerate(extents)}
            compute.properties[name] = te.DomainAttr(axes)
    found.verify()
    return found


@pytest.mark.parametrize("number", NUMBERS)
def test_names_do_not_matter(number: int) -> None:
    assert te.canonical_text(renamed(number)) == te.canonical_text(kernel(number))
    assert te.digest_of_kernel(renamed(number)) == te.digest_of_kernel(kernel(number))


def test_numbers_in_bodies_do_not_matter() -> None:
    changed = 0
    for number in NUMBERS:
        found = kernel(number)
        for op in [op for op in found.walk() if isinstance(op, arith.ConstantOp)]:
            op.properties["value"] = IntegerAttr(3, i32)
            changed += 1
        assert te.canonical_text(found) == te.canonical_text(kernel(number))
    assert changed > 10


def test_different_kernels_have_different_texts() -> None:
    """Kernels whose printed IR differs after the names are gone have different digests."""
    texts: dict[str, str] = {}
    for number in range(200):
        found = renamed(number)
        for op in [op for op in found.walk() if isinstance(op, arith.ConstantOp)]:
            op.properties["value"] = IntegerAttr(3, i32)
        digest = te.digest_of_kernel(found)
        assert texts.setdefault(digest, str(found)) == str(found)
    assert len(texts) > 100
    assert len(set(texts.values())) == len(texts)


def test_what_changes_the_result_changes_the_text() -> None:
    base = te.canonical_text(kernel(0))
    outside, start, operation = kernel(0), kernel(0), kernel(0)
    first = outside.computes[0]
    first.properties["outside"] = te_outside(first, 7)
    start.computes[0].properties["identity"] = IntegerAttr(1, i32)
    product = next(op for op in operation.walk() if isinstance(op, arith.MuliOp))
    product.parent.insert_op_after(other := arith.AddiOp(*product.operands), product)
    product.result.replace_all_uses_with(other.result)
    product.parent.erase_op(product)
    texts = [te.canonical_text(item) for item in (outside, start, operation)]
    assert base not in texts
    assert len(set(texts)) == 3


def te_outside(compute: te.ComputeOp, value: int):
    """Another value for reads outside of the first operand."""
    reads = compute.reads
    changed = [te.Read(reads[0].value, reads[0].rows, value), *reads[1:]]
    bodies = compute.body.clone()
    return te.ComputeOp(
        "x", compute.spatial, compute.reduce, changed, bodies, compute.element_type, identity=0
    ).outside
