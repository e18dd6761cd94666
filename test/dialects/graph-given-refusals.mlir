// RUN: vta-opt %s --split-input-file --parsing-diagnostics --verify-diagnostics | filecheck %s

// CHECK: bounds must be those of int8 or uint8, not [-128, 255]
func.func @refused(%x: tensor<2x3xf32>) {
  %a = graph.fake_quantize %x {scale = 0.25 : f64, zero_point = 0 : i64, low = -128 : i64, high = 255 : i64} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return
}

// -----

// CHECK: zero point -1 is out of bounds
func.func @refused(%x: tensor<2x3xf32>) {
  %a = graph.fake_quantize %x {scale = 0.25 : f64, zero_point = -1 : i64, low = 0 : i64, high = 255 : i64} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return
}

// -----

// CHECK: the scale must be positive
func.func @refused(%x: tensor<2x3xf32>) {
  %a = graph.fake_quantize %x {scale = 0.0 : f64, zero_point = 0 : i64, low = 0 : i64, high = 255 : i64} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return
}

// -----

// CHECK: the steps of a grid are positive, and there is at least one
func.func @refused() {
  %w = graph.constant dense<[[0.5], [2.0]]> : tensor<2x1xf32> {graph.grid = #graph.grid<0, [0.5, 0.0]>}
  func.return
}

// -----

// CHECK: multiplier must be tensor<3xi32>, one entry per channel
func.func @refused(%acc: tensor<2x3xi32>, %v: tensor<3xi32>, %m: tensor<2xi32>) {
  %q = graph.rescale %acc bias %v within %v, %v times %m plus %v {shift = 22 : i64, lo = -128 : i64, hi = 127 : i64, scale = 0.5 : f64, zero_point = 3 : i64} : (tensor<2x3xi32>, tensor<3xi32>, tensor<3xi32>, tensor<3xi32>, tensor<2xi32>, tensor<3xi32>) -> tensor<2x3xi8>
  func.return
}

// -----

// CHECK: the shift must lie in 0..31
func.func @refused(%acc: tensor<2x3xi32>, %v: tensor<3xi32>) {
  %q = graph.rescale %acc bias %v within %v, %v times %v plus %v {shift = 32 : i64, lo = -128 : i64, hi = 127 : i64, scale = 0.5 : f64, zero_point = 3 : i64} : (tensor<2x3xi32>, tensor<3xi32>, tensor<3xi32>, tensor<3xi32>, tensor<3xi32>, tensor<3xi32>) -> tensor<2x3xi8>
  func.return
}

// -----

// CHECK: rescale takes int32 accumulators to int8
func.func @refused(%acc: tensor<2x3xi8>, %v: tensor<3xi32>) {
  %q = graph.rescale %acc bias %v within %v, %v times %v plus %v {shift = 22 : i64, lo = -128 : i64, hi = 127 : i64, scale = 0.5 : f64, zero_point = 3 : i64} : (tensor<2x3xi8>, tensor<3xi32>, tensor<3xi32>, tensor<3xi32>, tensor<3xi32>, tensor<3xi32>) -> tensor<2x3xi8>
  func.return
}

// -----

// CHECK: bounds must satisfy -128 <= lo <= hi <= 127
func.func @refused(%acc: tensor<2x3xi32>, %v: tensor<3xi32>) {
  %q = graph.rescale %acc bias %v within %v, %v times %v plus %v {shift = 22 : i64, lo = 1 : i64, hi = 0 : i64, scale = 0.5 : f64, zero_point = 3 : i64} : (tensor<2x3xi32>, tensor<3xi32>, tensor<3xi32>, tensor<3xi32>, tensor<3xi32>, tensor<3xi32>) -> tensor<2x3xi8>
  func.return
}
