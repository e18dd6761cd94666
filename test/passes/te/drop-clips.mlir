// RUN: vta-opt %s -p te-drop-clips | filecheck %s

// Sixteen products by 1, over 16, stay within int8: no upper clip in the first call. Its results are
// not negative, so neither clip does anything in the second, and the upper one only in the third.
builtin.module attributes {vtac.target = #target.vta<"pynq">} {
  func.func private @f(%x: tensor<2x4x1x16xi8>) -> tensor<2x4x1x16xi8> attributes {codegen = "vta"} {
    %w0 = te.constant dense<1> : tensor<2x16x16xi8>
    %w1 = te.constant dense<1> : tensor<2x16x16xi8>
    %w2 = te.constant dense<2> : tensor<2x16x16xi8>
    %y0 = te.call @k(%x, %w0) : (tensor<2x4x1x16xi8>, tensor<2x16x16xi8>) -> tensor<2x4x1x16xi8>
    %y1 = te.call @k(%y0, %w1) : (tensor<2x4x1x16xi8>, tensor<2x16x16xi8>) -> tensor<2x4x1x16xi8>
    %y2 = te.call @k(%y1, %w2) : (tensor<2x4x1x16xi8>, tensor<2x16x16xi8>) -> tensor<2x4x1x16xi8>
    func.return %y2 : tensor<2x4x1x16xi8>
  }
  te.kernel @k(%x: tensor<2x4x1x16xi8>, %w: tensor<2x16x16xi8>) -> tensor<2x4x1x16xi8> {
    %p = te.compute "p" (c = 2, w = 4, b = 1, o = 16) reduce (k = 16)
        ins (%x[c, w, b, k] : tensor<2x4x1x16xi8>, %w[c, o, k] : tensor<2x16x16xi8>) identity 0 {
    ^bb0(%acc: i32, %a: i8, %b: i8):
      %0 = arith.extsi %a : i8 to i32
      %1 = arith.extsi %b : i8 to i32
      %2 = arith.muli %0, %1 : i32
      %3 = arith.addi %acc, %2 : i32
      te.yield %3 : i32
    } -> tensor<2x4x1x16xi32>
    %s = te.compute "s" (c = 2, w = 4, b = 1, o = 16) ins (%p[c, w, b, o] : tensor<2x4x1x16xi32>) {
    ^bb0(%a: i32):
      %c = arith.constant 4 : i32
      %0 = arith.shrsi %a, %c : i32
      te.yield %0 : i32
    } -> tensor<2x4x1x16xi32>
    %lo = te.compute "lo" (c = 2, w = 4, b = 1, o = 16) ins (%s[c, w, b, o] : tensor<2x4x1x16xi32>) {
    ^bb0(%a: i32):
      %c = arith.constant 0 : i32
      %0 = arith.maxsi %a, %c : i32
      te.yield %0 : i32
    } -> tensor<2x4x1x16xi32>
    %hi = te.compute "hi" (c = 2, w = 4, b = 1, o = 16) ins (%lo[c, w, b, o] : tensor<2x4x1x16xi32>) {
    ^bb0(%a: i32):
      %c = arith.constant 127 : i32
      %0 = arith.minsi %a, %c : i32
      te.yield %0 : i32
    } -> tensor<2x4x1x16xi32>
    %q = te.compute "q" (c = 2, w = 4, b = 1, o = 16) ins (%hi[c, w, b, o] : tensor<2x4x1x16xi32>) {
    ^bb0(%a: i32):
      %0 = arith.trunci %a : i32 to i8
      te.yield %0 : i8
    } -> tensor<2x4x1x16xi8>
    te.yield %q : tensor<2x4x1x16xi8>
  }
}
// CHECK:       te.call @k(%x, %w0)
// CHECK-NEXT:  te.call @k_(%y0, %w1)
// CHECK-NEXT:  te.call @k_1(%y1, %w2)
// CHECK:       te.kernel @k(
// CHECK:         arith.maxsi
// CHECK-NOT:     arith.minsi
// CHECK:       te.kernel @k_1(
// CHECK:         arith.minsi
// CHECK:       te.kernel @k_(
// CHECK-NOT:     arith.maxsi
// CHECK-NOT:     arith.minsi
// CHECK:         %q = te.compute "q" (c = 2, w = 4, b = 1, o = 16)
// CHECK-NEXT:        ins (%s[c, w, b, o] : tensor<2x4x1x16xi32>) {
