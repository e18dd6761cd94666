// RUN: vta-opt %s -p move-transposes | filecheck %s
// REQUIRES: networkx

// The transposes behind one layer and before the next vanish; what stands between has its axes
// renumbered. A value that two ops read needs no transpose for either.
func.func @main(%x: tensor<1x8x8x16xf32>, %w: tensor<16x16x3x3xf32>) -> tensor<1x6x6x16xf32> {
  %x1 = graph.transpose %x {permutation = array<i64: 0, 3, 1, 2>} : (tensor<1x8x8x16xf32>) -> tensor<1x16x8x8xf32>
  %c1 = graph.conv %x1, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x16x8x8xf32>, tensor<16x16x3x3xf32>) -> tensor<1x16x8x8xf32>
  %t1 = graph.transpose %c1 {permutation = array<i64: 0, 2, 3, 1>} : (tensor<1x16x8x8xf32>) -> tensor<1x8x8x16xf32>
  %r = graph.relu %t1 : (tensor<1x8x8x16xf32>) -> tensor<1x8x8x16xf32>
  %k = graph.constant dense<[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]> : tensor<16xf32>
  %m = graph.mul %r, %k : (tensor<1x8x8x16xf32>, tensor<16xf32>) -> tensor<1x8x8x16xf32>
  %s = graph.add %m, %r : (tensor<1x8x8x16xf32>, tensor<1x8x8x16xf32>) -> tensor<1x8x8x16xf32>
  %p = graph.pad %s {pads = array<i64: 0, 1, 0, 0, 0, 0, 2, 0>, value = 0.0} : (tensor<1x8x8x16xf32>) -> tensor<1x9x10x16xf32>
  %h = graph.slice %p {starts = array<i64: 0, 1, 2, 0>, steps = array<i64: 1, 1, 1, 1>} : (tensor<1x9x10x16xf32>) -> tensor<1x8x8x16xf32>
  %x2 = graph.transpose %h {permutation = array<i64: 0, 3, 1, 2>} : (tensor<1x8x8x16xf32>) -> tensor<1x16x8x8xf32>
  %c2 = graph.conv %x2, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x16x8x8xf32>, tensor<16x16x3x3xf32>) -> tensor<1x16x6x6xf32>
  %t2 = graph.transpose %c2 {permutation = array<i64: 0, 2, 3, 1>} : (tensor<1x16x6x6xf32>) -> tensor<1x6x6x16xf32>
  func.return %t2 : tensor<1x6x6x16xf32>
}
// CHECK-LABEL: @main
// CHECK:       graph.transpose %x
// CHECK:       %[[C:.*]] = graph.conv
// CHECK-NEXT:  %[[R:.*]] = graph.relu %[[C]] : (tensor<1x16x8x8xf32>)
// CHECK-NEXT:  %[[K:.*]] = graph.constant {{.*}}tensor<1x16x1x1xf32>
// CHECK-NEXT:  %[[M:.*]] = graph.mul %[[R]], %[[K]]
// CHECK-NEXT:  %[[S:.*]] = graph.add %[[M]], %[[R]]
// CHECK-NEXT:  %[[P:.*]] = graph.pad %[[S]] {pads = array<i64: 0, 0, 1, 0, 0, 0, 0, 2>
// CHECK-NEXT:  %[[H:.*]] = graph.slice %[[P]] {starts = array<i64: 0, 0, 1, 2>
// CHECK-NEXT:  %[[D:.*]] = graph.conv %[[H]]
// CHECK-NEXT:  %[[T:.*]] = graph.transpose %[[D]]
// CHECK-NEXT:  func.return %[[T]]

// A mean over space and a product by a constant matrix are a pooling and a convolution.
func.func @ops(%x: tensor<1x16x8x8xf32>) -> (tensor<1x16xf32>, tensor<1x4x8x8xf32>) {
  %t = graph.transpose %x {permutation = array<i64: 0, 2, 3, 1>} : (tensor<1x16x8x8xf32>) -> tensor<1x8x8x16xf32>
  %m = graph.host "ReduceMean"(%t) {domain = "", onnx_attributes = {axes = array<i64: 1, 2>, keepdims = 0 : i64}} : (tensor<1x8x8x16xf32>) -> tensor<1x16xf32>
  %w = graph.constant dense<1.0> : tensor<16x4xf32>
  %y = graph.matmul %t, %w : (tensor<1x8x8x16xf32>, tensor<16x4xf32>) -> tensor<1x8x8x4xf32>
  %u = graph.transpose %y {permutation = array<i64: 0, 3, 1, 2>} : (tensor<1x8x8x4xf32>) -> tensor<1x4x8x8xf32>
  func.return %m, %u : tensor<1x16xf32>, tensor<1x4x8x8xf32>
}
// CHECK-LABEL: @ops
// CHECK-NOT:   graph.transpose
// CHECK:       graph.global_average_pool %x
// CHECK-NEXT:  graph.reshape {{.*}} -> tensor<1x16xf32>
// CHECK:       graph.conv %x, {{.*}}tensor<4x16x1x1xf32>
// CHECK-NOT:   graph.transpose

// Attention transposes for its own sake: nothing changes.
func.func @attention(%x: tensor<1x4x2x8xf32>) -> tensor<1x2x4x4xf32> {
  %a = graph.transpose %x {permutation = array<i64: 0, 2, 1, 3>} : (tensor<1x4x2x8xf32>) -> tensor<1x2x4x8xf32>
  %b = graph.transpose %x {permutation = array<i64: 0, 2, 3, 1>} : (tensor<1x4x2x8xf32>) -> tensor<1x2x8x4xf32>
  %s = graph.matmul %a, %b : (tensor<1x2x4x8xf32>, tensor<1x2x8x4xf32>) -> tensor<1x2x4x4xf32>
  func.return %s : tensor<1x2x4x4xf32>
}
// CHECK-LABEL: @attention
// CHECK-NEXT:  %[[A:.*]] = graph.transpose %x {permutation = array<i64: 0, 2, 1, 3>}
// CHECK-NEXT:  %[[B:.*]] = graph.transpose %x {permutation = array<i64: 0, 2, 3, 1>}
// CHECK-NEXT:  graph.matmul %[[A]], %[[B]]

// Reductions over a part of space are poolings too; on import, one over axis 2 looks like one.
func.func @parts(%x: tensor<1x16x8x6xf32>) -> (tensor<1x16x1x6xf32>, tensor<1x16x8xf32>) {
  %t = graph.transpose %x {permutation = array<i64: 0, 2, 3, 1>} : (tensor<1x16x8x6xf32>) -> tensor<1x8x6x16xf32>
  %s = graph.host "ReduceSum"(%t) {domain = "", onnx_attributes = {axes = array<i64: 1>}} : (tensor<1x8x6x16xf32>) -> tensor<1x1x6x16xf32>
  %y = graph.transpose %s {permutation = array<i64: 0, 3, 1, 2>} : (tensor<1x1x6x16xf32>) -> tensor<1x16x1x6xf32>
  %m = graph.average_pool %t {kernel = array<i64: 6, 1>, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, count_include_pad = false} : (tensor<1x8x6x16xf32>) -> tensor<1x8x1x16xf32>
  %r = graph.reshape %m : (tensor<1x8x1x16xf32>) -> tensor<1x8x16xf32>
  %z = graph.transpose %r {permutation = array<i64: 0, 2, 1>} : (tensor<1x8x16xf32>) -> tensor<1x16x8xf32>
  func.return %y, %z : tensor<1x16x1x6xf32>, tensor<1x16x8xf32>
}
// CHECK-LABEL: @parts
// CHECK-NOT:   graph.transpose
// CHECK:       graph.sum_pool %x {{.*}} -> tensor<1x16x1x6xf32>
// CHECK:       graph.average_pool %x {{.*}} -> tensor<1x16x8x1xf32>
// CHECK-NOT:   graph.transpose

// Of two places for a transpose, the one behind the relu: the convolution can take up the relu.
func.func @behind(%x: tensor<1x8x6x5xf32>, %w: tensor<8x8x1x1xf32>) -> tensor<1x8x5x6xf32> {
  %c = graph.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x8x6x5xf32>, tensor<8x8x1x1xf32>) -> tensor<1x8x6x5xf32>
  %t = graph.transpose %c {permutation = array<i64: 0, 1, 3, 2>} : (tensor<1x8x6x5xf32>) -> tensor<1x8x5x6xf32>
  %r = graph.relu %t : (tensor<1x8x5x6xf32>) -> tensor<1x8x5x6xf32>
  %d = graph.conv %r, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x8x5x6xf32>, tensor<8x8x1x1xf32>) -> tensor<1x8x5x6xf32>
  func.return %d : tensor<1x8x5x6xf32>
}
// CHECK-LABEL: @behind
// CHECK:       %[[C:.*]] = graph.conv %x
// CHECK-NEXT:  %[[R:.*]] = graph.relu %[[C]]
// CHECK-NEXT:  %[[T:.*]] = graph.transpose %[[R]]
// CHECK-NEXT:  graph.conv %[[T]]
