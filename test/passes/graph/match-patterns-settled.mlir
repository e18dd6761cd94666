// RUN: vta-opt %s -p "match-patterns{codegen=c},annotate" | filecheck %s

// What the user has settled on the host is in no group; the ops around it are, as far as they match
// without it.
func.func @main(%x: tensor<1x4xf32>, %w: tensor<4x4xf32>) -> tensor<1x4xf32> {
  %a = graph.gemm %x, %w {alpha = 1.0 : f64, beta = 1.0 : f64, trans_a = false, trans_b = true} : (tensor<1x4xf32>, tensor<4x4xf32>) -> tensor<1x4xf32>
  %b = graph.relu %a {graph.host_reason = "kept by the user", graph.host_kind = "user"} : (tensor<1x4xf32>) -> tensor<1x4xf32>
  %c = graph.gemm %b, %w {alpha = 1.0 : f64, beta = 1.0 : f64, trans_a = false, trans_b = true} : (tensor<1x4xf32>, tensor<4x4xf32>) -> tensor<1x4xf32>
  %d = graph.relu %c : (tensor<1x4xf32>) -> tensor<1x4xf32>
  func.return %d : tensor<1x4xf32>
}
// CHECK: graph.composite "c.gemm"(%x, %w) {codegen = "c"}
// CHECK: graph.relu %{{.*}} {graph.host_reason = "kept by the user", graph.host_kind = "user"}
// CHECK: graph.composite "c.gemm_relu"({{.*}}) {codegen = "c"}
