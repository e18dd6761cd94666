// RUN: vta-opt %s -p graph-to-te --split-input-file --verify-diagnostics 2>&1 | filecheck %s

builtin.module attributes {vtac.target = #target.vta<"sim">} {
  func.func private @vta_0(%x: tensor<1x2xi8, #graph.packed<1, 16>>, %w: tensor<2x2xi8>) -> tensor<1x2xi32, #graph.packed<1, 16>> attributes {codegen = "vta"} {
    %y = graph.gemm %x, %w {alpha = 1.0 : f64, beta = 1.0 : f64, trans_a = false, trans_b = true} : (tensor<1x2xi8, #graph.packed<1, 16>>, tensor<2x2xi8>) -> tensor<1x2xi32, #graph.packed<1, 16>>
    func.return %y : tensor<1x2xi32, #graph.packed<1, 16>>
  }
}
// CHECK: int32 accumulators would have to leave the accelerator

// -----

builtin.module attributes {vtac.target = #target.vta<"sim">} {
  func.func private @vta_0(%x: tensor<1x2xi8, #graph.packed<2, 8>>) -> tensor<1x2xi8, #graph.packed<2, 8>> attributes {codegen = "vta"} {
    func.return %x : tensor<1x2xi8, #graph.packed<2, 8>>
  }
}
// CHECK: vta_0: it is packed for 2x8, the target is 1x16

// -----

builtin.module attributes {vtac.target = #target.vta<"sim">} {
  func.func private @vta_0(%x: tensor<1x2x2xi8, #graph.packed<1, 16>>) -> tensor<1x4xi8, #graph.packed<1, 16>> attributes {codegen = "vta"} {
    %y = graph.reshape %x : (tensor<1x2x2xi8, #graph.packed<1, 16>>) -> tensor<1x4xi8, #graph.packed<1, 16>>
    func.return %y : tensor<1x4xi8, #graph.packed<1, 16>>
  }
}
// CHECK: the accelerator does not take reshaping [1, 2, 2] to [1, 4]

// -----

builtin.module attributes {vtac.target = #target.vta<"sim">} {
  func.func private @vta_0(%x: tensor<1x2xi8, #graph.packed<1, 16>>) -> tensor<1x2xi8, #graph.packed<1, 16>> attributes {codegen = "vta"} {
    %y = graph.relu %x : (tensor<1x2xi8, #graph.packed<1, 16>>) -> tensor<1x2xi8, #graph.packed<1, 16>>
    func.return %y : tensor<1x2xi8, #graph.packed<1, 16>>
  }
}
// CHECK: graph.relu has no form on the accelerator

// -----

builtin.module attributes {vtac.target = #target.vta<"sim", log_batch = 1>} {
  func.func private @vta_0(%a: tensor<6x20xi8, #graph.packed<2, 16>>, %b: tensor<4x20xi8, #graph.packed<16, 16, weights>>) -> tensor<6x2xi8, #graph.packed<2, 16>> attributes {codegen = "vta"} {
    %n = graph.constant dense<1> : tensor<2xi32>
    %y = graph.batch_matmul %a, %b {batch = 2 : i64} : (tensor<6x20xi8, #graph.packed<2, 16>>, tensor<4x20xi8, #graph.packed<16, 16, weights>>) -> tensor<6x2xi32, #graph.packed<2, 16>>
    %q = graph.requantize %y bias %n shift %n {lo = 0 : i64, hi = 127 : i64, scale = 1.0 : f64, zero_point = 0 : i64} : (tensor<6x2xi32, #graph.packed<2, 16>>, tensor<2xi32>, tensor<2xi32>) -> tensor<6x2xi8, #graph.packed<2, 16>>
    func.return %q : tensor<6x2xi8, #graph.packed<2, 16>>
  }
}
// CHECK: the accelerator does not take batch entries that fill no whole elements
// CHECK-NEXT: pad them to 2 and 16 rows

// -----

builtin.module attributes {vtac.target = #target.vta<"sim">} {
  func.func private @vta_0(%b: tensor<4x2xi8, #graph.packed<16, 16, weights>>) -> tensor<4x2xi8, #graph.packed<1, 16>> attributes {codegen = "vta"} {
    %n = graph.constant dense<1> : tensor<2xi32>
    %y = graph.shift_left %b, %n : (tensor<4x2xi8, #graph.packed<16, 16, weights>>, tensor<2xi32>) -> tensor<4x2xi32, #graph.packed<1, 16>>
    %q = graph.requantize %y bias %n shift %n {lo = 0 : i64, hi = 127 : i64, scale = 1.0 : f64, zero_point = 0 : i64} : (tensor<4x2xi32, #graph.packed<1, 16>>, tensor<2xi32>, tensor<2xi32>) -> tensor<4x2xi8, #graph.packed<1, 16>>
    func.return %q : tensor<4x2xi8, #graph.packed<1, 16>>
  }
}
// CHECK: the accelerator does not take activations packed as weights are

// -----

builtin.module attributes {vtac.target = #target.vta<"sim">} {
  func.func private @vta_0(%x: tensor<1x20x4xi8, #graph.packed<1, 16>>) -> tensor<1x8x4xi8, #graph.packed<1, 16>> attributes {codegen = "vta"} {
    %y = graph.slice %x {starts = array<i64: 0, 4, 0>, steps = array<i64: 1, 1, 1>} : (tensor<1x20x4xi8, #graph.packed<1, 16>>) -> tensor<1x8x4xi8, #graph.packed<1, 16>>
    func.return %y : tensor<1x8x4xi8, #graph.packed<1, 16>>
  }
}
// CHECK: the accelerator does not take rectangles that cut its elements
// CHECK-NEXT: join and cut at multiples of 1 entries and 16 channels
