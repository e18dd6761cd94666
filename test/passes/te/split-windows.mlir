// RUN: vta-opt %s -p te-split-windows --target chisel-pynq | filecheck %s

// The largest of 3 x 3 values at every second element: rows first, then columns. Row 1 and column 1
// of the window lie inside for all outputs, so there accumulators start from copies.
// CHECK:      te.kernel @pool
// CHECK-NEXT:   te.compute "y_start" (c = 1, h = 4, w = 8, b = 1, o = 16)
// CHECK-NEXT:     ins (%x[c, 2 * h, w, b, o] :
// CHECK:        te.compute "y_kh" (c = 1, h = 4, w = 8, b = 1, o = 16) reduce (kh = 2)
// CHECK-NEXT:     ins (%x[c, 2 * h + 2 * kh - 1, w, b, o] outside -2147483648 : tensor<1x8x8x1x16xi32>) init %y_start
// CHECK:        te.compute "y_start1" (c = 1, h = 4, w = 4, b = 1, o = 16)
// CHECK-NEXT:     ins (%y_kh[c, h, 2 * w, b, o] :
// CHECK:        te.compute "y_kw" (c = 1, h = 4, w = 4, b = 1, o = 16) reduce (kw = 2)
// CHECK-NEXT:     ins (%y_kh[c, h, 2 * w + 2 * kw - 1, b, o] outside -2147483648 : tensor<1x4x8x1x16xi32>) init %y_start1
// CHECK:        te.compute "y" (c = 1, h = 4, w = 4, b = 1, o = 16)
// CHECK:          arith.constant -128
// CHECK-NEXT:     arith.maxsi
te.kernel @pool(%x: tensor<1x8x8x1x16xi32>) -> tensor<1x4x4x1x16xi32> {
  %y = te.compute "y" (c = 1, h = 4, w = 4, b = 1, o = 16) reduce (kh = 3, kw = 3)
      ins (%x[c, 2 * h + kh - 1, 2 * w + kw - 1, b, o] outside -128 : tensor<1x8x8x1x16xi32>) identity -128 {
  ^bb0(%a: i32, %p: i32):
    %m = arith.maxsi %a, %p : i32
    te.yield %m : i32
  } -> tensor<1x4x4x1x16xi32>
  te.yield %y : tensor<1x4x4x1x16xi32>
}

// A sum of four neighbours, from one that lies inside for all outputs. Nothing is left of the
// identity.
// CHECK:      te.kernel @sum
// CHECK-NEXT:   te.compute "y_start" (h = 8, b = 1, o = 16)
// CHECK-NEXT:     ins (%x[h, b, o] :
// CHECK:        te.compute "y_kh" (h = 8, b = 1, o = 16) reduce (kh = 1)
// CHECK-NEXT:     ins (%x[h + kh - 1, b, o] outside 0 :
// CHECK:        te.compute "y" (h = 8, b = 1, o = 16) reduce (kh = 2)
// CHECK-NEXT:     ins (%x[h + kh + 1, b, o] outside 0 :
te.kernel @sum(%x: tensor<9x1x16xi32>) -> tensor<8x1x16xi32> {
  %y = te.compute "y" (h = 8, b = 1, o = 16) reduce (kh = 4)
      ins (%x[h + kh - 1, b, o] outside 0 : tensor<9x1x16xi32>) identity 0 {
  ^bb0(%a: i32, %p: i32):
    %m = arith.addi %a, %p : i32
    te.yield %m : i32
  } -> tensor<8x1x16xi32>
  te.yield %y : tensor<8x1x16xi32>
}

// No row of the window lies inside for the first and for the last output: nothing to start from.
// CHECK:      te.kernel @border
// CHECK-NEXT:   te.compute "y" (h = 9, b = 1, o = 16) reduce (kh = 2)
te.kernel @border(%x: tensor<8x1x16xi32>) -> tensor<9x1x16xi32> {
  %y = te.compute "y" (h = 9, b = 1, o = 16) reduce (kh = 2)
      ins (%x[h + kh - 1, b, o] outside -128 : tensor<8x1x16xi32>) identity -128 {
  ^bb0(%a: i32, %p: i32):
    %m = arith.maxsi %a, %p : i32
    te.yield %m : i32
  } -> tensor<9x1x16xi32>
  te.yield %y : tensor<9x1x16xi32>
}
// What lies outside is more than what the maximum starts from: it counts.
// CHECK:      te.kernel @counts
// CHECK-NEXT:   te.compute "y" (h = 8, b = 1, o = 16) reduce (kh = 3)
te.kernel @counts(%x: tensor<8x1x16xi32>) -> tensor<8x1x16xi32> {
  %y = te.compute "y" (h = 8, b = 1, o = 16) reduce (kh = 3)
      ins (%x[h + kh - 1, b, o] outside 0 : tensor<8x1x16xi32>) identity -128 {
  ^bb0(%a: i32, %p: i32):
    %m = arith.maxsi %a, %p : i32
    te.yield %m : i32
  } -> tensor<8x1x16xi32>
  te.yield %y : tensor<8x1x16xi32>
}
