// RUN: vta-opt %s -p te-to-loops,te-apply-schedule | filecheck %s

// Both a window with stride 2 and a plain reader use "b": it is computed over the hull of what they
// read, cut to its extent. The window's own reads outside of "b" stay what they are.
te.kernel @k(%x: tensor<9xi32>) -> tensor<5xi32> {
  %b = te.compute "b" (h = 9) ins (%x[h] : tensor<9xi32>) {
  ^bb0(%v: i32):
    te.yield %v : i32
  } -> tensor<9xi32>
  %m = te.compute "m" (h = 5) reduce (t = 3) ins (%b[2 * h + t - 1] outside -128 : tensor<9xi32>) identity -128 {
  ^bb0(%acc: i32, %v: i32):
    %0 = arith.maxsi %acc, %v : i32
    te.yield %0 : i32
  } -> tensor<5xi32>
  %s = te.compute "s" (h = 5) ins (%m[h] : tensor<5xi32>, %b[h] : tensor<9xi32>) {
  ^bb0(%v: i32, %w: i32):
    %0 = arith.addi %v, %w : i32
    te.yield %0 : i32
  } -> tensor<5xi32>
  te.yield %s : tensor<5xi32>
}
te.schedule @k {
^bb0(%b: !te.stage, %m: !te.stage, %s: !te.stage):
  %h = te.axes %s (h)
  %ho, %hi = te.split %h sizes [2, 2, 1]
  te.compute_at %m, %ho
  te.compute_at %b, %ho
}
// CHECK:      te.for "h" [%h : %h_n] in [0 : 5] sizes [2, 2, 1] {
// CHECK-NEXT:   %h_1, %h_n_1 = te.span 2 * [%h : %h_n] + [-1 : 3] within 9
// CHECK-NEXT:   %h_2, %h_n_2 = te.hull [%h_1 : %h_n_1], [%h : %h_n]
// CHECK-NEXT:   %b = te.alloc [%h_2 : %h_n_2] : memref<9xi32, #te.scope<dram>>
// CHECK-NEXT:   te.for "h" [%h_3 : %h_n_3] in [%h_2 : %h_n_2] {
// CHECK-NEXT:     te.update "b" %b[%h_3] ins (%x[%h_3]) {
// CHECK:        %m = te.alloc [%h : %h_n] : memref<5xi32, #te.scope<dram>>
// CHECK-NEXT:   te.for "h" [%h_4 : %h_n_4] in [%h : %h_n] {
// CHECK-NEXT:     te.update "m" init %m[%h_4] {
// CHECK:        te.for "h" [%h_5 : %h_n_5] in [%h : %h_n] {
// CHECK-NEXT:     te.for "t" reduce [%t : %t_n] in [0 : 3] {
// CHECK-NEXT:       te.update "m" accumulate %m[%h_5] ins (%b[2 * %h_5 + %t - 1] outside -128) {
// CHECK:        te.for "h" [%h_6 : %h_n_6] in [%h : %h_n] {
// CHECK-NEXT:     te.update "s" %s[%h_6] ins (%m[%h_6], %b[%h_6]) {
