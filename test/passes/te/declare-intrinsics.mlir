// RUN: vta-opt %s -p te-declare-intrinsics --split-input-file | filecheck %s

builtin.module attributes {vtac.target = #target.vta<"pynq", log_batch = 1, log_block = 3, log_wgt_buff_size = 15>} {
  te.intrinsic @reset (b = 2, o = 8) writes acc[b, o] : i32 lowers reset {
    %mine = arith.constant 0 : i32
    te.yield %mine : i32
  }
}
// The declaration that is there already stays; no multiplication on this target.
// CHECK:      te.intrinsic @reset (b = 2, o = 8) writes acc[b, o] : i32 lowers reset {
// CHECK-NEXT:   %mine = arith.constant 0 : i32
// CHECK:      te.intrinsic @gemm (b = 2, o = 8) reduce (k = 8) updates acc[b, o] : i32 with (inp[b, k] : i8, wgt[o, k] : i8) lowers gemm {
// CHECK-NEXT: ^bb0(%0: i32, %1: i8, %2: i8):
// CHECK-NEXT:   %3 = arith.extsi %1 : i8 to i32
// CHECK-NEXT:   %4 = arith.extsi %2 : i8 to i32
// CHECK-NEXT:   %5 = arith.muli %3, %4 : i32
// CHECK-NEXT:   %6 = arith.addi %0, %5 : i32
// CHECK-NEXT:   te.yield %6 : i32
// CHECK:      te.intrinsic @add (b = 2, o = 8) updates acc[b, o] : i32 with (acc[b, o] : i32) lowers add {
// CHECK:      te.intrinsic @add_imm (b = 2, o = 8) updates acc[b, o] : i32 immediate -32768 to 32767 lowers add {
// CHECK:      te.intrinsic @max (
// CHECK:      te.intrinsic @max_imm (
// CHECK:      te.intrinsic @min (
// CHECK:      te.intrinsic @min_imm (
// CHECK:      te.intrinsic @shr (
// CHECK:      te.intrinsic @shr_imm (b = 2, o = 8) updates acc[b, o] : i32 immediate -31 to 31 lowers shr {
// CHECK-NOT:  @mul

// -----

// Where an immediate operation may read another element, adding 0 copies it.
builtin.module attributes {vtac.target = #target.vta<"chisel-pynq">} {
}
// CHECK:      te.intrinsic @copy (b = 1, o = 16) writes acc[b, o] : i32 with (acc[b, o] : i32) lowers copy {
// CHECK-NEXT: ^bb0(%[[SOURCE:.*]]: i32):
// CHECK-NEXT:   te.yield %[[SOURCE]] : i32
