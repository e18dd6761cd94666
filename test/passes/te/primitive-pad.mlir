// RUN: vta-opt %s -p te-declare-intrinsics,te-to-loops,te-apply-schedule --split-input-file --verify-diagnostics 2>&1 | filecheck %s

// te.pad: the buffer grows by the border that is read, DMA fills it, and no read is outside.
builtin.module attributes {vtac.target = #target.vta<"pynq">} {
te.kernel @k(%x: tensor<8x1x16xi8>, %w: tensor<3x16x16xi8>) -> tensor<4x1x16xi32> {
  %y = te.compute "y" (h = 4, b = 1, o = 16) reduce (t = 3, k = 16)
      ins (%x[2 * h + t - 1, b, k] outside 0 : tensor<8x1x16xi8>, %w[t, o, k] : tensor<3x16x16xi8>) identity 0 {
  ^bb0(%acc: i32, %a: i8, %b: i8):
    %0 = arith.extsi %a : i8 to i32
    %1 = arith.extsi %b : i8 to i32
    %2 = arith.muli %0, %1 : i32
    %3 = arith.addi %acc, %2 : i32
    te.yield %3 : i32
  } -> tensor<4x1x16xi32>
  te.yield %y : tensor<4x1x16xi32>
}
te.schedule @k {
^bb0(%y: !te.stage):
  %h, %b, %o, %t, %k = te.axes %y (h, b, o, t, k)
  %c = te.cache_read %y operand 0 scope <inp> slots 2
  te.pad %c
  te.compute_at %c, %h
}
}
// CHECK:        te.update "y" init
// CHECK:      te.for "h" [%h_1 : %h_n_1] in [0 : 4] {
// CHECK-NEXT:   %h_2, %h_n_2 = te.span 2 * [%h_1 : %h_n_1] + [0 : 3]
// CHECK-NEXT:   %x_inp = te.alloc [%h_2 : %h_n_2, 0 : 1, 0 : 16] slots 2 : memref<9x1x16xi8, #te.scope<inp>>
// CHECK-NEXT:   te.copy %x to %x_inp pads [1, 0, 0]
// CHECK:        te.update "y" accumulate %y[%h_1, %{{.*}}] ins (%x_inp[2 * %h_1 + %t, %{{.*}}], %w[%t, %{{.*}}])

// -----
// What lies outside must be what the hardware's pads hold.
builtin.module attributes {vtac.target = #target.vta<"pynq">} {
te.kernel @k(%x: tensor<4x1x16xi32>) -> tensor<4x1x16xi32> {
  %y = te.compute "y" (h = 4, b = 1, o = 16) reduce (t = 3) ins (%x[h + t - 1, b, o] outside -128 : tensor<4x1x16xi32>) identity -128 {
  ^bb0(%acc: i32, %a: i32):
    %0 = arith.maxsi %acc, %a : i32
    te.yield %0 : i32
  } -> tensor<4x1x16xi32>
  te.yield %y : tensor<4x1x16xi32>
}
te.schedule @k {
^bb0(%y: !te.stage):
  %c = te.cache_read %y operand 0 scope <acc> slots 1
  te.pad %c
}
}
// CHECK: te.schedule @k, step 2 (te.pad): "y.x" is read as -128 outside of its tensor; pads of acc are 0
// CHECK: leave the operand without pads: taps outside are then left out

// -----
builtin.module attributes {vtac.target = #target.vta<"pynq">} {
te.kernel @k(%x: tensor<4x1x16xi32>) -> tensor<4x1x16xi32> {
  %y = te.compute "y" (h = 4, b = 1, o = 16) ins (%x[h, b, o] : tensor<4x1x16xi32>) {
  ^bb0(%a: i32):
    %0 = arith.addi %a, %a : i32
    te.yield %0 : i32
  } -> tensor<4x1x16xi32>
  te.yield %y : tensor<4x1x16xi32>
}
te.schedule @k {
^bb0(%y: !te.stage):
  %c = te.cache_read %y operand 0 scope <acc> slots 1
  te.pad %c
}
}
// CHECK: te.schedule @k, step 2 (te.pad): no read of "y.x" leaves its tensor, there is nothing to pad
