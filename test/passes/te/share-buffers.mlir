// RUN: vta-opt %s -p te-to-loops,te-share-buffers | filecheck %s

te.kernel @k(%x: tensor<4xi32>) -> (tensor<4xi8>, tensor<4xi32>) {
  %a = te.compute "a" (h = 4) ins (%x[h] : tensor<4xi32>) {
  ^bb0(%v: i32):
    te.yield %v : i32
  } -> tensor<4xi32>
  // Works on the buffer of "a": nobody reads that later.
  %b = te.compute "b" (h = 4) ins (%a[h] : tensor<4xi32>) {
  ^bb0(%v: i32):
    %0 = arith.constant 3 : i32
    %1 = arith.shrsi %v, %0 : i32
    te.yield %1 : i32
  } -> tensor<4xi32>
  // Needs a buffer of its own: "d" still reads "b".
  %c = te.compute "c" (h = 4) ins (%b[h] : tensor<4xi32>) {
  ^bb0(%v: i32):
    %0 = arith.constant 0 : i32
    %1 = arith.maxsi %v, %0 : i32
    te.yield %1 : i32
  } -> tensor<4xi32>
  // The first operand could be overwritten, were it not read at other elements.
  %d = te.compute "d" (h = 4) ins (%b[3 - h] : tensor<4xi32>, %c[h] : tensor<4xi32>) {
  ^bb0(%v: i32, %w: i32):
    %0 = arith.addi %v, %w : i32
    te.yield %0 : i32
  } -> tensor<4xi32>
  %q = te.compute "q" (h = 4) ins (%d[h] : tensor<4xi32>) {
  ^bb0(%v: i32):
    %0 = arith.trunci %v : i32 to i8
    te.yield %0 : i8
  } -> tensor<4xi8>
  %r = te.compute "r" (h = 4) ins (%d[h] : tensor<4xi32>) {
  ^bb0(%v: i32):
    te.yield %v : i32
  } -> tensor<4xi32>
  te.yield %q, %r : tensor<4xi8>, tensor<4xi32>
}
// CHECK:      %a = te.alloc
// CHECK-NOT:  te.alloc
// CHECK:      te.update "b" %a[%h_1] ins (%a[%h_1]) {
// CHECK:      %c = te.alloc
// CHECK-NOT:  te.alloc
// CHECK:      te.update "c" %c[%h_2] ins (%a[%h_2]) {
// CHECK:      te.update "d" %c[%h_3] ins (%a[-%h_3 + 3], %c[%h_3]) {
// CHECK:      te.update "q" %q[%h_4] ins (%c[%h_4]) {
