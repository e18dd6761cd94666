// RUN: vta-opt %s --target sim -p integer-softmax{compare=false} | filecheck %s
// RUN: vta-opt %s --target pynq -p integer-softmax | filecheck %s --check-prefix=SHIFTS

// The scores of two heads leave as int32, the host takes their softmax and splits the shares, and
// products with values read them: all of it becomes integers.
func.func @main(%q: tensor<8x16xi8>, %k: tensor<32x16xi8>, %v: tensor<32x16xi8>) -> tensor<8x16xi8> {
  %zero = graph.constant dense<0> : tensor<16xi32>
  %acc = graph.batch_matmul %q, %k {batch = 2 : i64} : (tensor<8x16xi8>, tensor<32x16xi8>) -> tensor<8x16xi32>
  %sum = graph.add_bias %acc, %zero : (tensor<8x16xi32>, tensor<16xi32>) -> tensor<8x16xi32>
  %real = graph.dequantize %sum {scales = array<f64: 0.001>, zero_point = 0 : i64} : (tensor<8x16xi32>) -> tensor<8x16xf32>
  %heads = graph.reshape %real {graph.ranges = [#graph.range<-4.0, 4.0>]} : (tensor<8x16xf32>) -> tensor<2x4x16xf32>
  %shares = graph.host "Softmax"(%heads) {domain = "", onnx_attributes = {axis = -1 : i64}} : (tensor<2x4x16xf32>) -> tensor<2x4x16xf32>
  %high = graph.quantize %shares {scale = 0.0078125 : f64, zero_point = 0 : i64} : (tensor<2x4x16xf32>) -> tensor<2x4x16xi8>
  %a = graph.reshape %high : (tensor<2x4x16xi8>) -> tensor<8x16xi8>
  %mixed = graph.batch_matmul %a, %v {batch = 2 : i64} : (tensor<8x16xi8>, tensor<32x16xi8>) -> tensor<8x16xi32>
  %bias = graph.constant dense<64> : tensor<16xi32>
  %shift = graph.constant dense<7> : tensor<16xi32>
  %y = graph.requantize %mixed bias %bias shift %shift {lo = -128 : i64, hi = 127 : i64, scale = 0.03 : f64, zero_point = 0 : i64} : (tensor<8x16xi32>, tensor<16xi32>, tensor<16xi32>) -> tensor<8x16xi8>
  func.return %y : tensor<8x16xi8>
}
// CHECK-NOT:   graph.host
// CHECK:       graph.slice %q {starts = array<i64: 0, 0>
// CHECK:       graph.slice %q {starts = array<i64: 4, 0>
// CHECK:       graph.max
// CHECK:       graph.requantize_planes
// CHECK:       in integers, at most {{.*}} steps of the product with the values off
// CHECK-NOT:   graph.quantize
// CHECK:       %[[Y:.*]] = graph.concat
// CHECK:       func.return %[[Y]]

// SHIFTS-NOT:  graph.requantize_planes
// SHIFTS:      graph.host "Softmax"
