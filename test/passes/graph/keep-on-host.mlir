// RUN: vta-opt %s -p "match-patterns{codegen=c},annotate{keep=second}" | filecheck %s

// A node that the user keeps takes its group along; others go.
func.func @main(%x: tensor<1x4xf32>) -> tensor<1x4xf32> {
  %a = graph.relu %x : (tensor<1x4xf32>) -> tensor<1x4xf32> loc("first")
  %b = graph.relu %a : (tensor<1x4xf32>) -> tensor<1x4xf32> loc("second")
  func.return %b : tensor<1x4xf32>
}
// CHECK: graph.composite "c.relu"
// CHECK: graph.relu %{{.*}} {graph.host_reason = "the user keeps it there", graph.host_kind = "user", graph.host_hint = "Leave it out of --keep-on-host."}
