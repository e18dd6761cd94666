// RUN: vta-opt %s -p te-fuse-accumulators --split-input-file | filecheck %s

// A sum added to something accumulates onto it instead, and stands where the addition stood.
te.kernel @residual(%x: tensor<2x4xi32>, %r: tensor<4xi32>) -> tensor<4xi32> {
  %s = te.compute "sum" (o = 4) reduce (k = 2) ins (%x[k, o] : tensor<2x4xi32>) identity 0 {
  ^bb0(%acc: i32, %a: i32):
    %0 = arith.addi %acc, %a : i32
    te.yield %0 : i32
  } -> tensor<4xi32>
  %t = te.compute "shifted" (o = 4) ins (%r[o] : tensor<4xi32>) {
  ^bb0(%a: i32):
    %c = arith.constant 3 : i32
    %0 = arith.shli %a, %c : i32
    te.yield %0 : i32
  } -> tensor<4xi32>
  %y = te.compute "add" (o = 4) ins (%s[o] : tensor<4xi32>, %t[o] : tensor<4xi32>) {
  ^bb0(%a: i32, %b: i32):
    %0 = arith.addi %a, %b : i32
    te.yield %0 : i32
  } -> tensor<4xi32>
  te.yield %y : tensor<4xi32>
}
// CHECK:       te.kernel @residual
// CHECK-NEXT:    %t = te.compute "shifted"
// CHECK:         %s = te.compute "sum" (o = 4) reduce (k = 2)
// CHECK-NEXT:        ins (%x[k, o] : tensor<2x4xi32>) init %t : tensor<4xi32> {
// CHECK:         te.yield %s

// -----

// Not where the sum is read elsewhere too, nor where it does not start from 0, nor onto a vector
// that comes from main memory.
te.kernel @stays(%x: tensor<2x4xi32>, %r: tensor<4xi32>) -> (tensor<4xi32>, tensor<4xi32>, tensor<4xi32>) {
  %s = te.compute "twice" (o = 4) reduce (k = 2) ins (%x[k, o] : tensor<2x4xi32>) identity 0 {
  ^bb0(%acc: i32, %a: i32):
    %0 = arith.addi %acc, %a : i32
    te.yield %0 : i32
  } -> tensor<4xi32>
  %m = te.compute "most" (o = 4) reduce (k = 2) ins (%x[k, o] : tensor<2x4xi32>) identity -5 {
  ^bb0(%acc: i32, %a: i32):
    %0 = arith.maxsi %acc, %a : i32
    te.yield %0 : i32
  } -> tensor<4xi32>
  %y = te.compute "y" (o = 4) ins (%s[o] : tensor<4xi32>, %m[o] : tensor<4xi32>) {
  ^bb0(%a: i32, %b: i32):
    %0 = arith.addi %a, %b : i32
    te.yield %0 : i32
  } -> tensor<4xi32>
  %u = te.compute "once" (o = 4) reduce (k = 2) ins (%x[k, o] : tensor<2x4xi32>) identity 0 {
  ^bb0(%acc: i32, %a: i32):
    %0 = arith.addi %acc, %a : i32
    te.yield %0 : i32
  } -> tensor<4xi32>
  %z = te.compute "z" (o = 4) ins (%u[o] : tensor<4xi32>, %r[o] : tensor<4xi32>) {
  ^bb0(%a: i32, %b: i32):
    %0 = arith.addi %a, %b : i32
    te.yield %0 : i32
  } -> tensor<4xi32>
  te.yield %s, %y, %z : tensor<4xi32>, tensor<4xi32>, tensor<4xi32>
}
// CHECK:       te.kernel @stays
// CHECK-NOT:     init
// CHECK:         te.compute "y" (o = 4)
// CHECK:         te.compute "z" (o = 4)
