// RUN: vta-opt %s -p te-to-loops,te-apply-schedule --split-input-file --verify-diagnostics 2>&1 | filecheck %s

// Where values live: set_scope, cache_read, cache_write, in_place.

// Before: every value is in DRAM.
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
}
// CHECK:      %y = te.alloc : memref<6x4xi32, #te.scope<dram>>
// CHECK-NEXT: te.for "h" [%h : %h_n] in [0 : 6] {
// CHECK-NEXT:   te.for "w" [%w : %w_n] in [0 : 4] {
// CHECK-NEXT:     te.update "y" init %y[%h, %w] {
// CHECK:      te.for "h" [%h_1 : %h_n_1] in [0 : 6] {
// CHECK-NEXT:   te.for "w" [%w_1 : %w_n_1] in [0 : 4] {
// CHECK-NEXT:     te.for "t" reduce [%t : %t_n] in [0 : 3] {
// CHECK-NEXT:       te.update "y" accumulate %y[%h_1, %w_1] ins (%x[%h_1 + %t - 1, %w_1] outside 0) {
// CHECK:      te.for "h" [%h_2 : %h_n_2] in [0 : 6] {
// CHECK-NEXT:   te.for "w" [%w_2 : %w_n_2] in [0 : 4] {
// CHECK-NEXT:     te.update "z" %z[%h_2, %w_2] ins (%y[%h_2, %w_2], %x[%h_2, %w_2]) {

// -----
// set_scope.
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
  te.set_scope %y scope <acc> slots 2
}
// CHECK:      %y = te.alloc slots 2 : memref<6x4xi32, #te.scope<acc>>
// CHECK-NEXT: te.for "h" [%h : %h_n] in [0 : 6] {
// CHECK-NEXT:   te.for "w" [%w : %w_n] in [0 : 4] {
// CHECK-NEXT:     te.update "y" init %y[%h, %w] {
// CHECK:      te.for "h" [%h_1 : %h_n_1] in [0 : 6] {
// CHECK-NEXT:   te.for "w" [%w_1 : %w_n_1] in [0 : 4] {
// CHECK-NEXT:     te.for "t" reduce [%t : %t_n] in [0 : 3] {
// CHECK-NEXT:       te.update "y" accumulate %y[%h_1, %w_1] ins (%x[%h_1 + %t - 1, %w_1] outside 0) {
// CHECK:      te.for "h" [%h_2 : %h_n_2] in [0 : 6] {
// CHECK-NEXT:   te.for "w" [%w_2 : %w_n_2] in [0 : 4] {
// CHECK-NEXT:     te.update "z" %z[%h_2, %w_2] ins (%y[%h_2, %w_2], %x[%h_2, %w_2]) {

// -----
// cache_read: the operand is copied before the loops; compute_at makes the copy as small as the
// tile and its border.
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
  %ho, %hi = te.split %h factor 2
  te.set_scope %y scope <acc> slots 1
  %c = te.cache_read %y operand 0 scope <acc> slots 2
  te.compute_at %c, %ho
}
// CHECK:      %y = te.alloc : memref<6x4xi32, #te.scope<acc>>
// CHECK-NEXT: te.for "h" [%h : %h_n] in [0 : 6] {
// CHECK-NEXT:   te.for "w" [%w : %w_n] in [0 : 4] {
// CHECK-NEXT:     te.update "y" init %y[%h, %w] {
// CHECK:      te.for "h" [%h_1 : %h_n_1] in [0 : 6] step 2 {
// CHECK-NEXT:   %h_2, %h_n_2 = te.span [%h_1 : %h_n_1] + [-1 : 3] within 6
// CHECK-NEXT:   %x_acc = te.alloc [%h_2 : %h_n_2, 0 : 4] slots 2 : memref<6x4xi32, #te.scope<acc>>
// CHECK-NEXT:   te.copy %x to %x_acc
// CHECK-NEXT:   te.for "h" [%h_3 : %h_n_3] in [%h_1 : %h_n_1] {
// CHECK-NEXT:     te.for "w" [%w_1 : %w_n_1] in [0 : 4] {
// CHECK-NEXT:       te.for "t" reduce [%t : %t_n] in [0 : 3] {
// CHECK-NEXT:         te.update "y" accumulate %y[%h_3, %w_1] ins (%x_acc[%h_3 + %t - 1, %w_1] outside 0) {
// CHECK:      te.for "h" [%h_4 : %h_n_4] in [0 : 6] {
// CHECK-NEXT:   te.for "w" [%w_2 : %w_n_2] in [0 : 4] {
// CHECK-NEXT:     te.update "z" %z[%h_4, %w_2] ins (%y[%h_4, %w_2], %x[%h_4, %w_2]) {

// -----
// cache_write: the value is computed in a scratchpad, the stage itself narrows it.
te.kernel @k(%x: tensor<6x4xi32>) -> tensor<6x4xi8> {
  %y = te.compute "y" (h = 6, w = 4) ins (%x[h, w] : tensor<6x4xi32>) {
  ^bb0(%a: i32):
    %c = arith.constant 3 : i32
    %0 = arith.shrsi %a, %c : i32
    %1 = arith.trunci %0 : i32 to i8
    te.yield %1 : i8
  } -> tensor<6x4xi8>
  te.yield %y : tensor<6x4xi8>
}
te.schedule @k {
^bb0(%y: !te.stage):
  %c = te.cache_write %y scope <acc> slots 1
}
// CHECK:      %y_acc = te.alloc : memref<6x4xi32, #te.scope<acc>>
// CHECK-NEXT: te.for "h" [%h : %h_n] in [0 : 6] {
// CHECK-NEXT:   te.for "w" [%w : %w_n] in [0 : 4] {
// CHECK-NEXT:     te.update "y.value" %y_acc[%h, %w] ins (%x[%h, %w]) {
// CHECK:      te.for "h" [%h_1 : %h_n_1] in [0 : 6] {
// CHECK-NEXT:   te.for "w" [%w_1 : %w_n_1] in [0 : 4] {
// CHECK-NEXT:     te.update "y" %y[%h_1, %w_1] ins (%y_acc[%h_1, %w_1]) {

// -----
// in_place: "y" is overwritten by "z".
te.kernel @k(%x: tensor<6x4xi32>) -> tensor<6x4xi8> {
  %y = te.compute "y" (h = 6, w = 4) ins (%x[h, w] : tensor<6x4xi32>) {
  ^bb0(%a: i32):
    %0 = arith.addi %a, %a : i32
    te.yield %0 : i32
  } -> tensor<6x4xi32>
  %z = te.compute "z" (h = 6, w = 4) ins (%y[h, w] : tensor<6x4xi32>) {
  ^bb0(%a: i32):
    %0 = arith.maxsi %a, %a : i32
    te.yield %0 : i32
  } -> tensor<6x4xi32>
  %q = te.compute "q" (h = 6, w = 4) ins (%z[h, w] : tensor<6x4xi32>) {
  ^bb0(%a: i32):
    %0 = arith.trunci %a : i32 to i8
    te.yield %0 : i8
  } -> tensor<6x4xi8>
  te.yield %q : tensor<6x4xi8>
}
te.schedule @k {
^bb0(%y: !te.stage, %z: !te.stage, %q: !te.stage):
  te.in_place %z operand 0
}
// CHECK:      %y = te.alloc : memref<6x4xi32, #te.scope<dram>>
// CHECK-NEXT: te.for "h" [%h : %h_n] in [0 : 6] {
// CHECK-NEXT:   te.for "w" [%w : %w_n] in [0 : 4] {
// CHECK-NEXT:     te.update "y" %y[%h, %w] ins (%x[%h, %w]) {
// CHECK:      te.for "h" [%h_1 : %h_n_1] in [0 : 6] {
// CHECK-NEXT:   te.for "w" [%w_1 : %w_n_1] in [0 : 4] {
// CHECK-NEXT:     te.update "z" %y[%h_1, %w_1] ins (%y[%h_1, %w_1]) {
// CHECK:      te.for "h" [%h_2 : %h_n_2] in [0 : 6] {
// CHECK-NEXT:   te.for "w" [%w_2 : %w_n_2] in [0 : 4] {
// CHECK-NEXT:     te.update "q" %q[%h_2, %w_2] ins (%y[%h_2, %w_2]) {

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
  te.set_scope %z scope <acc> slots 1
}
// CHECK: te.schedule @k, step 1 (te.set_scope): the value of stage "z" is a result of the kernel

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
  %c = te.cache_read %y operand 1 scope <acc> slots 1
}
// CHECK: te.schedule @k, step 1 (te.cache_read): stage "y" has 1 operands, no 1

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
  %c = te.cache_write %y scope <acc> slots 1
}
// CHECK: te.schedule @k, step 1 (te.cache_write): stage "y" is a reduction
// CHECK: its value has a buffer: set_scope

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
  te.in_place %z operand 1
}
// CHECK: te.schedule @k, step 1 (te.in_place): stage "z" cannot work in place: the operand is a parameter of the kernel

// -----
te.kernel @k(%x: tensor<6x4xi32>) -> tensor<6x4xi32> {
  %y = te.compute "y" (h = 6, w = 4) ins (%x[h, w] : tensor<6x4xi32>) {
  ^bb0(%a: i32):
    %0 = arith.addi %a, %a : i32
    te.yield %0 : i32
  } -> tensor<6x4xi32>
  %z = te.compute "z" (h = 6, w = 4) ins (%y[h, w] : tensor<6x4xi32>) {
  ^bb0(%a: i32):
    %0 = arith.addi %a, %a : i32
    te.yield %0 : i32
  } -> tensor<6x4xi32>
  te.yield %z : tensor<6x4xi32>
}
te.schedule @k {
^bb0(%y: !te.stage, %z: !te.stage):
  %c = te.cache_read %z operand 0 scope <acc> slots 1
  te.set_scope %y scope <acc> slots 1
}
// CHECK: te.schedule @k, step 2 (te.set_scope): a copy between stage "y" and a cache
// CHECK: set_scope the stage before its caches are made
