// RUN: vta-opt %s -p te-legalize-casts --split-input-file | filecheck %s

// A sum over a window: the same sum through the identity matrix, which the kernel gains as a
// parameter and each call passes.
func.func @f(%x: tensor<2x4x1x2xi8>) -> tensor<2x3x1x2xi32> {
  %y = te.call @sum(%x) : (tensor<2x4x1x2xi8>) -> tensor<2x3x1x2xi32>
  func.return %y : tensor<2x3x1x2xi32>
}
te.kernel @sum(%x: tensor<2x4x1x2xi8>) -> tensor<2x3x1x2xi32> {
  %s = te.compute "sum" (c = 2, w = 3, b = 1, o = 2) reduce (k = 2)
      ins (%x[c, w + k, b, o] : tensor<2x4x1x2xi8>) identity 0 {
  ^bb0(%acc: i32, %a: i8):
    %0 = arith.extsi %a : i8 to i32
    %1 = arith.addi %acc, %0 : i32
    te.yield %1 : i32
  } -> tensor<2x3x1x2xi32>
  te.yield %s : tensor<2x3x1x2xi32>
}
// CHECK:       func.func @f
// CHECK-NEXT:    %[[I:.*]] = te.constant dense<{{\[\[}}1, 0], [0, 1]]> : tensor<2x2xi8>
// CHECK-NEXT:    te.call @sum(%x, %[[I]])
// CHECK:       te.kernel @sum(%x: tensor<2x4x1x2xi8>, %identity: tensor<2x2xi8>)
// CHECK-NEXT:    te.compute "sum" (c = 2, w = 3, b = 1, o = 2) reduce (k = 2, k1 = 2)
// CHECK-NEXT:        ins (%x[c, w + k, b, k1] : tensor<2x4x1x2xi8>,
// CHECK-NEXT:             %identity[o, k1] : tensor<2x2xi8>) identity 0 {
// CHECK:           arith.muli

// -----

// A maximum: its operand is widened whole, by a stage of its own, and read as int32 from there.
te.kernel @max(%x: tensor<2x4x1x2xi8>) -> tensor<2x4x1x2xi32> {
  %s = te.compute "max" (c = 2, w = 4, b = 1, o = 2) reduce (k = 2)
      ins (%x[c, w + k - 1, b, o] outside -128 : tensor<2x4x1x2xi8>) identity -128 {
  ^bb0(%acc: i32, %a: i8):
    %0 = arith.extsi %a : i8 to i32
    %1 = arith.maxsi %acc, %0 : i32
    te.yield %1 : i32
  } -> tensor<2x4x1x2xi32>
  te.yield %s : tensor<2x4x1x2xi32>
}
// CHECK:       te.kernel @max(%x: tensor<2x4x1x2xi8>, %identity: tensor<2x2xi8>)
// CHECK-NEXT:    %max_cast = te.compute "max_cast" (c = 2, w = 4, b = 1, o = 2) reduce (k = 2)
// CHECK-NEXT:        ins (%x[c, w, b, k] : tensor<2x4x1x2xi8>,
// CHECK-NEXT:             %identity[o, k] : tensor<2x2xi8>) identity 0 {
// CHECK:         te.compute "max" (c = 2, w = 4, b = 1, o = 2) reduce (k = 2)
// CHECK-NEXT:        ins (%max_cast[c, w + k - 1, b, o] outside -128 : tensor<2x4x1x2xi32>) identity -128 {
// CHECK-NEXT:    ^bb0(%[[ACC:.*]]: i32, %[[A:.*]]: i32):
// CHECK-NEXT:      arith.maxsi %[[ACC]], %[[A]]

// -----

// What was clipped to int8 and narrowed in the same kernel is read before it is narrowed; what was
// not clipped keeps its low byte by two shifts.
te.kernel @narrowed(%x: tensor<4x1x2xi32>) -> (tensor<4x1x2xi32>, tensor<4x1x2xi32>) {
  %n = te.compute "narrow" (w = 4, b = 1, o = 2) ins (%x[w, b, o] : tensor<4x1x2xi32>) {
  ^bb0(%a: i32):
    %lo = arith.constant -128 : i32
    %hi = arith.constant 127 : i32
    %0 = arith.maxsi %a, %lo : i32
    %1 = arith.minsi %0, %hi : i32
    %2 = arith.trunci %1 : i32 to i8
    te.yield %2 : i8
  } -> tensor<4x1x2xi8>
  %m = te.compute "cut" (w = 4, b = 1, o = 2) ins (%x[w, b, o] : tensor<4x1x2xi32>) {
  ^bb0(%a: i32):
    %0 = arith.trunci %a : i32 to i8
    te.yield %0 : i8
  } -> tensor<4x1x2xi8>
  %s = te.compute "s" (w = 4, b = 1, o = 2) ins (%n[w, b, o] : tensor<4x1x2xi8>) {
  ^bb0(%a: i8):
    %c = arith.constant 1 : i32
    %0 = arith.extsi %a : i8 to i32
    %1 = arith.addi %0, %c : i32
    te.yield %1 : i32
  } -> tensor<4x1x2xi32>
  %t = te.compute "t" (w = 4, b = 1, o = 2) ins (%m[w, b, o] : tensor<4x1x2xi8>) {
  ^bb0(%a: i8):
    %0 = arith.extsi %a : i8 to i32
    te.yield %0 : i32
  } -> tensor<4x1x2xi32>
  te.yield %s, %t : tensor<4x1x2xi32>, tensor<4x1x2xi32>
}
// CHECK:       te.kernel @narrowed(%x: tensor<4x1x2xi32>) ->
// CHECK-NEXT:    %narrow_wide = te.compute "narrow_wide"
// CHECK:           arith.minsi
// CHECK-NEXT:      te.yield
// CHECK:         %cut_wide = te.compute "cut_wide"
// CHECK:           arith.constant 24
// CHECK-NEXT:      arith.shli
// CHECK-NEXT:      arith.shrsi
// CHECK:         te.compute "s" (w = 4, b = 1, o = 2)
// CHECK-NEXT:        ins (%narrow_wide[w, b, o]
// CHECK-NOT:     arith.extsi

// -----

// A product widens on the GEMM core anyway.
te.kernel @product(%x: tensor<4x1x2xi8>, %w: tensor<2x2xi8>) -> tensor<4x1x2xi32> {
  %s = te.compute "p" (w = 4, b = 1, o = 2) reduce (k = 2)
      ins (%x[w, b, k] : tensor<4x1x2xi8>, %w[o, k] : tensor<2x2xi8>) identity 0 {
  ^bb0(%acc: i32, %a: i8, %b: i8):
    %0 = arith.extsi %a : i8 to i32
    %1 = arith.extsi %b : i8 to i32
    %2 = arith.muli %0, %1 : i32
    %3 = arith.addi %acc, %2 : i32
    te.yield %3 : i32
  } -> tensor<4x1x2xi32>
  te.yield %s : tensor<4x1x2xi32>
}
// CHECK:       te.kernel @product(%x: tensor<4x1x2xi8>, %w: tensor<2x2xi8>) ->
// CHECK-NEXT:    te.compute "p" (w = 4, b = 1, o = 2) reduce (k = 2)

// -----

// Elements that move, with zeros around them: the GEMM core brings them to where they are stored.
te.kernel @moved(%x: tensor<4x1x2xi8>) -> tensor<6x1x2xi8> {
  %y = te.compute "y" (w = 6, b = 1, o = 2) ins (%x[w - 1, b, o] outside 0 : tensor<4x1x2xi8>) {
  ^bb0(%a: i8):
    %0 = arith.extsi %a : i8 to i32
    %1 = arith.trunci %0 : i32 to i8
    te.yield %1 : i8
  } -> tensor<6x1x2xi8>
  te.yield %y : tensor<6x1x2xi8>
}
// CHECK:       te.kernel @moved(%x: tensor<4x1x2xi8>, %identity: tensor<2x2xi8>) ->
// CHECK-NEXT:    %y_moved = te.compute "y_moved" (w = 6, b = 1, o = 2) reduce (k = 2)
// CHECK-NEXT:        ins (%x[w - 1, b, k] outside 0 : tensor<4x1x2xi8>,
// CHECK-NEXT:             %identity[o, k] : tensor<2x2xi8>) identity 0 {
// CHECK:         te.compute "y" (w = 6, b = 1, o = 2)
// CHECK-NEXT:        ins (%y_moved[w, b, o] : tensor<6x1x2xi32>) {
