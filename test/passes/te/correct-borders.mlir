// RUN: vta-opt %s -p te-correct-borders --split-input-file | filecheck %s

// A 2x1 window over 3 rows with a row of padding at the top, and 4 columns with padding at both
// ends: the product leaves taps in the padding out, and starts from what they add.
builtin.module attributes {vtac.target = #target.vta<"pynq">} {
  func.func private @f(%x: tensor<1x3x4x1x16xi8>) -> (tensor<1x3x6x1x16xi32>) attributes {codegen = "vta"} {
    %w = te.constant dense<1> : tensor<1x2x1x16x16xi8>
    %y = te.call @k(%x, %w) : (tensor<1x3x4x1x16xi8>, tensor<1x2x1x16x16xi8>) -> tensor<1x3x6x1x16xi32>
    func.return %y : tensor<1x3x6x1x16xi32>
  }
  te.kernel @k(%x: tensor<1x3x4x1x16xi8>, %w: tensor<1x2x1x16x16xi8>) -> tensor<1x3x6x1x16xi32> {
    %conv = te.compute "conv" (c = 1, h = 3, w = 6, b = 1, o = 16) reduce (kh = 2, kw = 1, k = 16)
        ins (%x[c, h + kh - 1, w + kw - 1, b, k] outside -128 : tensor<1x3x4x1x16xi8>,
             %w[c, kh, kw, o, k] : tensor<1x2x1x16x16xi8>) identity 0 {
    ^bb0(%acc: i32, %a: i8, %b: i8):
      %0 = arith.extsi %a : i8 to i32
      %1 = arith.extsi %b : i8 to i32
      %2 = arith.muli %0, %1 : i32
      %3 = arith.addi %acc, %2 : i32
      te.yield %3 : i32
    } -> tensor<1x3x6x1x16xi32>
    te.yield %conv : tensor<1x3x6x1x16xi32>
  }
}
// CHECK:       te.kernel @k(
// CHECK:         %conv_border_h = te.compute "conv_border_h" (c = 1, h = 3, w = 6, b = 1, o = 16) reduce (h_end = 1, h_strip = 1, k = 16)
// CHECK-NEXT:        ins (%conv_border_h_ones[h_end, h_strip, h - h_strip, b, k] outside 0 : tensor<1x1x1x1x16xi8>,
// CHECK-NEXT:             %conv_border_h_digits[c, o, k] : tensor<1x16x16xi8>) identity 0 {
// CHECK:         %conv_border_w = te.compute "conv_border_w" (c = 1, h = 3, w = 6, b = 1, o = 16) reduce (w_end = 2, w_strip = 1, k = 16)
// CHECK-NEXT:        ins (%conv_border_w_ones[w_end, w_strip, w - 5 * w_end - w_strip, b, k] outside 0 : tensor<2x1x1x1x16xi8>,
// CHECK-NEXT:             %conv_border_w_digits[c, o, k] : tensor<1x16x16xi8>) init %conv_border_h : tensor<1x3x6x1x16xi32> {
// CHECK:         %conv_border_h_w = te.compute "conv_border_h_w"
// CHECK-NEXT:        ins (%conv_border_h_w_ones[h_end, h_strip, w_end, w_strip, h - h_strip, w - 5 * w_end - w_strip, b, k] outside 0
// CHECK:         %conv = te.compute "conv" (c = 1, h = 3, w = 6, b = 1, o = 16) reduce (kh = 2, kw = 1, k = 16)
// CHECK-NEXT:        ins (%x[c, h + kh - 1, w + kw - 1, b, k] outside 0 : tensor<1x3x4x1x16xi8>,
// CHECK-NEXT:             %w[c, kh, kw, o, k] : tensor<1x2x1x16x16xi8>) init %conv_border_h_w : tensor<1x3x6x1x16xi32> {

// -----

// Nothing to do: padding of 0, and a maximum that pads with its identity.
builtin.module attributes {vtac.target = #target.vta<"pynq">} {
  func.func private @f(%x: tensor<4x1x16xi8>, %m: tensor<4x1x16xi32>) -> (tensor<5x1x16xi32>, tensor<5x1x16xi32>) attributes {codegen = "vta"} {
    %w = te.constant dense<1> : tensor<2x16x16xi8>
    %y:2 = te.call @k(%x, %w, %m) : (tensor<4x1x16xi8>, tensor<2x16x16xi8>, tensor<4x1x16xi32>) -> (tensor<5x1x16xi32>, tensor<5x1x16xi32>)
    func.return %y#0, %y#1 : tensor<5x1x16xi32>, tensor<5x1x16xi32>
  }
  te.kernel @k(%x: tensor<4x1x16xi8>, %w: tensor<2x16x16xi8>, %m: tensor<4x1x16xi32>) -> (tensor<5x1x16xi32>, tensor<5x1x16xi32>) {
    %conv = te.compute "conv" (w = 5, b = 1, o = 16) reduce (kw = 2, k = 16)
        ins (%x[w + kw - 1, b, k] outside 0 : tensor<4x1x16xi8>, %w[kw, o, k] : tensor<2x16x16xi8>) identity 0 {
    ^bb0(%acc: i32, %a: i8, %b: i8):
      %0 = arith.extsi %a : i8 to i32
      %1 = arith.extsi %b : i8 to i32
      %2 = arith.muli %0, %1 : i32
      %3 = arith.addi %acc, %2 : i32
      te.yield %3 : i32
    } -> tensor<5x1x16xi32>
    %max = te.compute "max" (w = 5, b = 1, o = 16) reduce (kw = 2)
        ins (%m[w + kw - 1, b, o] outside -128 : tensor<4x1x16xi32>) identity -128 {
    ^bb0(%acc: i32, %a: i32):
      %0 = arith.maxsi %acc, %a : i32
      te.yield %0 : i32
    } -> tensor<5x1x16xi32>
    te.yield %conv, %max : tensor<5x1x16xi32>, tensor<5x1x16xi32>
  }
}
// CHECK:       te.kernel @k(%x: tensor<4x1x16xi8>, %w: tensor<2x16x16xi8>, %m: tensor<4x1x16xi32>)
// CHECK-NEXT:    %conv = te.compute "conv"
// CHECK:         %max = te.compute "max"
// CHECK:              outside -128
