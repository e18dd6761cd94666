// RUN: vta-opt %s -p te-declare-intrinsics,te-to-loops,te-apply-schedule | filecheck %s

// Two operations in one buffer and the store run piece by piece: while a piece of two is stored, the
// ALU works on the next.
// CHECK-LABEL: te.kernel @pieces
// CHECK:         te.for "h" [%h : %h_n] in [0 : 6] step 2 {
// CHECK-NEXT:      te.for "h" [%h_1 : %h_n_1] in [%h : %h_n] hardware {
// CHECK-NEXT:        te.invoke @shr_imm "s" %x_acc[%h_1] () immediate 3
// CHECK:           te.for "h" [%h_2 : %h_n_2] in [%h : %h_n] hardware {
// CHECK-NEXT:        te.invoke @max_imm "m" %x_acc[%h_2] () immediate 0
// CHECK:           te.copy %x_acc to %q [%h : %h_n, 0 : 1, 0 : 16]
// CHECK-NEXT:    }
// CHECK-NEXT:    te.yield
builtin.module attributes {vtac.target = #target.vta<"pynq">} {
te.kernel @pieces(%x: tensor<6x1x16xi32>) -> tensor<6x1x16xi8> {
  %s = te.compute "s" (h = 6, i = 1, o = 16) ins (%x[h, i, o] : tensor<6x1x16xi32>) {
  ^bb0(%v: i32):
    %c = arith.constant 3 : i32
    %0 = arith.shrsi %v, %c : i32
    te.yield %0 : i32
  } -> tensor<6x1x16xi32>
  %m = te.compute "m" (h = 6, i = 1, o = 16) ins (%s[h, i, o] : tensor<6x1x16xi32>) {
  ^bb0(%v: i32):
    %c = arith.constant 0 : i32
    %0 = arith.maxsi %v, %c : i32
    te.yield %0 : i32
  } -> tensor<6x1x16xi32>
  %q = te.compute "q" (h = 6, i = 1, o = 16) ins (%m[h, i, o] : tensor<6x1x16xi32>) {
  ^bb0(%v: i32):
    %0 = arith.trunci %v : i32 to i8
    te.yield %0 : i8
  } -> tensor<6x1x16xi8>
  te.yield %q : tensor<6x1x16xi8>
}
te.schedule @pieces {
^bb0(%s: !te.stage, %m: !te.stage, %q: !te.stage):
  te.set_scope %s scope <acc> slots 1
  te.set_scope %m scope <acc> slots 1
  %x = te.cache_read %s operand 0 scope <acc> slots 1
  te.in_place %s operand 0
  te.in_place %m operand 0
  %h, %i, %o = te.axes %s (h, i, o)
  %ho, %hi = te.split %h factor 2
  %h1, %i1, %o1 = te.axes %m (h, i, o)
  %ho1, %hi1 = te.split %h1 factor 2
  %h2, %i2, %o2 = te.axes %q (h, i, o)
  %ho2, %hi2 = te.split %h2 factor 2
  te.join %ho, %ho1, %ho2
  te.tensorize %s at %hi by [@shr_imm]
  te.tensorize %m at %hi1 by [@max_imm]
  te.dma %q at %hi2
}
}
