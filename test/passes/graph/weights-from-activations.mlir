// RUN: vta-opt %s --target pynq -p weights-from-activations | filecheck %s
// RUN: vta-opt %s --target sim -p weights-from-activations | filecheck %s

// Queries and keys of one head, each with two blocks of channels: the layer of the keys becomes two,
// and the scores are the sum of two products, none of which needs the host.
func.func @main(%x: tensor<16x16xi8>, %q: tensor<16x32xi32>) -> tensor<16x16xf32> {
  %w = graph.constant dense<1> : tensor<32x16xi8>
  %b = graph.constant dense<0> : tensor<32xi32>
  %none = graph.constant dense<0> : tensor<16xi32>
  %query = graph.requantize %q bias %b shift %b {lo = -128 : i64, hi = 127 : i64, scale = 1.0 : f64, zero_point = 0 : i64} : (tensor<16x32xi32>, tensor<32xi32>, tensor<32xi32>) -> tensor<16x32xi8>
  %k = graph.gemm %x, %w {alpha = 1.0 : f64, beta = 1.0 : f64, trans_a = false, trans_b = true} : (tensor<16x16xi8>, tensor<32x16xi8>) -> tensor<16x32xi32>
  %key = graph.requantize %k bias %b shift %b {lo = -128 : i64, hi = 127 : i64, scale = 1.0 : f64, zero_point = 0 : i64} : (tensor<16x32xi32>, tensor<32xi32>, tensor<32xi32>) -> tensor<16x32xi8>
  %p = graph.batch_matmul %query, %key {batch = 1 : i64} : (tensor<16x32xi8>, tensor<16x32xi8>) -> tensor<16x16xi32>
  %s = graph.add_bias %p, %none : (tensor<16x16xi32>, tensor<16xi32>) -> tensor<16x16xi32>
  %r = graph.dequantize %s {scales = array<f64: 0.5>, zero_point = 0 : i64} : (tensor<16x16xi32>) -> tensor<16x16xf32>
  func.return %r : tensor<16x16xf32>
}
// CHECK-COUNT-2: graph.batch_matmul {{.*}} : (tensor<16x16xi8>, tensor<16x16xi8>) -> tensor<16x16xi32>
// CHECK-NOT:     graph.batch_matmul
// CHECK:         graph.add_bias

// What the host makes stays one product.
func.func @host(%q: tensor<16x32xi8>, %k: tensor<16x32xi8>) -> tensor<16x16xi32> {
  %p = graph.batch_matmul %q, %k {batch = 1 : i64} : (tensor<16x32xi8>, tensor<16x32xi8>) -> tensor<16x16xi32>
  func.return %p : tensor<16x16xi32>
}
// CHECK-LABEL:   @host
// CHECK:         graph.batch_matmul %q, %k
