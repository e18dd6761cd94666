// RUN: vta-opt %s -p 'graph-instantiate,graph-order-instances{order="depth"},graph-bind-cores,graph-inline-instances' | filecheck %s

// Layers stand in the order of their instances, with their bindings.
// CHECK-LABEL: func.func private @gather
// CHECK-NOT: graph.instance
// CHECK: graph.max_pool %{{.*}} {graph.binding = #graph.binding<n = 1, h = 2, c = 1>
// CHECK: graph.max_pool %{{.*}} {graph.binding = #graph.binding<n = 1, h = 2, c = 1>
// CHECK-NEXT: %[[Y:.*]] = graph.assemble
// CHECK-NEXT: graph.max_pool %[[Y]] {graph.binding = #graph.binding<n = 2, h = 1, c = 1>
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
