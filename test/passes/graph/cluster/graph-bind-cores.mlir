// RUN: vta-opt %s -p graph-bind-cores | filecheck %s
// RUN: vta-opt %s -p 'graph-bind-cores{mode="paper"}' | filecheck %s --check-prefix PAPER

// Eight images on four cores: two each, and the pooling behind follows the same cut.
// CHECK-LABEL: func.func private @images
// CHECK: graph.max_pool %x {graph.binding = #graph.binding<n = 4, h = 1, c = 1>
// CHECK: graph.max_pool %y {graph.binding = #graph.binding<n = 4, h = 1, c = 1>
// PAPER-LABEL: func.func private @images
// PAPER: graph.max_pool %x {graph.binding = #graph.binding<n = 4, h = 1, c = 1>
func.func private @images(%x: tensor<8x16x8x8xi8, #graph.packed<1, 16>>) -> tensor<8x16x8x8xi8, #graph.packed<1, 16>> attributes {codegen = "vta", vtac.target = #target.cluster<core = #target.vta<"chisel-pynq">, cores = 4, gb_bytes = 65536, dma = true>} {
  %y = graph.max_pool %x {kernel = array<i64: 3, 3>, strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (tensor<8x16x8x8xi8, #graph.packed<1, 16>>) -> tensor<8x16x8x8xi8, #graph.packed<1, 16>>
  %z = graph.max_pool %y {kernel = array<i64: 3, 3>, strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (tensor<8x16x8x8xi8, #graph.packed<1, 16>>) -> tensor<8x16x8x8xi8, #graph.packed<1, 16>>
  func.return %z : tensor<8x16x8x8xi8, #graph.packed<1, 16>>
}

// Three rows on two cores: uneven parts by cost; the paper's factors divide, so it cuts channels.
// CHECK-LABEL: func.func private @rows
// CHECK: graph.max_pool %x {graph.binding = #graph.binding<n = 1, h = 1, c = 2>
// PAPER-LABEL: func.func private @rows
// PAPER: graph.max_pool %x {graph.binding = #graph.binding<n = 1, h = 1, c = 2>
func.func private @rows(%x: tensor<1x32x3x8xi8, #graph.packed<1, 16>>) -> tensor<1x32x3x8xi8, #graph.packed<1, 16>> attributes {codegen = "vta", vtac.target = #target.cluster<core = #target.vta<"chisel-pynq">, cores = 2, gb_bytes = 65536, dma = true>} {
  %y = graph.max_pool %x {kernel = array<i64: 3, 3>, strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (tensor<1x32x3x8xi8, #graph.packed<1, 16>>) -> tensor<1x32x3x8xi8, #graph.packed<1, 16>>
  func.return %y : tensor<1x32x3x8xi8, #graph.packed<1, 16>>
}

// What cannot be cut stays on core 0, and says why; functions for one core are left alone.
// CHECK-LABEL: func.func private @whole
// CHECK: graph.max_pool %x {graph.binding = #graph.binding<n = 1, h = 1, c = 1>, graph.uncut = "its result has one element of batch, one row and one block of channels"
func.func private @whole(%x: tensor<1x16x1x8xi8, #graph.packed<1, 16>>) -> tensor<1x16x1x8xi8, #graph.packed<1, 16>> attributes {codegen = "vta", vtac.target = #target.cluster<core = #target.vta<"chisel-pynq">, cores = 2, gb_bytes = 65536, dma = true>} {
  %y = graph.max_pool %x {kernel = array<i64: 1, 3>, strides = array<i64: 1, 1>, pads = array<i64: 0, 1, 0, 1>, dilations = array<i64: 1, 1>} : (tensor<1x16x1x8xi8, #graph.packed<1, 16>>) -> tensor<1x16x1x8xi8, #graph.packed<1, 16>>
  func.return %y : tensor<1x16x1x8xi8, #graph.packed<1, 16>>
}

// CHECK-LABEL: func.func private @one_core
// CHECK-NOT: graph.binding
func.func private @one_core(%x: tensor<1x32x3x8xi8, #graph.packed<1, 16>>) -> tensor<1x32x3x8xi8, #graph.packed<1, 16>> attributes {codegen = "vta", vtac.target = #target.vta<"chisel-pynq">} {
  %y = graph.max_pool %x {kernel = array<i64: 3, 3>, strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (tensor<1x32x3x8xi8, #graph.packed<1, 16>>) -> tensor<1x32x3x8xi8, #graph.packed<1, 16>>
  func.return %y : tensor<1x32x3x8xi8, #graph.packed<1, 16>>
}
