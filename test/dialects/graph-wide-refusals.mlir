// RUN: vta-opt %s --split-input-file --verify-diagnostics | filecheck %s

func.func @multiplier(%acc: tensor<2x3xi32>) {
  %0 = graph.multiply_shift %acc {multiplier = 32768 : i64, offset = 0 : i64, shift = 0 : i64} : (tensor<2x3xi32>) -> tensor<2x3xi32>
  func.return
}
// CHECK: the multiplier must fit 16 bits

// -----

func.func @bound(%acc: tensor<2x3xi32>, %b: tensor<3xi32>) {
  %high, %low = graph.requantize_planes %acc bias %b shift %b {scale = 0.5 : f64, bound = 32700 : i64} : (tensor<2x3xi32>, tensor<3xi32>, tensor<3xi32>) -> (tensor<2x3xi8>, tensor<2x3xi8>)
  func.return
}
// CHECK: the bound must be 1 to 32639

// -----

func.func @amounts(%acc: tensor<2x3xi32>, %by: tensor<2x1xi32>) {
  %0 = graph.shift_right_by %acc, %by : (tensor<2x3xi32>, tensor<2x1xi32>) -> tensor<2x3xi32>
  func.return
}
// CHECK: one amount for each element
