// RUN: vta-opt %s -p graph-instantiate | filecheck %s

// Images have no halo.
// CHECK-LABEL: func.func private @images
// CHECK: graph.instance @g part 0 of 2
// CHECK-NEXT: graph.window %x0 [0:2, :, :, :]
// CHECK: graph.instance @g part 1 of 2
// CHECK-NEXT: graph.window %{{.*}} [2:4, :, :, :]
// CHECK: graph.assemble (%{{.*}} at [0, 0, 0, 0], %{{.*}} at [2, 0, 0, 0])
func.func private @images(%x: tensor<4x16x8x8xi8, #graph.packed<1, 16>>) -> tensor<4x16x4x8xi8, #graph.packed<1, 16>> attributes {codegen = "vta", vtac.target = #target.cluster<core = #target.vta<"chisel-pynq">, cores = 2, gb_bytes = 4096, dma = true>} {
  %y = graph.group @g (%x0 = %x : tensor<4x16x8x8xi8, #graph.packed<1, 16>>) -> tensor<4x16x4x8xi8, #graph.packed<1, 16>> attributes {graph.split = [#graph.split<n, factor 2, ops 2>]} {
    %a = graph.max_pool %x0 {kernel = array<i64: 3, 3>, strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (tensor<4x16x8x8xi8, #graph.packed<1, 16>>) -> tensor<4x16x8x8xi8, #graph.packed<1, 16>>
    %b = graph.max_pool %a {kernel = array<i64: 3, 3>, strides = array<i64: 2, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (tensor<4x16x8x8xi8, #graph.packed<1, 16>>) -> tensor<4x16x4x8xi8, #graph.packed<1, 16>>
    graph.yield %b : tensor<4x16x4x8xi8, #graph.packed<1, 16>>
  }
  func.return %y : tensor<4x16x4x8xi8, #graph.packed<1, 16>>
}

// Two of four rows read rows -1 to 4 of the layer before, which reads rows -2 to 5: pads stay at the
// border alone.
// CHECK-LABEL: func.func private @rows
// CHECK: graph.window %x0 [:, :, 0:5, :]
// CHECK-NEXT: graph.max_pool {{.*}} pads = array<i64: 1, 1, 0, 1>
// CHECK-NEXT: graph.max_pool {{.*}} pads = array<i64: 1, 1, 0, 1>
// CHECK: graph.window %{{.*}} [:, :, 2:8, :]
// CHECK-NEXT: graph.max_pool {{.*}} pads = array<i64: 0, 1, 1, 1>
// CHECK-NEXT: graph.max_pool {{.*}} pads = array<i64: 0, 1, 0, 1>
// CHECK: graph.assemble (%{{.*}} at [0, 0, 0, 0], %{{.*}} at [0, 0, 2, 0])
func.func private @rows(%x: tensor<4x16x8x8xi8, #graph.packed<1, 16>>) -> tensor<4x16x4x8xi8, #graph.packed<1, 16>> attributes {codegen = "vta", vtac.target = #target.cluster<core = #target.vta<"chisel-pynq">, cores = 2, gb_bytes = 4096, dma = true>} {
  %y = graph.group @g (%x0 = %x : tensor<4x16x8x8xi8, #graph.packed<1, 16>>) -> tensor<4x16x4x8xi8, #graph.packed<1, 16>> attributes {graph.split = [#graph.split<h, factor 2, ops 2>]} {
    %a = graph.max_pool %x0 {kernel = array<i64: 3, 3>, strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (tensor<4x16x8x8xi8, #graph.packed<1, 16>>) -> tensor<4x16x8x8xi8, #graph.packed<1, 16>>
    %b = graph.max_pool %a {kernel = array<i64: 3, 3>, strides = array<i64: 2, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (tensor<4x16x8x8xi8, #graph.packed<1, 16>>) -> tensor<4x16x4x8xi8, #graph.packed<1, 16>>
    graph.yield %b : tensor<4x16x4x8xi8, #graph.packed<1, 16>>
  }
  func.return %y : tensor<4x16x4x8xi8, #graph.packed<1, 16>>
}

// A group that is not to be split is one instance.
// CHECK-LABEL: func.func private @whole
// CHECK: graph.instance @g part 0 of 1
// CHECK-NOT: graph.assemble
func.func private @whole(%x: tensor<4x16x8x8xi8, #graph.packed<1, 16>>) -> tensor<4x16x4x8xi8, #graph.packed<1, 16>> attributes {codegen = "vta", vtac.target = #target.cluster<core = #target.vta<"chisel-pynq">, cores = 2, gb_bytes = 4096, dma = true>} {
  %y = graph.group @g (%x0 = %x : tensor<4x16x8x8xi8, #graph.packed<1, 16>>) -> tensor<4x16x4x8xi8, #graph.packed<1, 16>> attributes {graph.split = []} {
    %a = graph.max_pool %x0 {kernel = array<i64: 3, 3>, strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (tensor<4x16x8x8xi8, #graph.packed<1, 16>>) -> tensor<4x16x8x8xi8, #graph.packed<1, 16>>
    %b = graph.max_pool %a {kernel = array<i64: 3, 3>, strides = array<i64: 2, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (tensor<4x16x8x8xi8, #graph.packed<1, 16>>) -> tensor<4x16x4x8xi8, #graph.packed<1, 16>>
    graph.yield %b : tensor<4x16x4x8xi8, #graph.packed<1, 16>>
  }
  func.return %y : tensor<4x16x4x8xi8, #graph.packed<1, 16>>
}
