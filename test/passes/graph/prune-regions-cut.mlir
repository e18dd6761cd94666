// RUN: vta-opt %s --target pynq -p prune-regions | filecheck %s
// REQUIRES: networkx

// A pooling with windows of 24x24 takes the accelerator longer than a host that reads 400 bytes per
// cycle, so much that the region is slower there. Only the pooling goes back: the convolution before
// it stays. The host that is assumed by default is slower than the accelerator.
func.func @main(%x: tensor<1x16x24x24xi8>) -> tensor<1x16x1x1xi8> {
  %c = graph.composite "vta.conv"(%x) {codegen = "vta", graph.region = 0 : i64} : (tensor<1x16x24x24xi8>) -> tensor<1x16x24x24xi8> {
  ^bb0(%a: tensor<1x16x24x24xi8>):
    %w = graph.constant dense<1> : tensor<16x16x3x3xi8>
    %bias = graph.constant dense<0> : tensor<16xi32>
    %y = graph.conv %a, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x16x24x24xi8>, tensor<16x16x3x3xi8>) -> tensor<1x16x24x24xi32>
    %q = graph.requantize %y bias %bias shift %bias {lo = -128 : i64, hi = 127 : i64, scale = 1.0 : f64, zero_point = 0 : i64} : (tensor<1x16x24x24xi32>, tensor<16xi32>, tensor<16xi32>) -> tensor<1x16x24x24xi8>
    graph.yield %q : tensor<1x16x24x24xi8>
  }
  %p = graph.composite "vta.max_pool"(%c) {codegen = "vta", graph.region = 0 : i64} : (tensor<1x16x24x24xi8>) -> tensor<1x16x1x1xi8> {
  ^bb0(%a: tensor<1x16x24x24xi8>):
    %y = graph.max_pool %a {kernel = array<i64: 24, 24>, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<1x16x24x24xi8>) -> tensor<1x16x1x1xi8>
    graph.yield %y : tensor<1x16x1x1xi8>
  }
  func.return %p : tensor<1x16x1x1xi8>
}
// CHECK-LABEL: @main
// CHECK:       graph.composite "vta.conv"
// CHECK:       graph.composite "vta.max_pool"

// RUN: vta-opt %s --target pynq -p "prune-regions{cycles-an-op=0 bytes-a-cycle=400 macs-a-cycle=100}" | filecheck %s --check-prefix CUT
// CUT:      graph.composite "vta.conv"
// CUT:      graph.max_pool {{.*}}graph.host_reason = "its region is cut here: with 1 of its 2 groups of ops on the host it takes {{.*}} cycles, all on the host {{.*}}", graph.host_kind = "cost"
