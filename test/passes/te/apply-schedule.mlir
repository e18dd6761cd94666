// RUN: vta-opt %s -p te-declare-intrinsics,te-to-loops,te-apply-schedule | filecheck %s
// RUN: vta-opt %s -p 'te-declare-intrinsics,te-to-loops,te-apply-schedule{steps=2}' | filecheck %s --check-prefix SPLIT
// RUN: vta-opt %s -p 'te-declare-intrinsics,te-to-loops,te-apply-schedule{steps=6}' | filecheck %s --check-prefix PLACED
// RUN: vta-opt %s -p 'te-declare-intrinsics,te-to-loops,te-apply-schedule{kernel=other}' | filecheck %s --check-prefix OTHER

// A convolution in one dimension, a shift, and the narrowing that a store does.
builtin.module attributes {vtac.target = #target.vta<"pynq">} {
te.kernel @k(%x: tensor<8x1x16xi8>, %w: tensor<3x16x16xi8>) -> tensor<8x1x16xi8> {
  %conv = te.compute "conv" (h = 8, b = 1, o = 16) reduce (t = 3, k = 16)
      ins (%x[h + t - 1, b, k] outside 0 : tensor<8x1x16xi8>,
           %w[t, o, k] : tensor<3x16x16xi8>) identity 0 {
  ^bb0(%acc: i32, %a: i8, %b: i8):
    %0 = arith.extsi %a : i8 to i32
    %1 = arith.extsi %b : i8 to i32
    %2 = arith.muli %1, %0 : i32
    %3 = arith.addi %2, %acc : i32
    te.yield %3 : i32
  } -> tensor<8x1x16xi32>
  %shift = te.compute "shift" (h = 8, b = 1, o = 16) ins (%conv[h, b, o] : tensor<8x1x16xi32>) {
  ^bb0(%a: i32):
    %0 = arith.constant 4 : i32
    %1 = arith.shrsi %a, %0 : i32
    te.yield %1 : i32
  } -> tensor<8x1x16xi32>
  %q = te.compute "q" (h = 8, b = 1, o = 16) ins (%shift[h, b, o] : tensor<8x1x16xi32>) {
  ^bb0(%a: i32):
    %0 = arith.trunci %a : i32 to i8
    te.yield %0 : i8
  } -> tensor<8x1x16xi8>
  te.yield %q : tensor<8x1x16xi8>
}
te.schedule @k {
^bb0(%conv: !te.stage, %shift: !te.stage, %q: !te.stage):
  %h, %b, %o = te.axes %q (h, b, o)
  %ho, %hi = te.split %h factor 3
  te.set_scope %shift scope <acc> slots 1
  te.compute_at %shift, %ho
  te.set_scope %conv scope <acc> slots 2
  te.compute_at %conv, %ho
  te.in_place %shift operand 0
  te.dma %q at %hi
  %h1, %b1, %o1 = te.axes %shift (h, b, o)
  te.tensorize %shift at %h1 by [@shr_imm]
  %h2, %b2, %o2, %t2, %k2 = te.axes %conv (h, b, o, t, k)
  te.reorder %t2, %h2
  %xc = te.cache_read %conv operand 0 scope <inp> slots 2
  te.compute_at %xc, %ho
  %wc = te.cache_read %conv operand 1 scope <wgt> slots 1
  te.tensorize %conv at %t2 by [@gemm]
  %init = te.init %conv
  %h3, %b3, %o3 = te.axes %init (h, b, o)
  te.tensorize %init at %h3 by [@reset]
}
}
// CHECK:      te.kernel @k(%x: memref<8x1x16xi8, #te.scope<dram>>,
// CHECK-NEXT:   %w_wgt = te.alloc : memref<3x16x16xi8, #te.scope<wgt>>
// CHECK-NEXT:   te.copy %w to %w_wgt
// CHECK-NEXT:   te.for "h" [%h : %h_n] in [0 : 8] step 3 {
// CHECK-NEXT:     %h_1, %h_n_1 = te.span [%h : %h_n] + [-1 : 3] within 8
// CHECK-NEXT:     %x_inp = te.alloc [%h_1 : %h_n_1, 0 : 1, 0 : 16] slots 2 : memref<8x1x16xi8, #te.scope<inp>>
// CHECK-NEXT:     te.copy %x to %x_inp
// CHECK-NEXT:     %conv = te.alloc [%h : %h_n, 0 : 1, 0 : 16] slots 2 : memref<8x1x16xi32, #te.scope<acc>>
// CHECK-NEXT:     te.for "h" [%h_2 : %h_n_2] in [%h : %h_n] hardware {
// CHECK-NEXT:       te.invoke @reset "conv" %conv[%h_2] ()
// CHECK-NEXT:     }
// CHECK-NEXT:     te.for "t" reduce [%t : %t_n] in [0 : 3] hardware {
// CHECK-NEXT:       te.for "h" [%h_3 : %h_n_3] in [%h : %h_n] hardware {
// CHECK-NEXT:         te.invoke @gemm "conv" %conv[%h_3] (%x_inp[%h_3 + %t - 1], %w_wgt[%t])
// CHECK-NEXT:       }
// CHECK-NEXT:     }
// CHECK-NEXT:     te.for "h" [%h_4 : %h_n_4] in [%h : %h_n] hardware {
// CHECK-NEXT:       te.invoke @shr_imm "shift" %conv[%h_4] () immediate 4
// CHECK-NEXT:     }
// CHECK-NEXT:     te.copy %conv to %q
// CHECK-NEXT:   }
// CHECK-NEXT:   te.yield
// CHECK-NOT:  te.schedule

// The schedule of another kernel is asked for.
// OTHER:      te.update "conv" accumulate
// OTHER:      te.schedule @k

// After the split there are two loops over "h" around the result; all else is as it was.
// SPLIT:      te.for "h" [%h_2 : %h_n_2] in [0 : 8] {
// SPLIT:      te.update "shift" %shift[%h_2,
// SPLIT:      te.for "h" [%h_3 : %h_n_3] in [0 : 8] step 3 {
// SPLIT-NEXT:   te.for "h" [%h_4 : %h_n_4] in [%h_3 : %h_n_3] {
// SPLIT:            te.update "q" %q[%h_4,

// Placed: the stages run in the tile, over its range, in buffers that hold just that.
// PLACED:      te.kernel @k
// PLACED-NEXT:   te.for "h" [%h : %h_n] in [0 : 8] step 3 {
// PLACED-NEXT:     %conv = te.alloc [%h : %h_n, 0 : 1, 0 : 16] slots 2 : memref<8x1x16xi32, #te.scope<acc>>
// PLACED-NEXT:     te.for "h" [%h_1 : %h_n_1] in [%h : %h_n] {
// PLACED:              te.update "conv" init %conv[%h_1,
// PLACED:          te.for "h" [%h_2 : %h_n_2] in [%h : %h_n] {
// PLACED:              te.update "conv" accumulate %conv[%h_2,
// PLACED:          %shift = te.alloc [%h : %h_n, 0 : 1, 0 : 16] : memref<8x1x16xi32, #te.scope<acc>>
// PLACED:      te.schedule @k
