// RUN: vta-opt %s -p te-to-loops,te-apply-schedule --split-input-file --verify-diagnostics 2>&1 | filecheck %s

// Copies of a loop's body: unroll, and vthread, whose copies take turns.

// Before: a tile of "y", then the tile of "z" that reads it.
te.kernel @k(%x: tensor<6x4xi32>) -> tensor<6x4xi32> {
  %y = te.compute "y" (h = 6, w = 4) reduce (t = 3) ins (%x[h + t - 1, w] outside 0 : tensor<6x4xi32>) identity 0 {
  ^bb0(%acc: i32, %a: i32):
    %0 = arith.addi %acc, %a : i32
    te.yield %0 : i32
  } -> tensor<6x4xi32>
  %z = te.compute "z" (h = 6, w = 4) ins (%y[h, w] : tensor<6x4xi32>, %x[h, w] : tensor<6x4xi32>) {
  ^bb0(%a: i32, %b: i32):
    %0 = arith.addi %a, %b : i32
    te.yield %0 : i32
  } -> tensor<6x4xi32>
  te.yield %z : tensor<6x4xi32>
}
te.schedule @k {
^bb0(%y: !te.stage, %z: !te.stage):
  %h, %w = te.axes %z (h, w)
  %ho, %hi = te.split %h factor 3
  te.compute_at %y, %ho
}
// CHECK:      te.for "h" [%h : %h_n] in [0 : 6] step 3 {
// CHECK-NEXT:   %y = te.alloc [%h : %h_n, 0 : 4] : memref<6x4xi32, #te.scope<dram>>
// CHECK-NEXT:   te.for "h" [%h_1 : %h_n_1] in [%h : %h_n] {
// CHECK-NEXT:     te.for "w" [%w : %w_n] in [0 : 4] {
// CHECK-NEXT:       te.update "y" init %y[%h_1, %w] {
// CHECK:        te.for "h" [%h_2 : %h_n_2] in [%h : %h_n] {
// CHECK-NEXT:     te.for "w" [%w_1 : %w_n_1] in [0 : 4] {
// CHECK-NEXT:       te.for "t" reduce [%t : %t_n] in [0 : 3] {
// CHECK-NEXT:         te.update "y" accumulate %y[%h_2, %w_1] ins (%x[%h_2 + %t - 1, %w_1] outside 0) {
// CHECK:        te.for "h" [%h_3 : %h_n_3] in [%h : %h_n] {
// CHECK-NEXT:     te.for "w" [%w_2 : %w_n_2] in [0 : 4] {
// CHECK-NEXT:       te.update "z" %z[%h_3, %w_2] ins (%y[%h_3, %w_2], %x[%h_3, %w_2]) {

// -----
// unroll: one tile after the other.
te.kernel @k(%x: tensor<6x4xi32>) -> tensor<6x4xi32> {
  %y = te.compute "y" (h = 6, w = 4) ins (%x[h, w] : tensor<6x4xi32>) {
  ^bb0(%a: i32):
    %0 = arith.addi %a, %a : i32
    te.yield %0 : i32
  } -> tensor<6x4xi32>
  %z = te.compute "z" (h = 6, w = 4) ins (%y[h, w] : tensor<6x4xi32>) {
  ^bb0(%a: i32):
    te.yield %a : i32
  } -> tensor<6x4xi32>
  te.yield %z : tensor<6x4xi32>
}
te.schedule @k {
^bb0(%y: !te.stage, %z: !te.stage):
  %h, %w = te.axes %z (h, w)
  %ho, %hi = te.split %h factor 3
  te.compute_at %y, %ho
  te.unroll %ho
}
// CHECK:      %h, %h_n = te.span [0 : 3]
// CHECK-NEXT: %y = te.alloc [%h : %h_n, 0 : 4] : memref<6x4xi32, #te.scope<dram>>
// CHECK-NEXT: te.for "h" [%h_1 : %h_n_1] in [%h : %h_n] {
// CHECK-NEXT:   te.for "w" [%w : %w_n] in [0 : 4] {
// CHECK-NEXT:     te.update "y" %y[%h_1, %w] ins (%x[%h_1, %w]) {
// CHECK:      te.for "h" [%h_2 : %h_n_2] in [%h : %h_n] {
// CHECK-NEXT:   te.for "w" [%w_1 : %w_n_1] in [0 : 4] {
// CHECK-NEXT:     te.update "z" %z[%h_2, %w_1] ins (%y[%h_2, %w_1]) {
// CHECK:      %h_3, %h_n_3 = te.span [3 : 3]
// CHECK-NEXT: %y_1 = te.alloc [%h_3 : %h_n_3, 0 : 4] : memref<6x4xi32, #te.scope<dram>>
// CHECK-NEXT: te.for "h" [%h_4 : %h_n_4] in [%h_3 : %h_n_3] {
// CHECK-NEXT:   te.for "w" [%w_2 : %w_n_2] in [0 : 4] {
// CHECK-NEXT:     te.update "y" %y_1[%h_4, %w_2] ins (%x[%h_4, %w_2]) {
// CHECK:      te.for "h" [%h_5 : %h_n_5] in [%h_3 : %h_n_3] {
// CHECK-NEXT:   te.for "w" [%w_3 : %w_n_3] in [0 : 4] {
// CHECK-NEXT:     te.update "z" %z[%h_5, %w_3] ins (%y_1[%h_5, %w_3]) {

// -----
// vthread: two threads with buffers of their own; the loops over the columns run for both.
te.kernel @k(%x: tensor<6x4xi32>) -> tensor<6x4xi32> {
  %y = te.compute "y" (h = 6, w = 4) ins (%x[h, w] : tensor<6x4xi32>) {
  ^bb0(%a: i32):
    %0 = arith.addi %a, %a : i32
    te.yield %0 : i32
  } -> tensor<6x4xi32>
  %z = te.compute "z" (h = 6, w = 4) ins (%y[h, w] : tensor<6x4xi32>) {
  ^bb0(%a: i32):
    te.yield %a : i32
  } -> tensor<6x4xi32>
  te.yield %z : tensor<6x4xi32>
}
te.schedule @k {
^bb0(%y: !te.stage, %z: !te.stage):
  %h, %w = te.axes %z (h, w)
  %ho, %hi = te.split %h factor 3
  te.reorder %ho, %w, %hi
  te.compute_at %y, %w
  te.vthread %ho
}
// CHECK:      %h, %h_n = te.span [0 : 3]
// CHECK-NEXT: %h_1, %h_n_1 = te.span [3 : 3]
// CHECK-NEXT: te.for "w" [%w : %w_n] in [0 : 4] {
// CHECK-NEXT:   %y = te.alloc [%h : %h_n, %w : %w_n] : memref<6x4xi32, #te.scope<dram>>
// CHECK-NEXT:   %y_1 = te.alloc [%h_1 : %h_n_1, %w : %w_n] : memref<6x4xi32, #te.scope<dram>>
// CHECK-NEXT:   te.for "h" [%h_2 : %h_n_2] in [%h : %h_n] {
// CHECK-NEXT:     %h_3, %h_n_3 = te.span [%h_2 : %h_n_2] + [3 : 1]
// CHECK-NEXT:     te.for "w" [%w_1 : %w_n_1] in [%w : %w_n] {
// CHECK-NEXT:       te.update "y" %y[%h_2, %w_1] ins (%x[%h_2, %w_1]) {
// CHECK:            te.update "y" %y_1[%h_3, %w_1] ins (%x[%h_3, %w_1]) {
// CHECK:        te.for "h" [%h_4 : %h_n_4] in [%h : %h_n] {
// CHECK-NEXT:     %h_5, %h_n_5 = te.span [%h_4 : %h_n_4] + [3 : 1]
// CHECK-NEXT:     te.update "z" %z[%h_4, %w] ins (%y[%h_4, %w]) {
// CHECK:          te.update "z" %z[%h_5, %w] ins (%y_1[%h_5, %w]) {

// -----
te.kernel @k(%x: tensor<6x4xi32>) -> tensor<6x4xi32> {
  %y = te.compute "y" (h = 6, w = 4) reduce (t = 3) ins (%x[h + t - 1, w] outside 0 : tensor<6x4xi32>) identity 0 {
  ^bb0(%acc: i32, %a: i32):
    %0 = arith.addi %acc, %a : i32
    te.yield %0 : i32
  } -> tensor<6x4xi32>
  %z = te.compute "z" (h = 6, w = 4) ins (%y[h, w] : tensor<6x4xi32>, %x[h, w] : tensor<6x4xi32>) {
  ^bb0(%a: i32, %b: i32):
    %0 = arith.addi %a, %b : i32
    te.yield %0 : i32
  } -> tensor<6x4xi32>
  te.yield %z : tensor<6x4xi32>
}
te.schedule @k {
^bb0(%y: !te.stage, %z: !te.stage):
  %h, %w, %t = te.axes %y (h, w, t)
  te.vthread %t
}
// CHECK: te.schedule @k, step 2 (te.vthread): virtual threads share nothing; a reduction's iterations share a sum

// -----
te.kernel @k(%x: tensor<6x4xi32>) -> tensor<6x4xi32> {
  %y = te.compute "y" (h = 6, w = 4) ins (%x[h, w] : tensor<6x4xi32>) {
  ^bb0(%a: i32):
    %0 = arith.addi %a, %a : i32
    te.yield %0 : i32
  } -> tensor<6x4xi32>
  %z = te.compute "z" (h = 6, w = 4) ins (%y[h, w] : tensor<6x4xi32>) {
  ^bb0(%a: i32):
    te.yield %a : i32
  } -> tensor<6x4xi32>
  te.yield %z : tensor<6x4xi32>
}
te.schedule @k {
^bb0(%y: !te.stage, %z: !te.stage):
  %h, %w = te.axes %z (h, w)
  %ho, %hi = te.split %h factor 3
  te.unroll %hi
}
// CHECK: te.schedule @k, step 3 (te.unroll): the range of loop "h" is not known here
