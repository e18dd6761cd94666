// RUN: vta-opt %s -p te-cover-stores | filecheck %s

// The first output lies in the padding whole: no tap writes it, and nothing else does.
te.kernel @missed(%x: tensor<4xi8>, %w: tensor<2xi8>) -> tensor<5xi8> {
  %sum = te.compute "sum" (h = 5) reduce (k = 2)
      ins (%x[h + k - 2] outside 0 : tensor<4xi8>, %w[k] : tensor<2xi8>) identity 0 {
  ^bb0(%acc: i32, %a: i8, %b: i8):
    %0 = arith.extsi %a : i8 to i32
    %1 = arith.extsi %b : i8 to i32
    %2 = arith.muli %0, %1 : i32
    %3 = arith.addi %acc, %2 : i32
    te.yield %3 : i32
  } -> tensor<5xi32>
  %low = te.compute "low" (h = 5) ins (%sum[h] : tensor<5xi32>) {
  ^bb0(%a: i32):
    %0 = arith.trunci %a : i32 to i8
    te.yield %0 : i8
  } -> tensor<5xi8>
  te.yield %low : tensor<5xi8>
}
// CHECK:      te.compute "sum_written"
// CHECK-NEXT:   ins (%sum[h] : tensor<5xi32>)
// CHECK:        arith.constant 1 : i32
// CHECK:      te.compute "sum_written1"
// CHECK-NEXT:   ins (%sum_written[h] : tensor<5xi32>)
// CHECK:        arith.constant -1 : i32
// CHECK:      te.compute "low" (h = 5)
// CHECK-NEXT:   ins (%sum_written1[h] : tensor<5xi32>)

// With one pad every output meets a tap.
te.kernel @met(%x: tensor<4xi8>, %w: tensor<2xi8>) -> tensor<5xi8> {
  %sum = te.compute "sum" (h = 5) reduce (k = 2)
      ins (%x[h + k - 1] outside 0 : tensor<4xi8>, %w[k] : tensor<2xi8>) identity 0 {
  ^bb0(%acc: i32, %a: i8, %b: i8):
    %0 = arith.extsi %a : i8 to i32
    %1 = arith.extsi %b : i8 to i32
    %2 = arith.muli %0, %1 : i32
    %3 = arith.addi %acc, %2 : i32
    te.yield %3 : i32
  } -> tensor<5xi32>
  %low = te.compute "low" (h = 5) ins (%sum[h] : tensor<5xi32>) {
  ^bb0(%a: i32):
    %0 = arith.trunci %a : i32 to i8
    te.yield %0 : i8
  } -> tensor<5xi8>
  te.yield %low : tensor<5xi8>
}
// CHECK:      te.kernel @met
// CHECK-NOT:  written
