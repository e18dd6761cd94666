// RUN: vta-opt %s -p te-correct-borders --split-input-file --verify-diagnostics | filecheck %s

// CHECK: te.kernel @k, stage "conv": a call passes weights that are not constant
builtin.module attributes {vtac.target = #target.vta<"pynq">} {
  func.func private @f(%x: tensor<4x1x16xi8>, %w: tensor<2x16x16xi8>) -> (tensor<5x1x16xi32>) attributes {codegen = "vta"} {
    %y = te.call @k(%x, %w) : (tensor<4x1x16xi8>, tensor<2x16x16xi8>) -> tensor<5x1x16xi32>
    func.return %y : tensor<5x1x16xi32>
  }
  te.kernel @k(%x: tensor<4x1x16xi8>, %w: tensor<2x16x16xi8>) -> tensor<5x1x16xi32> {
    %conv = te.compute "conv" (w = 5, b = 1, o = 16) reduce (kw = 2, k = 16)
        ins (%x[w + kw - 1, b, k] outside 3 : tensor<4x1x16xi8>, %w[kw, o, k] : tensor<2x16x16xi8>) identity 0 {
    ^bb0(%acc: i32, %a: i8, %b: i8):
      %0 = arith.extsi %a : i8 to i32
      %1 = arith.extsi %b : i8 to i32
      %2 = arith.muli %0, %1 : i32
      %3 = arith.addi %acc, %2 : i32
      te.yield %3 : i32
    } -> tensor<5x1x16xi32>
    te.yield %conv : tensor<5x1x16xi32>
  }
}

// -----

// CHECK: te.kernel @k, stage "conv": an axis leads outside in two subscripts, or moves the weights
builtin.module attributes {vtac.target = #target.vta<"pynq">} {
  func.func private @f(%x: tensor<4x1x16xi8>) -> (tensor<5x1x16xi32>) attributes {codegen = "vta"} {
    %w = te.constant dense<1> : tensor<5x16x16xi8>
    %y = te.call @k(%x, %w) : (tensor<4x1x16xi8>, tensor<5x16x16xi8>) -> tensor<5x1x16xi32>
    func.return %y : tensor<5x1x16xi32>
  }
  te.kernel @k(%x: tensor<4x1x16xi8>, %w: tensor<5x16x16xi8>) -> tensor<5x1x16xi32> {
    %conv = te.compute "conv" (w = 5, b = 1, o = 16) reduce (k = 16)
        ins (%x[w - 1, b, k] outside 3 : tensor<4x1x16xi8>, %w[w, o, k] : tensor<5x16x16xi8>) identity 0 {
    ^bb0(%acc: i32, %a: i8, %b: i8):
      %0 = arith.extsi %a : i8 to i32
      %1 = arith.extsi %b : i8 to i32
      %2 = arith.muli %0, %1 : i32
      %3 = arith.addi %acc, %2 : i32
      te.yield %3 : i32
    } -> tensor<5x1x16xi32>
    te.yield %conv : tensor<5x1x16xi32>
  }
}
