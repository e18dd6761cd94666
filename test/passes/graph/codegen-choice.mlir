// RUN: vta-opt %s -p "match-patterns{codegen=json},match-patterns{codegen=c},annotate,merge-regions{max-ops=3},prune-regions{min-macs=1},outline-regions" | filecheck %s

// Two codegens by priority: json is asked first, and c has nothing left. A region holds three ops at
// most, so the second relu is alone, without products, and goes back to the host.
func.func @main(%x: tensor<1x4x4x4xf32>, %i: tensor<1x4xi64>) -> (tensor<1x2x4x4xf32>, tensor<1x4xi64>) {
  %w = graph.constant dense<1.0> : tensor<2x4x1x1xf32>
  %a = graph.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x4x4x4xf32>, tensor<2x4x1x1xf32>) -> tensor<1x2x4x4xf32>
  %b = graph.relu %a : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>
  %c = graph.add %b, %b : (tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>
  %d = graph.relu %c : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>
  %j = graph.add %i, %i : (tensor<1x4xi64>, tensor<1x4xi64>) -> tensor<1x4xi64>
  func.return %d, %j : tensor<1x2x4x4xf32>, tensor<1x4xi64>
}
// CHECK:       func.func @main
// CHECK:         %c = func.call @json_0(%x)
// CHECK:         graph.relu %c {graph.host_reason = "its region has 0 multiply-accumulates, fewer than the user wants", graph.host_kind = "cost", graph.host_hint = "Lower --min-macs 1."}
// CHECK:         graph.add %i, %i {graph.host_reason = "it is not all in f32, which is what codegen json computes with", graph.host_kind = "type"}
// CHECK:       func.func private @json_0
// CHECK:         graph.composite "json.conv_relu"
// CHECK:         graph.composite "json.add"
// CHECK-NOT:   func.func
