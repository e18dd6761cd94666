// RUN: vta-opt %s --target pynq -p quantize | filecheck %s
// RUN: vta-opt %s --target sim -p quantize | filecheck %s --check-prefix MULTIPLY
// RUN: vta-opt %s --target pynq -p 'quantize{requantise=shift}' | filecheck %s --check-prefix SHIFT

// Scales are given, and the target does not multiply: of both layers the first is so cheap that its
// second plane is worth it, the second is beyond the budget.
// CHECK-LABEL: @cheap_first
// CHECK: %[[HIGH:.*]] = graph.conv
// CHECK: graph.shift_left %[[HIGH]]
// CHECK: graph.requantize {{.*}}graph.note = "weights of two planes: the estimated error of the result falls by {{.*}} more cycles"
// CHECK: graph.conv
// CHECK-NOT: graph.shift_left
// CHECK-NOT: graph.note
// CHECK: func.return
// MULTIPLY-NOT: graph.note
// SHIFT-NOT: graph.shift_left
// SHIFT-NOT: graph.note
func.func @cheap_first(%x: tensor<1x1x8x8xi8>) -> tensor<1x16x4x4xi8> {
  %w = graph.constant dense<0.77> : tensor<16x1x1x1xf32> {graph.grid = #graph.grid<0, [0.01]>}
  %v = graph.constant dense<0.0123> : tensor<16x16x5x5xf32> {graph.grid = #graph.grid<0, [0.0003]>}
  %r = graph.dequantize %x {scales = array<f64: 0.03>, zero_point = 1 : i64} : (tensor<1x1x8x8xi8>) -> tensor<1x1x8x8xf32>
  %y = graph.conv %r, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x1x8x8xf32>, tensor<16x1x1x1xf32>) -> tensor<1x16x8x8xf32>
  %f = graph.fake_quantize %y {scale = 0.025 : f64, zero_point = -5 : i64, low = -128 : i64, high = 127 : i64} : (tensor<1x16x8x8xf32>) -> tensor<1x16x8x8xf32>
  %z = graph.conv %f, %v {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x16x8x8xf32>, tensor<16x16x5x5xf32>) -> tensor<1x16x4x4xf32>
  %g = graph.fake_quantize %z {scale = 0.002 : f64, zero_point = 3 : i64, low = -128 : i64, high = 127 : i64} : (tensor<1x16x4x4xf32>) -> tensor<1x16x4x4xf32>
  %q = graph.quantize %g {scale = 0.002 : f64, zero_point = 3 : i64} : (tensor<1x16x4x4xf32>) -> tensor<1x16x4x4xi8>
  func.return %q : tensor<1x16x4x4xi8>
}

// The same with a result of coarser steps: its error is below a step, and nothing is added.
// CHECK-LABEL: @near_enough
// CHECK-NOT: graph.note
// CHECK: func.return
func.func @near_enough(%x: tensor<1x1x8x8xi8>) -> tensor<1x16x4x4xi8> {
  %w = graph.constant dense<0.77> : tensor<16x1x1x1xf32> {graph.grid = #graph.grid<0, [0.01]>}
  %v = graph.constant dense<0.0123> : tensor<16x16x5x5xf32> {graph.grid = #graph.grid<0, [0.0003]>}
  %r = graph.dequantize %x {scales = array<f64: 0.03>, zero_point = 1 : i64} : (tensor<1x1x8x8xi8>) -> tensor<1x1x8x8xf32>
  %y = graph.conv %r, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x1x8x8xf32>, tensor<16x1x1x1xf32>) -> tensor<1x16x8x8xf32>
  %f = graph.fake_quantize %y {scale = 0.025 : f64, zero_point = -5 : i64, low = -128 : i64, high = 127 : i64} : (tensor<1x16x8x8xf32>) -> tensor<1x16x8x8xf32>
  %z = graph.conv %f, %v {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x16x8x8xf32>, tensor<16x16x5x5xf32>) -> tensor<1x16x4x4xf32>
  %g = graph.fake_quantize %z {scale = 0.09 : f64, zero_point = 3 : i64, low = -128 : i64, high = 127 : i64} : (tensor<1x16x4x4xf32>) -> tensor<1x16x4x4xf32>
  %q = graph.quantize %g {scale = 0.09 : f64, zero_point = 3 : i64} : (tensor<1x16x4x4xf32>) -> tensor<1x16x4x4xi8>
  func.return %q : tensor<1x16x4x4xi8>
}

// The host lays out the taps of three colours as 27 channels, two blocks instead of nine. So the
// second plane is cheap.
// CHECK-LABEL: @three_colours
// CHECK: graph.note = "weights of two planes: {{.*}}for 1{{[0-9]}}.{{[0-9]}}% more cycles"
// CHECK: func.return
func.func @three_colours(%x: tensor<1x3x16x16xi8>) -> tensor<1x32x12x12xi8> {
  %w = graph.constant dense<0.77> : tensor<16x3x3x3xf32> {graph.grid = #graph.grid<0, [0.01]>}
  %v = graph.constant dense<0.0123> : tensor<32x16x3x3xf32> {graph.grid = #graph.grid<0, [0.0003]>}
  %r = graph.dequantize %x {scales = array<f64: 0.03>, zero_point = 1 : i64} : (tensor<1x3x16x16xi8>) -> tensor<1x3x16x16xf32>
  %y = graph.conv %r, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x3x16x16xf32>, tensor<16x3x3x3xf32>) -> tensor<1x16x14x14xf32>
  %f = graph.fake_quantize %y {scale = 0.025 : f64, zero_point = -5 : i64, low = -128 : i64, high = 127 : i64} : (tensor<1x16x14x14xf32>) -> tensor<1x16x14x14xf32>
  %z = graph.conv %f, %v {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x16x14x14xf32>, tensor<32x16x3x3xf32>) -> tensor<1x32x12x12xf32>
  %g = graph.fake_quantize %z {scale = 0.001 : f64, zero_point = 3 : i64, low = -128 : i64, high = 127 : i64} : (tensor<1x32x12x12xf32>) -> tensor<1x32x12x12xf32>
  %q = graph.quantize %g {scale = 0.001 : f64, zero_point = 3 : i64} : (tensor<1x32x12x12xf32>) -> tensor<1x32x12x12xi8>
  func.return %q : tensor<1x32x12x12xi8>
}

// With 16 channels at each tap the second plane of the first layer is beyond the budget.
// CHECK-LABEL: @sixteen_channels
// CHECK-NOT: graph.note
// CHECK: func.return
func.func @sixteen_channels(%x: tensor<1x16x16x16xi8>) -> tensor<1x32x12x12xi8> {
  %w = graph.constant dense<0.77> : tensor<16x16x3x3xf32> {graph.grid = #graph.grid<0, [0.01]>}
  %v = graph.constant dense<0.0123> : tensor<32x16x3x3xf32> {graph.grid = #graph.grid<0, [0.0003]>}
  %r = graph.dequantize %x {scales = array<f64: 0.03>, zero_point = 1 : i64} : (tensor<1x16x16x16xi8>) -> tensor<1x16x16x16xf32>
  %y = graph.conv %r, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x16x16x16xf32>, tensor<16x16x3x3xf32>) -> tensor<1x16x14x14xf32>
  %f = graph.fake_quantize %y {scale = 0.025 : f64, zero_point = -5 : i64, low = -128 : i64, high = 127 : i64} : (tensor<1x16x14x14xf32>) -> tensor<1x16x14x14xf32>
  %z = graph.conv %f, %v {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x16x14x14xf32>, tensor<32x16x3x3xf32>) -> tensor<1x32x12x12xf32>
  %g = graph.fake_quantize %z {scale = 0.001 : f64, zero_point = 3 : i64, low = -128 : i64, high = 127 : i64} : (tensor<1x32x12x12xf32>) -> tensor<1x32x12x12xf32>
  %q = graph.quantize %g {scale = 0.001 : f64, zero_point = 3 : i64} : (tensor<1x32x12x12xf32>) -> tensor<1x32x12x12xi8>
  func.return %q : tensor<1x32x12x12xi8>
}
