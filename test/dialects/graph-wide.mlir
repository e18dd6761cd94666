// RUN: vta-opt %s | filecheck %s
// RUN: vta-opt %s --print-op-generic | vta-opt | filecheck %s

func.func @wide(%acc: tensor<2x3xi32>, %by: tensor<2x3xi32>, %b: tensor<3xi32>) -> (tensor<2x3xi8>, tensor<2x3xi8>) {
  %0 = graph.multiply_shift %acc {multiplier = -3 : i64, offset = 70000 : i64, shift = 4 : i64} : (tensor<2x3xi32>) -> tensor<2x3xi32>
  %1 = graph.shift_right_by %0, %by : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32>
  %high, %low = graph.requantize_planes %1 bias %b shift %b {scale = 0.5 : f64, bound = 16200 : i64} : (tensor<2x3xi32>, tensor<3xi32>, tensor<3xi32>) -> (tensor<2x3xi8>, tensor<2x3xi8>)
  func.return %high, %low : tensor<2x3xi8>, tensor<2x3xi8>
}
// CHECK:       graph.multiply_shift %acc {multiplier = -3 : i64, offset = 70000 : i64, shift = 4 : i64}
// CHECK-NEXT:  graph.shift_right_by %0, %by
// CHECK-NEXT:  graph.requantize_planes %1 bias %b shift %b
// CHECK-SAME:  bound = 16200 : i64
