"""A new instruction is a declaration and a lowering: one is added here, the compiler untouched.

``@add_relu`` is an ALU instruction that a machine might have: acc = max(acc + acc', immediate).
This machine runs it as two; a schedule says `te.tensorize ... by [@add_relu]` all the same, and
tensorize proves the match against the declaration.
"""

from collections.abc import Sequence

import numpy as np
import pytest
from vta_runner import context, parse, run_loops

from vtac.dialects.errors import CompileError
from vtac.dialects.vta import AluOp
from vtac.dialects.vta.encoding import AluOpcode
from vtac.lowering.te_to_vta import TeToVtaPass
from vtac.lowering.te_to_vta.compute import MicroOpNest
from vtac.lowering.te_to_vta.instructions import Emitted, alu
from vtac.passes.te.apply_schedule import TeApplySchedule
from vtac.passes.te.declare_intrinsics import TeDeclareIntrinsics
from vtac.passes.te.te_to_loops import TeToLoops

TEXT = """
builtin.module attributes {vtac.target = #target.vta<"pynq">} {
func.func @f(%x: tensor<5x1x16xi32>, %y: tensor<5x1x16xi32>) -> tensor<5x1x16xi8>
    attributes {codegen = "vta"} {
  %z = te.call @k(%x, %y) : (tensor<5x1x16xi32>, tensor<5x1x16xi32>) -> tensor<5x1x16xi8>
  func.return %z : tensor<5x1x16xi8>
}
te.intrinsic @add_relu (b = 1, o = 16) updates acc[b, o] : i32 with (acc[b, o] : i32)
    immediate -32768 to 32767 lowers "add_max" {
^bb0(%a: i32, %b: i32, %c: i32):
  %0 = arith.addi %a, %b : i32
  %1 = arith.maxsi %0, %c : i32
  te.yield %1 : i32
}
te.kernel @k(%x: tensor<5x1x16xi32>, %y: tensor<5x1x16xi32>) -> tensor<5x1x16xi8> {
  %t = te.compute "t" (h = 5, b = 1, o = 16) ins (%x[h, b, o] : tensor<5x1x16xi32>) {
  ^bb0(%a: i32):
    %c = arith.constant 1 : i32
    %0 = arith.addi %a, %c : i32
    te.yield %0 : i32
  } -> tensor<5x1x16xi32>
  %s = te.compute "s" (h = 5, b = 1, o = 16)
      ins (%y[h, b, o] : tensor<5x1x16xi32>, %t[h, b, o] : tensor<5x1x16xi32>) {
  ^bb0(%a: i32, %b: i32):
    %c = arith.constant -3 : i32
    %0 = arith.addi %b, %a : i32
    %1 = arith.BODY %c, %0 : i32
    te.yield %1 : i32
  } -> tensor<5x1x16xi32>
  %q = te.compute "q" (h = 5, b = 1, o = 16) ins (%s[h, b, o] : tensor<5x1x16xi32>) {
  ^bb0(%a: i32):
    %0 = arith.trunci %a : i32 to i8
    te.yield %0 : i8
  } -> tensor<5x1x16xi8>
  te.yield %q : tensor<5x1x16xi8>
}
te.schedule @k {
^bb0(%t: !te.stage, %s: !te.stage, %q: !te.stage):
  %h, %b, %o = te.axes %q (h, b, o)
  %ho, %hi = te.split %h factor 2
  te.set_scope %s scope <acc> slots 1
  te.set_scope %t scope <acc> slots 2
  te.compute_at %s, %ho
  te.compute_at %t, %ho
  te.in_place %s operand 1
  te.dma %q at %hi
  %xc = te.cache_read %t operand 0 scope <acc> slots 1
  te.compute_at %xc, %ho
  %yc = te.cache_read %s operand 0 scope <acc> slots 1
  te.compute_at %yc, %ho
  %h1, %b1, %o1 = te.axes %t (h, b, o)
  te.tensorize %t at %h1 by [@reset, @add, @add_imm]
  %h2, %b2, %o2 = te.axes %s (h, b, o)
  te.tensorize %s at %h2 by [@add_relu]
}
}
"""


def add_max(nest: MicroOpNest, immediate: int | None) -> Sequence[Emitted]:
    """The lowering: an addition, then a maximum with the immediate."""
    return [*alu(AluOpcode.ADD)(nest, None), *alu(AluOpcode.MAX)(nest.of([0]), immediate)]


def scheduled(body: str = "maxsi"):
    ctx = context()
    module = parse(ctx, TEXT.replace("BODY", body))
    for step in (TeDeclareIntrinsics(), TeToLoops(), TeApplySchedule()):
        step.apply(ctx, module)
    module.verify()
    return ctx, module


def test_an_instruction_is_added_by_a_declaration_and_a_lowering() -> None:
    ctx, module = scheduled()
    ctx.lowerings = {"add_max": add_max}
    generator = np.random.default_rng(3)
    x, y = (generator.integers(-60, 60, (5, 1, 16), np.int32) for _ in range(2))
    (found,) = run_loops(ctx, module, [x, y])
    np.testing.assert_array_equal(found, np.maximum(x + 1 + y, -3).astype(np.int8))


def test_it_becomes_two_instructions() -> None:
    ctx, module = scheduled()
    ctx.lowerings = {"add_max": add_max}
    TeToVtaPass().apply(ctx, module)
    operations = [op.operation.data for op in module.walk() if isinstance(op, AluOp)]
    # A tile: t = x + 1 is two, s is the new instruction.
    assert operations == [AluOpcode.ADD, AluOpcode.ADD, AluOpcode.ADD, AluOpcode.MAX] * 3


def test_the_match_is_proved_against_its_declaration() -> None:
    with pytest.raises(CompileError, match="is not add_relu: the statement is min"):
        scheduled("minsi")


def test_without_a_lowering_it_is_refused() -> None:
    ctx, module = scheduled()
    with pytest.raises(CompileError, match='@add_relu lowers "add_max", which nothing here makes'):
        TeToVtaPass().apply(ctx, module)
