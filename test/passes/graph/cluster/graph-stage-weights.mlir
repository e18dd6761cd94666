// RUN: vta-opt %s -p 'graph-bind-cores{staged=true},graph-place-tensors,graph-stage-weights' | filecheck %s

// Two cores compute two images each, and both need all weights. The first layer's would come too
// late: the cores read them. Those of the second are brought while the first computes.
// CHECK-LABEL: func.func private @early
// CHECK: graph.composite "a"({{.*}}) {graph.binding = #graph.binding<n = 2, h = 1, c = 1>, graph.places = [#graph.place<gb, 0>], codegen = "vta"}
// CHECK: graph.composite "b"({{.*}}) {graph.binding = #graph.binding<n = 2, h = 1, c = 1>, graph.places = [#graph.place<ddr>], graph.staged = #graph.staged<gb, 4096, bytes 2432, after -1>, codegen = "vta"}
func.func private @early(%x: tensor<4x16x8x8xi8, #graph.packed<1, 16>>) -> tensor<4x16x8x8xi8, #graph.packed<1, 16>> attributes {codegen = "vta", vtac.target = #target.cluster<core = #target.vta<"chisel-pynq">, cores = 2, gb_bytes = 16384, dma = true>} {
  %y = graph.composite "a"(%x) {codegen = "vta"} : (tensor<4x16x8x8xi8, #graph.packed<1, 16>>) -> tensor<4x16x8x8xi8, #graph.packed<1, 16>> {
  ^bb0(%i: tensor<4x16x8x8xi8, #graph.packed<1, 16>>):
    %w = graph.constant dense<1> : tensor<16x16x3x3xi8>
    %b = graph.constant dense<1> : tensor<16xi32>
    %acc = graph.conv %i, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<4x16x8x8xi8, #graph.packed<1, 16>>, tensor<16x16x3x3xi8>) -> tensor<4x16x8x8xi32, #graph.packed<1, 16>>
    %q = graph.requantize %acc bias %b shift %b {lo = -128 : i64, hi = 127 : i64, scale = 1.0 : f64, zero_point = 0 : i64} : (tensor<4x16x8x8xi32, #graph.packed<1, 16>>, tensor<16xi32>, tensor<16xi32>) -> tensor<4x16x8x8xi8, #graph.packed<1, 16>>
    graph.yield %q : tensor<4x16x8x8xi8, #graph.packed<1, 16>>
  }
  %z = graph.composite "b"(%y) {codegen = "vta"} : (tensor<4x16x8x8xi8, #graph.packed<1, 16>>) -> tensor<4x16x8x8xi8, #graph.packed<1, 16>> {
  ^bb0(%i: tensor<4x16x8x8xi8, #graph.packed<1, 16>>):
    %w = graph.constant dense<1> : tensor<16x16x3x3xi8>
    %b = graph.constant dense<1> : tensor<16xi32>
    %acc = graph.conv %i, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<4x16x8x8xi8, #graph.packed<1, 16>>, tensor<16x16x3x3xi8>) -> tensor<4x16x8x8xi32, #graph.packed<1, 16>>
    %q = graph.requantize %acc bias %b shift %b {lo = -128 : i64, hi = 127 : i64, scale = 1.0 : f64, zero_point = 0 : i64} : (tensor<4x16x8x8xi32, #graph.packed<1, 16>>, tensor<16xi32>, tensor<16xi32>) -> tensor<4x16x8x8xi8, #graph.packed<1, 16>>
    graph.yield %q : tensor<4x16x8x8xi8, #graph.packed<1, 16>>
  }
  func.return %z : tensor<4x16x8x8xi8, #graph.packed<1, 16>>
}
