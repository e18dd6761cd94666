// A residual block that halves the image, and a layer behind it: four images on four cores with a
// global buffer of 64 KiB. docs/cluster_plan.md follows it through the passes of a plan.
builtin.module attributes {vtac.target = #target.cluster<core = #target.vta<"chisel-pynq">, cores = 4, gb_bytes = 65536, dma = true>} {
  func.func private @block(%x: tensor<4x32x28x28xi8, #graph.packed<1, 16>>) -> tensor<4x64x14x14xi8, #graph.packed<1, 16>> attributes {codegen = "vta"} {
    %side = graph.composite "side"(%x) {codegen = "vta"} : (tensor<4x32x28x28xi8, #graph.packed<1, 16>>) -> tensor<4x64x14x14xi8, #graph.packed<1, 16>> {
    ^bb0(%a: tensor<4x32x28x28xi8, #graph.packed<1, 16>>):
      %w = graph.constant dense<1> : tensor<64x32x1x1xi8>
      %v = graph.constant dense<4> : tensor<64xi32>
      %acc = graph.conv %a, %w {strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<4x32x28x28xi8, #graph.packed<1, 16>>, tensor<64x32x1x1xi8>) -> tensor<4x64x14x14xi32, #graph.packed<1, 16>>
      %q = graph.requantize %acc bias %v shift %v {lo = 0 : i64, hi = 127 : i64, scale = 1.0 : f64, zero_point = 0 : i64} : (tensor<4x64x14x14xi32, #graph.packed<1, 16>>, tensor<64xi32>, tensor<64xi32>) -> tensor<4x64x14x14xi8, #graph.packed<1, 16>>
      graph.yield %q : tensor<4x64x14x14xi8, #graph.packed<1, 16>>
    }
    %first = graph.composite "first"(%x) {codegen = "vta"} : (tensor<4x32x28x28xi8, #graph.packed<1, 16>>) -> tensor<4x64x14x14xi8, #graph.packed<1, 16>> {
    ^bb0(%a: tensor<4x32x28x28xi8, #graph.packed<1, 16>>):
      %w = graph.constant dense<1> : tensor<64x32x3x3xi8>
      %v = graph.constant dense<4> : tensor<64xi32>
      %acc = graph.conv %a, %w {strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<4x32x28x28xi8, #graph.packed<1, 16>>, tensor<64x32x3x3xi8>) -> tensor<4x64x14x14xi32, #graph.packed<1, 16>>
      %q = graph.requantize %acc bias %v shift %v {lo = 0 : i64, hi = 127 : i64, scale = 1.0 : f64, zero_point = 0 : i64} : (tensor<4x64x14x14xi32, #graph.packed<1, 16>>, tensor<64xi32>, tensor<64xi32>) -> tensor<4x64x14x14xi8, #graph.packed<1, 16>>
      graph.yield %q : tensor<4x64x14x14xi8, #graph.packed<1, 16>>
    }
    %second = graph.composite "second"(%first, %side) {codegen = "vta"} : (tensor<4x64x14x14xi8, #graph.packed<1, 16>>, tensor<4x64x14x14xi8, #graph.packed<1, 16>>) -> tensor<4x64x14x14xi8, #graph.packed<1, 16>> {
    ^bb0(%a: tensor<4x64x14x14xi8, #graph.packed<1, 16>>, %s: tensor<4x64x14x14xi8, #graph.packed<1, 16>>):
      %w = graph.constant dense<1> : tensor<64x64x3x3xi8>
      %v = graph.constant dense<4> : tensor<64xi32>
      %acc = graph.conv %a, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<4x64x14x14xi8, #graph.packed<1, 16>>, tensor<64x64x3x3xi8>) -> tensor<4x64x14x14xi32, #graph.packed<1, 16>>
      %shifted = graph.shift_left %s, %v : (tensor<4x64x14x14xi8, #graph.packed<1, 16>>, tensor<64xi32>) -> tensor<4x64x14x14xi32, #graph.packed<1, 16>>
      %sum = graph.add %acc, %shifted : (tensor<4x64x14x14xi32, #graph.packed<1, 16>>, tensor<4x64x14x14xi32, #graph.packed<1, 16>>) -> tensor<4x64x14x14xi32, #graph.packed<1, 16>>
      %q = graph.requantize %sum bias %v shift %v {lo = 0 : i64, hi = 127 : i64, scale = 1.0 : f64, zero_point = 0 : i64} : (tensor<4x64x14x14xi32, #graph.packed<1, 16>>, tensor<64xi32>, tensor<64xi32>) -> tensor<4x64x14x14xi8, #graph.packed<1, 16>>
      graph.yield %q : tensor<4x64x14x14xi8, #graph.packed<1, 16>>
    }
    %third = graph.composite "third"(%second) {codegen = "vta"} : (tensor<4x64x14x14xi8, #graph.packed<1, 16>>) -> tensor<4x64x14x14xi8, #graph.packed<1, 16>> {
    ^bb0(%a: tensor<4x64x14x14xi8, #graph.packed<1, 16>>):
      %w = graph.constant dense<1> : tensor<64x64x3x3xi8>
      %v = graph.constant dense<4> : tensor<64xi32>
      %acc = graph.conv %a, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<4x64x14x14xi8, #graph.packed<1, 16>>, tensor<64x64x3x3xi8>) -> tensor<4x64x14x14xi32, #graph.packed<1, 16>>
      %q = graph.requantize %acc bias %v shift %v {lo = 0 : i64, hi = 127 : i64, scale = 1.0 : f64, zero_point = 0 : i64} : (tensor<4x64x14x14xi32, #graph.packed<1, 16>>, tensor<64xi32>, tensor<64xi32>) -> tensor<4x64x14x14xi8, #graph.packed<1, 16>>
      graph.yield %q : tensor<4x64x14x14xi8, #graph.packed<1, 16>>
    }
    func.return %third : tensor<4x64x14x14xi8, #graph.packed<1, 16>>
  }
}
