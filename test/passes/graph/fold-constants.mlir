// RUN: vta-opt %s -p fold-constants | filecheck %s

// CHECK-LABEL: @folds
func.func @folds() -> (tensor<2x2xf32>, tensor<1x1x2xf32>) {
  %a = graph.constant dense<[[1.0, -2.0], [3.0, 0.1]]> : tensor<2x2xf32>
  %b = graph.constant dense<[10.0, 0.2]> : tensor<2xf32>
  // Exact in float32: 0.1 + 0.2 is 0.3 there.
  // CHECK-NEXT: %r = graph.constant dense<{{\[\[}}1.100000e+01, 0.000000e+00], [1.300000e+01, 3.000000e-01]]> : tensor<2x2xf32>
  %s = graph.add %a, %b : (tensor<2x2xf32>, tensor<2xf32>) -> tensor<2x2xf32>
  %r = graph.relu %s : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %x = graph.constant dense<[[[1.0, 2.0, 3.0]]]> : tensor<1x1x3xf32>
  %w = graph.constant dense<[[[1.0, 1.0]]]> : tensor<1x1x2xf32>
  // CHECK-NEXT: graph.constant dense<{{\[\[\[}}3.000000e+00, 5.000000e+00]]]> : tensor<1x1x2xf32>
  %c = graph.conv %x, %w {strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, group = 1 : i64} : (tensor<1x1x3xf32>, tensor<1x1x2xf32>) -> tensor<1x1x2xf32>
  // CHECK-NEXT: func.return
  func.return %r, %c : tensor<2x2xf32>, tensor<1x1x2xf32>
}

// CHECK-LABEL: @declines
func.func @declines(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>, tensor<2xi32>) {
  %b = graph.constant dense<[10.0, 0.2]> : tensor<2xf32>
  // One operand is not constant.
  // CHECK: graph.add %x
  %s = graph.add %x, %b : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  // Operators carried whole mean something to ONNX alone.
  // CHECK: graph.host "Exp"
  %h = graph.host "Exp" (%b) {domain = "", onnx_attributes = {}} : (tensor<2xf32>) -> tensor<2xf32>
  // Integers are accumulators, whose meaning lies elsewhere.
  // CHECK: graph.add
  %i = graph.constant dense<[1, 2]> : tensor<2xi32>
  %j = graph.add %i, %i : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi32>
  func.return %s, %h, %j : tensor<2xf32>, tensor<2xf32>, tensor<2xi32>
}

// A negative pad cuts: windows over 2, 3 and a pad.
// CHECK-LABEL: @cuts
func.func @cuts() -> tensor<1x1x2xf32> {
  %x = graph.constant dense<[[[1.0, 2.0, 3.0]]]> : tensor<1x1x3xf32>
  // CHECK-NEXT: graph.constant dense<{{\[\[\[}}5.000000e+00, 3.000000e+00]]]> : tensor<1x1x2xf32>
  %s = graph.sum_pool %x {kernel = array<i64: 2>, strides = array<i64: 1>, pads = array<i64: -1, 1>, dilations = array<i64: 1>} : (tensor<1x1x3xf32>) -> tensor<1x1x2xf32>
  func.return %s : tensor<1x1x2xf32>
}
