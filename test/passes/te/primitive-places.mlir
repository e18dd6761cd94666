// RUN: vta-opt %s -p te-to-loops,te-apply-schedule --split-input-file --verify-diagnostics 2>&1 | filecheck %s

// Where a stage is computed: compute_at, compute_with, inline.

// Before: "y" whole, then "z".
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
}
// CHECK:      %y = te.alloc : memref<6x4xi32, #te.scope<dram>>
// CHECK-NEXT: te.for "h" [%h : %h_n] in [0 : 6] {
// CHECK-NEXT:   te.for "w" [%w : %w_n] in [0 : 4] {
// CHECK-NEXT:     te.update "y" %y[%h, %w] ins (%x[%h, %w]) {
// CHECK:      te.for "h" [%h_1 : %h_n_1] in [0 : 6] {
// CHECK-NEXT:   te.for "w" [%w_1 : %w_n_1] in [0 : 4] {
// CHECK-NEXT:     te.update "z" %z[%h_1, %w_1] ins (%y[%h_1, %w_1]) {

// -----
// compute_at: in each tile of "z" just what that reads, in a buffer that holds no more.
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
  %ho, %hi = te.split %h factor 4
  te.compute_at %y, %ho
}
// CHECK:      te.for "h" [%h : %h_n] in [0 : 6] step 4 {
// CHECK-NEXT:   %y = te.alloc [%h : %h_n, 0 : 4] : memref<6x4xi32, #te.scope<dram>>
// CHECK-NEXT:   te.for "h" [%h_1 : %h_n_1] in [%h : %h_n] {
// CHECK-NEXT:     te.for "w" [%w : %w_n] in [0 : 4] {
// CHECK-NEXT:       te.update "y" %y[%h_1, %w] ins (%x[%h_1, %w]) {
// CHECK:        te.for "h" [%h_2 : %h_n_2] in [%h : %h_n] {
// CHECK-NEXT:     te.for "w" [%w_1 : %w_n_1] in [0 : 4] {
// CHECK-NEXT:       te.update "z" %z[%h_2, %w_1] ins (%y[%h_2, %w_1]) {

// -----
// compute_with: a result that nobody reads goes along with another one.
te.kernel @k(%x: tensor<6x4xi32>) -> (tensor<6x4xi32>, tensor<6x4xi32>) {
  %y = te.compute "y" (h = 6, w = 4) ins (%x[h, w] : tensor<6x4xi32>) {
  ^bb0(%a: i32):
    te.yield %a : i32
  } -> tensor<6x4xi32>
  %z = te.compute "z" (h = 6, w = 4) ins (%x[h, w] : tensor<6x4xi32>) {
  ^bb0(%a: i32):
    te.yield %a : i32
  } -> tensor<6x4xi32>
  te.yield %y, %z : tensor<6x4xi32>, tensor<6x4xi32>
}
te.schedule @k {
^bb0(%y: !te.stage, %z: !te.stage):
  %h, %w = te.axes %z (h, w)
  %ho, %hi = te.split %h factor 4
  te.compute_with %y, %ho
}
// CHECK:      te.for "h" [%h : %h_n] in [0 : 6] step 4 {
// CHECK-NEXT:   te.for "h" [%h_1 : %h_n_1] in [%h : %h_n] {
// CHECK-NEXT:     te.for "w" [%w : %w_n] in [0 : 4] {
// CHECK-NEXT:       te.update "y" %y[%h_1, %w] ins (%x[%h_1, %w]) {
// CHECK:        te.for "h" [%h_2 : %h_n_2] in [%h : %h_n] {
// CHECK-NEXT:     te.for "w" [%w_1 : %w_n_1] in [0 : 4] {
// CHECK-NEXT:       te.update "z" %z[%h_2, %w_1] ins (%x[%h_2, %w_1]) {

// -----
// inline: the reader computes it itself.
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
  te.inline %y
}
// CHECK:      te.for "h" [%h : %h_n] in [0 : 6] {
// CHECK-NEXT:   te.for "w" [%w : %w_n] in [0 : 4] {
// CHECK-NEXT:     te.update "z" %z[%h, %w] ins (%x[%h, %w]) {

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
  %h, %w = te.axes %y (h, w)
  te.compute_at %z, %h
}
// CHECK: te.schedule @k, step 2 (te.compute_at): nothing reads "z"
// CHECK: a result goes along by compute_with

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
  %h, %w = te.axes %y (h, w)
  te.compute_at %y, %h
}
// CHECK: te.schedule @k, step 2 (te.compute_at): "y" cannot be computed inside itself

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
  te.inline %y
}
// CHECK: te.schedule @k, step 1 (te.inline): stage "y" is a reduction; only elementwise stages are inlined

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
  te.compute_with %y, %h
}
// CHECK: te.schedule @k, step 2 (te.compute_with): "y" is no result of the kernel
// CHECK: use compute_at
