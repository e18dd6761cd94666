// RUN: vta-opt %s -p conv-transpose-phases | filecheck %s

// Stride 2, two taps: two phases of one tap each are two groups of channels; the relu goes along.
func.func @phases(%x: tensor<1x3x4xf32>) -> tensor<1x1x8xf32> {
  %w = graph.constant dense<[[[1.0, 2.0]], [[3.0, 4.0]], [[5.0, 6.0]]]> : tensor<3x1x2xf32>
  %y = graph.host "ConvTranspose"(%x, %w) {onnx_attributes = {strides = array<i64: 2>}, domain = ""} : (tensor<1x3x4xf32>, tensor<3x1x2xf32>) -> tensor<1x1x8xf32>
  %r = graph.relu %y : (tensor<1x1x8xf32>) -> tensor<1x1x8xf32>
  func.return %r : tensor<1x1x8xf32>
}
// CHECK:      func.func @phases
// CHECK:        %w_1 = graph.constant dense<{{\[\[\[}}1.0{{.*}}], [3.0{{.*}}], [5.0{{.*}}]], {{\[\[}}2.0{{.*}}], [4.0{{.*}}], [6.0{{.*}}]]]> : tensor<2x3x1xf32>
// CHECK-NEXT:   [[c:%.*]] = graph.conv %x, %w_1 {{.*}} -> tensor<1x2x4xf32>
// CHECK-NEXT:   [[r:%.*]] = graph.relu [[c]]
// CHECK-NEXT:   graph.depth_to_space [[r]] {blocks = array<i64: 2>} : (tensor<1x2x4xf32>) -> tensor<1x1x8xf32>

// Dilation beside a stride stays on the host.
func.func @dilated(%x: tensor<1x3x4xf32>) -> tensor<1x1x9xf32> {
  %w = graph.constant dense<1.0> : tensor<3x1x2xf32>
  %y = graph.host "ConvTranspose"(%x, %w) {onnx_attributes = {strides = array<i64: 2>, dilations = array<i64: 2>}, domain = ""} : (tensor<1x3x4xf32>, tensor<3x1x2xf32>) -> tensor<1x1x9xf32>
  func.return %y : tensor<1x1x9xf32>
}
// CHECK:      func.func @dilated
// CHECK:        graph.host "ConvTranspose"
