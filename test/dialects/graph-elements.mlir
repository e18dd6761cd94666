// RUN: vta-opt %s --verify-roundtrip | filecheck %s

// CHECK-LABEL: @arrangement
func.func @arrangement(%x: tensor<1x2x4x6xf32>, %y: tensor<1x3x4x6xf32>, %u: tensor<?x2xf32>) {
  // CHECK-NEXT: graph.concat %x, %y {axis = 1 : i64} : (tensor<1x2x4x6xf32>, tensor<1x3x4x6xf32>) -> tensor<1x5x4x6xf32>
  %c = graph.concat %x, %y {axis = 1 : i64} : (tensor<1x2x4x6xf32>, tensor<1x3x4x6xf32>) -> tensor<1x5x4x6xf32>
  // CHECK-NEXT: graph.concat %u, %u {axis = 1 : i64} : (tensor<?x2xf32>, tensor<?x2xf32>) -> tensor<?x4xf32>
  %d = graph.concat %u, %u {axis = 1 : i64} : (tensor<?x2xf32>, tensor<?x2xf32>) -> tensor<?x4xf32>
  // CHECK-NEXT: graph.slice %x {starts = array<i64: 0, 1, 0, 1>, steps = array<i64: 1, 1, 1, 2>} : (tensor<1x2x4x6xf32>) -> tensor<1x1x3x3xf32>
  %s = graph.slice %x {starts = array<i64: 0, 1, 0, 1>, steps = array<i64: 1, 1, 1, 2>} : (tensor<1x2x4x6xf32>) -> tensor<1x1x3x3xf32>
  // CHECK-NEXT: graph.pad %x {pads = array<i64: 0, 0, 1, 0, 0, 0, 0, 2>, value = 0.000000e+00 : f64} : (tensor<1x2x4x6xf32>) -> tensor<1x2x5x8xf32>
  %p = graph.pad %x {pads = array<i64: 0, 0, 1, 0, 0, 0, 0, 2>, value = 0.0 : f64} : (tensor<1x2x4x6xf32>) -> tensor<1x2x5x8xf32>
  // CHECK-NEXT: graph.upsample %x {factors = array<i64: 1, 1, 2, 3>} : (tensor<1x2x4x6xf32>) -> tensor<1x2x8x18xf32>
  %r = graph.upsample %x {factors = array<i64: 1, 1, 2, 3>} : (tensor<1x2x4x6xf32>) -> tensor<1x2x8x18xf32>
  // CHECK-NEXT: graph.depth_to_space %x {blocks = array<i64: 2, 1>} : (tensor<1x2x4x6xf32>) -> tensor<1x1x8x6xf32>
  %b = graph.depth_to_space %x {blocks = array<i64: 2, 1>} : (tensor<1x2x4x6xf32>) -> tensor<1x1x8x6xf32>
  // CHECK-NEXT: graph.take_channels %x {indices = array<i64: 1, 0, 1>} : (tensor<1x2x4x6xf32>) -> tensor<1x3x4x6xf32>
  %g = graph.take_channels %x {indices = array<i64: 1, 0, 1>} : (tensor<1x2x4x6xf32>) -> tensor<1x3x4x6xf32>
  // CHECK-NEXT: graph.transpose %x {permutation = array<i64: 0, 2, 3, 1>} : (tensor<1x2x4x6xf32>) -> tensor<1x4x6x2xf32>
  %t = graph.transpose %x {permutation = array<i64: 0, 2, 3, 1>} : (tensor<1x2x4x6xf32>) -> tensor<1x4x6x2xf32>
  func.return
}

// CHECK-LABEL: @elementwise
func.func @elementwise(%x: tensor<1x2x4xf32>, %k: tensor<2x1xf32>) {
  // CHECK-NEXT: graph.sub %x, %k : (tensor<1x2x4xf32>, tensor<2x1xf32>) -> tensor<1x2x4xf32>
  %a = graph.sub %x, %k : (tensor<1x2x4xf32>, tensor<2x1xf32>) -> tensor<1x2x4xf32>
  // CHECK-NEXT: graph.activation %x {operator = "Sigmoid"} : (tensor<1x2x4xf32>) -> tensor<1x2x4xf32>
  %sigmoid = graph.activation %x {operator = "Sigmoid"} : (tensor<1x2x4xf32>) -> tensor<1x2x4xf32>
  // CHECK-NEXT: graph.activation %x {operator = "Elu", alpha = 5.000000e-01 : f64} : (tensor<1x2x4xf32>) -> tensor<1x2x4xf32>
  %elu = graph.activation %x {operator = "Elu", alpha = 0.5 : f64} : (tensor<1x2x4xf32>) -> tensor<1x2x4xf32>
  // CHECK-NEXT: graph.mul %k, %x : (tensor<2x1xf32>, tensor<1x2x4xf32>) -> tensor<1x2x4xf32>
  %b = graph.mul %k, %x : (tensor<2x1xf32>, tensor<1x2x4xf32>) -> tensor<1x2x4xf32>
  // CHECK-NEXT: graph.div %x, %k : (tensor<1x2x4xf32>, tensor<2x1xf32>) -> tensor<1x2x4xf32>
  %c = graph.div %x, %k : (tensor<1x2x4xf32>, tensor<2x1xf32>) -> tensor<1x2x4xf32>
  // CHECK-NEXT: graph.max %x, %k : (tensor<1x2x4xf32>, tensor<2x1xf32>) -> tensor<1x2x4xf32>
  %m = graph.max %x, %k : (tensor<1x2x4xf32>, tensor<2x1xf32>) -> tensor<1x2x4xf32>
  // CHECK-NEXT: graph.min %x, %x : (tensor<1x2x4xf32>, tensor<1x2x4xf32>) -> tensor<1x2x4xf32>
  %n = graph.min %x, %x : (tensor<1x2x4xf32>, tensor<1x2x4xf32>) -> tensor<1x2x4xf32>
  // CHECK-NEXT: graph.neg %x : (tensor<1x2x4xf32>) -> tensor<1x2x4xf32>
  %d = graph.neg %x : (tensor<1x2x4xf32>) -> tensor<1x2x4xf32>
  // CHECK-NEXT: graph.abs %x : (tensor<1x2x4xf32>) -> tensor<1x2x4xf32>
  %i = graph.abs %x : (tensor<1x2x4xf32>) -> tensor<1x2x4xf32>
  // CHECK-NEXT: graph.leaky_relu %x {alpha = 1.000000e-01 : f64} : (tensor<1x2x4xf32>) -> tensor<1x2x4xf32>
  %e = graph.leaky_relu %x {alpha = 0.1 : f64} : (tensor<1x2x4xf32>) -> tensor<1x2x4xf32>
  // CHECK-NEXT: graph.prelu %x, %k : (tensor<1x2x4xf32>, tensor<2x1xf32>) -> tensor<1x2x4xf32>
  %f = graph.prelu %x, %k : (tensor<1x2x4xf32>, tensor<2x1xf32>) -> tensor<1x2x4xf32>
  // CHECK-NEXT: graph.hard_sigmoid %x {alpha = 2.000000e-01 : f64, beta = 5.000000e-01 : f64} : (tensor<1x2x4xf32>) -> tensor<1x2x4xf32>
  %g = graph.hard_sigmoid %x {alpha = 0.2 : f64, beta = 0.5 : f64} : (tensor<1x2x4xf32>) -> tensor<1x2x4xf32>
  // CHECK-NEXT: graph.hard_swish %x : (tensor<1x2x4xf32>) -> tensor<1x2x4xf32>
  %h = graph.hard_swish %x : (tensor<1x2x4xf32>) -> tensor<1x2x4xf32>
  func.return
}
