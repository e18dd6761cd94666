// RUN: vta-opt %s -p quantize | filecheck %s

// What the user has settled on the host stays there; a reason of another kind is no reason.

builtin.module {
  func.func @main(%x: tensor<1x2x4x4xf32> {graph.range = #graph.range<-1.0, 1.0>})
      -> tensor<1x2x4x4xf32> {
    %w = graph.constant dense<1.0> : tensor<2x2x1x1xf32>
    // CHECK: graph.conv {{.*}}graph.host_reason = "kept by the user", graph.host_kind = "user"
    // CHECK-SAME: -> tensor<1x2x4x4xf32>
    %a = graph.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>,
        dilations = array<i64: 1, 1>, group = 1 : i64,
        graph.host_reason = "kept by the user", graph.host_kind = "user",
        graph.ranges = [#graph.range<-2.0, 2.0>]}
        : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
    // CHECK: graph.quantize
    // CHECK: graph.conv {{.*}} -> tensor<1x2x4x4xi32>
    %b = graph.conv %a, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>,
        dilations = array<i64: 1, 1>, group = 1 : i64,
        graph.host_reason = "another codegen did not take it", graph.host_kind = "operator",
        graph.ranges = [#graph.range<-4.0, 4.0>]}
        : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
    func.return %b : tensor<1x2x4x4xf32>
  }
}
