// RUN: vta-opt %s -p quantize | filecheck %s
// RUN: vta-opt %s -p 'quantize{shift=block}' | filecheck %s --check-prefix BLOCK

// One accumulator takes the convolution and the residual addition; relu is the lower bound. With
// ranges of [-128, 127] all scales are 1: weights are multiplied by 2^5, and shifted back.

builtin.module attributes {vtac.target = #target.vta<"pynq">} {
  func.func @residual(%x: tensor<1x2x4x4xf32> {graph.range = #graph.range<-128.0, 127.0>})
      -> tensor<1x2x4x4xf32> {
    %w = graph.constant dense<[[[[1.0]], [[2.0]]], [[[0.0]], [[-3.0]]]]> : tensor<2x2x1x1xf32>
    %b = graph.constant dense<[1.0, -2.0]> : tensor<2xf32>
    %c = graph.conv %x, %w bias %b {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>,
        dilations = array<i64: 1, 1>, group = 1 : i64}
        : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
    %a = graph.add %c, %x : (tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>
    %r = graph.relu %a {graph.ranges = [#graph.range<-128.0, 127.0>]}
        : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>
    func.return %r : tensor<1x2x4x4xf32>
  }

// CHECK-LABEL: @residual
// CHECK-SAME:    graph.error_bounds = [{{.*}} : f64], graph.error_estimates = [{{.*}} : f64]
// CHECK-NEXT:    [[X:%[a-z0-9_]+]] = graph.quantize %x {scale = 1.000000e+00 : f64, zero_point = 0 : i64} : {{.*}} -> tensor<1x2x4x4xi8>
// CHECK-NEXT:    [[W:%[0-9]+]] = graph.constant dense<{{\[\[\[\[}}32]], {{\[\[}}64]]], {{\[\[\[}}0]], {{\[\[}}-96]]]]> : tensor<2x2x1x1xi8>
// CHECK-NEXT:    [[ACC:%[0-9]+]] = graph.conv [[X]], [[W]] {{.*}} -> tensor<1x2x4x4xi32>
// CHECK-NEXT:    [[K:%[0-9]+]] = graph.constant dense<5> : tensor<2xi32>
// CHECK-NEXT:    [[SKIP:%[0-9]+]] = graph.shift_left [[X]], [[K]] : {{.*}} -> tensor<1x2x4x4xi32>
// CHECK-NEXT:    [[SUM:%[0-9]+]] = graph.add [[ACC]], [[SKIP]]
// CHECK-NEXT:    [[BIAS:%[0-9]+]] = graph.constant dense<[48, -48]> : tensor<2xi32>
// CHECK-NEXT:    [[S:%[0-9]+]] = graph.constant dense<5> : tensor<2xi32>
// CHECK-NEXT:    [[Q:%[a-z0-9_]+]] = graph.requantize [[SUM]] bias [[BIAS]] shift [[S]] {lo = 0 : i64, hi = 127 : i64, scale = 1.000000e+00 : f64, zero_point = 0 : i64}
// CHECK-NEXT:    [[R:%[a-z0-9_]+]] = graph.dequantize [[Q]] {scales = array<f64: 1.000000e+00>, zero_point = 0 : i64}
// CHECK-NEXT:    func.return [[R]]

  // Pooling: a maximum keeps the scale, a mean of 4 is a sum shifted by 2.
  func.func @pools(%x: tensor<1x2x4x4xf32> {graph.range = #graph.range<-128.0, 127.0>})
      -> tensor<1x2x1x1xf32> {
    %m = graph.max_pool %x {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>,
        pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
        : (tensor<1x2x4x4xf32>) -> tensor<1x2x2x2xf32>
    %y = graph.global_average_pool %m {graph.ranges = [#graph.range<-128.0, 127.0>]}
        : (tensor<1x2x2x2xf32>) -> tensor<1x2x1x1xf32>
    func.return %y : tensor<1x2x1x1xf32>
  }

// CHECK-LABEL: @pools
// CHECK-NEXT:    graph.quantize
// CHECK-NEXT:    graph.max_pool {{.*}} -> tensor<1x2x2x2xi8>
// CHECK-NEXT:    graph.sum_pool {{.*}}kernel = array<i64: 2, 2>{{.*}} -> tensor<1x2x1x1xi32>
// CHECK-NEXT:    graph.constant dense<2> : tensor<2xi32>
// CHECK-NEXT:    graph.constant dense<2> : tensor<2xi32>
// CHECK-NEXT:    graph.requantize

  // The last dense layer keeps its accumulators: each channel has its own scale. Channel 0 is
  // exact in multiples of 2^-6, channel 1 has scale 0.3 / 127.
  func.func @dense(%x: tensor<1x2xf32> {graph.range = #graph.range<-128.0, 127.0>})
      -> tensor<1x2xf32> {
    %w = graph.constant dense<[[1.0, -0.5], [0.3, 0.1]]> : tensor<2x2xf32>
    %b = graph.constant dense<[1.0, 0.0]> : tensor<2xf32>
    %y = graph.gemm %x, %w bias %b {alpha = 1.0 : f32, beta = 1.0 : f32, trans_a = false,
        trans_b = true} : (tensor<1x2xf32>, tensor<2x2xf32>, tensor<2xf32>) -> tensor<1x2xf32>
    func.return %y : tensor<1x2xf32>
  }

// CHECK-LABEL: @dense
// CHECK:         graph.constant dense<{{\[\[}}64, -32], [127, 42]]> : tensor<2x2xi8>
// CHECK-NEXT:    [[ACC:%[0-9]+]] = graph.gemm {{.*}} -> tensor<1x2xi32>
// CHECK-NEXT:    [[BIAS:%[0-9]+]] = graph.constant dense<[64, 0]> : tensor<2xi32>
// CHECK-NEXT:    [[Y:%[0-9]+]] = graph.add_bias [[ACC]], [[BIAS]]
// CHECK-NEXT:    graph.dequantize [[Y]] {scales = array<f64: 1.562500e-02, 0.0023622{{[0-9]*}}>, zero_point = 0 : i64}

  // A shift a channel, or one a block: then the channel with the larger weights decides.
  func.func @shifts(%x: tensor<1x1x1x2xf32> {graph.range = #graph.range<-128.0, 127.0>})
      -> tensor<1x2x1x2xf32> {
    %w = graph.constant dense<[[[[1.0]]], [[[16.0]]]]> : tensor<2x1x1x1xf32>
    %c = graph.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>,
        dilations = array<i64: 1, 1>, group = 1 : i64,
        graph.ranges = [#graph.range<-128.0, 127.0>]}
        : (tensor<1x1x1x2xf32>, tensor<2x1x1x1xf32>) -> tensor<1x2x1x2xf32>
    func.return %c : tensor<1x2x1x2xf32>
  }

// CHECK-LABEL: @shifts
// CHECK:         graph.constant dense<[32, 2]> : tensor<2xi32>
// CHECK-NEXT:    graph.constant dense<[6, 2]> : tensor<2xi32>
// BLOCK-LABEL: @shifts
// BLOCK:         graph.constant dense<2> : tensor<2xi32>
// BLOCK-NEXT:    graph.constant dense<2> : tensor<2xi32>
}
