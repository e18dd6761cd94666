// RUN: vta-opt %s -p te-declare-intrinsics,te-to-loops,te-apply-schedule | filecheck %s

// A sequence of intrinsics that together equal one statement: "y" may not overwrite "x".
builtin.module attributes {vtac.target = #target.vta<"pynq">} {
te.kernel @k(%p: tensor<4x1x16xi8>, %w: tensor<16x16xi8>) -> tensor<4x1x16xi8> {
  %x = te.compute "x" (h = 4, b = 1, o = 16) reduce (k = 16)
      ins (%w[o, k] : tensor<16x16xi8>, %p[h, b, k] : tensor<4x1x16xi8>) identity 0 {
  ^bb0(%acc: i32, %a: i8, %b: i8):
    %0 = arith.extsi %a : i8 to i32
    %1 = arith.extsi %b : i8 to i32
    %2 = arith.muli %0, %1 : i32
    %3 = arith.addi %acc, %2 : i32
    te.yield %3 : i32
  } -> tensor<4x1x16xi32>
  %y = te.compute "y" (h = 4, b = 1, o = 16) ins (%x[h, b, o] : tensor<4x1x16xi32>) {
  ^bb0(%a: i32):
    %0 = arith.constant 3 : i32
    %1 = arith.shli %a, %0 : i32
    %2 = arith.subi %1, %0 : i32
    te.yield %2 : i32
  } -> tensor<4x1x16xi32>
  %z = te.compute "z" (h = 4, b = 1, o = 16) ins (%x[3 - h, b, o] : tensor<4x1x16xi32>, %y[h, b, o] : tensor<4x1x16xi32>) {
  ^bb0(%a: i32, %b: i32):
    %0 = arith.maxsi %a, %b : i32
    te.yield %0 : i32
  } -> tensor<4x1x16xi32>
  %q = te.compute "q" (h = 4, b = 1, o = 16) ins (%z[h, b, o] : tensor<4x1x16xi32>) {
  ^bb0(%a: i32):
    %0 = arith.trunci %a : i32 to i8
    te.yield %0 : i8
  } -> tensor<4x1x16xi8>
  te.yield %q : tensor<4x1x16xi8>
}
te.schedule @k {
^bb0(%x: !te.stage, %y: !te.stage, %z: !te.stage, %q: !te.stage):
  te.set_scope %x scope <acc> slots 1
  te.set_scope %y scope <acc> slots 1
  te.set_scope %z scope <acc> slots 1
  te.in_place %z operand 1
  %h, %b, %o, %k = te.axes %x (h, b, o, k)
  %wc = te.cache_read %x operand 0 scope <wgt> slots 1
  %pc = te.cache_read %x operand 1 scope <inp> slots 1
  te.tensorize %x at %h by [@gemm]
  %h1, %b1, %o1 = te.axes %y (h, b, o)
  te.tensorize %y at %h1 by [@reset, @add, @shr_imm, @add_imm]
  %h2, %b2, %o2 = te.axes %z (h, b, o)
  te.tensorize %z at %h2 by [@max]
}
}
// CHECK:      te.invoke @gemm "x" %x[%h_1] (%p_inp[%h_1], %w_wgt[])
// CHECK:      te.for "h" [%h_2 : %h_n_2] in [0 : 4] hardware {
// CHECK-NEXT:   te.invoke @reset "y" %y[%h_2] ()
// CHECK-NEXT: }
// CHECK-NEXT: te.for "h" [%h_3 : %h_n_3] in [0 : 4] hardware {
// CHECK-NEXT:   te.invoke @add "y" %y[%h_3] (%x[%h_3])
// CHECK-NEXT: }
// CHECK-NEXT: te.for "h" [%h_4 : %h_n_4] in [0 : 4] hardware {
// CHECK-NEXT:   te.invoke @shr_imm "y" %y[%h_4] () immediate -3
// CHECK-NEXT: }
// CHECK-NEXT: te.for "h" [%h_5 : %h_n_5] in [0 : 4] hardware {
// CHECK-NEXT:   te.invoke @add_imm "y" %y[%h_5] () immediate -3
// CHECK-NEXT: }
// CHECK-NEXT: te.for "h" [%h_6 : %h_n_6] in [0 : 4] hardware {
// CHECK-NEXT:   te.invoke @max "z" %y[%h_6] (%x[-%h_6 + 3])
// CHECK-NEXT: }
