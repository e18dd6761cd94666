// RUN: vta-opt %s -p 'graph-group-layers{stage=0 rows=false mode="paper"}' | filecheck %s
// RUN: vta-opt %s -p 'graph-group-layers{stage=0 max_groups=1}' | filecheck %s --check-prefix SINGLE

// Layers of the same size are merged, and the one that halves the rows with them. The layer behind
// it would be cut more finely than it needs: the group ends.
// CHECK-LABEL: func.func private @chain
// CHECK: graph.group @group0 (%{{.*}} = %x : {{.*}}) -> tensor<4x16x4x8xi8, #graph.packed<1, 16>> attributes {graph.splits = [#graph.split<n, factor 2, ops 3>]}
// CHECK: graph.group @group1 (%{{.*}} = %{{.*}} : {{.*}}) -> tensor<4x16x4x8xi8, #graph.packed<1, 16>> attributes {graph.splits = [#graph.split<n, factor 1, ops 1>]}
// SINGLE: graph.group @group3
func.func private @chain(%x: tensor<4x16x8x8xi8, #graph.packed<1, 16>>) -> tensor<4x16x4x8xi8, #graph.packed<1, 16>> attributes {codegen = "vta", vtac.target = #target.cluster<core = #target.vta<"chisel-pynq">, cores = 2, gb_bytes = 4096, dma = true>} {
  %a = graph.max_pool %x {kernel = array<i64: 3, 3>, strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (tensor<4x16x8x8xi8, #graph.packed<1, 16>>) -> tensor<4x16x8x8xi8, #graph.packed<1, 16>>
  %b = graph.max_pool %a {kernel = array<i64: 3, 3>, strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (tensor<4x16x8x8xi8, #graph.packed<1, 16>>) -> tensor<4x16x8x8xi8, #graph.packed<1, 16>>
  %c = graph.max_pool %b {kernel = array<i64: 3, 3>, strides = array<i64: 2, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (tensor<4x16x8x8xi8, #graph.packed<1, 16>>) -> tensor<4x16x4x8xi8, #graph.packed<1, 16>>
  %d = graph.max_pool %c {kernel = array<i64: 3, 3>, strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (tensor<4x16x4x8xi8, #graph.packed<1, 16>>) -> tensor<4x16x4x8xi8, #graph.packed<1, 16>>
  func.return %d : tensor<4x16x4x8xi8, #graph.packed<1, 16>>
}

// CHECK-LABEL: func.func private @one_core
// CHECK-NOT: graph.group
func.func private @one_core(%x: tensor<4x16x8x8xi8, #graph.packed<1, 16>>) -> tensor<4x16x8x8xi8, #graph.packed<1, 16>> attributes {codegen = "vta", vtac.target = #target.vta<"chisel-pynq">} {
  %a = graph.max_pool %x {kernel = array<i64: 3, 3>, strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (tensor<4x16x8x8xi8, #graph.packed<1, 16>>) -> tensor<4x16x8x8xi8, #graph.packed<1, 16>>
  func.return %a : tensor<4x16x8x8xi8, #graph.packed<1, 16>>
}
