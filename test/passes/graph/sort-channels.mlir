// RUN: vta-opt %s -p sort-channels | filecheck %s

// Channels 0 and 2 form a block: the rows that make them, the depthwise weights, bias and shift move,
// and so do the columns that read them.
// CHECK-LABEL: @between
// CHECK-DAG:     [[V:%[a-z0-9_]+]] = graph.constant dense<{{\[\[}}{{\[\[}}1]]], {{\[\[\[}}3]]], {{\[\[\[}}2]]]]> : tensor<3x1x1x1xi8>
// CHECK-DAG:     [[S:%[a-z0-9_]+]] = graph.constant dense<[4, 4, 9]> : tensor<3xi32>
// CHECK-DAG:     [[W:%[a-z0-9_]+]] = graph.constant dense<{{\[\[\[\[}}5]], {{\[\[}}7]], {{\[\[}}6]]]]> : tensor<1x3x1x1xi8>
// CHECK-NOT:     graph.channel_blocks
builtin.module {
  func.func @between(%x: tensor<1x1x2x2xi8>) -> tensor<1x1x2x2xi32> {
    %v = graph.constant dense<[[[[1]]], [[[2]]], [[[3]]]]> : tensor<3x1x1x1xi8>
    %c = graph.constant dense<0> : tensor<3xi32>
    %s = graph.constant dense<[4, 9, 4]> : tensor<3xi32>
    %w = graph.constant dense<[[[[5]], [[6]], [[7]]]]> : tensor<1x3x1x1xi8>
    %0 = graph.conv %x, %v {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x1x2x2xi8>, tensor<3x1x1x1xi8>) -> tensor<1x3x2x2xi32>
    %1 = graph.requantize %0 bias %c shift %s {graph.channel_blocks = array<i64: 0, 1, 0>, lo = -128 : i64, hi = 127 : i64, scale = 1.0 : f64, zero_point = 0 : i64} : (tensor<1x3x2x2xi32>, tensor<3xi32>, tensor<3xi32>) -> tensor<1x3x2x2xi8>
    %2 = graph.conv %1, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x3x2x2xi8>, tensor<1x3x1x1xi8>) -> tensor<1x1x2x2xi32>
    func.return %2 : tensor<1x1x2x2xi32>
  }

// A result keeps its order, also through what takes each channel by itself.
// CHECK-LABEL: @result
// CHECK:         graph.constant dense<[4, 9, 4]> : tensor<3xi32>
// CHECK-NOT:     graph.channel_blocks
  func.func @result(%x: tensor<1x1x2x2xi8>) -> tensor<1x3x1x1xi8> {
    %v = graph.constant dense<[[[[1]]], [[[2]]], [[[3]]]]> : tensor<3x1x1x1xi8>
    %c = graph.constant dense<0> : tensor<3xi32>
    %s = graph.constant dense<[4, 9, 4]> : tensor<3xi32>
    %0 = graph.conv %x, %v {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x1x2x2xi8>, tensor<3x1x1x1xi8>) -> tensor<1x3x2x2xi32>
    %1 = graph.requantize %0 bias %c shift %s {graph.channel_blocks = array<i64: 0, 1, 0>, lo = -128 : i64, hi = 127 : i64, scale = 1.0 : f64, zero_point = 0 : i64} : (tensor<1x3x2x2xi32>, tensor<3xi32>, tensor<3xi32>) -> tensor<1x3x2x2xi8>
    %2 = graph.max_pool %1 {kernel = array<i64: 2, 2>, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<1x3x2x2xi8>) -> tensor<1x3x1x1xi8>
    func.return %2 : tensor<1x3x1x1xi8>
  }
}
