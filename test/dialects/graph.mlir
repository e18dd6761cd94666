// RUN: vta-opt %s --verify-roundtrip | filecheck %s

// CHECK-LABEL: @network
func.func @network(%x: tensor<?x3x8x8xf32>) {
  %w = graph.constant #vtac.resource<"w", "0123456789abcdef"> : tensor<4x3x3x3xf32>
  %b = graph.constant dense<[1.0, -2.5, 0.0, 3.0]> : tensor<4xf32>
  // CHECK: graph.conv %x, %w bias %b {strides = array<i64: 2, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<?x3x8x8xf32>, tensor<4x3x3x3xf32>, tensor<4xf32>) -> tensor<?x4x4x8xf32>
  %y = graph.conv %x, %w bias %b {strides = array<i64: 2, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<?x3x8x8xf32>, tensor<4x3x3x3xf32>, tensor<4xf32>) -> tensor<?x4x4x8xf32>
  // CHECK: graph.batch_norm %y, %b, %b, %b, %b {epsilon = 1.000000e-05 : f64}
  %n = graph.batch_norm %y, %b, %b, %b, %b {epsilon = 1.0e-05 : f64} : (tensor<?x4x4x8xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<?x4x4x8xf32>
  // CHECK: graph.relu %n {graph.ranges = [#graph.range<0.000000e+00, 6.500000e+00>]}
  %r = graph.relu %n {graph.ranges = [#graph.range<0.0, 6.5>]} : (tensor<?x4x4x8xf32>) -> tensor<?x4x4x8xf32>
  // CHECK: graph.clip %r {min = 0.000000e+00 : f64, max = 6.000000e+00 : f64}
  %c = graph.clip %r {min = 0.0 : f64, max = 6.0 : f64} : (tensor<?x4x4x8xf32>) -> tensor<?x4x4x8xf32>
  // CHECK: graph.clip %r :
  %c2 = graph.clip %r : (tensor<?x4x4x8xf32>) -> tensor<?x4x4x8xf32>
  // CHECK: graph.add %c, %c2
  %s = graph.add %c, %c2 : (tensor<?x4x4x8xf32>, tensor<?x4x4x8xf32>) -> tensor<?x4x4x8xf32>
  // CHECK: graph.max_pool %s {kernel = array<i64: 2, 3>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 1>, dilations = array<i64: 1, 1>}
  %m = graph.max_pool %s {kernel = array<i64: 2, 3>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 1>, dilations = array<i64: 1, 1>} : (tensor<?x4x4x8xf32>) -> tensor<?x4x2x4xf32>
  // CHECK: graph.average_pool %m {kernel = array<i64: 2, 2>, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, count_include_pad = true}
  %a = graph.average_pool %m {kernel = array<i64: 2, 2>, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, count_include_pad = true} : (tensor<?x4x2x4xf32>) -> tensor<?x4x1x3xf32>
  // CHECK: graph.global_average_pool %a
  %g = graph.global_average_pool %a : (tensor<?x4x1x3xf32>) -> tensor<?x4x1x1xf32>
  // CHECK: graph.reshape %g
  %f = graph.reshape %g : (tensor<?x4x1x1xf32>) -> tensor<?x4xf32>
  %d = graph.constant dense<1.0> : tensor<2x4xf32>
  %e = graph.constant dense<0.5> : tensor<2xf32>
  // CHECK: graph.gemm %f, %d bias %e {alpha = 1.000000e+00 : f64, beta = 1.000000e+00 : f64, trans_a = false, trans_b = true}
  %h = graph.gemm %f, %d bias %e {alpha = 1.0 : f64, beta = 1.0 : f64, trans_a = false, trans_b = true} : (tensor<?x4xf32>, tensor<2x4xf32>, tensor<2xf32>) -> tensor<?x2xf32>
  %k = graph.constant dense<1.0> : tensor<2x5xf32>
  // CHECK: graph.matmul %h, %k
  %l = graph.matmul %h, %k : (tensor<?x2xf32>, tensor<2x5xf32>) -> tensor<?x5xf32>
  func.return
}

// CHECK-LABEL: @quantised
func.func @quantised(%x: tensor<2x20x4x4xf32>, %vector: tensor<20xi32>) {
  // CHECK: graph.quantize %x {scale = 2.500000e-01 : f64, zero_point = 0 : i64}
  %q = graph.quantize %x {scale = 0.25 : f64, zero_point = 0 : i64} : (tensor<2x20x4x4xf32>) -> tensor<2x20x4x4xi8>
  // CHECK: graph.unfold %q {kernel = array<i64: 1, 3>, strides = array<i64: 1, 2>, pads = array<i64: 0, 1, 0, 0>, dilations = array<i64: 1, 1>, constants = array<i64: 1, 127>} : (tensor<2x20x4x4xi8>) -> tensor<2x62x4x2xi8>
  %uf = graph.unfold %q {kernel = array<i64: 1, 3>, strides = array<i64: 1, 2>, pads = array<i64: 0, 1, 0, 0>, dilations = array<i64: 1, 1>, constants = array<i64: 1, 127>} : (tensor<2x20x4x4xi8>) -> tensor<2x62x4x2xi8>
  // CHECK: graph.pack %q : (tensor<2x20x4x4xi8>) -> tensor<2x20x4x4xi8, #graph.packed<1, 16>>
  %p = graph.pack %q : (tensor<2x20x4x4xi8>) -> tensor<2x20x4x4xi8, #graph.packed<1, 16>>
  // CHECK: graph.unpack %p
  %u = graph.unpack %p : (tensor<2x20x4x4xi8, #graph.packed<1, 16>>) -> tensor<2x20x4x4xi8>
  // CHECK: graph.sum_pool %u {kernel = array<i64: 4, 4>, strides = array<i64: 1, 1>, pads = array<i64: 1, 0, 0, 0>, dilations = array<i64: 1, 1>, pad_value = -128 : i64}
  %sp = graph.sum_pool %u {kernel = array<i64: 4, 4>, strides = array<i64: 1, 1>, pads = array<i64: 1, 0, 0, 0>, dilations = array<i64: 1, 1>, pad_value = -128 : i64} : (tensor<2x20x4x4xi8>) -> tensor<2x20x2x1xi32>
  // CHECK: constants = array<i64>, pad_value = 5 : i64}
  %up = graph.unfold %q {kernel = array<i64: 1, 3>, strides = array<i64: 1, 2>, pads = array<i64: 0, 1, 0, 0>, dilations = array<i64: 1, 1>, constants = array<i64>, pad_value = 5 : i64} : (tensor<2x20x4x4xi8>) -> tensor<2x60x4x2xi8>
  // CHECK: group = 1 : i64, pad_value = -128 : i64}
  %wp = graph.constant dense<1> : tensor<4x20x2x1xi8>
  %cp = graph.conv %q, %wp {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 1, 0>, dilations = array<i64: 1, 1>, group = 1 : i64, pad_value = -128 : i64} : (tensor<2x20x4x4xi8>, tensor<4x20x2x1xi8>) -> tensor<2x4x4x4xi32>
  // CHECK: graph.sum_pool %u {kernel = array<i64: 4, 4>, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
  %s = graph.sum_pool %u {kernel = array<i64: 4, 4>, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<2x20x4x4xi8>) -> tensor<2x20x1x1xi32>
  // CHECK: graph.requantize %s bias %vector shift %vector {lo = 0 : i64, hi = 127 : i64, scale = 5.000000e-01 : f64, zero_point = 0 : i64}
  %r = graph.requantize %s bias %vector shift %vector {lo = 0 : i64, hi = 127 : i64, scale = 0.5 : f64, zero_point = 0 : i64} : (tensor<2x20x1x1xi32>, tensor<20xi32>, tensor<20xi32>) -> tensor<2x20x1x1xi8>
  // CHECK: graph.shift_left %r, %vector
  %l = graph.shift_left %r, %vector : (tensor<2x20x1x1xi8>, tensor<20xi32>) -> tensor<2x20x1x1xi32>
  // CHECK: graph.add_bias %l, %vector
  %a = graph.add_bias %l, %vector : (tensor<2x20x1x1xi32>, tensor<20xi32>) -> tensor<2x20x1x1xi32>
  // CHECK: graph.split_bytes %a
  %b:4 = graph.split_bytes %a : (tensor<2x20x1x1xi32>) -> (tensor<2x20x1x1xi8>, tensor<2x20x1x1xi8>, tensor<2x20x1x1xi8>, tensor<2x20x1x1xi8>)
  // CHECK: graph.join_bytes
  %j = graph.join_bytes %b#0, %b#1, %b#2, %b#3 : (tensor<2x20x1x1xi8>, tensor<2x20x1x1xi8>, tensor<2x20x1x1xi8>, tensor<2x20x1x1xi8>) -> tensor<2x20x1x1xi32>
  // CHECK: graph.dequantize %j {scales = array<f64: 1.250000e-01>, zero_point = 0 : i64}
  %d = graph.dequantize %j {scales = array<f64: 0.125>, zero_point = 0 : i64} : (tensor<2x20x1x1xi32>) -> tensor<2x20x1x1xf32>
  func.return
}

// CHECK-LABEL: @structure
func.func @structure(%x: tensor<2x3xf32>, %flag: tensor<i1>) {
  // CHECK: graph.composite "vta.relu"(%x) {codegen = "vta"} : (tensor<2x3xf32>) -> tensor<2x3xf32> {
  // CHECK: graph.yield
  %c = graph.composite "vta.relu" (%x) {codegen = "vta"} : (tensor<2x3xf32>) -> tensor<2x3xf32> {
  ^bb0(%a: tensor<2x3xf32>):
    %r = graph.relu %a : (tensor<2x3xf32>) -> tensor<2x3xf32>
    graph.yield %r : tensor<2x3xf32>
  }
  // CHECK: graph.host "Softmax"(%c) {domain = "", onnx_attributes = {axis = -1 : i64}}
  %s = graph.host "Softmax" (%c) {domain = "", onnx_attributes = {axis = -1 : i64}} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // An absent second input, an unnamed first output, a tensor of unknown rank, an opaque value.
  // CHECK: graph.host "Foo"(%s, %s)
  // CHECK-SAME: absent = array<i64: 1>
  // CHECK-SAME: absent_outputs = array<i64: 0>
  // CHECK-SAME: -> (tensor<*xf32>, !graph.opaque<"seq(tensor(float))">)
  %f:2 = graph.host "Foo" (%s, %s) {domain = "com.microsoft", onnx_attributes = {kind = "a", weights = array<f32: 1.0>, names = ["p", "q"]}, absent = array<i64: 1>, absent_outputs = array<i64: 0>} : (tensor<2x3xf32>, tensor<2x3xf32>) -> (tensor<*xf32>, !graph.opaque<"seq(tensor(float))">)
  // CHECK: graph.host "If"(%flag) captures(%s : tensor<2x3xf32>)
  // CHECK-SAME: then_branch = #graph.protobuf<"GraphProto", "EgF0">
  // CHECK-SAME: captured_names = ["s"]
  %i = graph.host "If" (%flag) captures (%s : tensor<2x3xf32>) {domain = "", onnx_attributes = {then_branch = #graph.protobuf<"GraphProto", "EgF0">, else_branch = #graph.protobuf<"GraphProto", #vtac.resource<"branch", "0123456789abcdef">>}, captured_names = ["s"]} : (tensor<i1>) -> tensor<2x3xf32>
  func.return
}

// Two entries of 4 rows by two of 16, of which 10 count; the second as weights, if it is packed.
// CHECK-LABEL: @batches
func.func @batches(%a: tensor<8x20xi8, #graph.packed<4, 16>>, %b: tensor<32x20xi8, #graph.packed<16, 16, weights>>, %x: tensor<3x2xf32>) {
  // CHECK: graph.batch_matmul %a, %b {batch = 2 : i64} : (tensor<8x20xi8, #graph.packed<4, 16>>, tensor<32x20xi8, #graph.packed<16, 16, weights>>) -> tensor<8x10xi32, #graph.packed<4, 16>>
  %y = graph.batch_matmul %a, %b {batch = 2 : i64} : (tensor<8x20xi8, #graph.packed<4, 16>>, tensor<32x20xi8, #graph.packed<16, 16, weights>>) -> tensor<8x10xi32, #graph.packed<4, 16>>
  // CHECK: graph.batch_matmul %x, %x {batch = 1 : i64} : (tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<3x3xf32>
  %z = graph.batch_matmul %x, %x {batch = 1 : i64} : (tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<3x3xf32>
  func.return
}
