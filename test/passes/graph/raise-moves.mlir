// RUN: vta-opt %s -p raise-moves | filecheck %s

// Channels side by side, the first scaled up by 4 and both shifted down by 2: nothing but a move.
// CHECK-LABEL: @joined
// CHECK-NEXT:    [[Y:%[a-z0-9]+]] = graph.concat %a, %b {axis = 1 : i64}
// CHECK-NEXT:    func.return [[Y]]
builtin.module attributes {vtac.target = #target.vta<"sim", log_block = 1, log_inp_buff_size = 10, log_wgt_buff_size = 10, log_acc_buff_size = 10>} {
  func.func @joined(%a: tensor<1x2x3x3xi8>, %b: tensor<1x1x3x3xi8>) -> tensor<1x3x3x3xi8> {
    %v = graph.constant dense<[[[[4]], [[0]]], [[[0]], [[4]]], [[[0]], [[0]]]]> : tensor<3x2x1x1xi8>
    %w = graph.constant dense<[[[[0]]], [[[0]]], [[[4]]]]> : tensor<3x1x1x1xi8>
    %c = graph.constant dense<[2, 2, 3]> : tensor<3xi32>
    %s = graph.constant dense<2> : tensor<3xi32>
    %0 = graph.conv %a, %v {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x2x3x3xi8>, tensor<3x2x1x1xi8>) -> tensor<1x3x3x3xi32>
    %1 = graph.conv %b, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x1x3x3xi8>, tensor<3x1x1x1xi8>) -> tensor<1x3x3x3xi32>
    %2 = graph.add %0, %1 : (tensor<1x3x3x3xi32>, tensor<1x3x3x3xi32>) -> tensor<1x3x3x3xi32>
    %y = graph.requantize %2 bias %c shift %s {lo = -128 : i64, hi = 127 : i64, scale = 1.0 : f64, zero_point = 0 : i64} : (tensor<1x3x3x3xi32>, tensor<3xi32>, tensor<3xi32>) -> tensor<1x3x3x3xi8>
    func.return %y : tensor<1x3x3x3xi8>
  }

// Rows 1 and 2 of channels 2 and 3.
// CHECK-LABEL: @cut
// CHECK-NEXT:    [[Y:%[a-z0-9]+]] = graph.slice %a {starts = array<i64: 0, 2, 1, 0>, steps = array<i64: 1, 1, 1, 1>}
// CHECK-NEXT:    func.return [[Y]]
  func.func @cut(%a: tensor<1x4x4x3xi8>) -> tensor<1x2x2x3xi8> {
    %v = graph.constant dense<[[[[0]], [[0]], [[1]], [[0]]], [[[0]], [[0]], [[0]], [[1]]]]> : tensor<2x4x1x1xi8>
    %c = graph.constant dense<0> : tensor<2xi32>
    %s = graph.constant dense<0> : tensor<2xi32>
    %0 = graph.conv %a, %v {strides = array<i64: 1, 1>, pads = array<i64: -1, 0, -1, 0>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x4x4x3xi8>, tensor<2x4x1x1xi8>) -> tensor<1x2x2x3xi32>
    %y = graph.requantize %0 bias %c shift %s {lo = -128 : i64, hi = 127 : i64, scale = 1.0 : f64, zero_point = 0 : i64} : (tensor<1x2x2x3xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<1x2x2x3xi8>
    func.return %y : tensor<1x2x2x3xi8>
  }

// A channel that is no first one of a block of two, a halved scale, a bias of a whole step, a relu:
// these remain what they are.
// CHECK-LABEL: @remain
// CHECK-COUNT-4: graph.requantize
// CHECK-NOT:     graph.slice
  func.func @remain(%a: tensor<1x2x3x3xi8>) -> (tensor<1x1x3x3xi8>, tensor<1x2x3x3xi8>, tensor<1x2x3x3xi8>, tensor<1x2x3x3xi8>) {
    %v = graph.constant dense<[[[[0]], [[4]]]]> : tensor<1x2x1x1xi8>
    %w = graph.constant dense<[[[[4]], [[0]]], [[[0]], [[4]]]]> : tensor<2x2x1x1xi8>
    %c1 = graph.constant dense<2> : tensor<1xi32>
    %s1 = graph.constant dense<2> : tensor<1xi32>
    %c = graph.constant dense<2> : tensor<2xi32>
    %far = graph.constant dense<4> : tensor<2xi32>
    %s = graph.constant dense<2> : tensor<2xi32>
    %s3 = graph.constant dense<3> : tensor<2xi32>
    %0 = graph.conv %a, %v {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x2x3x3xi8>, tensor<1x2x1x1xi8>) -> tensor<1x1x3x3xi32>
    %1 = graph.conv %a, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x2x3x3xi8>, tensor<2x2x1x1xi8>) -> tensor<1x2x3x3xi32>
    %2 = graph.conv %a, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x2x3x3xi8>, tensor<2x2x1x1xi8>) -> tensor<1x2x3x3xi32>
    %3 = graph.conv %a, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x2x3x3xi8>, tensor<2x2x1x1xi8>) -> tensor<1x2x3x3xi32>
    %p = graph.requantize %0 bias %c1 shift %s1 {lo = -128 : i64, hi = 127 : i64, scale = 1.0 : f64, zero_point = 0 : i64} : (tensor<1x1x3x3xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<1x1x3x3xi8>
    %q = graph.requantize %1 bias %c shift %s3 {lo = -128 : i64, hi = 127 : i64, scale = 1.0 : f64, zero_point = 0 : i64} : (tensor<1x2x3x3xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<1x2x3x3xi8>
    %r = graph.requantize %2 bias %far shift %s {lo = -128 : i64, hi = 127 : i64, scale = 1.0 : f64, zero_point = 0 : i64} : (tensor<1x2x3x3xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<1x2x3x3xi8>
    %t = graph.requantize %3 bias %c shift %s {lo = 0 : i64, hi = 127 : i64, scale = 1.0 : f64, zero_point = 0 : i64} : (tensor<1x2x3x3xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<1x2x3x3xi8>
    func.return %p, %q, %r, %t : tensor<1x1x3x3xi8>, tensor<1x2x3x3xi8>, tensor<1x2x3x3xi8>, tensor<1x2x3x3xi8>
  }
}
