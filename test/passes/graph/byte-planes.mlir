// RUN: vta-opt %s -p byte-planes | filecheck %s

// A bias of a factor stays whole: the product, whose result is narrowed, reads accumulators. One
// that something else reads too does not.
func.func @factor(%a: tensor<1x4xi32>, %c: tensor<1x4xi32>, %b: tensor<4xi32>) -> tensor<1x4xi8> {
  %f = graph.add_bias %a, %b : (tensor<1x4xi32>, tensor<4xi32>) -> tensor<1x4xi32>
  %m = graph.mul %f, %c : (tensor<1x4xi32>, tensor<1x4xi32>) -> tensor<1x4xi32>
  %q = graph.requantize %m bias %b shift %b {lo = -128 : i64, hi = 127 : i64, scale = 1.0 : f64, zero_point = 0 : i64} : (tensor<1x4xi32>, tensor<4xi32>, tensor<4xi32>) -> tensor<1x4xi8>
  func.return %q : tensor<1x4xi8>
}
// CHECK-LABEL: @factor
// CHECK-NEXT:  %f = graph.add_bias
// CHECK-NEXT:  graph.mul %f, %c
func.func @leaves(%a: tensor<1x4xi32>, %c: tensor<1x4xi32>, %b: tensor<4xi32>) -> tensor<1x4xi32> {
  %f = graph.add_bias %a, %b : (tensor<1x4xi32>, tensor<4xi32>) -> tensor<1x4xi32>
  %m = graph.mul %f, %c : (tensor<1x4xi32>, tensor<1x4xi32>) -> tensor<1x4xi32>
  func.return %m : tensor<1x4xi32>
}
// CHECK-LABEL: @leaves
// CHECK-NEXT:  %f = graph.add_bias
// CHECK-NEXT:  graph.split_bytes %f
