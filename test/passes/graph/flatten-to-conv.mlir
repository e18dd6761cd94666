// RUN: vta-opt %s -p flatten-to-conv | filecheck %s

// CHECK-LABEL: @image
func.func @image(%x: tensor<?x2x1x2xf32>) -> tensor<?x3xf32> {
  // CHECK: %w = graph.constant dense<{{.*}}> : tensor<3x2x1x2xf32>
  // CHECK: graph.conv %x, %w bias %b {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<?x2x1x2xf32>, tensor<3x2x1x2xf32>, tensor<3xf32>) -> tensor<?x3x1x1xf32>
  // CHECK-NEXT: [[Y:%.*]] = graph.reshape
  // CHECK-NEXT: func.return [[Y]]
  %f = graph.reshape %x : (tensor<?x2x1x2xf32>) -> tensor<?x4xf32>
  %w = graph.constant dense<[[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0], [9.0, 10.0, 11.0, 12.0]]> : tensor<3x4xf32>
  %b = graph.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
  %y = graph.gemm %f, %w bias %b {alpha = 1.0 : f64, beta = 1.0 : f64, trans_a = false, trans_b = true} : (tensor<?x4xf32>, tensor<3x4xf32>, tensor<3xf32>) -> tensor<?x3xf32>
  func.return %y : tensor<?x3xf32>
}

// The rows of the matrix are not the images of the batch.
// CHECK-LABEL: @regrouped
func.func @regrouped(%x: tensor<4x1x1x2xf32>) -> tensor<2x1xf32> {
  // CHECK: graph.gemm
  %f = graph.reshape %x : (tensor<4x1x1x2xf32>) -> tensor<2x4xf32>
  %w = graph.constant dense<1.0> : tensor<1x4xf32>
  %y = graph.gemm %f, %w {alpha = 1.0 : f64, beta = 1.0 : f64, trans_a = false, trans_b = true} : (tensor<2x4xf32>, tensor<1x4xf32>) -> tensor<2x1xf32>
  func.return %y : tensor<2x1xf32>
}

// A gemm that canonicalize-graph has not normalised.
// CHECK-LABEL: @scaled
func.func @scaled(%x: tensor<1x1x2x2xf32>, %w: tensor<1x4xf32>) -> (tensor<1x1xf32>, tensor<1x1xf32>) {
  %f = graph.reshape %x : (tensor<1x1x2x2xf32>) -> tensor<1x4xf32>
  %v = graph.constant dense<1.0> : tensor<1x4xf32>
  // CHECK: graph.gemm
  %y = graph.gemm %f, %v {alpha = 2.0 : f64, beta = 1.0 : f64, trans_a = false, trans_b = true} : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x1xf32>
  // Weights that are not constant.
  // CHECK: graph.gemm
  %z = graph.gemm %f, %w {alpha = 1.0 : f64, beta = 1.0 : f64, trans_a = false, trans_b = true} : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x1xf32>
  func.return %y, %z : tensor<1x1xf32>, tensor<1x1xf32>
}
