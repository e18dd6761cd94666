// RUN: vta-opt %s -p te-place-biases --split-input-file | filecheck %s

// A target whose immediate operations read another element: the sum starts from the vector.
builtin.module attributes {vtac.target = #target.vta<"chisel-pynq">} {
  func.func private @f(%x: tensor<2x600x1x16xi8>, %w: tensor<2x16x16xi8>) -> (tensor<2x600x1x16xi32>) attributes {codegen = "vta"} {
    %av = te.constant dense<[[[9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9]], [[11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11]]]> : tensor<2x1x16xi32>
    %a = te.call @k(%x, %w, %av) : (tensor<2x600x1x16xi8>, tensor<2x16x16xi8>, tensor<2x1x16xi32>) -> tensor<2x600x1x16xi32>
    func.return %a : tensor<2x600x1x16xi32>
  }
  te.kernel @k(%x: tensor<2x600x1x16xi8>, %w: tensor<2x16x16xi8>, %v: tensor<2x1x16xi32>) -> tensor<2x600x1x16xi32> {
    %p = te.compute "p" (c = 2, w = 600, b = 1, o = 16) reduce (k = 16)
        ins (%x[c, w, b, k] : tensor<2x600x1x16xi8>, %w[c, o, k] : tensor<2x16x16xi8>) identity 0 {
    ^bb0(%acc: i32, %a: i8, %b: i8):
      %0 = arith.extsi %a : i8 to i32
      %1 = arith.extsi %b : i8 to i32
      %2 = arith.muli %0, %1 : i32
      %3 = arith.addi %acc, %2 : i32
      te.yield %3 : i32
    } -> tensor<2x600x1x16xi32>
    %y = te.compute "y" (c = 2, w = 600, b = 1, o = 16)
        ins (%p[c, w, b, o] : tensor<2x600x1x16xi32>, %v[c, b, o] : tensor<2x1x16xi32>) {
    ^bb0(%a: i32, %b: i32):
      %0 = arith.addi %a, %b : i32
      te.yield %0 : i32
    } -> tensor<2x600x1x16xi32>
    te.yield %y : tensor<2x600x1x16xi32>
  }
}
// CHECK:       te.kernel @k(%x: tensor<2x600x1x16xi8>, %w: tensor<2x16x16xi8>, %v: tensor<2x1x16xi32>)
// CHECK-SAME:    te.choices = ["y: copy, 1,216 cycles (add 3,616, product 2,466)"]
// CHECK-NEXT:    %y_start = te.compute "y_start" (c = 2, w = 600, b = 1, o = 16)
// CHECK-NEXT:        ins (%v[c, b, o] : tensor<2x1x16xi32>) {
// CHECK-NEXT:    ^bb0(%[[V:.*]]: i32):
// CHECK-NEXT:      te.yield %[[V]]
// CHECK:         %p = te.compute "p"
// CHECK:              %w[c, o, k] : tensor<2x16x16xi8>) init %y_start : tensor<2x600x1x16xi32> {
// CHECK:         te.yield %p

// -----

// Elsewhere the GEMM core adds it, as digits of 127 times a constant element.
builtin.module attributes {vtac.target = #target.vta<"pynq">} {
  func.func private @f(%x: tensor<2x600x1x16xi8>, %w: tensor<2x16x16xi8>) -> (tensor<2x600x1x16xi32>) attributes {codegen = "vta"} {
    %av = te.constant dense<[[[-6360, -6360, -6360, -6360, -6360, -6360, -6360, -6360, -6360, -6360, -6360, -6360, -6360, -6360, -6360, -6360]], [[63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63]]]> : tensor<2x1x16xi32>
    %a = te.call @k(%x, %w, %av) : (tensor<2x600x1x16xi8>, tensor<2x16x16xi8>, tensor<2x1x16xi32>) -> tensor<2x600x1x16xi32>
    func.return %a : tensor<2x600x1x16xi32>
  }
  te.kernel @k(%x: tensor<2x600x1x16xi8>, %w: tensor<2x16x16xi8>, %v: tensor<2x1x16xi32>) -> tensor<2x600x1x16xi32> {
    %p = te.compute "p" (c = 2, w = 600, b = 1, o = 16) reduce (k = 16)
        ins (%x[c, w, b, k] : tensor<2x600x1x16xi8>, %w[c, o, k] : tensor<2x16x16xi8>) identity 0 {
    ^bb0(%acc: i32, %a: i8, %b: i8):
      %0 = arith.extsi %a : i8 to i32
      %1 = arith.extsi %b : i8 to i32
      %2 = arith.muli %0, %1 : i32
      %3 = arith.addi %acc, %2 : i32
      te.yield %3 : i32
    } -> tensor<2x600x1x16xi32>
    %y = te.compute "y" (c = 2, w = 600, b = 1, o = 16)
        ins (%p[c, w, b, o] : tensor<2x600x1x16xi32>, %v[c, b, o] : tensor<2x1x16xi32>) {
    ^bb0(%a: i32, %b: i32):
      %0 = arith.addi %a, %b : i32
      te.yield %0 : i32
    } -> tensor<2x600x1x16xi32>
    te.yield %y : tensor<2x600x1x16xi32>
  }
}
// CHECK:       %[[ONES:.*]] = te.constant dense<[[[1, 127, 127, 127, 127, 127, 127, 127, 127, 127, 127, 127, 127, 127, 127, 127]]]> : tensor<1x1x16xi8>
// CHECK:       te.call @k(%x, %w, %{{.*}}, %[[ONES]])
// CHECK:       te.kernel @k(%x: tensor<2x600x1x16xi8>, %w: tensor<2x16x16xi8>, %y_digits: tensor<2x1x16x16xi8>, %y_ones: tensor<1x1x16xi8>)
// CHECK-SAME:    te.choices = ["y: product, 2,466 cycles (add 3,616)"]
// CHECK:         %y = te.compute "y" (c = 2, w = 600, b = 1, o = 16) reduce (d = 1, k = 16)
// CHECK-NEXT:        ins (%y_ones[d, b, k] : tensor<1x1x16xi8>,
// CHECK-NEXT:             %y_digits[c, d, o, k] : tensor<2x1x16x16xi8>) init %p : tensor<2x600x1x16xi32> {
// CHECK:           arith.muli
// CHECK:         te.yield %y

// -----

// Two micro-ops would cost as much as the addition; and what is not constant has no digits.
builtin.module attributes {vtac.target = #target.vta<"pynq">} {
  func.func private @f(%x: tensor<2x600x1x16xi8>, %w: tensor<2x16x16xi8>) -> (tensor<2x600x1x16xi32>) attributes {codegen = "vta"} {
    %av = te.constant dense<[[[300000, 300000, 300000, 300000, 300000, 300000, 300000, 300000, 300000, 300000, 300000, 300000, 300000, 300000, 300000, 300000]], [[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]]]> : tensor<2x1x16xi32>
    %a = te.call @k(%x, %w, %av) : (tensor<2x600x1x16xi8>, tensor<2x16x16xi8>, tensor<2x1x16xi32>) -> tensor<2x600x1x16xi32>
    func.return %a : tensor<2x600x1x16xi32>
  }
  te.kernel @k(%x: tensor<2x600x1x16xi8>, %w: tensor<2x16x16xi8>, %v: tensor<2x1x16xi32>) -> tensor<2x600x1x16xi32> {
    %p = te.compute "p" (c = 2, w = 600, b = 1, o = 16) reduce (k = 16)
        ins (%x[c, w, b, k] : tensor<2x600x1x16xi8>, %w[c, o, k] : tensor<2x16x16xi8>) identity 0 {
    ^bb0(%acc: i32, %a: i8, %b: i8):
      %0 = arith.extsi %a : i8 to i32
      %1 = arith.extsi %b : i8 to i32
      %2 = arith.muli %0, %1 : i32
      %3 = arith.addi %acc, %2 : i32
      te.yield %3 : i32
    } -> tensor<2x600x1x16xi32>
    %y = te.compute "y" (c = 2, w = 600, b = 1, o = 16)
        ins (%p[c, w, b, o] : tensor<2x600x1x16xi32>, %v[c, b, o] : tensor<2x1x16xi32>) {
    ^bb0(%a: i32, %b: i32):
      %0 = arith.addi %a, %b : i32
      te.yield %0 : i32
    } -> tensor<2x600x1x16xi32>
    te.yield %y : tensor<2x600x1x16xi32>
  }
  te.kernel @unknown(%x: tensor<2x600x1x16xi8>, %w: tensor<2x16x16xi8>, %v: tensor<2x1x16xi32>) -> tensor<2x600x1x16xi32> {
    %p = te.compute "p" (c = 2, w = 600, b = 1, o = 16) reduce (k = 16)
        ins (%x[c, w, b, k] : tensor<2x600x1x16xi8>, %w[c, o, k] : tensor<2x16x16xi8>) identity 0 {
    ^bb0(%acc: i32, %a: i8, %b: i8):
      %0 = arith.extsi %a : i8 to i32
      %1 = arith.extsi %b : i8 to i32
      %2 = arith.muli %0, %1 : i32
      %3 = arith.addi %acc, %2 : i32
      te.yield %3 : i32
    } -> tensor<2x600x1x16xi32>
    %y = te.compute "y" (c = 2, w = 600, b = 1, o = 16)
        ins (%p[c, w, b, o] : tensor<2x600x1x16xi32>, %v[c, b, o] : tensor<2x1x16xi32>) {
    ^bb0(%a: i32, %b: i32):
      %0 = arith.addi %a, %b : i32
      te.yield %0 : i32
    } -> tensor<2x600x1x16xi32>
    te.yield %y : tensor<2x600x1x16xi32>
  }
}
// CHECK:       te.kernel @k(
// CHECK-SAME:    te.choices = ["y: add, 3,616 cycles (product 3,732)"]
// CHECK:       te.kernel @unknown(
