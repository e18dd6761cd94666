// RUN: vta-opt %s -p te-split-phases --split-input-file --verify-diagnostics | filecheck %s

// Stride 2 and dilation 2: half of the outputs meet no tap.
te.kernel @k(%x: tensor<5xi8>, %w: tensor<3xi8>) -> tensor<9xi32> {
  %sum = te.compute "sum" (h = 9) reduce (kh = 3)
      ins (%x[(h - 2 * kh) / 2] outside 0 : tensor<5xi8>, %w[kh] : tensor<3xi8>) identity 0 {
  ^bb0(%acc: i32, %a: i8, %b: i8):
    %0 = arith.extsi %a : i8 to i32
    %1 = arith.extsi %b : i8 to i32
    %2 = arith.muli %0, %1 : i32
    %3 = arith.addi %acc, %2 : i32
    te.yield %3 : i32
  } -> tensor<9xi32>
  te.yield %sum : tensor<9xi32>
}
// CHECK: te.kernel @k, stage "sum": a quotient needs one output axis and one tap that do not divide

// -----
// Phases are put together by whoever calls, not by another stage.
te.kernel @k(%x: tensor<5xi8>, %w: tensor<3xi8>) -> tensor<8xi32> {
  %sum = te.compute "sum" (h = 9) reduce (kh = 3)
      ins (%x[(h - kh) / 2] outside 0 : tensor<5xi8>, %w[kh] : tensor<3xi8>) identity 0 {
  ^bb0(%acc: i32, %a: i8, %b: i8):
    %0 = arith.extsi %a : i8 to i32
    %1 = arith.extsi %b : i8 to i32
    %2 = arith.muli %0, %1 : i32
    %3 = arith.addi %acc, %2 : i32
    te.yield %3 : i32
  } -> tensor<9xi32>
  %late = te.compute "late" (h = 8) ins (%sum[h + 1] : tensor<9xi32>) {
  ^bb0(%a: i32):
    te.yield %a : i32
  } -> tensor<8xi32>
  te.yield %late : tensor<8xi32>
}
// CHECK: te.kernel @k, stage "late": it reads the phases of a transposed convolution other than one by one
