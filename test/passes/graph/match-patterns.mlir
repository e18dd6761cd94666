// RUN: vta-opt %s -p match-patterns | filecheck %s

func.func @matched(%q: tensor<1x3x8x8xi8>) -> tensor<1x4x8x8xi8> {
  %w = graph.constant dense<1> : tensor<4x3x1x1xi8>
  %c = graph.constant dense<0> : tensor<4xi32>
  %a = graph.conv %q, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x3x8x8xi8>, tensor<4x3x1x1xi8>) -> tensor<1x4x8x8xi32>
  %y = graph.requantize %a bias %c shift %c {lo = 0 : i64, hi = 127 : i64, scale = 1.0 : f64, zero_point = 0 : i64} : (tensor<1x4x8x8xi32>, tensor<4xi32>, tensor<4xi32>) -> tensor<1x4x8x8xi8>
  func.return %y : tensor<1x4x8x8xi8>
}
// CHECK-LABEL: @matched
// CHECK-NEXT:    %y = graph.composite "vta.accumulate_requantize"(%q)
// CHECK-NEXT:    ^bb0(%0: tensor<1x3x8x8xi8>):
// CHECK-NEXT:      %w = graph.constant
// CHECK-NEXT:      %c = graph.constant
// CHECK-NEXT:      %a = graph.conv %0, %w
// CHECK-NEXT:      %y_1 = graph.requantize %a bias %c shift %c
// CHECK-NEXT:      graph.yield %y_1

// A group is not taken when the accelerator cannot do one of its ops: the reason is recorded.
func.func @plain(%q: tensor<1x4xi8>) -> tensor<1x4xi8> {
  %w = graph.constant dense<1> : tensor<4x4xi8>
  %c = graph.constant dense<0> : tensor<4xi32>
  %a = graph.gemm %q, %w {alpha = 1.0 : f64, beta = 1.0 : f64, trans_a = false, trans_b = false} : (tensor<1x4xi8>, tensor<4x4xi8>) -> tensor<1x4xi32>
  %y = graph.requantize %a bias %c shift %c {lo = 0 : i64, hi = 127 : i64, scale = 1.0 : f64, zero_point = 0 : i64} : (tensor<1x4xi32>, tensor<4xi32>, tensor<4xi32>) -> tensor<1x4xi8>
  func.return %y : tensor<1x4xi8>
}
// CHECK-LABEL: @plain
// CHECK-NOT:     graph.composite
// CHECK:         graph.requantize {{.*}}graph.host_reason = "only products with constant weights [out, in] are supported"

// Accumulators with a user outside the group would be computed twice.
func.func @shared(%q: tensor<1x4x8x8xi8>) -> (tensor<1x4x8x8xi8>, tensor<1x4x8x8xi32>) {
  %w = graph.constant dense<1> : tensor<4x4x1x1xi8>
  %c = graph.constant dense<0> : tensor<4xi32>
  %a = graph.conv %q, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x4x8x8xi8>, tensor<4x4x1x1xi8>) -> tensor<1x4x8x8xi32>
  %y = graph.requantize %a bias %c shift %c {lo = 0 : i64, hi = 127 : i64, scale = 1.0 : f64, zero_point = 0 : i64} : (tensor<1x4x8x8xi32>, tensor<4xi32>, tensor<4xi32>) -> tensor<1x4x8x8xi8>
  func.return %y, %a : tensor<1x4x8x8xi8>, tensor<1x4x8x8xi32>
}
// CHECK-LABEL: @shared
// CHECK-NOT:     graph.composite
// CHECK:         graph.host_reason = "the result of the conv before it has other users, and would be made twice"
