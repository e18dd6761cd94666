// RUN: vta-opt %s -p graph-to-te --split-input-file --verify-diagnostics 2>&1 | filecheck %s

builtin.module attributes {vtac.target = #target.vta<"sim">} {
  func.func private @vta_0(%x: tensor<1x2xi8, #graph.packed<1, 16>>, %w: tensor<2x2xi8>) -> tensor<1x2xi32, #graph.packed<1, 16>> attributes {codegen = "vta"} {
    %y = graph.gemm %x, %w {alpha = 1.0 : f64, beta = 1.0 : f64, trans_a = false, trans_b = true} : (tensor<1x2xi8, #graph.packed<1, 16>>, tensor<2x2xi8>) -> tensor<1x2xi32, #graph.packed<1, 16>>
    func.return %y : tensor<1x2xi32, #graph.packed<1, 16>>
  }
}
// CHECK: int32 accumulators would have to leave the accelerator

// -----

builtin.module attributes {vtac.target = #target.vta<"sim">} {
  func.func private @vta_0(%x: tensor<1x2xi8, #graph.packed<2, 8>>) -> tensor<1x2xi8, #graph.packed<2, 8>> attributes {codegen = "vta"} {
    func.return %x : tensor<1x2xi8, #graph.packed<2, 8>>
  }
}
// CHECK: vta_0: it is packed for 2x8, the target is 1x16

// -----

builtin.module attributes {vtac.target = #target.vta<"sim">} {
  func.func private @vta_0(%x: tensor<1x2x2xi8, #graph.packed<1, 16>>) -> tensor<1x4xi8, #graph.packed<1, 16>> attributes {codegen = "vta"} {
    %y = graph.reshape %x : (tensor<1x2x2xi8, #graph.packed<1, 16>>) -> tensor<1x4xi8, #graph.packed<1, 16>>
    func.return %y : tensor<1x4xi8, #graph.packed<1, 16>>
  }
}
// CHECK: the accelerator does not take reshaping [1, 2, 2] to [1, 4]

// -----

builtin.module attributes {vtac.target = #target.vta<"sim">} {
  func.func private @vta_0(%x: tensor<1x2xi8, #graph.packed<1, 16>>) -> tensor<1x2xi8, #graph.packed<1, 16>> attributes {codegen = "vta"} {
    %y = graph.relu %x : (tensor<1x2xi8, #graph.packed<1, 16>>) -> tensor<1x2xi8, #graph.packed<1, 16>>
    func.return %y : tensor<1x2xi8, #graph.packed<1, 16>>
  }
}
// CHECK: graph.relu has no form on the accelerator
