// RUN: vta-opt %s -p te-insert-copies --verify-diagnostics | filecheck %s

// CHECK: x: result 0 has no buffer of its own
// CHECK: It has to be copied, and only int8 can be: tensor<4x1x16xi32>.
func.func private @accumulators(%x: tensor<4x1x16xi32>) -> tensor<4x1x16xi32> attributes {codegen = "vta"} {
  func.return %x : tensor<4x1x16xi32>
}
