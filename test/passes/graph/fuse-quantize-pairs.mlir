// RUN: vta-opt %s -p fuse-quantize-pairs | filecheck %s

// A pair is one op; a pooling between both rounds before; the result is quantised from there.
// CHECK-LABEL: @pair
func.func @pair(%x: tensor<1x2x4x4xf32>) -> (tensor<1x2x3x3xf32>, tensor<1x2x4x4xi8>) {
  // CHECK-NEXT: [[F:%.*]] = graph.fake_quantize %x {scale = 5.000000e-01 : f64, zero_point = 3 : i64, low = -128 : i64, high = 127 : i64}
  // CHECK-NEXT: [[Q:%.*]] = graph.quantize [[F]] {scale = 5.000000e-01 : f64, zero_point = 3 : i64}
  // CHECK-NEXT: [[P:%.*]] = graph.max_pool [[F]] {{.*}} -> tensor<1x2x3x3xf32>
  // CHECK-NEXT: func.return [[P]], [[Q]]
  %q = graph.quantize %x {scale = 0.5 : f64, zero_point = 3 : i64} : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xi8>
  %p = graph.max_pool %q {kernel = array<i64: 2, 2>, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<1x2x4x4xi8>) -> tensor<1x2x3x3xi8>
  %d = graph.dequantize %p {scales = array<f64: 0.5>, zero_point = 3 : i64} : (tensor<1x2x3x3xi8>) -> tensor<1x2x3x3xf32>
  func.return %d, %q : tensor<1x2x3x3xf32>, tensor<1x2x4x4xi8>
}

// What entered as integers stays dequantised; other steps are another rounding.
// CHECK-LABEL: @declined
func.func @declined(%a: tensor<1x2xi8>, %x: tensor<1x2xf32>) -> (tensor<1x2xf32>, tensor<1x2xf32>) {
  // CHECK-NEXT: [[A:%.*]] = graph.dequantize %a
  // CHECK-NEXT: [[Q:%.*]] = graph.quantize %x {scale = 5.000000e-01 : f64, zero_point = 0 : i64}
  // CHECK-NEXT: [[D:%.*]] = graph.dequantize [[Q]] {scales = array<f64: 2.500000e-01>, zero_point = 0 : i64}
  // CHECK-NEXT: func.return [[A]], [[D]]
  %d = graph.dequantize %a {scales = array<f64: 0.5>, zero_point = 0 : i64} : (tensor<1x2xi8>) -> tensor<1x2xf32>
  %q = graph.quantize %x {scale = 0.5 : f64, zero_point = 0 : i64} : (tensor<1x2xf32>) -> tensor<1x2xi8>
  %e = graph.dequantize %q {scales = array<f64: 0.25>, zero_point = 0 : i64} : (tensor<1x2xi8>) -> tensor<1x2xf32>
  func.return %d, %e : tensor<1x2xf32>, tensor<1x2xf32>
}
