// RUN: vta-opt %s -p quantize | filecheck %s
// RUN: not vta-opt %s -p 'quantize{shift=block}' 2>&1 | filecheck %s --check-prefix TARGET

// What cannot be quantised stays float and says why; its float neighbours that only move or compare
// values stay with it.

// TARGET: shift=block shares shifts in blocks of a target, and there is none

builtin.module {
  func.func @main(%x: tensor<1x2x4x4xf32> {graph.range = #graph.range<-1.0, 1.0>},
                  %n: tensor<1x2x4x4xf32>, %v: tensor<2x1x1x1xf32>, %d: tensor<?x2xf32>)
      -> (tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>, tensor<?x2xf32>) {
    // CHECK: graph.conv {{.*}}graph.host_reason = "its weights are not constant"
    %g = graph.conv %x, %v {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>,
        dilations = array<i64: 1, 1>, group = 2 : i64,
        graph.ranges = [#graph.range<-1.0, 1.0>]}
        : (tensor<1x2x4x4xf32>, tensor<2x1x1x1xf32>) -> tensor<1x2x4x4xf32>
    // CHECK-NEXT: graph.relu {{.*}}graph.host_reason = "its operands stay on the host, where int8 would only lose precision"
    %r = graph.relu %g {graph.ranges = [#graph.range<0.0, 1.0>]}
        : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>
    // CHECK: graph.add {{.*}}graph.host_reason = "its result has no calibrated range"
    %a = graph.add %x, %n : (tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>
    // CHECK: graph.relu {{.*}}graph.host_reason = "shape [?, 2] is not known when compiling"
    %u = graph.relu %d {graph.ranges = [#graph.range<0.0, 1.0>]} : (tensor<?x2xf32>) -> tensor<?x2xf32>
    // CHECK-NOT: quantize
    func.return %r, %a, %u : tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>, tensor<?x2xf32>
  }
}
