// RUN: vta-opt %s -p te-declare-intrinsics,te-to-loops,te-apply-schedule | filecheck %s

// "d" works in the buffer of "b", which holds a halo for "m". What is stored is "d", without halo.
builtin.module attributes {vtac.target = #target.vta<"pynq", log_block = 1, log_inp_buff_size = 10, log_wgt_buff_size = 10, log_acc_buff_size = 12>} {
te.kernel @k(%x: tensor<8x1x2xi32>) -> (tensor<8x1x2xi8>, tensor<8x1x2xi8>) {
  %b = te.compute "b" (h = 8, i = 1, o = 2) ins (%x[h, i, o] : tensor<8x1x2xi32>) {
  ^bb0(%v: i32):
    te.yield %v : i32
  } -> tensor<8x1x2xi32>
  %m = te.compute "m" (h = 8, i = 1, o = 2) reduce (t = 3) ins (%b[h + t - 1, i, o] outside -128 : tensor<8x1x2xi32>) identity -128 {
  ^bb0(%acc: i32, %v: i32):
    %0 = arith.maxsi %acc, %v : i32
    te.yield %0 : i32
  } -> tensor<8x1x2xi32>
  %p = te.compute "p" (h = 8, i = 1, o = 2) ins (%m[h, i, o] : tensor<8x1x2xi32>) {
  ^bb0(%v: i32):
    %0 = arith.trunci %v : i32 to i8
    te.yield %0 : i8
  } -> tensor<8x1x2xi8>
  %d = te.compute "d" (h = 8, i = 1, o = 2) ins (%b[h, i, o] : tensor<8x1x2xi32>) {
  ^bb0(%v: i32):
    %0 = arith.addi %v, %v : i32
    te.yield %0 : i32
  } -> tensor<8x1x2xi32>
  %q = te.compute "q" (h = 8, i = 1, o = 2) ins (%d[h, i, o] : tensor<8x1x2xi32>) {
  ^bb0(%v: i32):
    %0 = arith.trunci %v : i32 to i8
    te.yield %0 : i8
  } -> tensor<8x1x2xi8>
  te.yield %p, %q : tensor<8x1x2xi8>, tensor<8x1x2xi8>
}
te.schedule @k {
^bb0(%b: !te.stage, %m: !te.stage, %p: !te.stage, %d: !te.stage, %q: !te.stage):
  %h, %i, %o = te.axes %q (h, i, o)
  %ho, %hi = te.split %h factor 4
  te.set_scope %d scope <acc> slots 1
  te.set_scope %m scope <acc> slots 1
  te.set_scope %b scope <acc> slots 1
  te.compute_with %p, %ho
  te.compute_at %d, %ho
  te.compute_at %m, %ho
  te.compute_at %b, %ho
  te.dma %q at %hi
  %hp, %ip, %op = te.axes %p (h, i, o)
  te.dma %p at %hp
  te.in_place %d operand 0
}
}
// CHECK:      te.for "h" [%h : %h_n] in [0 : 8] step 4 {
// CHECK-NEXT:   %h_1, %h_n_1 = te.span [%h : %h_n] + [-1 : 3] within 8
// CHECK-NEXT:   %b = te.alloc [%h_1 : %h_n_1, 0 : 1, 0 : 2] : memref<8x1x2xi32, #te.scope<acc>>
// CHECK:        te.update "b" %b[
// CHECK:        te.copy %m to %p
// CHECK-NOT:    [
// CHECK:        te.for
// CHECK:        te.update "d" %b[
// CHECK:        te.copy %b to %q [%h : %h_n, 0 : 1, 0 : 2]
