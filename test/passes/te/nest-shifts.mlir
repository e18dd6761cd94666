// RUN: vta-opt %s -p te-nest-shifts --split-input-file | filecheck %s

// The sum is shifted down to the addend, which was shifted up by 7: then a second time by the rest.
// With weights of 2, the addend is a multiple of 2^8: one shift by 8 is enough, and leaves weights of
// 1. Where channels shift by less than 7, nothing changes.
builtin.module attributes {vtac.target = #target.vta<"chisel-pynq">} {
  func.func private @f(%x: tensor<2x600x1x16xi8>, %w: tensor<2x16x16xi8>) -> (tensor<2x600x1x16xi32>, tensor<2x600x1x16xi32>, tensor<2x600x1x16xi32>) attributes {codegen = "vta"} {
    %d = te.constant dense<2> : tensor<2x16x16xi8>
    %v = te.constant dense<-1000> : tensor<2x1x16xi32>
    %sa = te.constant dense<[[[9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9]], [[11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11]]]> : tensor<2x1x16xi32>
    %sb = te.constant dense<8> : tensor<2x1x16xi32>
    %sc = te.constant dense<[[[9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9]], [[6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6]]]> : tensor<2x1x16xi32>
    %a = te.call @k(%x, %w, %d, %v, %sa) : (tensor<2x600x1x16xi8>, tensor<2x16x16xi8>, tensor<2x16x16xi8>, tensor<2x1x16xi32>, tensor<2x1x16xi32>) -> tensor<2x600x1x16xi32>
    %b = te.call @k(%x, %w, %d, %v, %sb) : (tensor<2x600x1x16xi8>, tensor<2x16x16xi8>, tensor<2x16x16xi8>, tensor<2x1x16xi32>, tensor<2x1x16xi32>) -> tensor<2x600x1x16xi32>
    %c = te.call @k(%x, %w, %d, %v, %sc) : (tensor<2x600x1x16xi8>, tensor<2x16x16xi8>, tensor<2x16x16xi8>, tensor<2x1x16xi32>, tensor<2x1x16xi32>) -> tensor<2x600x1x16xi32>
    func.return %a, %b, %c : tensor<2x600x1x16xi32>, tensor<2x600x1x16xi32>, tensor<2x600x1x16xi32>
  }
  te.kernel @k(%x: tensor<2x600x1x16xi8>, %w: tensor<2x16x16xi8>, %d: tensor<2x16x16xi8>, %v: tensor<2x1x16xi32>, %s: tensor<2x1x16xi32>) -> tensor<2x600x1x16xi32> {
    %addend = te.compute "addend" (c = 2, w = 600, b = 1, o = 16) reduce (k = 16)
        ins (%x[c, w, b, k] : tensor<2x600x1x16xi8>, %d[c, o, k] : tensor<2x16x16xi8>) identity 0 {
    ^bb0(%acc: i32, %a: i8, %b: i8):
      %0 = arith.extsi %a : i8 to i32
      %1 = arith.extsi %b : i8 to i32
      %2 = arith.muli %0, %1 : i32
      %3 = arith.addi %acc, %2 : i32
      te.yield %3 : i32
    } -> tensor<2x600x1x16xi32>
    %left = te.compute "left" (c = 2, w = 600, b = 1, o = 16) ins (%addend[c, w, b, o] : tensor<2x600x1x16xi32>) {
    ^bb0(%a: i32):
      %m = arith.constant 7 : i32
      %0 = arith.shli %a, %m : i32
      te.yield %0 : i32
    } -> tensor<2x600x1x16xi32>
    %sum = te.compute "sum" (c = 2, w = 600, b = 1, o = 16) reduce (k = 16)
        ins (%x[c, w, b, k] : tensor<2x600x1x16xi8>, %w[c, o, k] : tensor<2x16x16xi8>) init %left : tensor<2x600x1x16xi32> {
    ^bb0(%acc: i32, %a: i8, %b: i8):
      %0 = arith.extsi %a : i8 to i32
      %1 = arith.extsi %b : i8 to i32
      %2 = arith.muli %0, %1 : i32
      %3 = arith.addi %acc, %2 : i32
      te.yield %3 : i32
    } -> tensor<2x600x1x16xi32>
    %bias = te.compute "bias" (c = 2, w = 600, b = 1, o = 16)
        ins (%sum[c, w, b, o] : tensor<2x600x1x16xi32>, %v[c, b, o] : tensor<2x1x16xi32>) {
    ^bb0(%a: i32, %b: i32):
      %0 = arith.addi %a, %b : i32
      te.yield %0 : i32
    } -> tensor<2x600x1x16xi32>
    %shift = te.compute "shift" (c = 2, w = 600, b = 1, o = 16)
        ins (%bias[c, w, b, o] : tensor<2x600x1x16xi32>, %s[c, b, o] : tensor<2x1x16xi32>) {
    ^bb0(%a: i32, %b: i32):
      %0 = arith.shrsi %a, %b : i32
      te.yield %0 : i32
    } -> tensor<2x600x1x16xi32>
    te.yield %shift : tensor<2x600x1x16xi32>
  }
}
// CHECK:       %[[REST:.*]] = te.constant dense<{{.*}}2, 2, 2{{.*}}4, 4, 4{{.*}}> : tensor<2x1x16xi32>
// CHECK:       %[[ONES:.*]] = te.constant #vtac.resource<"d"
// CHECK:       te.call @k(%x, %w, %d, %v, %[[REST]])
// CHECK-NEXT:  te.call @k_(%x, %w, %v, %sb, %[[ONES]])
// CHECK-NEXT:  te.call @k_1(%x, %w, %d, %v, %sc)
// CHECK:       te.kernel @k(
// CHECK-SAME:    te.choices = ["left: nested, 4,800 cycles (at once 6,000)"]
// CHECK-NEXT:    %sum = te.compute "sum"
// CHECK:              %w[c, o, k] : tensor<2x16x16xi8>) identity 0 {
// CHECK:         %bias = te.compute "bias"
// CHECK:         %shift_first = te.compute "shift_first"
// CHECK-NEXT:        ins (%bias[c, w, b, o] : tensor<2x600x1x16xi32>) {
// CHECK-NEXT:    ^bb0(%[[A:.*]]: i32):
// CHECK-NEXT:      %[[SEVEN:.*]] = arith.constant 7 : i32
// CHECK-NEXT:      arith.shrsi %[[A]], %[[SEVEN]]
// CHECK:         %addend = te.compute "addend"
// CHECK:              %d[c, o, k] : tensor<2x16x16xi8>) init %shift_first : tensor<2x600x1x16xi32> {
// CHECK:         %[[RESULT:.*]] = te.compute "shift_rest"
// CHECK-NEXT:        ins (%addend[c, w, b, o] : tensor<2x600x1x16xi32>,
// CHECK-NEXT:             %shift_rest[c, b, o] : tensor<2x1x16xi32>) {
// CHECK:         te.yield %[[RESULT]]
// CHECK:       te.kernel @k_1(
// CHECK:       te.kernel @k_(
// CHECK-SAME:    te.choices = ["left: one shift, 3,600 cycles (at once 6,000)"]
// CHECK-NOT:     shift_rest

// -----

// Without a copy for the bias to start from, there is nothing to gain.
builtin.module attributes {vtac.target = #target.vta<"pynq">} {
  func.func private @f(%x: tensor<2x600x1x16xi8>, %w: tensor<2x16x16xi8>) -> (tensor<2x600x1x16xi32>) attributes {codegen = "vta"} {
    %d = te.constant dense<2> : tensor<2x16x16xi8>
    %v = te.constant dense<-1000> : tensor<2x1x16xi32>
    %sa = te.constant dense<[[[9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9]], [[11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11]]]> : tensor<2x1x16xi32>
    %a = te.call @k(%x, %w, %d, %v, %sa) : (tensor<2x600x1x16xi8>, tensor<2x16x16xi8>, tensor<2x16x16xi8>, tensor<2x1x16xi32>, tensor<2x1x16xi32>) -> tensor<2x600x1x16xi32>
    func.return %a : tensor<2x600x1x16xi32>
  }
  te.kernel @k(%x: tensor<2x600x1x16xi8>, %w: tensor<2x16x16xi8>, %d: tensor<2x16x16xi8>, %v: tensor<2x1x16xi32>, %s: tensor<2x1x16xi32>) -> tensor<2x600x1x16xi32> {
    %addend = te.compute "addend" (c = 2, w = 600, b = 1, o = 16) reduce (k = 16)
        ins (%x[c, w, b, k] : tensor<2x600x1x16xi8>, %d[c, o, k] : tensor<2x16x16xi8>) identity 0 {
    ^bb0(%acc: i32, %a: i8, %b: i8):
      %0 = arith.extsi %a : i8 to i32
      %1 = arith.extsi %b : i8 to i32
      %2 = arith.muli %0, %1 : i32
      %3 = arith.addi %acc, %2 : i32
      te.yield %3 : i32
    } -> tensor<2x600x1x16xi32>
    %left = te.compute "left" (c = 2, w = 600, b = 1, o = 16) ins (%addend[c, w, b, o] : tensor<2x600x1x16xi32>) {
    ^bb0(%a: i32):
      %m = arith.constant 7 : i32
      %0 = arith.shli %a, %m : i32
      te.yield %0 : i32
    } -> tensor<2x600x1x16xi32>
    %sum = te.compute "sum" (c = 2, w = 600, b = 1, o = 16) reduce (k = 16)
        ins (%x[c, w, b, k] : tensor<2x600x1x16xi8>, %w[c, o, k] : tensor<2x16x16xi8>) init %left : tensor<2x600x1x16xi32> {
    ^bb0(%acc: i32, %a: i8, %b: i8):
      %0 = arith.extsi %a : i8 to i32
      %1 = arith.extsi %b : i8 to i32
      %2 = arith.muli %0, %1 : i32
      %3 = arith.addi %acc, %2 : i32
      te.yield %3 : i32
    } -> tensor<2x600x1x16xi32>
    %bias = te.compute "bias" (c = 2, w = 600, b = 1, o = 16)
        ins (%sum[c, w, b, o] : tensor<2x600x1x16xi32>, %v[c, b, o] : tensor<2x1x16xi32>) {
    ^bb0(%a: i32, %b: i32):
      %0 = arith.addi %a, %b : i32
      te.yield %0 : i32
    } -> tensor<2x600x1x16xi32>
    %shift = te.compute "shift" (c = 2, w = 600, b = 1, o = 16)
        ins (%bias[c, w, b, o] : tensor<2x600x1x16xi32>, %s[c, b, o] : tensor<2x1x16xi32>) {
    ^bb0(%a: i32, %b: i32):
      %0 = arith.shrsi %a, %b : i32
      te.yield %0 : i32
    } -> tensor<2x600x1x16xi32>
    te.yield %shift : tensor<2x600x1x16xi32>
  }
}
// CHECK:       te.call @k(%x, %w, %d, %v, %sa)
// CHECK:       te.kernel @k(
// CHECK-SAME:    te.choices = ["left: at once, 7,200 cycles (nested 7,200)"]
