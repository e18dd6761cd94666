// RUN: vta-opt %s -p 'graph-instantiate,graph-order-instances{order="depth"}' | filecheck %s
// RUN: vta-opt %s -p 'graph-instantiate,graph-order-instances{order="breadth"}' | filecheck %s --check-prefix BREADTH

// Two early instances are gathered for each late one, which needs no others.
// CHECK: graph.instance @early part 0 of 4
// CHECK: graph.instance @early part 1 of 4
// CHECK: %[[Y:.*]] = graph.assemble (%{{.*}} at [0, 0, 0, 0], %{{.*}} at [1, 0, 0, 0])
// CHECK-NEXT: graph.instance @late part 0 of 2 (%{{.*}} = %[[Y]] : tensor<2x16x8x8xi8, #graph.packed<1, 16>>)
// CHECK-NEXT: graph.max_pool
// CHECK: graph.instance @early part 2 of 4
// CHECK: graph.instance @early part 3 of 4
// CHECK: graph.instance @late part 1 of 2
// BREADTH: graph.instance @early part 3 of 4
// BREADTH: graph.instance @late part 0 of 2
func.func private @gather(%x: tensor<4x16x8x8xi8, #graph.packed<1, 16>>) -> tensor<4x16x8x8xi8, #graph.packed<1, 16>> attributes {codegen = "vta", vtac.target = #target.cluster<core = #target.vta<"chisel-pynq">, cores = 2, gb_bytes = 8192, dma = true>} {
  %y = graph.group @early (%x0 = %x : tensor<4x16x8x8xi8, #graph.packed<1, 16>>) -> tensor<4x16x8x8xi8, #graph.packed<1, 16>> attributes {graph.split = [#graph.split<n, factor 4, ops 1>]} {
    %a = graph.max_pool %x0 {kernel = array<i64: 3, 3>, strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (tensor<4x16x8x8xi8, #graph.packed<1, 16>>) -> tensor<4x16x8x8xi8, #graph.packed<1, 16>>
    graph.yield %a : tensor<4x16x8x8xi8, #graph.packed<1, 16>>
  }
  %z = graph.group @late (%y0 = %y : tensor<4x16x8x8xi8, #graph.packed<1, 16>>) -> tensor<4x16x8x8xi8, #graph.packed<1, 16>> attributes {graph.split = [#graph.split<n, factor 2, ops 1>]} {
    %b = graph.max_pool %y0 {kernel = array<i64: 3, 3>, strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (tensor<4x16x8x8xi8, #graph.packed<1, 16>>) -> tensor<4x16x8x8xi8, #graph.packed<1, 16>>
    graph.yield %b : tensor<4x16x8x8xi8, #graph.packed<1, 16>>
  }
  func.return %z : tensor<4x16x8x8xi8, #graph.packed<1, 16>>
}
