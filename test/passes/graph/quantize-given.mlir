// RUN: vta-opt %s -p 'quantize{requantise=shift}' | filecheck %s --check-prefix SHIFT
// RUN: vta-opt %s -p 'quantize{requantise=multiply}' | filecheck %s --check-prefix MULTIPLY
// RUN: vta-opt %s -p 'quantize{requantise=exact}' | filecheck %s --check-prefix EXACT

// No ranges: scales and zero points are those of the network. 2 * (q - 1) + 3, of steps 0.5 and 0.75.
// SHIFT-LABEL: @given
// SHIFT-NOT: graph.quantize
// SHIFT: graph.conv %x, {{.*}} -> tensor<1x1x2x2xi32>
// SHIFT: graph.requantize {{.*}}scale = 7.500000e-01 : f64, zero_point = -5 : i64
// SHIFT-NOT: graph.dequantize
// MULTIPLY-LABEL: @given
// MULTIPLY: graph.constant dense<4> : tensor<1x1x1x1xi8>
// MULTIPLY: graph.rescale {{.*}}shift = 23 : i64, lo = -128 : i64, hi = 127 : i64, scale = 7.500000e-01 : f64, zero_point = -5 : i64
// EXACT-LABEL: @given
// EXACT: graph.conv
// EXACT: graph.shift_left
// EXACT: graph.conv
// EXACT: graph.add
// EXACT: graph.requantize
func.func @given(%x: tensor<1x1x2x2xi8>) -> tensor<1x1x2x2xi8> {
  %w = graph.constant dense<2.0> : tensor<1x1x1x1xf32> {graph.grid = #graph.grid<0, [0.5]>}
  %b = graph.constant dense<3.0> : tensor<1xf32>
  %r = graph.dequantize %x {scales = array<f64: 0.5>, zero_point = 1 : i64} : (tensor<1x1x2x2xi8>) -> tensor<1x1x2x2xf32>
  %y = graph.conv %r, %w bias %b {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x1x2x2xf32>, tensor<1x1x1x1xf32>, tensor<1xf32>) -> tensor<1x1x2x2xf32>
  %f = graph.fake_quantize %y {scale = 0.75 : f64, zero_point = -5 : i64, low = -128 : i64, high = 127 : i64} : (tensor<1x1x2x2xf32>) -> tensor<1x1x2x2xf32>
  %q = graph.quantize %f {scale = 0.75 : f64, zero_point = -5 : i64} : (tensor<1x1x2x2xf32>) -> tensor<1x1x2x2xi8>
  func.return %q : tensor<1x1x2x2xi8>
}

// What the network rounds of values that stay real is rounded on the host.
// SHIFT-LABEL: @declined
// SHIFT-NEXT: graph.fake_quantize %x {graph.host_reason = "what it rounds is computed on the host"
func.func @declined(%x: tensor<1x2xf32>) -> tensor<1x2xf32> {
  %f = graph.fake_quantize %x {scale = 0.75 : f64, zero_point = -5 : i64, low = -128 : i64, high = 127 : i64} : (tensor<1x2xf32>) -> tensor<1x2xf32>
  func.return %f : tensor<1x2xf32>
}

// A last dense layer leaves int32, with the weights of the network; its rounding follows on the host.
// SHIFT-LABEL: @last
// SHIFT: graph.constant dense<{{\[\[}}4, 2], [1, -2{{\]\]}}> : tensor<2x2xi8>
// SHIFT: graph.gemm
// SHIFT: graph.add_bias
// SHIFT: graph.dequantize
// SHIFT-NEXT: graph.fake_quantize {{.*}}graph.host_reason = "it rounds what the last dense layer leaves in int32"
func.func @last(%x: tensor<1x2xi8>) -> tensor<1x2xf32> {
  %w = graph.constant dense<[[2.0, 1.0], [0.5, -1.0]]> : tensor<2x2xf32> {graph.grid = #graph.grid<0, [0.5]>}
  %r = graph.dequantize %x {scales = array<f64: 0.5>, zero_point = 1 : i64} : (tensor<1x2xi8>) -> tensor<1x2xf32>
  %y = graph.gemm %r, %w {alpha = 1.0 : f64, beta = 1.0 : f64, trans_a = false, trans_b = true} : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  %f = graph.fake_quantize %y {scale = 0.75 : f64, zero_point = -5 : i64, low = -128 : i64, high = 127 : i64} : (tensor<1x2xf32>) -> tensor<1x2xf32>
  func.return %f : tensor<1x2xf32>
}
