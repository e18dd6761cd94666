// RUN: vta-opt %s --target chisel-pynq -p fold-first-layer | filecheck %s

// One channel and 9 taps fill 9 of 16 lanes. The bias, as digits of 1 and 127 in two more lanes, then
// needs no addition: -1000 = -7 * 127 - 111.

builtin.module attributes {vtac.target = #target.vta<"pynq">} {
  func.func @folded(%x: tensor<1x1x8x8xf32>) -> tensor<1x2x4x4xi8> {
    %xq = graph.quantize %x {scale = 1.0 : f64, zero_point = 0 : i64} : (tensor<1x1x8x8xf32>) -> tensor<1x1x8x8xi8>
    %w = graph.constant dense<[[[[1, 2, 3], [4, 5, 6], [7, 8, 9]]], [[[-1, -2, -3], [-4, -5, -6], [-7, -8, -9]]]]> : tensor<2x1x3x3xi8>
    %b = graph.constant dense<[128, -1000]> : tensor<2xi32>
    %s = graph.constant dense<[3, 4]> : tensor<2xi32>
    %acc = graph.conv %xq, %w {strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>,
        dilations = array<i64: 1, 1>, group = 1 : i64}
        : (tensor<1x1x8x8xi8>, tensor<2x1x3x3xi8>) -> tensor<1x2x4x4xi32>
    %y = graph.requantize %acc bias %b shift %s {lo = 0 : i64, hi = 127 : i64, scale = 1.0 : f64,
        zero_point = 0 : i64} : (tensor<1x2x4x4xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<1x2x4x4xi8>
    func.return %y : tensor<1x2x4x4xi8>
  }

// CHECK-LABEL: @folded
// CHECK-NEXT:    [[X:%[a-z]+]] = graph.quantize
// CHECK-NEXT:    [[S:%[a-z]+]] = graph.constant dense<[3, 4]>
// CHECK-NEXT:    [[B:%[a-z0-9_]+]] = graph.constant dense<0> : tensor<2xi32>
// CHECK-NEXT:    [[U:%[a-z0-9_]+]] = graph.unfold [[X]] {kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, constants = array<i64: 1, 127>} : (tensor<1x1x8x8xi8>) -> tensor<1x11x4x4xi8>
// CHECK-NEXT:    [[W:%[a-z0-9_]+]] = graph.constant dense<{{\[\[\[\[}}1]], {{.*}}[{{\[}}9]], {{\[\[}}1]], {{\[\[}}1]]], {{.*}}[{{\[}}-9]], {{\[\[}}-111]], {{\[\[}}-7]]]]> : tensor<2x11x1x1xi8>
// CHECK-NEXT:    [[ACC:%[a-z0-9_]+]] = graph.conv [[U]], [[W]] {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x11x4x4xi8>, tensor<2x11x1x1xi8>) -> tensor<1x2x4x4xi32>
// CHECK-NEXT:    graph.requantize [[ACC]] bias [[B]] shift [[S]]

  // 8 channels and two taps a row fill the block; columns are left. No lane is spare for the bias.
  func.func @an_axis(%y: tensor<1x8x4x1xf32>) -> tensor<1x1x3x1xi8> {
    %xq = graph.quantize %y {scale = 1.0 : f64, zero_point = 0 : i64} : (tensor<1x8x4x1xf32>) -> tensor<1x8x4x1xi8>
    %w = graph.constant dense<1> : tensor<1x8x2x1xi8>
    %b = graph.constant dense<128> : tensor<1xi32>
    %s = graph.constant dense<3> : tensor<1xi32>
    %acc = graph.conv %xq, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>,
        dilations = array<i64: 1, 1>, group = 1 : i64}
        : (tensor<1x8x4x1xi8>, tensor<1x8x2x1xi8>) -> tensor<1x1x3x1xi32>
    %z = graph.requantize %acc bias %b shift %s {lo = 0 : i64, hi = 127 : i64, scale = 1.0 : f64,
        zero_point = 0 : i64} : (tensor<1x1x3x1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<1x1x3x1xi8>
    func.return %z : tensor<1x1x3x1xi8>
  }

// CHECK-LABEL: @an_axis
// CHECK:         graph.unfold {{.*}}kernel = array<i64: 2, 1>{{.*}}constants = array<i64>} : (tensor<1x8x4x1xi8>) -> tensor<1x16x3x1xi8>
// CHECK:         graph.requantize {{.*}} bias %b shift

  // Nothing is gained: 16 channels fill the block, and a fold would not need fewer micro-ops.
  func.func @full(%x: tensor<1x16x4xf32>) -> tensor<1x1x3xi32> {
    %xq = graph.quantize %x {scale = 1.0 : f64, zero_point = 0 : i64} : (tensor<1x16x4xf32>) -> tensor<1x16x4xi8>
    %w = graph.constant dense<1> : tensor<1x16x2xi8>
    %acc = graph.conv %xq, %w {strides = array<i64: 1>, pads = array<i64: 0, 0>,
        dilations = array<i64: 1>, group = 1 : i64}
        : (tensor<1x16x4xi8>, tensor<1x16x2xi8>) -> tensor<1x1x3xi32>
    func.return %acc : tensor<1x1x3xi32>
  }

// CHECK-LABEL: @full
// CHECK-NOT:     graph.unfold

  // The planes of weights read one layout, although the host transposes the input first.
  func.func @planes(%x: tensor<1x4x4x3xi8>) -> tensor<1x1x4x4xi32> {
    %t = graph.transpose %x {permutation = array<i64: 0, 3, 1, 2>} : (tensor<1x4x4x3xi8>) -> tensor<1x3x4x4xi8>
    %high = graph.constant dense<1> : tensor<1x3x3x3xi8>
    %low = graph.constant dense<2> : tensor<1x3x3x3xi8>
    %by = graph.constant dense<8> : tensor<1xi32>
    %a = graph.conv %t, %high {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>,
        dilations = array<i64: 1, 1>, group = 1 : i64, pad_value = -128 : i64}
        : (tensor<1x3x4x4xi8>, tensor<1x3x3x3xi8>) -> tensor<1x1x4x4xi32>
    %raised = graph.shift_left %a, %by : (tensor<1x1x4x4xi32>, tensor<1xi32>) -> tensor<1x1x4x4xi32>
    %b = graph.conv %t, %low {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>,
        dilations = array<i64: 1, 1>, group = 1 : i64, pad_value = -128 : i64}
        : (tensor<1x3x4x4xi8>, tensor<1x3x3x3xi8>) -> tensor<1x1x4x4xi32>
    %sum = graph.add %raised, %b : (tensor<1x1x4x4xi32>, tensor<1x1x4x4xi32>) -> tensor<1x1x4x4xi32>
    func.return %sum : tensor<1x1x4x4xi32>
  }

// CHECK-LABEL: @planes
// CHECK:         [[U:%[a-z0-9_]+]] = graph.unfold {{.*}}pad_value = -128
// CHECK-NOT:     graph.unfold
// CHECK:         graph.conv [[U]]
// CHECK:         graph.conv [[U]]

  // What the accelerator makes stays there.
  func.func @inner(%x: tensor<1x1x8xi32>, %b: tensor<1xi32>, %s: tensor<1xi32>) -> tensor<1x1x6xi32> {
    %y = graph.requantize %x bias %b shift %s {lo = 0 : i64, hi = 127 : i64, scale = 1.0 : f64,
        zero_point = 0 : i64} : (tensor<1x1x8xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<1x1x8xi8>
    %w = graph.constant dense<1> : tensor<1x1x3xi8>
    %acc = graph.conv %y, %w {strides = array<i64: 1>, pads = array<i64: 0, 0>,
        dilations = array<i64: 1>, group = 1 : i64}
        : (tensor<1x1x8xi8>, tensor<1x1x3xi8>) -> tensor<1x1x6xi32>
    func.return %acc : tensor<1x1x6xi32>
  }

// CHECK-LABEL: @inner
// CHECK-NOT:     graph.unfold
}
