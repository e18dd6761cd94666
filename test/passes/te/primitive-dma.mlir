// RUN: vta-opt %s -p te-declare-intrinsics,te-to-loops,te-apply-schedule --split-input-file --verify-diagnostics 2>&1 | filecheck %s

// te.dma: a stage that only moves elements becomes a transfer. "p" copies with a border of zeros,
// which is what @load_inp does; "q" narrows, which is what @store does.
builtin.module attributes {vtac.target = #target.vta<"pynq">} {
te.kernel @k(%x: tensor<6x1x16xi8>, %a: tensor<6x1x16xi32>) -> (tensor<8x1x16xi8>, tensor<6x1x16xi8>) {
  %p = te.compute "p" (h = 8, b = 1, k = 16) ins (%x[h - 1, b, k] outside 0 : tensor<6x1x16xi8>) {
  ^bb0(%v: i8):
    te.yield %v : i8
  } -> tensor<8x1x16xi8>
  %r = te.compute "r" (h = 8, b = 1, k = 16) ins (%p[h, b, k] : tensor<8x1x16xi8>) {
  ^bb0(%v: i8):
    te.yield %v : i8
  } -> tensor<8x1x16xi8>
  %s = te.compute "s" (h = 6, b = 1, o = 16) ins (%a[h, b, o] : tensor<6x1x16xi32>) {
  ^bb0(%v: i32):
    te.yield %v : i32
  } -> tensor<6x1x16xi32>
  %q = te.compute "q" (h = 6, b = 1, o = 16) ins (%s[h, b, o] : tensor<6x1x16xi32>) {
  ^bb0(%v: i32):
    %0 = arith.trunci %v : i32 to i8
    te.yield %0 : i8
  } -> tensor<6x1x16xi8>
  te.yield %r, %q : tensor<8x1x16xi8>, tensor<6x1x16xi8>
}
te.schedule @k {
^bb0(%p: !te.stage, %r: !te.stage, %s: !te.stage, %q: !te.stage):
  te.set_scope %p scope <inp> slots 1
  %h, %b, %k = te.axes %p (h, b, k)
  te.dma %p at %h
  te.set_scope %s scope <acc> slots 1
  %h1, %b1, %o1 = te.axes %q (h, b, o)
  %ho, %hi = te.split %h1 factor 4
  te.dma %q at %hi
}
}
// CHECK:      %p = te.alloc : memref<8x1x16xi8, #te.scope<inp>>
// CHECK-NEXT: te.copy %x to %p pads [1, 0, 0]
// CHECK:      te.for "h" [%h_2 : %h_n_2] in [0 : 6] step 4 {
// CHECK-NEXT:   te.copy %s to %q [%h_2 : %h_n_2, 0 : 1, 0 : 16]
// CHECK-NEXT: }

// -----
// A load has no such value for what lies outside.
builtin.module attributes {vtac.target = #target.vta<"pynq">} {
te.kernel @k(%x: tensor<6x1x16xi8>) -> tensor<8x1x16xi8> {
  %p = te.compute "p" (h = 8, b = 1, k = 16) ins (%x[h - 1, b, k] outside 7 : tensor<6x1x16xi8>) {
  ^bb0(%v: i8):
    te.yield %v : i8
  } -> tensor<8x1x16xi8>
  %r = te.compute "r" (h = 8, b = 1, k = 16) ins (%p[h, b, k] : tensor<8x1x16xi8>) {
  ^bb0(%v: i8):
    te.yield %v : i8
  } -> tensor<8x1x16xi8>
  te.yield %r : tensor<8x1x16xi8>
}
te.schedule @k {
^bb0(%p: !te.stage, %r: !te.stage):
  te.set_scope %p scope <inp> slots 1
  %h, %b, %k = te.axes %p (h, b, k)
  te.dma %p at %h
}
}
// CHECK: te.schedule @k, step 3 (te.dma): stage "p" is not load_inp: operand 0 yields 7 outside its shape, the instruction 0

// -----
builtin.module attributes {vtac.target = #target.vta<"pynq">} {
te.kernel @k(%a: tensor<6x1x16xi32>) -> tensor<6x1x16xi8> {
  %q = te.compute "q" (h = 6, b = 1, o = 16) ins (%a[h, b, o] : tensor<6x1x16xi32>) {
  ^bb0(%v: i32):
    %0 = arith.trunci %v : i32 to i8
    te.yield %0 : i8
  } -> tensor<6x1x16xi8>
  te.yield %q : tensor<6x1x16xi8>
}
te.schedule @k {
^bb0(%q: !te.stage):
  %h, %b, %o = te.axes %q (h, b, o)
  te.dma %q at %h
}
}
// CHECK: te.schedule @k, step 2 (te.dma): the copy goes from dram to dram; declared are @load_inp (dram to inp), @load_wgt (dram to wgt), @load_acc (dram to acc), @store (acc to dram)
// CHECK: set_scope the stage or its operand
