// RUN: vta-opt %s --split-input-file --parsing-diagnostics --verify-diagnostics | filecheck %s

// CHECK: a 2-D window needs an operand of rank 4
func.func @refused(%x: tensor<1x3x8xf32>, %w: tensor<4x3x3x3xf32>) {
  %y = graph.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x3x8xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x6xf32>
  func.return
}

// -----

// CHECK: a 2-D window needs 2 strides, 2 dilations and 4 pads
func.func @refused(%x: tensor<1x3x8x8xf32>, %w: tensor<4x3x3x3xf32>) {
  %y = graph.conv %x, %w {strides = array<i64: 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x6x6xf32>
  func.return
}

// -----

// CHECK: kernel, strides and dilations must be positive
func.func @refused(%x: tensor<1x3x8x8xf32>) {
  %y = graph.max_pool %x {kernel = array<i64: 2, 2>, strides = array<i64: 0, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<1x3x8x8xf32>) -> tensor<1x3x7x7xf32>
  func.return
}

// -----

// CHECK: result has shape [1, 3, 8, 8], expected [1, 3, 7, 7]
func.func @refused(%x: tensor<1x3x8x8xf32>) {
  %y = graph.max_pool %x {kernel = array<i64: 2, 2>, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<1x3x8x8xf32>) -> tensor<1x3x8x8xf32>
  func.return
}

// -----

// CHECK: result has shape [1, 3, 4, 4], expected [1, 3, 1, 1]
func.func @refused(%x: tensor<1x3x8x8xi8>) {
  %y = graph.sum_pool %x {kernel = array<i64: 8, 8>, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<1x3x8x8xi8>) -> tensor<1x3x4x4xi32>
  func.return
}

// -----

// CHECK: result has shape [1, 3], expected [1, 3, 7, 7]
func.func @refused(%x: tensor<1x3x8x8xf32>) {
  %y = graph.average_pool %x {kernel = array<i64: 2, 2>, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, count_include_pad = false} : (tensor<1x3x8x8xf32>) -> tensor<1x3xf32>
  func.return
}

// -----

// CHECK: input has 6 channels, weights take 2 in each of 2 groups
func.func @refused(%x: tensor<1x6x3x3xf32>, %w: tensor<4x2x3x3xf32>) {
  %y = graph.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 2 : i64} : (tensor<1x6x3x3xf32>, tensor<4x2x3x3xf32>) -> tensor<1x4x1x1xf32>
  func.return
}

// -----

// CHECK: 3 output channels do not divide into 2 groups
func.func @refused(%x: tensor<1x4x3x3xf32>, %w: tensor<3x2x3x3xf32>) {
  %y = graph.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 2 : i64} : (tensor<1x4x3x3xf32>, tensor<3x2x3x3xf32>) -> tensor<1x3x1x1xf32>
  func.return
}

// -----

// CHECK: result has shape [1, 3, 1], expected [1, 3, 1, 1]
func.func @refused(%x: tensor<1x3x8x8xf32>) {
  %y = graph.global_average_pool %x : (tensor<1x3x8x8xf32>) -> tensor<1x3x1xf32>
  func.return
}

// -----

// CHECK: gemm multiplies matrices: both operands must have rank 2
func.func @refused(%a: tensor<1x2x3xf32>, %b: tensor<3x4xf32>) {
  %y = graph.gemm %a, %b {alpha = 1.0 : f64, beta = 1.0 : f64, trans_a = false, trans_b = false} : (tensor<1x2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  func.return
}

// -----

// CHECK: inner extents differ: 3 and 4
func.func @refused(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>) {
  %y = graph.gemm %a, %b {alpha = 1.0 : f64, beta = 1.0 : f64, trans_a = false, trans_b = true} : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  func.return
}

// -----

// CHECK: shapes [2, 3] and [2, 4] do not broadcast
func.func @refused(%a: tensor<2x3xf32>, %b: tensor<2x4xf32>) {
  %y = graph.add %a, %b : (tensor<2x3xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  func.return
}

// -----

// CHECK: result has shape [3, 2], expected [2, 3]
func.func @refused(%x: tensor<2x3xf32>) {
  %y = graph.relu %x : (tensor<2x3xf32>) -> tensor<3x2xf32>
  func.return
}

// -----

// CHECK: result has shape [2], expected [2, 3]
func.func @refused(%x: tensor<2x3xf32>) {
  %y = graph.clip %x : (tensor<2x3xf32>) -> tensor<2xf32>
  func.return
}

// -----

// CHECK: cannot reshape [2, 3] to [7]
func.func @refused(%x: tensor<2x3xf32>) {
  %y = graph.reshape %x : (tensor<2x3xf32>) -> tensor<7xf32>
  func.return
}

// -----

// CHECK: result has shape [2, 4], expected [2, 3]
func.func @refused(%x: tensor<2x3xf32>, %v: tensor<3xf32>) {
  %y = graph.batch_norm %x, %v, %v, %v, %v {epsilon = 1.0e-05 : f64} : (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<2x4xf32>
  func.return
}

// -----

// CHECK: result has shape [3], expected [2, 3]
func.func @refused(%x: tensor<2x3xf32>) {
  %y = graph.quantize %x {scale = 1.0 : f64, zero_point = 0 : i64} : (tensor<2x3xf32>) -> tensor<3xi8>
  func.return
}

// -----

// CHECK: 2 scales do not fit shape [2, 3]
func.func @refused(%x: tensor<2x3xi8>) {
  %y = graph.dequantize %x {scales = array<f64: 1.0, 2.0>, zero_point = 0 : i64} : (tensor<2x3xi8>) -> tensor<2x3xf32>
  func.return
}

// -----

// CHECK: shift_left leaves int32 accumulators
func.func @refused(%x: tensor<2x3xi8>, %v: tensor<3xi32>) {
  %y = graph.shift_left %x, %v : (tensor<2x3xi8>, tensor<3xi32>) -> tensor<2x3xi8>
  func.return
}

// -----

// CHECK: amount must be tensor<3xi32>, one entry per channel
func.func @refused(%x: tensor<2x3xi8>, %v: tensor<2xi32>) {
  %y = graph.shift_left %x, %v : (tensor<2x3xi8>, tensor<2xi32>) -> tensor<2x3xi32>
  func.return
}

// -----

// CHECK: shift must be tensor<3xi32>, one entry per channel
func.func @refused(%x: tensor<2x3xi32>, %v: tensor<3xi32>, %s: tensor<3xi8>) {
  %y = graph.requantize %x bias %v shift %s {lo = 0 : i64, hi = 1 : i64, scale = 1.0 : f64, zero_point = 0 : i64} : (tensor<2x3xi32>, tensor<3xi32>, tensor<3xi8>) -> tensor<2x3xi8>
  func.return
}

// -----

// CHECK: requantize takes int32 accumulators to int8
func.func @refused(%x: tensor<2x3xi32>, %v: tensor<3xi32>) {
  %y = graph.requantize %x bias %v shift %v {lo = 0 : i64, hi = 1 : i64, scale = 1.0 : f64, zero_point = 0 : i64} : (tensor<2x3xi32>, tensor<3xi32>, tensor<3xi32>) -> tensor<2x3xi32>
  func.return
}

// -----

// CHECK: bounds must satisfy -128 <= lo <= hi <= 127
func.func @refused(%x: tensor<2x3xi32>, %v: tensor<3xi32>) {
  %y = graph.requantize %x bias %v shift %v {lo = 0 : i64, hi = 128 : i64, scale = 1.0 : f64, zero_point = 0 : i64} : (tensor<2x3xi32>, tensor<3xi32>, tensor<3xi32>) -> tensor<2x3xi8>
  func.return
}

// -----

// CHECK: bias must be tensor<3xi32>, one entry per channel
func.func @refused(%x: tensor<2x3xi32>, %v: tensor<1xi32>) {
  %y = graph.add_bias %x, %v : (tensor<2x3xi32>, tensor<1xi32>) -> tensor<2x3xi32>
  func.return
}

// -----

// CHECK: an int32 tensor has 4 byte planes
func.func @refused(%x: tensor<2x3xi32>) {
  %y:2 = graph.split_bytes %x : (tensor<2x3xi32>) -> (tensor<2x3xi8>, tensor<2x3xi8>)
  func.return
}

// -----

// CHECK: pack goes from a plain tensor to a packed one
func.func @refused(%x: tensor<2x3xi8>) {
  %y = graph.pack %x : (tensor<2x3xi8>) -> tensor<2x3xi8>
  func.return
}

// -----

// CHECK: unpack goes from a packed tensor to a plain one
func.func @refused(%x: tensor<2x3xi8>) {
  %y = graph.unpack %x : (tensor<2x3xi8>) -> tensor<2x3xi8>
  func.return
}

// -----

// CHECK: each captured value needs a name in captured_names
func.func @refused(%x: tensor<2xf32>) {
  %y = graph.host "If" (%x) captures (%x : tensor<2xf32>) {domain = "", onnx_attributes = {}} : (tensor<2xf32>) -> tensor<2xf32>
  func.return
}

// -----

// CHECK: the body's arguments must have the types of the inputs
func.func @refused(%x: tensor<2xf32>) {
  %y = graph.composite "p" (%x) : (tensor<2xf32>) -> tensor<2xf32> {
  ^bb0(%a: tensor<3xf32>):
    graph.yield %a : tensor<3xf32>
  }
  func.return
}

// -----

// CHECK: the body must yield values of the types of the outputs
func.func @refused(%x: tensor<2xf32>) {
  %y = graph.composite "p" (%x) : (tensor<2xf32>) -> tensor<3xf32> {
  ^bb0(%a: tensor<2xf32>):
    graph.yield %a : tensor<2xf32>
  }
  func.return
}

// -----

// CHECK: value is tensor<2xf32>, result is tensor<3xf32>
func.func @refused() {
  %y = "graph.constant"() <{value = dense<1.0> : tensor<2xf32>}> : () -> tensor<3xf32>
  func.return
}

// -----

// CHECK: range must be finite with lo <= hi, not [2.0, 1.0]
func.func @refused() {
  "test.op"() {range = #graph.range<2.0, 1.0>} : () -> ()
  func.return
}

// -----

// CHECK: batch and block of a packed layout must be positive
func.func @refused() {
  "test.op"() {layout = #graph.packed<0, 16>} : () -> ()
  func.return
}

// -----

// CHECK: 'NodeProto' is none of the ONNX messages TensorProto, SparseTensorProto, GraphProto, TypeProto
func.func @refused() {
  "test.op"() {p = #graph.protobuf<"NodeProto", "">} : () -> ()
  func.return
}

// -----

// CHECK: the bytes of a protobuf are base64 or a resource
func.func @refused() {
  "test.op"() {p = #graph.protobuf<"GraphProto", "?">} : () -> ()
  func.return
}

// -----

// CHECK: inner extents differ: 4 and 3
func.func @refused(%a: tensor<2x4xf32>, %b: tensor<3x5xf32>) {
  %y = graph.matmul %a, %b : (tensor<2x4xf32>, tensor<3x5xf32>) -> tensor<2x5xf32>
  func.return
}

// -----

// CHECK: result has shape [2, 5], expected [7, 2, 5]
func.func @refused(%a: tensor<2x4xf32>, %b: tensor<7x4x5xf32>) {
  %y = graph.matmul %a, %b : (tensor<2x4xf32>, tensor<7x4x5xf32>) -> tensor<2x5xf32>
  func.return
}

// -----

// CHECK: matmul multiplies vectors and matrices, not scalars
func.func @refused(%a: tensor<f32>) {
  %y = graph.matmul %a, %a : (tensor<f32>, tensor<f32>) -> tensor<f32>
  func.return
}

// -----

// CHECK: join_bytes makes int32 of four int8 planes
func.func @refused(%a: tensor<2xi8>) {
  %y = graph.join_bytes %a, %a, %a, %a : (tensor<2xi8>, tensor<2xi8>, tensor<2xi8>, tensor<2xi8>) -> tensor<2xi8>
  func.return
}

// -----

// CHECK: result has shape [3], expected [2]
func.func @refused(%a: tensor<2xi8>) {
  %y = graph.join_bytes %a, %a, %a, %a : (tensor<2xi8>, tensor<2xi8>, tensor<2xi8>, tensor<2xi8>) -> tensor<3xi32>
  func.return
}

// -----

// CHECK: result has shape [1, 27, 2, 2], expected [1, 28, 2, 2]
func.func @refused(%x: tensor<1x3x4x4xi8>) {
  %y = graph.unfold %x {kernel = array<i64: 3, 3>, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, constants = array<i64: 1>} : (tensor<1x3x4x4xi8>) -> tensor<1x27x2x2xi8>
  func.return
}

// -----

// CHECK: constant channels hold int8 values
func.func @refused(%x: tensor<1x3x4xi8>) {
  %y = graph.unfold %x {kernel = array<i64: 1>, strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, constants = array<i64: 128>} : (tensor<1x3x4xi8>) -> tensor<1x4x4xi8>
  func.return
}

// -----

// CHECK: only int8 tensors have constant channels
func.func @refused(%x: tensor<1x3x4xf32>) {
  %y = graph.unfold %x {kernel = array<i64: 1>, strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, constants = array<i64: 1>} : (tensor<1x3x4xf32>) -> tensor<1x4x4xf32>
  func.return
}

// -----

// CHECK: unfold moves elements and keeps their type
func.func @refused(%x: tensor<1x3x4xi8>) {
  %y = graph.unfold %x {kernel = array<i64: 1>, strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, constants = array<i64>} : (tensor<1x3x4xi8>) -> tensor<1x3x4xf32>
  func.return
}

// -----

// CHECK: only windows over int8 have a pad_value; floats are padded with 0
func.func @refused(%x: tensor<1x4x3x3xf32>, %w: tensor<4x4x3x3xf32>) {
  %y = graph.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64, pad_value = -128 : i64} : (tensor<1x4x3x3xf32>, tensor<4x4x3x3xf32>) -> tensor<1x4x3x3xf32>
  func.return
}

// -----

// CHECK: the pad_value 128 is no int8
func.func @refused(%x: tensor<1x4x3x3xi8>) {
  %y = graph.sum_pool %x {kernel = array<i64: 3, 3>, strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, pad_value = 128 : i64} : (tensor<1x4x3x3xi8>) -> tensor<1x4x3x3xi32>
  func.return
}

// -----

// CHECK: batch_matmul multiplies matrices of known shapes
func.func @refused(%a: tensor<?x4xi8>, %b: tensor<6x4xi8>) {
  %y = graph.batch_matmul %a, %b {batch = 1 : i64} : (tensor<?x4xi8>, tensor<6x4xi8>) -> tensor<?x6xi32>
  func.return
}

// -----

// CHECK: 5 and 6 rows do not divide into 2 entries
func.func @refused(%a: tensor<5x4xi8>, %b: tensor<6x4xi8>) {
  %y = graph.batch_matmul %a, %b {batch = 2 : i64} : (tensor<5x4xi8>, tensor<6x4xi8>) -> tensor<5x3xi32>
  func.return
}

// -----

// CHECK: inner extents differ: 4 and 3
func.func @refused(%a: tensor<4x4xi8>, %b: tensor<6x3xi8>) {
  %y = graph.batch_matmul %a, %b {batch = 2 : i64} : (tensor<4x4xi8>, tensor<6x3xi8>) -> tensor<4x3xi32>
  func.return
}

// -----

// CHECK: 4 columns need as many rows in each entry of b, not 3
func.func @refused(%a: tensor<4x4xi8>, %b: tensor<6x4xi8>) {
  %y = graph.batch_matmul %a, %b {batch = 2 : i64} : (tensor<4x4xi8>, tensor<6x4xi8>) -> tensor<4x4xi32>
  func.return
}

// -----

// CHECK: batch_matmul takes int8 to int32, or floats of one type
func.func @refused(%a: tensor<4x4xi8>, %b: tensor<6x4xi8>) {
  %y = graph.batch_matmul %a, %b {batch = 2 : i64} : (tensor<4x4xi8>, tensor<6x4xi8>) -> tensor<4x3xi8>
  func.return
}

// -----

// CHECK: b is packed as weights are: <BLOCK, BLOCK, weights>
func.func @refused(%a: tensor<4x4xi8, #graph.packed<1, 4>>, %b: tensor<6x4xi8, #graph.packed<1, 4>>) {
  %y = graph.batch_matmul %a, %b {batch = 1 : i64} : (tensor<4x4xi8, #graph.packed<1, 4>>, tensor<6x4xi8, #graph.packed<1, 4>>) -> tensor<4x6xi32, #graph.packed<1, 4>>
  func.return
}

// -----

// CHECK: an element of weights has as many rows as lanes
func.func @refused(%a: tensor<4x4xi8, #graph.packed<1, 4>>, %b: tensor<6x4xi8, #graph.packed<1, 4, weights>>) {
  %y = graph.batch_matmul %a, %b {batch = 1 : i64} : (tensor<4x4xi8, #graph.packed<1, 4>>, tensor<6x4xi8, #graph.packed<1, 4, weights>>) -> tensor<4x6xi32, #graph.packed<1, 4>>
  func.return
}
