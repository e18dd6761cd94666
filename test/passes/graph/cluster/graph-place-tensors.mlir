// RUN: vta-opt %s -p graph-place-tensors | filecheck %s
// RUN: vta-opt %s -p 'graph-place-tensors{buffer=true}' | filecheck %s --check-prefix FORCED
// RUN: vta-opt %s -p 'graph-place-tensors{buffer=false}' | filecheck %s --check-prefix DDR
// RUN: vta-opt %s -p 'graph-place-tensors{keep=4096}' | filecheck %s --check-prefix KEPT

// What is joined lies in the joined tensor, 16 channels of 64 pixels apart. The result is outside.
// CHECK-LABEL: func.func private @fits
// CHECK: %a = graph.max_pool %x {graph.places = [#graph.place<gb, 0>]
// CHECK: %b = graph.max_pool %a {graph.places = [#graph.place<gb, 4096>]
// CHECK: %c = graph.max_pool %b {graph.places = [#graph.place<gb, 1024>]
// CHECK: %d = graph.concat %a, %c {graph.places = [#graph.place<gb, 0>]
// CHECK: %e = graph.max_pool %d {graph.places = [#graph.place<ddr>]
// DDR-NOT: #graph.place<gb
func.func private @fits(%x: tensor<2x16x8x8xi8, #graph.packed<1, 16>>) -> tensor<2x32x8x8xi8, #graph.packed<1, 16>> attributes {codegen = "vta", vtac.target = #target.cluster<core = #target.vta<"chisel-pynq">, cores = 2, gb_bytes = 8192, dma = true>} {
  %a = graph.max_pool %x {kernel = array<i64: 3, 3>, strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (tensor<2x16x8x8xi8, #graph.packed<1, 16>>) -> tensor<2x16x8x8xi8, #graph.packed<1, 16>>
  %b = graph.max_pool %a {kernel = array<i64: 3, 3>, strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (tensor<2x16x8x8xi8, #graph.packed<1, 16>>) -> tensor<2x16x8x8xi8, #graph.packed<1, 16>>
  %c = graph.max_pool %b {kernel = array<i64: 3, 3>, strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (tensor<2x16x8x8xi8, #graph.packed<1, 16>>) -> tensor<2x16x8x8xi8, #graph.packed<1, 16>>
  %d = graph.concat %a, %c {axis = 1 : i64} : (tensor<2x16x8x8xi8, #graph.packed<1, 16>>, tensor<2x16x8x8xi8, #graph.packed<1, 16>>) -> tensor<2x32x8x8xi8, #graph.packed<1, 16>>
  %e = graph.max_pool %d {kernel = array<i64: 3, 3>, strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (tensor<2x32x8x8xi8, #graph.packed<1, 16>>) -> tensor<2x32x8x8xi8, #graph.packed<1, 16>>
  func.return %e : tensor<2x32x8x8xi8, #graph.packed<1, 16>>
}

// With less room the tensor with the longest life, the joined one, goes to DDR.
// CHECK-LABEL: func.func private @spills
// CHECK: %a = graph.max_pool %x {graph.places = [#graph.place<ddr>]
// CHECK: %b = graph.max_pool %a {graph.places = [#graph.place<gb, 0>]
// CHECK: %c = graph.max_pool %b {graph.places = [#graph.place<ddr>]
// KEPT-LABEL: func.func private @spills
// KEPT-NOT: #graph.place<gb
func.func private @spills(%x: tensor<2x16x8x8xi8, #graph.packed<1, 16>>) -> tensor<2x32x8x8xi8, #graph.packed<1, 16>> attributes {codegen = "vta", vtac.target = #target.cluster<core = #target.vta<"chisel-pynq">, cores = 2, gb_bytes = 4096, dma = true>} {
  %a = graph.max_pool %x {kernel = array<i64: 3, 3>, strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (tensor<2x16x8x8xi8, #graph.packed<1, 16>>) -> tensor<2x16x8x8xi8, #graph.packed<1, 16>>
  %b = graph.max_pool %a {kernel = array<i64: 3, 3>, strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (tensor<2x16x8x8xi8, #graph.packed<1, 16>>) -> tensor<2x16x8x8xi8, #graph.packed<1, 16>>
  %c = graph.max_pool %b {kernel = array<i64: 3, 3>, strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (tensor<2x16x8x8xi8, #graph.packed<1, 16>>) -> tensor<2x16x8x8xi8, #graph.packed<1, 16>>
  %d = graph.concat %a, %c {axis = 1 : i64} : (tensor<2x16x8x8xi8, #graph.packed<1, 16>>, tensor<2x16x8x8xi8, #graph.packed<1, 16>>) -> tensor<2x32x8x8xi8, #graph.packed<1, 16>>
  %e = graph.max_pool %d {kernel = array<i64: 3, 3>, strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (tensor<2x32x8x8xi8, #graph.packed<1, 16>>) -> tensor<2x32x8x8xi8, #graph.packed<1, 16>>
  func.return %e : tensor<2x32x8x8xi8, #graph.packed<1, 16>>
}

// One core shares DDR with nobody: its tensors lie there, unless the option says otherwise.
// CHECK-LABEL: func.func private @alone
// CHECK: %a = graph.max_pool %x {graph.places = [#graph.place<ddr>]
// FORCED-LABEL: func.func private @alone
// FORCED: %a = graph.max_pool %x {graph.places = [#graph.place<gb, 0>]
func.func private @alone(%x: tensor<2x16x8x8xi8, #graph.packed<1, 16>>) -> tensor<2x16x8x8xi8, #graph.packed<1, 16>> attributes {codegen = "vta", vtac.target = #target.cluster<core = #target.vta<"chisel-pynq">, cores = 1, gb_bytes = 4096, dma = true>} {
  %a = graph.max_pool %x {kernel = array<i64: 3, 3>, strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (tensor<2x16x8x8xi8, #graph.packed<1, 16>>) -> tensor<2x16x8x8xi8, #graph.packed<1, 16>>
  %b = graph.max_pool %a {kernel = array<i64: 3, 3>, strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (tensor<2x16x8x8xi8, #graph.packed<1, 16>>) -> tensor<2x16x8x8xi8, #graph.packed<1, 16>>
  func.return %b : tensor<2x16x8x8xi8, #graph.packed<1, 16>>
}
