// RUN: vta-opt %s | vta-opt | filecheck %s
// RUN: vta-opt %s --print-op-generic | vta-opt | filecheck %s

// CHECK-LABEL: func.func @instances
func.func @instances(%x: tensor<4x20x6x6xi8, #graph.packed<1, 16>>) -> tensor<4x20x6x6xi8, #graph.packed<1, 16>> {
  // CHECK-NEXT: %[[A:.*]] = graph.instance @pool part 0 of 2 (%[[X:.*]] = %x : tensor<4x20x6x6xi8, #graph.packed<1, 16>>) -> tensor<4x20x4x6xi8, #graph.packed<1, 16>> {
  %a = graph.instance @pool part 0 of 2 (%x0 = %x : tensor<4x20x6x6xi8, #graph.packed<1, 16>>) -> tensor<4x20x4x6xi8, #graph.packed<1, 16>> {
    // CHECK-NEXT: %[[W:.*]] = graph.window %[[X]] [:, :, 0:5, :] : tensor<4x20x6x6xi8, #graph.packed<1, 16>>
    %w = graph.window %x0 [:, :, 0:5, :] : tensor<4x20x6x6xi8, #graph.packed<1, 16>>
    // CHECK-NEXT: graph.max_pool %[[W]] {graph.binding = #graph.binding<n = 2, h = 4, c = 1>, graph.places = [#graph.place<gb, 65536>]
    %y = graph.max_pool %w {graph.binding = #graph.binding<n = 2, h = 4, c = 1>, graph.places = [#graph.place<gb, 65536>], kernel = array<i64: 3, 3>, strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 0, 1>, dilations = array<i64: 1, 1>} : (tensor<4x20x5x6xi8, #graph.packed<1, 16>>) -> tensor<4x20x4x6xi8, #graph.packed<1, 16>>
    // CHECK-NEXT: graph.yield
    graph.yield %y : tensor<4x20x4x6xi8, #graph.packed<1, 16>>
  }
  // CHECK: %[[B:.*]] = graph.instance @pool part 1 of 2
  %b = graph.instance @pool part 1 of 2 (%x1 = %x : tensor<4x20x6x6xi8, #graph.packed<1, 16>>) -> tensor<4x20x2x6xi8, #graph.packed<1, 16>> {
    %w = graph.window %x1 [:, :, 3:6, :] : tensor<4x20x6x6xi8, #graph.packed<1, 16>>
    // CHECK: graph.max_pool %{{.*}} {graph.binding = #graph.binding<n = 1, h = 2, c = 1, first = 6>, graph.places = [#graph.place<ddr>]
    %y = graph.max_pool %w {graph.binding = #graph.binding<n = 1, h = 2, c = 1, first = 6>, graph.places = [#graph.place<ddr>], kernel = array<i64: 3, 3>, strides = array<i64: 1, 1>, pads = array<i64: 0, 1, 1, 1>, dilations = array<i64: 1, 1>} : (tensor<4x20x3x6xi8, #graph.packed<1, 16>>) -> tensor<4x20x2x6xi8, #graph.packed<1, 16>>
    graph.yield %y : tensor<4x20x2x6xi8, #graph.packed<1, 16>>
  }
  // CHECK: graph.assemble (%[[A]] at [0, 0, 0, 0], %[[B]] at [0, 0, 4, 0]) : (tensor<4x20x4x6xi8, #graph.packed<1, 16>>, tensor<4x20x2x6xi8, #graph.packed<1, 16>>) -> tensor<4x20x6x6xi8, #graph.packed<1, 16>>
  %y = graph.assemble (%a at [0, 0, 0, 0], %b at [0, 0, 4, 0]) : (tensor<4x20x4x6xi8, #graph.packed<1, 16>>, tensor<4x20x2x6xi8, #graph.packed<1, 16>>) -> tensor<4x20x6x6xi8, #graph.packed<1, 16>>
  func.return %y : tensor<4x20x6x6xi8, #graph.packed<1, 16>>
}

// CHECK-LABEL: func.func @group
func.func @group(%x: tensor<4x20xi8>) -> (tensor<4x20xi8>, tensor<4x20xi8>) {
  // CHECK-NEXT: %{{.*}}, %{{.*}} = graph.group @stage1 (%{{.*}} = %x : tensor<4x20xi8>) -> (tensor<4x20xi8>, tensor<4x20xi8>) attributes {graph.split = [#graph.split<n, factor 2, ops 1>], graph.splits = [#graph.split<n, factor 2, ops 1>, #graph.split<h, factor 8, ops 0>]} {
  %y, %z = graph.group @stage1 (%x0 = %x : tensor<4x20xi8>) -> (tensor<4x20xi8>, tensor<4x20xi8>) attributes {graph.split = [#graph.split<n, factor 2, ops 1>], graph.splits = [#graph.split<n, factor 2, ops 1>, #graph.split<h, factor 8, ops 0>]} {
    %r = graph.relu %x0 : (tensor<4x20xi8>) -> tensor<4x20xi8>
    graph.yield %r, %x0 : tensor<4x20xi8>, tensor<4x20xi8>
  }
  func.return %y, %z : tensor<4x20xi8>, tensor<4x20xi8>
}
