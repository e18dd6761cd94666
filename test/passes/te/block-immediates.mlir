// RUN: vta-opt %s -p te-block-immediates --split-input-file | filecheck %s

// Three calls share a kernel. Two shift each block of channels by one amount: a table of immediates.
// The third shifts by an amount a lane, and keeps its vector, in a kernel of its own.
builtin.module attributes {vtac.target = #target.vta<"chisel-pynq">} {
  func.func private @f(%x: tensor<2x600x1x16xi8>, %w: tensor<2x16x16xi8>) -> (tensor<2x600x1x16xi32>, tensor<2x600x1x16xi32>, tensor<2x600x1x16xi32>) attributes {codegen = "vta"} {
    %av = te.constant dense<[[[9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9]], [[11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11]]]> : tensor<2x1x16xi32>
    %bv = te.constant dense<[[[0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0]], [[1, 2, 3, 4, 5, 1, 2, 3, 4, 5, 1, 2, 3, 4, 5, 1]]]> : tensor<2x1x16xi32>
    %cv = te.constant dense<[[[8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8]], [[8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8]]]> : tensor<2x1x16xi32>
    %a = te.call @k(%x, %w, %av) : (tensor<2x600x1x16xi8>, tensor<2x16x16xi8>, tensor<2x1x16xi32>) -> tensor<2x600x1x16xi32>
    %b = te.call @k(%x, %w, %bv) : (tensor<2x600x1x16xi8>, tensor<2x16x16xi8>, tensor<2x1x16xi32>) -> tensor<2x600x1x16xi32>
    %c = te.call @k(%x, %w, %cv) : (tensor<2x600x1x16xi8>, tensor<2x16x16xi8>, tensor<2x1x16xi32>) -> tensor<2x600x1x16xi32>
    func.return %a, %b, %c : tensor<2x600x1x16xi32>, tensor<2x600x1x16xi32>, tensor<2x600x1x16xi32>
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
      %0 = arith.shrsi %a, %b : i32
      te.yield %0 : i32
    } -> tensor<2x600x1x16xi32>
    te.yield %y : tensor<2x600x1x16xi32>
  }
}
// CHECK:       %[[C:.*]] = te.constant dense<8> : tensor<2xi32>
// CHECK-NEXT:  %[[A:.*]] = te.constant dense<[9, 11]> : tensor<2xi32>
// CHECK-NEXT:  %bv = te.constant
// CHECK-NEXT:  te.call @k(%x, %w, %[[A]])
// CHECK-NEXT:  te.call @k_(%x, %w, %bv)
// CHECK-NEXT:  te.call @k(%x, %w, %[[C]])
// CHECK:       te.kernel @k(%x: tensor<2x600x1x16xi8>, %w: tensor<2x16x16xi8>, %v_table: tensor<2xi32>)
// CHECK-SAME:    te.choices = ["y: immediates, 1,214 cycles (vector 2,416)"]
// CHECK:         %y = te.compute "y" (c = 2, w = 600, b = 1, o = 16)
// CHECK-NEXT:        ins (%p[c, w, b, o] : tensor<2x600x1x16xi32>,
// CHECK-NEXT:             %v_table[c] : tensor<2xi32>) {
// CHECK:           arith.shrsi
// CHECK:       te.kernel @k_(%x: tensor<2x600x1x16xi8>, %w: tensor<2x16x16xi8>, %v: tensor<2x1x16xi32>)
// CHECK:              %v[c, b, o] : tensor<2x1x16xi32>) {

// -----

// A left shift is a right shift by less than nothing.
builtin.module attributes {vtac.target = #target.vta<"pynq">} {
  func.func private @f(%x: tensor<2x600x1x16xi8>, %w: tensor<2x16x16xi8>) -> (tensor<2x600x1x16xi32>) attributes {codegen = "vta"} {
    %av = te.constant dense<[[[3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3]], [[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]]]> : tensor<2x1x16xi32>
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
      %0 = arith.shli %a, %b : i32
      te.yield %0 : i32
    } -> tensor<2x600x1x16xi32>
    te.yield %y : tensor<2x600x1x16xi32>
  }
}
// CHECK:       te.constant dense<[-3, 0]> : tensor<2xi32>
// CHECK:       te.kernel @k(
// CHECK:         arith.shrsi

// -----

// Where a vector costs no more than an immediate, blocks that differ would only make instructions.
builtin.module attributes {vtac.target = #target.vta<"pynq">} {
  func.func private @f(%x: tensor<2x2000x1x16xi8>, %w: tensor<2x16x16xi8>) -> (tensor<2x2000x1x16xi32>) attributes {codegen = "vta"} {
    %av = te.constant dense<[[[9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9]], [[11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11]]]> : tensor<2x1x16xi32>
    %a = te.call @k(%x, %w, %av) : (tensor<2x2000x1x16xi8>, tensor<2x16x16xi8>, tensor<2x1x16xi32>) -> tensor<2x2000x1x16xi32>
    func.return %a : tensor<2x2000x1x16xi32>
  }
  te.kernel @k(%x: tensor<2x2000x1x16xi8>, %w: tensor<2x16x16xi8>, %v: tensor<2x1x16xi32>) -> tensor<2x2000x1x16xi32> {
    %p = te.compute "p" (c = 2, w = 2000, b = 1, o = 16) reduce (k = 16)
        ins (%x[c, w, b, k] : tensor<2x2000x1x16xi8>, %w[c, o, k] : tensor<2x16x16xi8>) identity 0 {
    ^bb0(%acc: i32, %a: i8, %b: i8):
      %0 = arith.extsi %a : i8 to i32
      %1 = arith.extsi %b : i8 to i32
      %2 = arith.muli %0, %1 : i32
      %3 = arith.addi %acc, %2 : i32
      te.yield %3 : i32
    } -> tensor<2x2000x1x16xi32>
    %y = te.compute "y" (c = 2, w = 2000, b = 1, o = 16)
        ins (%p[c, w, b, o] : tensor<2x2000x1x16xi32>, %v[c, b, o] : tensor<2x1x16xi32>) {
    ^bb0(%a: i32, %b: i32):
      %0 = arith.shrsi %a, %b : i32
      te.yield %0 : i32
    } -> tensor<2x2000x1x16xi32>
    te.yield %y : tensor<2x2000x1x16xi32>
  }
}
// CHECK:       te.kernel @k(
// CHECK-SAME:    te.choices = ["y: vector, 8,016 cycles (immediates 8,028)"]

// -----

// No immediates: they have 16 bits.
builtin.module attributes {vtac.target = #target.vta<"chisel-pynq">} {
  func.func private @f(%x: tensor<2x600x1x16xi8>, %w: tensor<2x16x16xi8>) -> (tensor<2x600x1x16xi32>) attributes {codegen = "vta"} {
    %av = te.constant dense<[[[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]], [[32768, 32768, 32768, 32768, 32768, 32768, 32768, 32768, 32768, 32768, 32768, 32768, 32768, 32768, 32768, 32768]]]> : tensor<2x1x16xi32>
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
// CHECK:       te.kernel @k(
