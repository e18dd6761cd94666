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

// Too much crosses the border for so little work, whatever the target, once launches are dear.
// RUN: vta-opt %s --target pynq -p "prune-regions{cycles-a-launch=100000}" | filecheck %s --check-prefix DEAR
// RUN: vta-opt %s --target pynq -p "prune-regions{cycles-a-launch=100000 compare=false}" | filecheck %s --check-prefix ALL
// RUN: vta-opt %s --target pynq -p "prune-regions{max-border-bytes=79}" | filecheck %s --check-prefix BORDER
// DEAR:     graph.max_pool {{.*}}graph.host_reason = "its region would take 10{{.*}} cycles on vta, with a launch and 80 bytes across its border; the host takes 4,0{{.*}}", graph.host_kind = "cost"
// ALL:      graph.composite "vta.max_pool"
// BORDER:   graph.max_pool {{.*}}graph.host_reason = "80 bytes cross the border of its region, more than the user wants", graph.host_kind = "cost", graph.host_hint = "Raise --max-border-bytes 79."

// A reshape whose neighbours run on the accelerator, but with which it would make a cycle.
func.func @apart(%q: tensor<1x16x1x1xi8>) -> tensor<1x16xi8> {
  %a = graph.composite "vta.reshape"(%q) {codegen = "vta", graph.region = 0 : i64, graph.apart} : (tensor<1x16x1x1xi8>) -> tensor<1x16xi8> {
  ^bb0(%x: tensor<1x16x1x1xi8>):
    %y = graph.reshape %x : (tensor<1x16x1x1xi8>) -> tensor<1x16xi8>
    graph.yield %y : tensor<1x16xi8>
  }
  func.return %a : tensor<1x16xi8>
}
// CHECK-LABEL: @apart
// CHECK:       graph.reshape %q {graph.host_reason = "not worth a launch of its own, and one function with its neighbours on the accelerator would need its own results: a path between them leads elsewhere", graph.host_kind = "cycle"}
