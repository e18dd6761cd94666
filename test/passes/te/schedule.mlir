// RUN: vta-opt %s -p te-schedule --split-input-file | filecheck %s

// A product that starts from a tensor, a bias, a clip, a store. 16 rows of 16 pixels: two tiles of
// rows, so that one is stored while the next is computed. The block of weights is loaded once.
builtin.module attributes {vtac.target = #target.vta<"chisel-pynq">} {
  te.kernel @k(%x: tensor<1x16x16x1x16xi8>, %w: tensor<1x1x16x16xi8>, %c: tensor<1x1x16xi32>) -> tensor<1x16x16x1x16xi8> {
    %p = te.compute "p" (c = 1, h = 16, w = 16, b = 1, o = 16) reduce (i = 1, k = 16)
        ins (%x[i, h, w, b, k] : tensor<1x16x16x1x16xi8>, %w[c, i, o, k] : tensor<1x1x16x16xi8>) identity 0 {
    ^bb0(%acc: i32, %a: i8, %b: i8):
      %0 = arith.extsi %a : i8 to i32
      %1 = arith.extsi %b : i8 to i32
      %2 = arith.muli %0, %1 : i32
      %3 = arith.addi %acc, %2 : i32
      te.yield %3 : i32
    } -> tensor<1x16x16x1x16xi32>
    %r = te.compute "r" (c = 1, h = 16, w = 16, b = 1, o = 16) reduce (k = 16)
        ins (%x[c, h, w, b, k] : tensor<1x16x16x1x16xi8>, %w[c, c, o, k] : tensor<1x1x16x16xi8>) init %p : tensor<1x16x16x1x16xi32> {
    ^bb0(%acc: i32, %a: i8, %b: i8):
      %0 = arith.extsi %a : i8 to i32
      %1 = arith.extsi %b : i8 to i32
      %2 = arith.muli %0, %1 : i32
      %3 = arith.addi %acc, %2 : i32
      te.yield %3 : i32
    } -> tensor<1x16x16x1x16xi32>
    %s = te.compute "s" (c = 1, h = 16, w = 16, b = 1, o = 16)
        ins (%r[c, h, w, b, o] : tensor<1x16x16x1x16xi32>, %c[c, b, o] : tensor<1x1x16xi32>) {
    ^bb0(%a: i32, %b: i32):
      %0 = arith.addi %a, %b : i32
      te.yield %0 : i32
    } -> tensor<1x16x16x1x16xi32>
    %m = te.compute "m" (c = 1, h = 16, w = 16, b = 1, o = 16) ins (%s[c, h, w, b, o] : tensor<1x16x16x1x16xi32>) {
    ^bb0(%a: i32):
      %0 = arith.constant 0 : i32
      %1 = arith.maxsi %a, %0 : i32
      te.yield %1 : i32
    } -> tensor<1x16x16x1x16xi32>
    %q = te.compute "q" (c = 1, h = 16, w = 16, b = 1, o = 16) ins (%m[c, h, w, b, o] : tensor<1x16x16x1x16xi32>) {
    ^bb0(%a: i32):
      %0 = arith.trunci %a : i32 to i8
      te.yield %0 : i8
    } -> tensor<1x16x16x1x16xi8>
    te.yield %q : tensor<1x16x16x1x16xi8>
  }
}
// CHECK:       te.schedule @k attributes {estimate = {{[0-9]+}} : i64, choice = ["tiles h {{.*}}slots 2 activations, 2 weights, 2 accumulators"]} {
// CHECK-NEXT:  ^bb0(%p: !te.stage, %r: !te.stage, %s: !te.stage, %m: !te.stage, %q: !te.stage):
// CHECK-NEXT:    %c, %h, %w, %b, %o = te.axes %q (c, h, w, b, o)
// CHECK-NEXT:    %ho, %hi = te.split %h factor [[F:[0-9]+]]
// CHECK-NEXT:    te.reorder %ho, %c, %hi, %w
// CHECK-NEXT:    %x_inp = te.cache_read %p operand 0 scope <inp> slots 2
// CHECK-NEXT:    %w_wgt = te.cache_read %p operand 1 scope <wgt> slots 1
// CHECK-NEXT:    %x_inp_1 = te.cache_read %r operand 0 scope <inp> slots 2
// CHECK-NEXT:    %w_wgt_1 = te.cache_read %r operand 1 scope <wgt> slots 1
// CHECK-NEXT:    %c_acc = te.cache_read %s operand 1 scope <acc> slots 1
// CHECK-NEXT:    te.set_scope %p scope <acc> slots 2
// CHECK-NEXT:    te.set_scope %r scope <acc> slots 2
// CHECK-NEXT:    te.set_scope %s scope <acc> slots 2
// CHECK-NEXT:    te.set_scope %m scope <acc> slots 2
// CHECK-NEXT:    te.compute_at %m, %ho
// CHECK-NEXT:    te.compute_at %s, %ho
// CHECK-NEXT:    te.compute_at %r, %ho
// CHECK-NEXT:    te.compute_at %p, %ho
// CHECK-NEXT:    %[[INIT:.*]] = te.init %r
// CHECK-NEXT:    te.in_place %[[INIT]] operand 0
// CHECK-NEXT:    te.in_place %s operand 0
// CHECK-NEXT:    te.in_place %m operand 0
// CHECK:         te.compute_at %x_inp, %ho
// CHECK-NEXT:    te.compute_at %x_inp_1, %ho
// CHECK:         te.tensorize %{{.*}} at %{{.*}} by [@reset]
// CHECK-NEXT:    te.tensorize %p at %{{.*}} by [@gemm]
// CHECK-NEXT:    te.tensorize %r at %{{.*}} by [@gemm]
// CHECK-NEXT:    te.tensorize %s at %{{.*}} by [@add]
// CHECK-NEXT:    te.tensorize %m at %{{.*}} by [@max_imm]
// CHECK-NEXT:    te.dma %q at %c

// -----

// A kernel that has a schedule keeps it.
builtin.module attributes {vtac.target = #target.vta<"sim">} {
  te.kernel @k(%x: tensor<4xi32>) -> tensor<4xi8> {
    %q = te.compute "q" (o = 4) ins (%x[o] : tensor<4xi32>) {
    ^bb0(%a: i32):
      %0 = arith.trunci %a : i32 to i8
      te.yield %0 : i8
    } -> tensor<4xi8>
    te.yield %q : tensor<4xi8>
  }
  te.schedule @k {
  ^bb0(%mine: !te.stage):
  }
}
// CHECK:       te.schedule @k {
// CHECK-NEXT:  ^bb0(%mine: !te.stage):
// CHECK-NOT:   te.schedule
