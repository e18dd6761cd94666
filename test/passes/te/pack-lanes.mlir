// RUN: vta-opt %s --target pynq -p te-pack-lanes | filecheck %s

// A matrix-vector product keeps the GEMM core busy: rows of the matrix are the rows of weights, so
// that a micro-op makes 16 outputs of 16 terms. Depthwise: channels on the diagonal of weights.
func.func @main(%a: tensor<40x20xi8>, %v: tensor<20xi8>, %x: tensor<2x20x6xi8>, %d: tensor<20x3xi8>) -> (tensor<40xi32>, tensor<2x20x4xi32>) attributes {codegen = "vta"} {
  %y = te.call @matvec(%a, %v) : (tensor<40x20xi8>, tensor<20xi8>) -> tensor<40xi32>
  %z = te.call @depthwise(%x, %d) : (tensor<2x20x6xi8>, tensor<20x3xi8>) -> tensor<2x20x4xi32>
  func.return %y, %z : tensor<40xi32>, tensor<2x20x4xi32>
}
te.kernel @matvec(%a: tensor<40x20xi8>, %v: tensor<20xi8>) -> tensor<40xi32> {
  %y = te.compute "y" (i = 40) reduce (j = 20) ins (%a[i, j] : tensor<40x20xi8>, %v[j] : tensor<20xi8>) identity 0 {
  ^bb0(%acc: i32, %p: i8, %q: i8):
    %0 = arith.extsi %p : i8 to i32
    %1 = arith.extsi %q : i8 to i32
    %2 = arith.muli %0, %1 : i32
    %3 = arith.addi %acc, %2 : i32
    te.yield %3 : i32
  } -> tensor<40xi32>
  te.yield %y : tensor<40xi32>
}
te.kernel @depthwise(%x: tensor<2x20x6xi8>, %d: tensor<20x3xi8>) -> tensor<2x20x4xi32> {
  %z = te.compute "z" (n = 2, c = 20, h = 4) reduce (kh = 3)
      ins (%x[n, c, h + kh] : tensor<2x20x6xi8>, %d[c, kh] : tensor<20x3xi8>) identity 0 {
  ^bb0(%acc: i32, %p: i8, %q: i8):
    %0 = arith.extsi %p : i8 to i32
    %1 = arith.extsi %q : i8 to i32
    %2 = arith.muli %0, %1 : i32
    %3 = arith.addi %acc, %2 : i32
    te.yield %3 : i32
  } -> tensor<2x20x4xi32>
  te.yield %z : tensor<2x20x4xi32>
}
// CHECK:      func.func @main(%a: tensor<3x2x16x16xi8> {te.layout = #te.layout<"a"[40, 20] at [16 * d0 + r0, 16 * d1 + c0] over (d0 = 3), (d1 = 2), (r0 = 16), (c0 = 16)>}
// CHECK-SAME:   %v: tensor<2x1x16xi8>
// CHECK-SAME:   %d: tensor<2x3x16x16xi8> {te.layout = #te.layout<"d"[20, 3] at [16 * d0 + r0, d1] over (d0 = 2), (d1 = 3), (r0 = 16), (c0 = 16) where [r0 - c0]>}
// CHECK-SAME:   -> (tensor<3x1x16xi32> {te.layout = #te.layout<"y"[40] at [16 * d0 + c0] over (d0 = 3), (r0 = 1), (c0 = 16)>}
// CHECK:      %y = te.compute "y" (i = 3, b = 1, o = 16) reduce (j = 2, k = 16)
// CHECK-NEXT:     ins (%v[j, b, k] : tensor<2x1x16xi8>,
// CHECK-NEXT:          %a[i, j, o, k] : tensor<3x2x16x16xi8>) identity 0 {
// CHECK:      %z = te.compute "z" (n = 2, c = 2, h = 4, b = 1, o = 16) reduce (kh = 3, k = 16)
// CHECK-NEXT:     ins (%x[n, c, h + kh, b, k] : tensor<2x2x6x1x16xi8>,
// CHECK-NEXT:          %d[c, kh, o, k] : tensor<2x3x16x16xi8>) identity 0 {
