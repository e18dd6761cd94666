// RUN: vta-opt %s -p "te-schedule-conv2d{h=4 w=8 ci=1 co=1 oc-threads=2}" --split-input-file | filecheck %s

// Two threads, one a block of output channels; each computes two tiles of four rows.
builtin.module attributes {vtac.target = #target.vta<"chisel-pynq">} {
  te.kernel @k(%x: tensor<1x2x8x8x1x16xi8>, %w: tensor<2x2x3x1x16x16xi8>) -> tensor<1x2x8x8x1x16xi8> {
    %p = te.compute "p" (n = 1, c = 2, h = 8, w = 8, b = 1, o = 16) reduce (i = 2, s = 3, t = 1, k = 16)
        ins (%x[n, i, h + s - 1, w, b, k] outside 0 : tensor<1x2x8x8x1x16xi8>, %w[c, i, s, t, o, k] : tensor<2x2x3x1x16x16xi8>) identity 0 {
    ^bb0(%acc: i32, %a: i8, %b: i8):
      %0 = arith.extsi %a : i8 to i32
      %1 = arith.extsi %b : i8 to i32
      %2 = arith.muli %0, %1 : i32
      %3 = arith.addi %acc, %2 : i32
      te.yield %3 : i32
    } -> tensor<1x2x8x8x1x16xi32>
    %q = te.compute "q" (n = 1, c = 2, h = 8, w = 8, b = 1, o = 16) ins (%p[n, c, h, w, b, o] : tensor<1x2x8x8x1x16xi32>) {
    ^bb0(%a: i32):
      %0 = arith.trunci %a : i32 to i8
      te.yield %0 : i8
    } -> tensor<1x2x8x8x1x16xi8>
    te.yield %q : tensor<1x2x8x8x1x16xi8>
  }
}
// CHECK:       te.schedule @k {
// CHECK-NEXT:  ^bb0(%p: !te.stage, %q: !te.stage):
// CHECK-NEXT:    %n, %c, %h, %w, %b, %o = te.axes %q (n, c, h, w, b, o)
// CHECK-NEXT:    %cv, %c_1 = te.split %c factor 1
// CHECK-NEXT:    %ho, %h_1 = te.split %h factor 4
// CHECK-NEXT:    te.reorder %cv, %ho, %n, %c_1, %h_1, %w
// CHECK-NEXT:    te.set_scope %p scope <acc> slots 1
// CHECK-NEXT:    te.compute_at %p, %ho
// CHECK-NEXT:    %n_1, %c_2, %h_2, %w_1, %b_1, %o_1, %i, %s, %t, %k = te.axes %p (n, c, h, w, b, o, i, s, t, k)
// CHECK-NEXT:    %io, %i_1 = te.split %i factor 1
// CHECK-NEXT:    te.reorder %io, %n_1, %i_1, %w_1, %t, %s, %c_2, %h_2
// CHECK-NEXT:    %x_inp = te.cache_read %p operand 0 scope <inp> slots 1
// CHECK-NEXT:    te.pad %x_inp
// CHECK-NEXT:    te.compute_at %x_inp, %io
// CHECK-NEXT:    %w_wgt = te.cache_read %p operand 1 scope <wgt> slots 1
// CHECK-NEXT:    te.compute_at %w_wgt, %io
// CHECK:         te.tensorize %{{.*}} by [@reset]
// CHECK-NEXT:    te.tensorize %p at %n_1 by [@gemm]
// CHECK-NEXT:    te.dma %q at %n
// CHECK-NEXT:    te.vthread %cv
// CHECK-NEXT:  }

// -----

// A product without a window over rows and columns is left to te-schedule.
builtin.module attributes {vtac.target = #target.vta<"chisel-pynq">} {
  te.kernel @dense(%x: tensor<1x1x16xi8>, %w: tensor<1x16x16xi8>) -> tensor<1x1x16xi8> {
    %p = te.compute "p" (c = 1, b = 1, o = 16) reduce (k = 16)
        ins (%x[c, b, k] : tensor<1x1x16xi8>, %w[c, o, k] : tensor<1x16x16xi8>) identity 0 {
    ^bb0(%acc: i32, %a: i8, %b: i8):
      %0 = arith.extsi %a : i8 to i32
      %1 = arith.extsi %b : i8 to i32
      %2 = arith.muli %0, %1 : i32
      %3 = arith.addi %acc, %2 : i32
      te.yield %3 : i32
    } -> tensor<1x1x16xi32>
    %q = te.compute "q" (c = 1, b = 1, o = 16) ins (%p[c, b, o] : tensor<1x1x16xi32>) {
    ^bb0(%a: i32):
      %0 = arith.trunci %a : i32 to i8
      te.yield %0 : i8
    } -> tensor<1x1x16xi8>
    te.yield %q : tensor<1x1x16xi8>
  }
}
// CHECK:     te.kernel @dense
// CHECK-NOT: te.schedule
