// RUN: vta-opt %s -p te-schedule --split-input-file --verify-diagnostics 2>&1 | filecheck %s

// One output channel block of one pixel would need one weight, and INP has room for it, but the two
// bias vectors and the accumulator do not fit a machine with two accumulators.
builtin.module attributes {vtac.target = #target.vta<"sim", log_acc_buff_size = 7>} {
  te.kernel @k(%x: tensor<1x1x16xi8>, %w: tensor<1x16x16xi8>, %c: tensor<1x1x16xi32>, %d: tensor<1x1x16xi32>) -> tensor<1x1x16xi8> {
    %p = te.compute "p" (c = 1, b = 1, o = 16) reduce (k = 16)
        ins (%x[c, b, k] : tensor<1x1x16xi8>, %w[c, o, k] : tensor<1x16x16xi8>) identity 0 {
    ^bb0(%acc: i32, %a: i8, %b: i8):
      %0 = arith.extsi %a : i8 to i32
      %1 = arith.extsi %b : i8 to i32
      %2 = arith.muli %0, %1 : i32
      %3 = arith.addi %acc, %2 : i32
      te.yield %3 : i32
    } -> tensor<1x1x16xi32>
    %s = te.compute "s" (c = 1, b = 1, o = 16) ins (%p[c, b, o] : tensor<1x1x16xi32>, %c[c, b, o] : tensor<1x1x16xi32>) {
    ^bb0(%a: i32, %b: i32):
      %0 = arith.addi %a, %b : i32
      te.yield %0 : i32
    } -> tensor<1x1x16xi32>
    %t = te.compute "t" (c = 1, b = 1, o = 16) ins (%s[c, b, o] : tensor<1x1x16xi32>, %d[c, b, o] : tensor<1x1x16xi32>) {
    ^bb0(%a: i32, %b: i32):
      %0 = arith.shrsi %a, %b : i32
      te.yield %0 : i32
    } -> tensor<1x1x16xi32>
    %q = te.compute "q" (c = 1, b = 1, o = 16) ins (%t[c, b, o] : tensor<1x1x16xi32>) {
    ^bb0(%a: i32):
      %0 = arith.trunci %a : i32 to i8
      te.yield %0 : i8
    } -> tensor<1x1x16xi8>
    te.yield %q : tensor<1x1x16xi8>
  }
}
// CHECK: te.kernel @k: even its smallest tile needs 3 elements of ACC (ACC has 2)

// -----

builtin.module attributes {vtac.target = #target.vta<"sim">} {
  te.kernel @two(%x: tensor<1x1x16xi32>) -> tensor<1x1x16xi8> {
    %s = te.compute "s" (c = 1, b = 1, o = 16) ins (%x[c, b, o] : tensor<1x1x16xi32>) {
    ^bb0(%a: i32):
      %0 = arith.addi %a, %a : i32
      %1 = arith.maxsi %0, %a : i32
      te.yield %1 : i32
    } -> tensor<1x1x16xi32>
    %q = te.compute "q" (c = 1, b = 1, o = 16) ins (%s[c, b, o] : tensor<1x1x16xi32>) {
    ^bb0(%a: i32):
      %0 = arith.trunci %a : i32 to i8
      te.yield %0 : i8
    } -> tensor<1x1x16xi8>
    te.yield %q : tensor<1x1x16xi8>
  }
}
// CHECK: te.kernel @two: stage "s" has a body of 2 operations, which the default schedule cannot place
