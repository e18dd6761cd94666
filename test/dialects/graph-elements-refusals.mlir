// RUN: vta-opt %s --split-input-file --parsing-diagnostics --verify-diagnostics | filecheck %s

// CHECK: result has shape [1, 5, 4], expected [1, 4, 4]
func.func @refused(%x: tensor<1x2x4xf32>) {
  %y = graph.concat %x, %x {axis = 1 : i64} : (tensor<1x2x4xf32>, tensor<1x2x4xf32>) -> tensor<1x5x4xf32>
  func.return
}

// -----

// CHECK: there is no axis 3 in rank 3
func.func @refused(%x: tensor<1x2x4xf32>) {
  %y = graph.concat %x {axis = 3 : i64} : (tensor<1x2x4xf32>) -> tensor<1x2x4xf32>
  func.return
}

// -----

// CHECK: concat joins tensors of one rank
func.func @refused(%x: tensor<1x2x4xf32>, %v: tensor<1x2xf32>) {
  %y = graph.concat %x, %v {axis = 0 : i64} : (tensor<1x2x4xf32>, tensor<1x2xf32>) -> tensor<2x2x4xf32>
  func.return
}

// -----

// CHECK: 3 elements from 1 on by 2 do not lie in 5
func.func @refused(%x: tensor<5xf32>) {
  %y = graph.slice %x {starts = array<i64: 1>, steps = array<i64: 2>} : (tensor<5xf32>) -> tensor<3xf32>
  func.return
}

// -----

// CHECK: starts must not be negative, steps must be positive
func.func @refused(%x: tensor<5xf32>) {
  %y = graph.slice %x {starts = array<i64: 4>, steps = array<i64: -1>} : (tensor<5xf32>) -> tensor<3xf32>
  func.return
}

// -----

// CHECK: rank 1 needs as many starts, steps and extents
func.func @refused(%x: tensor<5xf32>) {
  %y = graph.slice %x {starts = array<i64: 0, 0>, steps = array<i64: 1>} : (tensor<5xf32>) -> tensor<3xf32>
  func.return
}

// -----

// CHECK: rank 1 needs 2 pads, none negative
func.func @refused(%x: tensor<5xf32>) {
  %y = graph.pad %x {pads = array<i64: -1, 0>, value = 0.0 : f64} : (tensor<5xf32>) -> tensor<4xf32>
  func.return
}

// -----

// CHECK: result has shape [7], expected [8]
func.func @refused(%x: tensor<5xf32>) {
  %y = graph.pad %x {pads = array<i64: 1, 2>, value = 0.0 : f64} : (tensor<5xf32>) -> tensor<7xf32>
  func.return
}

// -----

// CHECK: rank 1 needs as many positive factors
func.func @refused(%x: tensor<5xf32>) {
  %y = graph.upsample %x {factors = array<i64: 0>} : (tensor<5xf32>) -> tensor<0xf32>
  func.return
}

// -----

// CHECK: 3 channels fill no blocks [2, 2]
func.func @refused(%x: tensor<1x3x4x4xf32>) {
  %y = graph.depth_to_space %x {blocks = array<i64: 2, 2>} : (tensor<1x3x4x4xf32>) -> tensor<1x1x8x8xf32>
  func.return
}

// -----

// CHECK: [0, 0] is no permutation of 2 axes
func.func @refused(%x: tensor<5x5xf32>) {
  %y = graph.transpose %x {permutation = array<i64: 0, 0>} : (tensor<5x5xf32>) -> tensor<5x5xf32>
  func.return
}

// -----

// CHECK: shapes [2] and [3] do not broadcast
func.func @refused(%x: tensor<2xf32>, %y: tensor<3xf32>) {
  %z = graph.mul %x, %y : (tensor<2xf32>, tensor<3xf32>) -> tensor<3xf32>
  func.return
}

// -----

// CHECK: the slope has more dimensions than the operand
func.func @refused(%x: tensor<2xf32>, %y: tensor<1x2xf32>) {
  %z = graph.prelu %x, %y : (tensor<2xf32>, tensor<1x2xf32>) -> tensor<2xf32>
  func.return
}

// -----

// CHECK: result has shape [3], expected [2]
func.func @refused(%x: tensor<2xf32>) {
  %z = graph.leaky_relu %x {alpha = 0.1 : f64} : (tensor<2xf32>) -> tensor<3xf32>
  func.return
}

// -----

// CHECK: there are 2 channels, indices start at 0
func.func @refused(%x: tensor<1x2xf32>) {
  %y = graph.take_channels %x {indices = array<i64: 2>} : (tensor<1x2xf32>) -> tensor<1x1xf32>
  func.return
}

// -----

// CHECK: it takes channels: dimension 1 of a tensor
func.func @refused(%x: tensor<2xf32>) {
  %y = graph.take_channels %x {indices = array<i64: 0>} : (tensor<2xf32>) -> tensor<1xf32>
  func.return
}
