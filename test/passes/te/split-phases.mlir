// RUN: vta-opt %s -p te-split-phases | filecheck %s

// Stride 2, three taps, one pad: even outputs meet one tap, odd ones two.
func.func @main(%x: tensor<4x5xi8>, %w: tensor<4x8x3xi8>, %c: tensor<8xi32>) -> tensor<8x9xi32> attributes {codegen = "vta"} {
  %y = te.call @up(%x, %w, %c) : (tensor<4x5xi8>, tensor<4x8x3xi8>, tensor<8xi32>) -> tensor<8x9xi32>
  func.return %y : tensor<8x9xi32>
}
te.kernel @up(%x: tensor<4x5xi8>, %w: tensor<4x8x3xi8>, %c: tensor<8xi32>) -> tensor<8x9xi32> {
  %sum = te.compute "sum" (o = 8, h = 9) reduce (c = 4, kh = 3)
      ins (%x[c, (h - kh + 1) / 2] outside 0 : tensor<4x5xi8>, %w[c, o, kh] : tensor<4x8x3xi8>) identity 0 {
  ^bb0(%acc: i32, %a: i8, %b: i8):
    %0 = arith.extsi %a : i8 to i32
    %1 = arith.extsi %b : i8 to i32
    %2 = arith.muli %0, %1 : i32
    %3 = arith.addi %acc, %2 : i32
    te.yield %3 : i32
  } -> tensor<8x9xi32>
  %bias = te.compute "bias" (o = 8, h = 9) ins (%sum[o, h] : tensor<8x9xi32>, %c[o] : tensor<8xi32>) {
  ^bb0(%a: i32, %b: i32):
    %0 = arith.addi %a, %b : i32
    te.yield %0 : i32
  } -> tensor<8x9xi32>
  te.yield %bias : tensor<8x9xi32>
}
// CHECK:      -> (tensor<8x5x2xi32> {te.layout = #te.layout<"y"[8, 9] at [d0, 2 * d1 + d2] over (d0 = 8), (d1 = 5), (d2 = 2)>})
// CHECK:      %sum = te.compute "sum" (o = 8, h = 5, h_phase = 2) reduce (c = 4, kh = 2)
// CHECK-NEXT:     ins (%x[c, h - kh + 1] outside 0 : tensor<4x5xi8>,
// CHECK-NEXT:          %w[c, o, h_phase + 2 * kh - 1] outside 0 : tensor<4x8x3xi8>) identity 0 {
// CHECK:      %bias = te.compute "bias" (o = 8, h = 5, h_phase = 2)
// CHECK-NEXT:     ins (%sum[o, h, h_phase] : tensor<8x5x2xi32>,
// CHECK-NEXT:          %c[o] : tensor<8xi32>) {

// An ordinary convolution stays as it is.
te.kernel @plain(%x: tensor<9xi8>, %w: tensor<3xi8>) -> tensor<9xi32> {
  %sum = te.compute "sum" (h = 9) reduce (kh = 3)
      ins (%x[h + kh - 1] outside 0 : tensor<9xi8>, %w[kh] : tensor<3xi8>) identity 0 {
  ^bb0(%acc: i32, %a: i8, %b: i8):
    %0 = arith.extsi %a : i8 to i32
    %1 = arith.extsi %b : i8 to i32
    %2 = arith.muli %0, %1 : i32
    %3 = arith.addi %acc, %2 : i32
    te.yield %3 : i32
  } -> tensor<9xi32>
  te.yield %sum : tensor<9xi32>
}
// CHECK:      te.kernel @plain
// CHECK-NEXT:   te.compute "sum" (h = 9) reduce (kh = 3)
// CHECK-NEXT:     ins (%x[h + kh - 1] outside 0 : tensor<9xi8>,
