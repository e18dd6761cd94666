// RUN: vta-opt %s -p te-to-loops | filecheck %s

// A reduction with a constant start, one that continues another's value, and a result.
te.kernel @k(%x: tensor<4x2xi8>, %w: tensor<4x2xi8>) -> tensor<4xi8> {
  %a = te.compute "a" (h = 4) reduce (k = 2) ins (%x[h, k] : tensor<4x2xi8>) identity 0 {
  ^bb0(%acc: i32, %v: i8):
    %0 = arith.extsi %v : i8 to i32
    %1 = arith.addi %acc, %0 : i32
    te.yield %1 : i32
  } -> tensor<4xi32>
  %b = te.compute "b" (h = 4) reduce (k = 2) ins (%w[h - 1, k] outside 7 : tensor<4x2xi8>) init %a : tensor<4xi32> {
  ^bb0(%acc: i32, %v: i8):
    %0 = arith.extsi %v : i8 to i32
    %1 = arith.addi %acc, %0 : i32
    te.yield %1 : i32
  } -> tensor<4xi32>
  %q = te.compute "q" (h = 4) ins (%b[h] : tensor<4xi32>) {
  ^bb0(%v: i32):
    %0 = arith.trunci %v : i32 to i8
    te.yield %0 : i8
  } -> tensor<4xi8>
  te.yield %q : tensor<4xi8>
}
// CHECK:      te.kernel @k(%x: memref<4x2xi8, #te.scope<dram>>, %w: memref<4x2xi8, #te.scope<dram>>, %q: memref<4xi8, #te.scope<dram>>) {
// CHECK-NEXT:   %a = te.alloc : memref<4xi32, #te.scope<dram>>
// CHECK-NEXT:   te.for "h" [%h : %h_n] in [0 : 4] {
// CHECK-NEXT:     te.update "a" init %a[%h] {
// CHECK-NEXT:       %0 = arith.constant 0 : i32
// CHECK-NEXT:       te.yield %0 : i32
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT:   te.for "h" [%h_1 : %h_n_1] in [0 : 4] {
// CHECK-NEXT:     te.for "k" reduce [%k : %k_n] in [0 : 2] {
// CHECK-NEXT:       te.update "a" accumulate %a[%h_1] ins (%x[%h_1, %k]) {
// CHECK-NEXT:       ^bb0(%acc: i32, %v: i8):
// CHECK:        %b = te.alloc : memref<4xi32, #te.scope<dram>>
// CHECK-NEXT:   te.for "h" [%h_2 : %h_n_2] in [0 : 4] {
// CHECK-NEXT:     te.update "b" init %b[%h_2] ins (%a[%h_2]) {
// CHECK:            te.update "b" accumulate %b[%h_3] ins (%w[%h_3 - 1, %k_1] outside 7) {
// CHECK:        te.for "h" [%h_4 : %h_n_4] in [0 : 4] {
// CHECK-NEXT:     te.update "q" %q[%h_4] ins (%b[%h_4]) {
// CHECK:        te.yield

// A kernel in loop form stays as it is.
te.kernel @done(%x: memref<4xi8, #te.scope<dram>>) {
  te.yield
}
// CHECK:      te.kernel @done(%x: memref<4xi8, #te.scope<dram>>) {
// CHECK-NEXT:   te.yield
