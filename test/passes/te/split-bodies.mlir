// RUN: vta-opt %s -p te-split-bodies | filecheck %s

te.kernel @requantise(%x: tensor<4x1x2xi32>, %c: tensor<1x2xi32>) -> tensor<4x1x2xi8> {
  %q = te.compute "q" (w = 4, b = 1, o = 2)
      ins (%x[w, b, o] : tensor<4x1x2xi32>, %c[b, o] : tensor<1x2xi32>) {
  ^bb0(%a: i32, %b: i32):
    %s = arith.constant 7 : i32
    %0 = arith.addi %a, %b : i32
    %1 = arith.shrsi %0, %s : i32
    %2 = arith.subi %1, %s : i32
    %3 = arith.trunci %2 : i32 to i8
    te.yield %3 : i8
  } -> tensor<4x1x2xi8>
  te.yield %q : tensor<4x1x2xi8>
}
// CHECK:       te.kernel @requantise
// CHECK-NEXT:    %q_addi = te.compute "q_addi" (w = 4, b = 1, o = 2)
// CHECK-NEXT:        ins (%x[w, b, o] : tensor<4x1x2xi32>,
// CHECK-NEXT:             %c[b, o] : tensor<1x2xi32>) {
// CHECK-NEXT:    ^bb0(%[[A:.*]]: i32, %[[B:.*]]: i32):
// CHECK-NEXT:      arith.addi %[[A]], %[[B]]
// CHECK-NEXT:      te.yield
// CHECK:         %q_shrsi = te.compute "q_shrsi" (w = 4, b = 1, o = 2)
// CHECK-NEXT:        ins (%q_addi[w, b, o] : tensor<4x1x2xi32>) {
// CHECK-NEXT:    ^bb0(%[[S:.*]]: i32):
// CHECK-NEXT:      %[[SEVEN:.*]] = arith.constant 7
// CHECK-NEXT:      arith.shrsi %[[S]], %[[SEVEN]]
// The ALU only adds: a constant is subtracted by adding its opposite.
// CHECK:         %q_subi = te.compute "q_subi" (w = 4, b = 1, o = 2)
// CHECK:           %[[MINUS:.*]] = arith.constant -7
// CHECK-NEXT:      arith.addi %{{.*}}, %[[MINUS]]
// CHECK:         %q = te.compute "q" (w = 4, b = 1, o = 2)
// CHECK-NEXT:        ins (%q_subi[w, b, o] : tensor<4x1x2xi32>) {
// CHECK-NEXT:    ^bb0(%[[N:.*]]: i32):
// CHECK-NEXT:      arith.trunci %[[N]]

// The body of a reduction stays whole.
te.kernel @reduction(%x: tensor<4x1x2xi8>, %w: tensor<2x2xi8>) -> tensor<4x1x2xi32> {
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
// CHECK:       te.kernel @reduction
// CHECK-NEXT:    te.compute "p"
// CHECK:         te.yield
// CHECK:         te.yield
// CHECK-NOT:     te.compute

// A store keeps the order of elements. Others are copied first; those outside are left out of a sum.
te.kernel @moved(%x: tensor<4x1x2xi32>) -> (tensor<4x1x2xi8>, tensor<6x1x2xi8>, tensor<6x1x2xi8>) {
  %a = te.compute "a" (w = 4, b = 1, o = 2) ins (%x[-1 * w + 3, b, o] : tensor<4x1x2xi32>) {
  ^bb0(%v: i32):
    %0 = arith.trunci %v : i32 to i8
    te.yield %0 : i8
  } -> tensor<4x1x2xi8>
  %b = te.compute "b" (w = 6, b = 1, o = 2) ins (%x[w - 1, b, o] outside 0 : tensor<4x1x2xi32>) {
  ^bb0(%v: i32):
    %0 = arith.trunci %v : i32 to i8
    te.yield %0 : i8
  } -> tensor<6x1x2xi8>
  %c = te.compute "c" (w = 6, b = 1, o = 2) ins (%x[w - 1, b, o] outside 9 : tensor<4x1x2xi32>) {
  ^bb0(%v: i32):
    %0 = arith.trunci %v : i32 to i8
    te.yield %0 : i8
  } -> tensor<6x1x2xi8>
  te.yield %a, %b, %c : tensor<4x1x2xi8>, tensor<6x1x2xi8>, tensor<6x1x2xi8>
}
// CHECK:       te.kernel @moved
// CHECK-NEXT:    %a_moved = te.compute "a_moved" (w = 4, b = 1, o = 2)
// CHECK-NEXT:        ins (%x[-w + 3, b, o] : tensor<4x1x2xi32>) {
// CHECK:         te.compute "a" (w = 4, b = 1, o = 2)
// CHECK-NEXT:        ins (%a_moved[w, b, o] : tensor<4x1x2xi32>) {
// CHECK:         %b_moved = te.compute "b_moved" (w = 6, b = 1, o = 2) reduce (once = 1)
// CHECK-NEXT:        ins (%x[w - 1, b, o] outside 0 : tensor<4x1x2xi32>) identity 0 {
// CHECK:         %c_lower = te.compute "c_lower" (i0 = 4, i1 = 1, i2 = 2)
// CHECK:           arith.constant -9
// CHECK:         %c_moved = te.compute "c_moved" (w = 6, b = 1, o = 2) reduce (once = 1)
// CHECK-NEXT:        ins (%c_lower[w - 1, b, o] outside 0 : tensor<4x1x2xi32>) identity 0 {
// CHECK:         %c_higher = te.compute "c_higher"
// CHECK:           arith.constant 9
// CHECK:         te.compute "c" (w = 6, b = 1, o = 2)
// CHECK-NEXT:        ins (%c_higher[w, b, o] : tensor<6x1x2xi32>) {
