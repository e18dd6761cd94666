// RUN: vta-opt %s --target sim -p integer-streams{compare=false} | filecheck %s
// RUN: vta-opt %s --target pynq -p integer-streams | filecheck %s --check-prefix=SHIFTS

// A layer leaves int8, the host adds and normalises, and a layer reads int8: the addition and the
// normalisation become integers, and two planes hold the stream.
func.func @main(%acc: tensor<4x16xi32>, %x: tensor<4x16xi8>, %b: tensor<16xi32>, %w: tensor<16x16xi8>) -> (tensor<4x16xi32>) {
  %scale = graph.constant dense<1.0> : tensor<16xf32>
  %bias = graph.constant dense<0.5> : tensor<16xf32>
  %branch = graph.requantize %acc bias %b shift %b {lo = -128 : i64, hi = 127 : i64, scale = 0.02 : f64, zero_point = 0 : i64} : (tensor<4x16xi32>, tensor<16xi32>, tensor<16xi32>) -> tensor<4x16xi8>
  %0 = graph.dequantize %branch {scales = array<f64: 0.02>, zero_point = 0 : i64} : (tensor<4x16xi8>) -> tensor<4x16xf32>
  %1 = graph.dequantize %x {scales = array<f64: 0.03>, zero_point = 0 : i64} : (tensor<4x16xi8>) -> tensor<4x16xf32>
  %sum = graph.add %0, %1 {graph.ranges = [#graph.range<-4.0, 4.0>]} : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
  %y = graph.host "LayerNormalization"(%sum, %scale, %bias) {domain = "", onnx_attributes = {axis = -1 : i64}} : (tensor<4x16xf32>, tensor<16xf32>, tensor<16xf32>) -> tensor<4x16xf32>
  %q = graph.quantize %y {scale = 0.03 : f64, zero_point = 0 : i64} : (tensor<4x16xf32>) -> tensor<4x16xi8>
  %p = graph.gemm %q, %w {alpha = 1.0 : f64, beta = 1.0 : f64, trans_a = false, trans_b = true} : (tensor<4x16xi8>, tensor<16x16xi8>) -> tensor<4x16xi32>
  func.return %p : tensor<4x16xi32>
}
// CHECK-NOT:   graph.add %0, %1
// CHECK:       graph.requantize_planes
// CHECK-SAME:  bound = 16200
// CHECK-NOT:   graph.host
// CHECK:       graph.shift_right_by
// CHECK-NOT:   graph.quantize
// CHECK:       %[[Q:.*]] = graph.requantize {{.*}}normalised in integers
// CHECK-NEXT:  graph.gemm %[[Q]],

// SHIFTS-NOT:  graph.requantize_planes
// SHIFTS:      graph.host "LayerNormalization"
