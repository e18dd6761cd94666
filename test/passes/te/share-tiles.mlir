// RUN: vta-opt %s -p te-share-tiles | filecheck %s

// A window of three taps, multiplied by a diagonal matrix for each block of outputs. The calls pass
// one matrix for all, one matrix for each block, one for each tap, and different ones: what is
// equal along a dimension is stored once, and the subscript goes.
func.func private @f(%x: tensor<2x5x1x2xi8>) -> (tensor<2x3x1x2xi32>, tensor<2x3x1x2xi32>, tensor<2x3x1x2xi32>, tensor<2x3x1x2xi32>) attributes {codegen = "vta"} {
  %all = te.constant dense<7> : tensor<2x3x2x2xi8>
  %taps = te.constant dense<[[[[1, 0], [0, 1]], [[1, 0], [0, 1]], [[1, 0], [0, 1]]], [[[2, 0], [0, 2]], [[2, 0], [0, 2]], [[2, 0], [0, 2]]]]> : tensor<2x3x2x2xi8>
  %blocks = te.constant dense<[[[[1, 0], [0, 1]], [[2, 0], [0, 2]], [[3, 0], [0, 3]]], [[[1, 0], [0, 1]], [[2, 0], [0, 2]], [[3, 0], [0, 3]]]]> : tensor<2x3x2x2xi8>
  %none = te.constant dense<[[[[1, 0], [0, 1]], [[1, 0], [0, 1]], [[1, 0], [0, 1]]], [[[1, 0], [0, 1]], [[1, 0], [0, 1]], [[1, 1], [0, 1]]]]> : tensor<2x3x2x2xi8>
  %y0 = te.call @mean(%x, %all) : (tensor<2x5x1x2xi8>, tensor<2x3x2x2xi8>) -> tensor<2x3x1x2xi32>
  %y1 = te.call @mean(%x, %taps) : (tensor<2x5x1x2xi8>, tensor<2x3x2x2xi8>) -> tensor<2x3x1x2xi32>
  %y2 = te.call @mean(%x, %blocks) : (tensor<2x5x1x2xi8>, tensor<2x3x2x2xi8>) -> tensor<2x3x1x2xi32>
  %y3 = te.call @mean(%x, %none) : (tensor<2x5x1x2xi8>, tensor<2x3x2x2xi8>) -> tensor<2x3x1x2xi32>
  func.return %y0, %y1, %y2, %y3 : tensor<2x3x1x2xi32>, tensor<2x3x1x2xi32>, tensor<2x3x1x2xi32>, tensor<2x3x1x2xi32>
}
te.kernel @mean(%x: tensor<2x5x1x2xi8>, %w: tensor<2x3x2x2xi8>) -> tensor<2x3x1x2xi32> {
  %y = te.compute "y" (c = 2, h = 3, b = 1, o = 2) reduce (kh = 3, k = 2)
      ins (%x[c, h + kh, b, k] : tensor<2x5x1x2xi8>, %w[c, kh, o, k] : tensor<2x3x2x2xi8>) identity 0 {
  ^bb0(%a: i32, %p: i8, %q: i8):
    %p32 = arith.extsi %p : i8 to i32
    %q32 = arith.extsi %q : i8 to i32
    %m = arith.muli %p32, %q32 : i32
    %s = arith.addi %a, %m : i32
    te.yield %s : i32
  } -> tensor<2x3x1x2xi32>
  te.yield %y : tensor<2x3x1x2xi32>
}
// CHECK-DAG:  %[[ALL:.*]] = te.constant dense<7> : tensor<2x2xi8>
// CHECK-DAG:  %[[TAPS:.*]] = te.constant dense<{{\[\[\[}}1, 0], [0, 1]], {{\[\[}}2, 0], [0, 2]]]> : tensor<2x2x2xi8>
// CHECK-DAG:  %[[BLOCKS:.*]] = te.constant dense<{{\[\[\[}}1, 0], [0, 1]], {{\[\[}}2, 0], [0, 2]], {{\[\[}}3, 0], [0, 3]]]> : tensor<3x2x2xi8>
// CHECK:      te.call @mean(%x, %[[ALL]])
// CHECK-NEXT: te.call @[[T:.*]](%x, %[[TAPS]])
// CHECK-NEXT: te.call @[[B:.*]](%x, %[[BLOCKS]])
// CHECK-NEXT: te.call @[[N:.*]](%x, %none)
// CHECK:      te.kernel @mean(
// CHECK:          %w[o, k] : tensor<2x2xi8>
// CHECK:      te.kernel @[[N]](
// CHECK:          %w[c, kh, o, k] : tensor<2x3x2x2xi8>
// CHECK:      te.kernel @[[B]](
// CHECK:          %w[kh, o, k] : tensor<3x2x2xi8>
// CHECK:      te.kernel @[[T]](
// CHECK:          %w[c, o, k] : tensor<2x2x2xi8>

// Reads beyond the ends yield 1, whatever the axis: the weights stay as they are. So does what an
// activation may be, and what the ALU reads.
func.func private @g(%x: tensor<1x3x1x2xi8>) -> tensor<3x1x2xi32> attributes {codegen = "vta"} {
  %w = te.constant dense<1> : tensor<3x2x2xi8>
  %v = te.constant dense<5> : tensor<3x1x2xi32>
  %y = te.call @border(%x, %w, %v) : (tensor<1x3x1x2xi8>, tensor<3x2x2xi8>, tensor<3x1x2xi32>) -> tensor<3x1x2xi32>
  func.return %y : tensor<3x1x2xi32>
}
te.kernel @border(%x: tensor<1x3x1x2xi8>, %w: tensor<3x2x2xi8>, %v: tensor<3x1x2xi32>) -> tensor<3x1x2xi32> {
  %y = te.compute "y" (h = 3, b = 1, o = 2) reduce (kh = 1, k = 2)
      ins (%x[kh, h, b, k] : tensor<1x3x1x2xi8>, %w[h + 1, o, k] outside 1 : tensor<3x2x2xi8>) identity 0 {
  ^bb0(%a: i32, %p: i8, %q: i8):
    %p32 = arith.extsi %p : i8 to i32
    %q32 = arith.extsi %q : i8 to i32
    %m = arith.muli %p32, %q32 : i32
    %s = arith.addi %a, %m : i32
    te.yield %s : i32
  } -> tensor<3x1x2xi32>
  %z = te.compute "z" (h = 3, b = 1, o = 2)
      ins (%y[h, b, o] : tensor<3x1x2xi32>, %v[h, b, o] : tensor<3x1x2xi32>) {
  ^bb0(%p: i32, %q: i32):
    %s = arith.addi %p, %q : i32
    te.yield %s : i32
  } -> tensor<3x1x2xi32>
  te.yield %z : tensor<3x1x2xi32>
}
// CHECK:      te.kernel @border(
// CHECK:          %w[h + 1, o, k] outside 1 : tensor<3x2x2xi8>
// CHECK:          %v[h, b, o] : tensor<3x1x2xi32>
