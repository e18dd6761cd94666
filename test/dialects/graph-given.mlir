// RUN: vta-opt %s --verify-roundtrip | filecheck %s

// CHECK-LABEL: @given
func.func @given(%x: tensor<2x3x4x4xf32>, %acc: tensor<2x3x4x4xi32>) {
  // CHECK: graph.fake_quantize %x {scale = 2.500000e-01 : f64, zero_point = -128 : i64, low = -128 : i64, high = 127 : i64}
  %a = graph.fake_quantize %x {scale = 0.25 : f64, zero_point = -128 : i64, low = -128 : i64, high = 127 : i64} : (tensor<2x3x4x4xf32>) -> tensor<2x3x4x4xf32>
  // CHECK: graph.constant dense<[[5.000000e-01], [2.000000e+00]]> : tensor<2x1xf32> {graph.grid = #graph.grid<0, [5.000000e-01, 1.000000e+00]>}
  %w = graph.constant dense<[[0.5], [2.0]]> : tensor<2x1xf32> {graph.grid = #graph.grid<0, [0.5, 1.0]>}
  %v = graph.constant dense<[1, 2, 3]> : tensor<3xi32>
  // CHECK: graph.rescale %acc bias %v within %v, %v times %v plus %v {shift = 22 : i64, lo = -128 : i64, hi = 127 : i64, scale = 5.000000e-01 : f64, zero_point = 3 : i64}
  %q = graph.rescale %acc bias %v within %v, %v times %v plus %v {shift = 22 : i64, lo = -128 : i64, hi = 127 : i64, scale = 0.5 : f64, zero_point = 3 : i64} : (tensor<2x3x4x4xi32>, tensor<3xi32>, tensor<3xi32>, tensor<3xi32>, tensor<3xi32>, tensor<3xi32>) -> tensor<2x3x4x4xi8>
  func.return
}
