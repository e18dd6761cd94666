// RUN: vta-opt %s -p 'graph-split-info{stage=0}' | filecheck %s

// One image of a layer with 8 rows is 1024 bytes: its input and its output for two images fit 4 KiB.
// A strip of rows has its halo: the third layer reads 6 of 8 rows for 2 of 4.
// CHECK-LABEL: func.func private @chain
// CHECK: graph.max_pool %x {graph.splits = [#graph.split<n, factor 2, ops 1>, #graph.split<h, factor 3, ops 1>]
// CHECK: graph.max_pool %c {graph.splits = [#graph.split<n, factor 1, ops 1>, #graph.split<h, factor 1, ops 1>]
func.func private @chain(%x: tensor<4x16x8x8xi8, #graph.packed<1, 16>>) -> tensor<4x16x4x8xi8, #graph.packed<1, 16>> attributes {codegen = "vta", vtac.target = #target.cluster<core = #target.vta<"chisel-pynq">, cores = 2, gb_bytes = 4096, dma = true>} {
  %a = graph.max_pool %x {kernel = array<i64: 3, 3>, strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (tensor<4x16x8x8xi8, #graph.packed<1, 16>>) -> tensor<4x16x8x8xi8, #graph.packed<1, 16>>
  %b = graph.max_pool %a {kernel = array<i64: 3, 3>, strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (tensor<4x16x8x8xi8, #graph.packed<1, 16>>) -> tensor<4x16x8x8xi8, #graph.packed<1, 16>>
  %c = graph.max_pool %b {kernel = array<i64: 3, 3>, strides = array<i64: 2, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (tensor<4x16x8x8xi8, #graph.packed<1, 16>>) -> tensor<4x16x4x8xi8, #graph.packed<1, 16>>
  %d = graph.max_pool %c {kernel = array<i64: 3, 3>, strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (tensor<4x16x4x8xi8, #graph.packed<1, 16>>) -> tensor<4x16x4x8xi8, #graph.packed<1, 16>>
  func.return %d : tensor<4x16x4x8xi8, #graph.packed<1, 16>>
}

// Nothing fits: there is no split.
// CHECK-LABEL: func.func private @large
// CHECK: graph.max_pool %x {graph.splits = []
func.func private @large(%x: tensor<4x16x8x8xi8, #graph.packed<1, 16>>) -> tensor<4x16x4x8xi8, #graph.packed<1, 16>> attributes {codegen = "vta", vtac.target = #target.cluster<core = #target.vta<"chisel-pynq">, cores = 2, gb_bytes = 0, dma = true>} {
  %a = graph.max_pool %x {kernel = array<i64: 3, 3>, strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (tensor<4x16x8x8xi8, #graph.packed<1, 16>>) -> tensor<4x16x8x8xi8, #graph.packed<1, 16>>
  %b = graph.max_pool %a {kernel = array<i64: 3, 3>, strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (tensor<4x16x8x8xi8, #graph.packed<1, 16>>) -> tensor<4x16x8x8xi8, #graph.packed<1, 16>>
  %c = graph.max_pool %b {kernel = array<i64: 3, 3>, strides = array<i64: 2, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (tensor<4x16x8x8xi8, #graph.packed<1, 16>>) -> tensor<4x16x4x8xi8, #graph.packed<1, 16>>
  %d = graph.max_pool %c {kernel = array<i64: 3, 3>, strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (tensor<4x16x4x8xi8, #graph.packed<1, 16>>) -> tensor<4x16x4x8xi8, #graph.packed<1, 16>>
  func.return %d : tensor<4x16x4x8xi8, #graph.packed<1, 16>>
}

// CHECK-LABEL: func.func private @one_core
// CHECK-NOT: graph.splits
func.func private @one_core(%x: tensor<4x16x8x8xi8, #graph.packed<1, 16>>) -> tensor<4x16x8x8xi8, #graph.packed<1, 16>> attributes {codegen = "vta", vtac.target = #target.vta<"chisel-pynq">} {
  %a = graph.max_pool %x {kernel = array<i64: 3, 3>, strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (tensor<4x16x8x8xi8, #graph.packed<1, 16>>) -> tensor<4x16x8x8xi8, #graph.packed<1, 16>>
  func.return %a : tensor<4x16x8x8xi8, #graph.packed<1, 16>>
}
