// RUN: vta-opt %s -p prune-regions | filecheck %s

// A reshape alone computes nothing: it stays on the host. One beside a pooling costs nothing.
func.func @main(%q: tensor<1x16x1x1xi8>, %r: tensor<1x16x2x2xi8>) -> (tensor<1x16xi8>, tensor<1x16xi8>) {
  %a = graph.composite "vta.reshape"(%q) {codegen = "vta", graph.region = 0 : i64} : (tensor<1x16x1x1xi8>) -> tensor<1x16xi8> {
  ^bb0(%x: tensor<1x16x1x1xi8>):
    %y = graph.reshape %x : (tensor<1x16x1x1xi8>) -> tensor<1x16xi8>
    graph.yield %y : tensor<1x16xi8>
  }
  %p = graph.composite "vta.max_pool"(%r) {codegen = "vta", graph.region = 1 : i64} : (tensor<1x16x2x2xi8>) -> tensor<1x16x1x1xi8> {
  ^bb0(%x: tensor<1x16x2x2xi8>):
    %y = graph.max_pool %x {kernel = array<i64: 2, 2>, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<1x16x2x2xi8>) -> tensor<1x16x1x1xi8>
    graph.yield %y : tensor<1x16x1x1xi8>
  }
  %b = graph.composite "vta.reshape"(%p) {codegen = "vta", graph.region = 1 : i64} : (tensor<1x16x1x1xi8>) -> tensor<1x16xi8> {
  ^bb0(%x: tensor<1x16x1x1xi8>):
    %y = graph.reshape %x : (tensor<1x16x1x1xi8>) -> tensor<1x16xi8>
    graph.yield %y : tensor<1x16xi8>
  }
  func.return %a, %b : tensor<1x16xi8>, tensor<1x16xi8>
}
// CHECK:       graph.reshape %q {graph.host_reason = "not worth a launch: nothing around it runs on the accelerator", graph.host_kind = "cost"}
// CHECK-NEXT:  graph.composite "vta.max_pool"
// CHECK:       graph.composite "vta.reshape"
