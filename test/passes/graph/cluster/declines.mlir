// RUN: vta-opt %s -p 'graph-split-info' | filecheck %s
// RUN: vta-opt %s -p 'graph-group-layers' | filecheck %s
// RUN: vta-opt %s -p 'graph-plan-instances' | filecheck %s
// RUN: vta-opt %s -p 'graph-instantiate' | filecheck %s
// RUN: vta-opt %s -p 'graph-order-instances{order="depth"}' | filecheck %s
// RUN: vta-opt %s -p 'graph-bind-cores' | filecheck %s
// RUN: vta-opt %s -p 'graph-place-tensors' | filecheck %s
// RUN: vta-opt %s -p 'graph-inline-instances' | filecheck %s

// Every pass of the plan leaves alone what there is nothing to decide about: functions for one core,
// for a cluster of one core without a global buffer, and of other codegens.
// CHECK-LABEL: func.func private @one_core
// CHECK-NEXT: graph.max_pool %x {kernel
// CHECK-SAME: dilations = array<i64: 1, 1>} : (tensor
// CHECK-NEXT: func.return
func.func private @one_core(%x: tensor<2x16x4x4xi8, #graph.packed<1, 16>>) -> tensor<2x16x4x4xi8, #graph.packed<1, 16>> attributes {codegen = "vta", vtac.target = #target.vta<"chisel-pynq">} {
  %y = graph.max_pool %x {kernel = array<i64: 3, 3>, strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (tensor<2x16x4x4xi8, #graph.packed<1, 16>>) -> tensor<2x16x4x4xi8, #graph.packed<1, 16>>
  func.return %y : tensor<2x16x4x4xi8, #graph.packed<1, 16>>
}

// CHECK-LABEL: func.func private @lone
// CHECK-NEXT: graph.max_pool %x {kernel
// CHECK-SAME: dilations = array<i64: 1, 1>} : (tensor
// CHECK-NEXT: func.return
func.func private @lone(%x: tensor<2x16x4x4xi8, #graph.packed<1, 16>>) -> tensor<2x16x4x4xi8, #graph.packed<1, 16>> attributes {codegen = "vta", vtac.target = #target.cluster<core = #target.vta<"chisel-pynq">, cores = 1, gb_bytes = 0, dma = false>} {
  %y = graph.max_pool %x {kernel = array<i64: 3, 3>, strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (tensor<2x16x4x4xi8, #graph.packed<1, 16>>) -> tensor<2x16x4x4xi8, #graph.packed<1, 16>>
  func.return %y : tensor<2x16x4x4xi8, #graph.packed<1, 16>>
}

// CHECK-LABEL: func.func private @other
// CHECK-NEXT: graph.max_pool %x {kernel
// CHECK-SAME: dilations = array<i64: 1, 1>} : (tensor
// CHECK-NEXT: func.return
func.func private @other(%x: tensor<2x16x4x4xi8, #graph.packed<1, 16>>) -> tensor<2x16x4x4xi8, #graph.packed<1, 16>> attributes {codegen = "json", vtac.target = #target.cluster<core = #target.vta<"chisel-pynq">, cores = 4, gb_bytes = 65536, dma = true>} {
  %y = graph.max_pool %x {kernel = array<i64: 3, 3>, strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (tensor<2x16x4x4xi8, #graph.packed<1, 16>>) -> tensor<2x16x4x4xi8, #graph.packed<1, 16>>
  func.return %y : tensor<2x16x4x4xi8, #graph.packed<1, 16>>
}
